"""What built-in schedulers answer from indices, against the same schedulers that look at every host."""

from types import FunctionType

import numpy as np
import pytest

from cosim.engine.continuum import Engine, Kind, WorkloadStream, schedulers
from cosim.engine.continuum.schedulers import ORDER
from tests.unit.engine.continuum.worlds import CLOCK, exponential, system

HOSTS, DEVICES = 24, 30


def plain(scheduler):
    """The scheduler as Python, with what it calls: compiled parts can be called by compiled functions only."""
    words = dict(vars(schedulers))
    for name, part in vars(schedulers).items():
        code = getattr(getattr(part, "__wrapped__", None), "__code__", None)
        if code is not None:
            words[name] = FunctionType(code, words, name)
    return words[scheduler.__name__]


def net(seed):
    """Hosts of unlike speed in two parts of a network that one link joins, devices by radio, link or both."""
    rng = np.random.default_rng(seed)
    tiers = ["cloud" if k % 8 == 0 else "edge" for k in range(HOSTS)] + ["device"] * DEVICES
    kinds = [Kind(cores=int(rng.integers(1, 4)), clock=CLOCK * rng.integers(1, 3)) for _ in range(HOSTS)]
    kinds += [Kind(cores=k % 2, clock=CLOCK / 4) for k in range(DEVICES)]
    links = []
    for part in (0, HOSTS // 2):
        for k in range(1, HOSTS // 2):
            links.append((part + k, part + int(rng.integers(0, k)), 1e7 * rng.integers(1, 4), 0.001))
    links.append((0, HOSTS // 2, 1e7, 0.002))  # the last but the devices' own
    links += [(HOSTS + k, int(rng.integers(0, HOSTS)), 1e7, 0.001) for k in range(0, DEVICES, 3)]
    links += [(HOSTS + k, int(rng.integers(0, HOSTS)), 1e7, 0.001) for k in range(0, DEVICES, 6)]
    load = WorkloadStream(rate=2.0, work=exponential(CLOCK / 2), input=exponential(5e4), output=exponential(1e4))
    return system(tiers, kinds, [load], [(HOSTS + k, 0) for k in range(DEVICES)], links)


def play(engine, seed):
    """Nodes and links fail and come back, devices move, hosts take no tasks for a while."""
    rng = np.random.default_rng(seed)
    rows = []
    for turn in range(12):
        slots = HOSTS + np.flatnonzero(np.arange(DEVICES) % 3 != 1)
        cells = rng.integers(-1, HOSTS, len(slots))
        ones = np.ones(len(slots))
        engine.set_radio(slots, cells, 1e7 * ones, 1e7 * ones, 0.001 * ones, 0.0 * ones)
        engine.set_links([HOSTS - 2], [0.0 if turn % 4 == 1 else 1.0], [0.0], [0.0])
        victim = rng.integers(0, HOSTS, 2)
        engine.fail(victim)
        resting = np.setdiff1d(rng.integers(0, HOSTS, 6), np.flatnonzero(engine.state.nodes["up"] == 0))
        engine.serve(resting, takes=False)
        engine.advance(engine.now + 1.0)
        engine.serve(resting, takes=True)
        engine.recover(victim[:1])
        engine.advance(engine.now + 0.5)
        ended = engine.drain()
        rows.append(np.stack([ended[name].astype(float) for name in ("serial", "host", "status", "ended")]))
    return np.concatenate(rows, axis=1)


@pytest.mark.parametrize("number", range(len(ORDER)))
def test_an_index_answers_what_a_scan_answers(number):
    made = net(2)
    scan = plain(ORDER[number])
    indexed, scanned = Engine(made, 9, number), Engine(made, 9, lambda *asked: int(scan(*asked)))
    found, expected = play(indexed, 4), play(scanned, 4)
    assert found.shape[1] > 300
    assert found.tobytes() == expected.tobytes()
    assert len(set(found[1])) > (3 if number != 2 else 1)


def test_the_reach_of_a_node_with_one_link_is_that_of_its_other_end_and_the_link():
    engine = Engine(net(5), 9, 1)
    found = 0
    for failed in ([], [3, 17], [0]):
        engine.fail(failed)
        s = engine.state
        own = s.infra[:, None] == s.hosts["slot"]
        rows = np.flatnonzero(s.hub >= 0)
        found += len(rows)
        expected = np.where(own[rows], s.reach[rows], s.reach[s.hub[rows]] + s.toll[rows, None])
        assert s.reach[rows].tobytes() == expected.tobytes()
    assert found > 20

"""Copies of the present in one call, against a snapshot that is restored, stepped, and read."""

import numpy as np
import pytest

from cosim.engine.continuum import INTERVAL, Decisions, Engine
from cosim.engine.continuum.branch import Brancher, branch
from cosim.engine.continuum.layout import COMPLETED
from tests.unit.engine.continuum.happenings import served, world


def waiting():
    """An engine with tasks that wait for a decision, others that run."""
    engine = served(world(), 11, INTERVAL)
    view = engine.step(2.0)
    for _ in range(3):
        view = engine.step(0.5, Decisions(view.pending["serial"], np.arange(len(view.pending["serial"])) % 3))
    assert len(view.pending["serial"]) >= 2
    return engine, view


def by_hand(engine, decisions, horizon):
    """The figures by a snapshot, in another engine."""
    other = Engine(engine.system, 0, INTERVAL)
    other.restore(engine.snapshot())
    other.drain()
    before, energy = other.state.tally.sum(axis=0), other.meters(np.arange(len(other.state.nodes))).energy
    events = int(other.state.meta["events"][0])
    ended = other.step(horizon, decisions).ended
    tally = other.state.tally.sum(axis=0)
    good = (ended["status"] == COMPLETED) & (ended["stage"] < 0)
    return {
        "created": tally[0] - before[0], "completed": good.sum(), "events": int(other.state.meta["events"][0]) - events,
        "response": (ended["ended"] - ended["created"])[good].mean() if good.any() else np.nan,
        "energy": (other.meters(np.arange(len(other.state.nodes))).energy - energy).sum(),
        "in_flight": tally[0] - tally[2:].sum(),
    }  # fmt: skip


@pytest.mark.parametrize("horizon", [0.0, 0.7, 30.0])
def test_each_candidate_is_what_a_restored_engine_does(horizon):
    engine, view = waiting()
    serial = view.pending["serial"]
    candidates = [Decisions(serial, np.full(len(serial), h)) for h in (0, 1, 2, -2)] + [Decisions()]
    before = engine.snapshot()
    found = branch(engine, candidates, horizon)
    assert engine.snapshot().same(before)
    for k, decisions in enumerate(candidates):
        expected = by_hand(engine, decisions, horizon)
        for name in ("created", "completed", "in_flight", "events"):
            assert found[name][k] == expected[name], name
        assert found["energy"][k] == pytest.approx(expected["energy"], rel=1e-12, abs=1e-9)
        assert found["response"][k] == pytest.approx(expected["response"], rel=1e-12, nan_ok=True)
    if horizon > 1.0:
        assert len(set(found["response"].tolist())) > 3  # decisions matter


@pytest.mark.parametrize("horizon", [0.7, 30.0])
def test_a_branch_without_arrivals_is_what_an_engine_does_whose_tasks_are_made_elsewhere(horizon):
    engine, view = waiting()
    serial = view.pending["serial"]
    before = engine.snapshot()
    hosts = np.array([np.full(len(serial), h) for h in (0, 1, 2, -2)] + [np.arange(len(serial)) % 3 - 1])
    found = Brancher(engine, arrivals=False).tried(serial, hosts, horizon)
    assert engine.snapshot().same(before)
    for k, row in enumerate(hosts):
        other = Engine(engine.system, 0, INTERVAL)
        other.restore(before)
        other.set_taken(np.arange(len(other.state.workloads)), 1.0)
        made = other.created
        energy = other.meters(np.arange(len(other.state.nodes))).energy
        ended = other.step(horizon, Decisions(serial[row != -1], row[row != -1])).ended
        good = (ended["status"] == COMPLETED) & (ended["stage"] < 0) & (ended["ended"] > before.now)
        assert found["created"][k] == other.created - made == 0
        assert found["completed"][k] == good.sum()
        assert found["spare"][k] == pytest.approx((other.now - ended["ended"][good]).sum())
        later = other.meters(np.arange(len(other.state.nodes))).energy
        assert found["energy"][k] == pytest.approx((later - energy).sum())
    with pytest.raises(ValueError, match=r"hosts 9 to 9; there are 0\.\.2"):
        Brancher(engine, arrivals=False).tried(serial, np.full((1, len(serial)), 9), horizon)


def test_a_branch_is_repeated_bit_for_bit_and_does_not_depend_on_its_neighbours():
    engine, view = waiting()
    serial = view.pending["serial"]
    candidates = [Decisions(serial, np.full(len(serial), h)) for h in (2, 0, 1, 2)]
    brancher = Brancher(engine)
    found, again = brancher.run(candidates, 5.0), brancher.run(candidates[::-1], 5.0)
    for name in found:
        assert found[name].tobytes() == again[name][::-1].tobytes()
        assert found[name][0] == found[name][3]


def test_a_branch_goes_on_when_arrays_are_full():
    engine = served(world(), 3, INTERVAL)
    view = engine.step(1.0)
    rows = len(engine.state.tasks)
    placed = Decisions(view.pending["serial"], np.zeros(len(view.pending["serial"])))
    found = branch(engine, [Decisions(), placed], 400.0)
    assert found["in_flight"].min() > rows  # tasks that nobody decides about wait
    assert len(engine.state.tasks) == rows
    expected = by_hand(engine, Decisions(), 400.0)
    assert found["created"][0] == expected["created"]
    assert found["events"][0] == expected["events"]


def test_what_cannot_be_decided_is_refused():
    engine, _ = waiting()
    with pytest.raises(ValueError, match="not in flight"):
        branch(engine, [Decisions([10**9], [0])], 1.0)
    with pytest.raises(ValueError, match="cannot branch over -1 s"):
        branch(engine, [], -1.0)

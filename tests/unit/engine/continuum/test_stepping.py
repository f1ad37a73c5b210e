"""Deciding once per interval: placing tasks that wait, moving tasks that are placed."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum import INTERVAL, Decisions, Engine, Kind, WorkloadStream
from cosim.engine.continuum.layout import COMPLETED, DOWN, FREE, LINK_FAILED, MOVE, NEW, NODE_FAILED, RUN, UP
from cosim.engine.continuum.stepping import HOSTS, LINKS, PENDING, PLACED
from tests.unit.engine.continuum.happenings import DEVICES, apply, served, steps, world
from tests.unit.engine.continuum.worlds import CLOCK, attach, every, exponential, field


def least(reach, up, load):
    """The host in reach with the least load, -1 if there is none."""
    best, smallest = -1, math.inf
    for i in range(len(up)):
        if reach[i] < math.inf and up[i] and load[i] < smallest:
            best, smallest = i, load[i]
    return best


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**64 - 1), fcfs=st.booleans(), drop_late=st.booleans(), todo=steps)
def test_deciding_at_every_arrival_is_deciding_per_request(seed, fcfs, drop_late, todo):
    made = world(fcfs)
    asked = []

    def choose(request, reach, hosts):
        asked.append((request.time, request.device, request.workload, request.input, request.work))
        return least(reach, hosts["up"], hosts["assigned"] / hosts["speed"])

    options = {"patience": 0.7, "drop_late": drop_late}
    alone = served(made, seed, choose, **options)
    stepped = served(made, seed, INTERVAL, **options)
    generations, again = {}, {}
    done = 0
    for span, what in [*todo, (1.0, None)]:
        until = alone.now + span
        alone.advance(until)
        for one in asked[done:]:
            if stepped.now < one[0]:
                stepped.advance(one[0])
            view = stepped.step(0.0)
            waits = np.stack([view.pending[name] for name in ("device", "workload", "input", "work")], axis=1)
            k = waits.tolist().index([float(value) for value in one[1:]])
            load = view.hosts["assigned"] / (view.hosts["cores"] * view.hosts["clock"])
            host = least(view.reach[k], view.hosts["up"], load)
            stepped.step(0.0, Decisions(view.pending["serial"][k : k + 1], [host]))
        done = len(asked)
        stepped.advance(until)
        assert len(stepped.step(0.0).pending["serial"]) == 0
        if what is not None:
            apply(alone, what, generations)
            apply(stepped, what, again)
    one, two = alone.ledger(), stepped.ledger()
    assert np.array_equal(one.tally, two.tally)
    for name in ("input", "output", "energy", "radio", "links", "cost_cpu"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    live = [engine.state.tasks[engine.state.tasks["phase"] != FREE] for engine in (alone, stepped)]
    assert np.array_equal(np.sort(live[0]["serial"]), np.sort(live[1]["serial"]))


def held(load, **options):
    engine = field(load, scheduler=INTERVAL, **options)
    attach(engine, 3, 0)
    return engine


def test_tasks_wait_until_they_are_placed():
    engine = held(every(1.0, 0.5 * CLOCK, size=1e6, back=1e5, deadline=9.0))
    start = engine.state.due[0]
    engine.advance(start)
    view = engine.step(1.0)
    assert set(view.pending) == set(PENDING)
    assert set(view.hosts) == set(HOSTS)
    assert set(view.links) == set(LINKS)
    assert set(view.placed) == set(PLACED)
    assert view.time == start + 1.0
    assert view.pending["device"].tolist() == [3, 3]
    assert view.pending["deadline"].tolist() == [9.0, 9.0]
    assert view.pending["work"].tolist() == [0.5 * CLOCK] * 2
    np.testing.assert_allclose(view.reach[0], [0.0, 2 * (0.010 + 0.01), 0.010 + 0.01])
    assert len(view.placed["serial"]) == 0
    engine.state.workloads["stop"] = 0.0
    view = engine.step(1.5, Decisions(view.pending["serial"], [0, 2]))
    assert len(view.pending["serial"]) == 1
    assert view.placed["host"].tolist() == [0, 2]
    assert view.placed["phase"].tolist() == [UP, UP]  # 1 MB each share 1 MB/s
    assert view.hosts["assigned"].tolist() == [1, 0, 1]
    view = engine.step(0.6)  # at the edge host after 2 s, at the cloud 110 ms later
    assert view.placed["phase"].tolist() == [RUN, UP]
    np.testing.assert_allclose(view.placed["left"], [0.4 * CLOCK, 0.5 * CLOCK], rtol=1e-6)
    view = engine.step(1.0)
    assert view.ended["status"].tolist() == [COMPLETED, COMPLETED]
    np.testing.assert_allclose(view.hosts["utilisation"][0], 0.4 / 2, rtol=1e-6)
    np.testing.assert_allclose(view.hosts["energy"][0], 10.0 + 10.0 * 0.4 / 2, rtol=1e-6)
    np.testing.assert_allclose(view.hosts["power"][0], view.hosts["energy"][0], rtol=1e-9)
    np.testing.assert_allclose(view.links["received"][1], 1e5)  # the second one's output from the cloud


def test_a_running_task_moves_with_its_state_and_what_is_left():
    load = every(100.0, CLOCK, size=1e3, back=1e3, state=2e6)
    engine = held(load, links=[(0, 1, 8e6, 0.5)])
    start = engine.state.due[0]
    engine.advance(start)
    view = engine.step(0.001 + 0.4, Decisions([0], [0]))
    assert view.placed["left"].tolist() == pytest.approx([0.6 * CLOCK])
    view = engine.step(1.0, Decisions([0], [1]))
    assert view.placed["phase"].tolist() == [MOVE]
    assert view.placed["left"].tolist() == pytest.approx([0.6 * CLOCK])
    assert view.hosts["running"].tolist() == [0, 0, 0]
    assert view.hosts["assigned"].tolist() == [0, 1, 0]
    assert engine.ledger().state == (2e6, 0.0, 0.0, 2e6)
    view = engine.step(10.0)
    ended = {name: column[0] for name, column in view.ended.items()}
    assert ended["host"] == 1
    # 1 kB up, 0.4 s there, 2 MB at 1 MB/s and 0.5 s, 0.6 s here, back over the link and the air
    assert ended["computed"] - start == pytest.approx(0.001 + 0.4 + 2.5 + 0.6)
    assert ended["ended"] - ended["computed"] == pytest.approx(0.501 + 0.001)
    assert engine.ledger().state == (2e6, 2e6, 0.0, 0.0)
    assert engine.meters([0, 1]).busy.tolist() == pytest.approx([0.4, 0.6])


def test_a_task_on_its_way_goes_on_to_its_new_host():
    engine = held(every(100.0, CLOCK, size=1e6))
    engine.advance(engine.state.due[0])
    engine.step(0.5, Decisions([0], [0]))
    engine.step(0.1, Decisions([0], [1]))
    view = engine.step(5.0)
    assert view.ended["host"].tolist() == [1]
    assert view.ended["uploaded"] - view.ended["created"] == pytest.approx(1.0 + 0.22)  # by way of the cloud
    assert engine.ledger().state == (0.0, 0.0, 0.0, 0.0)


def test_a_task_moves_between_its_device_and_a_host():
    engine = field(every(100.0, CLOCK, size=1e6), scheduler=INTERVAL, device=Kind(cores=1, clock=CLOCK))
    attach(engine, 3, 0)
    start = engine.state.due[0]
    engine.advance(start)
    engine.step(0.25, Decisions([0], [-2]))
    view = engine.step(1.25, Decisions([0], [0]))
    assert view.placed["phase"].tolist() == [RUN]
    assert view.placed["left"].tolist() == pytest.approx([0.5 * CLOCK])
    view = engine.step(5.0, Decisions([0], [-2]))
    assert view.ended["host"].tolist() == [3]
    assert view.ended["ended"][0] - start == pytest.approx(0.25 + 1.0 + 0.25 + 1.0 + 0.5)


def test_no_host_is_an_answer_too():
    engine = field(every(1.0, 1.0), scheduler=INTERVAL, patience=2.0)
    view = engine.step(1.0)
    assert np.isinf(view.reach).all()
    view = engine.step(0.5, Decisions(view.pending["serial"], [-1]))
    assert len(view.ended["status"]) == 0  # waits for coverage
    attach(engine, 3, 0)
    view = engine.step(0.0)
    assert 0 in view.pending["serial"]
    view = engine.step(0.0, Decisions([0], [-1]))
    assert view.ended["status"].tolist() == [LINK_FAILED]


def test_decisions_that_cannot_be_are_refused_before_anything_is_done():
    engine = held(every(1.0, CLOCK, size=1e6))
    view = engine.step(2.0)
    assert view.pending["serial"].tolist() == [0, 1]
    for decisions, message in (
        (Decisions([0, 7], [0, 0]), "task 7 is not in flight"),
        (Decisions([0, 0], [0, 1]), "named twice"),
        (Decisions([0], [3]), r"host 3 for task 0; expected 0..2, -1 for none"),
        (Decisions([0], [0, 1]), "one host for each task"),
    ):
        with pytest.raises(ValueError, match=message):
            engine.step(1.0, decisions)
    assert engine.step(0.0, Decisions([0], [0])).placed["serial"].tolist() == [0]
    with pytest.raises(ValueError, match="task 0 cannot be moved to -1"):
        engine.step(0.0, Decisions([0], [-1]))
    with pytest.raises(ValueError, match="task 0 cannot be moved to -2"):
        engine.step(0.0, Decisions([0], [-2]))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    fcfs=st.booleans(),
    drop_late=st.booleans(),
    todo=steps,
    choices=st.randoms(use_true_random=False),
)
def test_books_close_under_any_decisions(seed, fcfs, drop_late, todo, choices):
    loads = [
        WorkloadStream(
            rate=3.0, work=exponential(CLOCK / 3), input=exponential(1e5), output=exponential(5e4), deadline=1.0
        ),
        WorkloadStream(rate=2.0, work=exponential(CLOCK / 5), input=exponential(1e5), state=3e5),
    ]
    engine = served(world(fcfs, loads), seed, INTERVAL, patience=0.7, drop_late=drop_late)
    generations = {}
    decisions, ended = Decisions(), []
    for span, what in [*todo, *[(0.4, None)] * 5]:
        view = engine.step(span, decisions)
        ended.append(view.ended)
        if what is not None:
            apply(engine, what, generations)
        s = engine.state
        live = s.tasks[s.tasks["phase"] != FREE]
        own = {int(task["serial"]): task for task in live}
        picked = [n for n in own if choices.random() < 0.7]
        task, host = [], []
        for n in picked:
            can_stay = s.stations["servers"][3 * own[n]["device"]] > 0
            to = choices.choice([0, 1, 2, -2 if can_stay else 0])
            if own[n]["held"]:
                to = choices.choice([to, -1])
            elif own[n]["phase"] not in (UP, RUN, MOVE):
                continue
            task.append(n)
            host.append(to)
        decisions = Decisions(task, host)
    engine.advance(engine.now + 1.0)
    ended.append(engine.drain())
    books, s = engine.ledger(), engine.state
    columns = {name: np.concatenate([part[name] for part in ended]) for name in ended[0]}
    assert np.array_equal(books.tally[:, 0], books.tally[:, 2:].sum(axis=1) + books.in_flight)
    assert len(columns["status"]) == books.tally[:, 2:].sum()
    for offered, *parts in (books.input, books.output, books.state):
        assert np.isclose(offered, sum(parts), rtol=1e-9, atol=1e-3)
    live = s.tasks[s.tasks["phase"] != FREE]
    for h, host in enumerate(s.hosts):
        assert host["running"] == np.sum((live["host"] == host["slot"]) & (live["phase"] == RUN)), h
        assert host["assigned"] == np.sum((live["host"] == host["slot"]) & np.isin(live["phase"], (UP, RUN, MOVE))), h
    assert s.stations["active"].sum() + s.stations["queued"].sum() == np.sum(live["station"] >= 0)
    # what was computed is what the cores were busy for: completed tasks in full, others in part
    busy = engine.meters(np.arange(3 + DEVICES)).busy
    clock = s.kinds["clock"][s.nodes["kind"]]
    whole = columns["work"][~np.isnan(columns["computed"])].sum()
    returning = live["work"][live["phase"] == DOWN].sum()
    assert (busy * clock).sum() >= (whole + returning) * (1 - 1e-9)
    assert set(np.unique(live["phase"])) <= {NEW, UP, RUN, DOWN, MOVE}
    assert np.all(columns["status"] != NODE_FAILED) or any(what[0] in ("fail",) for _, what in todo)


def test_a_stepped_engine_can_be_restored():
    engine = held(every(0.3, CLOCK / 10, size=1e5))
    engine.step(1.0)
    kept = engine.snapshot()
    view = engine.step(1.0, Decisions([0, 1], [0, 2]))
    other = Engine(engine.system, 99, 0)
    other.restore(kept)
    again = other.step(1.0, Decisions([0, 1], [0, 2]))
    for name in view.pending:
        assert np.array_equal(view.pending[name], again.pending[name])
    assert np.array_equal(view.ended["ended"], again.ended["ended"])
    assert other.snapshot().same(engine.snapshot())

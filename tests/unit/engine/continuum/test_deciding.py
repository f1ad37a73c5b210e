"""Decisions that take time on a node."""

from __future__ import annotations

import time

import numpy as np
import pytest

from cosim.engine.continuum import Deciding, Engine, JobStage, Kind
from cosim.engine.continuum import WorkloadStream as Stream
from cosim.engine.continuum.branch import branch
from cosim.engine.continuum.layout import INTERVAL, NODE_FAILED
from cosim.engine.continuum.stepping import Decisions
from tests.unit.engine.continuum.worlds import CLOCK, every, field, fixed, system

TOOK = 0.005  # s


def central(rate, *, fcfs=1, work=0.0, own=0.0, seed=5, devices=3, deciding=None, scheduler=0, **options):
    """Node 0: decides, and makes `own` (1/s) tasks of .01 core-s that run there; 1: runs tasks of the devices."""
    decider = Kind(cores=1, clock=CLOCK, fcfs=fcfs)
    pinned = (JobStage(fixed(0.01 * CLOCK), pinned=True),)  # about which nothing is decided
    loads = [Stream(rate=rate / devices, work=fixed(work)), Stream(rate=own, work=fixed(0.0), graph=pinned)]
    sources = [(2 + k, 0) for k in range(devices)] + [(0, 1)] * (own > 0.0)
    links = [(2 + k, 1, 1e12, 0.0) for k in range(devices)]
    made = system(["edge", "cloud"] + ["device"] * devices, [decider, Kind(cores=4, clock=CLOCK)] + [Kind()] * devices,
                  loads[: 1 + (own > 0.0)], sources, links)  # fmt: skip
    return Engine(made, seed, scheduler, deciding=Deciding(0, TOOK) if deciding is None else deciding, **options)


def rows(engine):
    ended = engine.drain()
    order = np.argsort(ended["serial"])
    return {name: column[order] for name, column in ended.items()}


def test_one_that_is_alone_leaves_when_its_decision_has_had_its_time():
    load = every(1.0, 0.5 * CLOCK, size=1e6)
    plain, late = (
        field(load, device=Kind(), links=[(3, 0, 8e6, 0.0), (0, 1, 8e6, 0.0), (0, 2, 8e6, 0.0)], deciding=deciding)
        for deciding in (None, Deciding(2, TOOK))
    )
    for engine in (plain, late):
        engine.advance(20.0)
    before, after = rows(plain), rows(late)
    assert len(after["ended"]) > 15
    np.testing.assert_allclose(after["assigned"] - after["created"], TOOK, rtol=1e-9)
    for name in ("created", "host", "work"):
        np.testing.assert_array_equal(before[name], after[name])
    np.testing.assert_allclose(after["ended"], before["ended"] + TOOK, rtol=1e-12)
    asked = late.state.meta["consulted"][0]
    assert late.meters([2]).busy[0] == pytest.approx(asked * TOOK, rel=1e-6)


@pytest.mark.parametrize("rate", [60.0, 140.0])
def test_decisions_wait_as_in_md1(rate):
    """Lindley's recursion of the very arrivals; Pollaczek and Khinchine's mean, rho D / (2 (1 - rho))."""
    engine = central(rate)
    engine.advance(600.0)
    ended = rows(engine)
    free, made = np.empty(len(ended["created"])), 0.0
    for k, created in enumerate(ended["created"]):
        made = max(created, made) + TOOK
        free[k] = made
    np.testing.assert_allclose(ended["assigned"], free, rtol=1e-9)
    load = rate * TOOK
    took = ended["assigned"] - ended["created"]
    wait = took.mean() - TOOK
    assert wait == pytest.approx(load * TOOK / (2 * (1 - load)), rel=0.04)
    meta = engine.state.meta[0]
    assert meta["decided"] == pytest.approx((engine.created) * TOOK)
    assert (meta["consulted"], meta["delayed"]) == (len(took), pytest.approx(took.sum()))


def test_shared_cores_take_d_over_the_rest_in_the_mean():
    """M/D/1 with processor sharing: D / (1 - rho), whatever the law of D (Kleinrock, Queueing Systems II, 4.4)."""
    engine = central(120.0, fcfs=0)
    engine.advance(600.0)
    ended = rows(engine)
    assert np.mean(ended["assigned"] - ended["created"]) == pytest.approx(TOOK / (1 - 120.0 * TOOK), rel=0.03)


def test_they_queue_with_the_tasks_that_the_node_computes():
    """M/G/1 of both: the mean wait is that of the mixture, the same for decisions and for tasks."""
    made, own = 60.0, 40.0
    engine = central(made, own=own)
    engine.advance(600.0)
    ended = rows(engine)
    square = made * TOOK**2 + own * 0.01**2
    wait = square / (2 * (1 - made * TOOK - own * 0.01))
    decided, computed = ended["workload"] == 0, ended["stage"] == 0
    assert np.mean((ended["assigned"] - ended["created"])[decided]) - TOOK == pytest.approx(wait, rel=0.06)
    assert np.mean((ended["started"] - ended["assigned"])[computed]) == pytest.approx(wait, rel=0.06)
    busy = engine.state.meta["decided"][0] + ended["work"][computed].sum() / CLOCK
    assert engine.meters([0]).busy[0] == pytest.approx(busy, abs=0.1)


def test_stages_are_decided_about_one_by_one_but_for_those_of_the_device():
    stages = (JobStage(fixed(CLOCK / 10), pinned=True), JobStage(fixed(CLOCK / 10), after=(0,)),
              JobStage(fixed(CLOCK / 10), after=(1,)))  # fmt: skip
    load = Stream(rate=0.5, periodic=True, work=fixed(0.0), graph=stages)
    made = system(["edge", "device"], [Kind(cores=4, clock=CLOCK), Kind(cores=1, clock=CLOCK)], [load], [(1, 0)],
                  [(0, 1, 1e15, 0.0)])  # fmt: skip
    engine = Engine(made, 3, 0, deciding=Deciding(0, TOOK))
    engine.advance(21.0)
    ended = rows(engine)
    whole = ended["stage"] < 0
    np.testing.assert_allclose((ended["ended"] - ended["created"])[whole], 0.3 + 2 * TOOK, rtol=1e-6)
    assert engine.state.meta["consulted"][0] >= 2 * whole.sum()


def test_a_node_that_fails_decides_nothing_and_ends_what_it_was_working_on():
    engine = central(300.0)  # more than it can do
    engine.advance(2.0)
    engine.drain()
    waiting = int(engine.state.meta["live"][0])
    assert waiting > 50
    engine.fail([0])
    ended = rows(engine)
    assert len(ended["status"]) == waiting
    assert set(ended["status"].tolist()) == {int(NODE_FAILED)}
    engine.advance(3.0)
    ended = rows(engine)
    assert set(ended["status"].tolist()) == {int(NODE_FAILED)}
    np.testing.assert_array_equal(ended["ended"], ended["created"])
    engine.recover([0])
    engine.advance(3.5)
    assert 0 in rows(engine)["status"]


def test_a_task_without_coverage_is_worked_on_once_and_its_patience_is_not_new():
    engine = field(every(100.0, 1e6), deciding=Deciding(0, TOOK), patience=5.0)
    start = engine.state.due[0]
    engine.advance(start + 1.0)
    engine.set_links([0], [0.5], [0.0], [0.0])
    engine.set_links([0], [0.0], [0.0], [0.0])  # other routes: those that wait try again
    engine.set_links([0], [1.0], [0.0], [0.0])
    engine.advance(start + 20.0)
    ended = engine.drain()
    assert engine.state.meta["consulted"][0] == 1
    np.testing.assert_allclose(ended["ended"] - ended["created"], 5.0 + TOOK, rtol=1e-9)


def test_a_policy_knows_the_state_at_the_end_of_its_decision_and_the_time_it_took_goes_to_the_next():
    times = []

    def slow(request, reach, hosts):
        begun = time.thread_time()
        while time.thread_time() - begun < 0.002:
            pass
        times.append(request.time)
        return 1

    engine = central(1.0, scheduler=slow, deciding=Deciding(0, None), devices=1)
    engine.advance(30.0)
    ended = rows(engine)
    took = ended["assigned"] - ended["created"]
    assert took[0] == 0.0
    assert len(took) > 15
    assert (took[1:] >= 0.002 * (1 - 1e-6)).all()
    np.testing.assert_array_equal(ended["assigned"], times)
    assert engine.state.meta["decided"][0] == pytest.approx(took.sum(), rel=1e-6)


def test_equal_runs_are_bit_equal_snapshots_go_on_and_tasks_held_for_an_interval_come_later():
    engines = [central(140.0, work=0.001 * CLOCK) for _ in range(2)]
    engines[0].advance(10.0)
    for _ in range(100):
        engines[1].advance(engines[1].now + 0.1)
    assert engines[0].snapshot().arrays["meta"]["decided"] == engines[1].snapshot().arrays["meta"]["decided"]
    kept = engines[0].snapshot()
    engines[0].advance(12.0)
    engines[1].restore(kept)
    engines[1].advance(12.0)
    assert engines[0].snapshot().same(engines[1].snapshot())
    figures = branch(engines[0], [Decisions(), Decisions()], horizon=1.0)
    done = int(engines[0].ledger().tally[:, 2].sum())
    engines[0].advance(13.0)
    assert figures["completed"].tolist() == [engines[0].ledger().tally[:, 2].sum() - done] * 2
    held = central(20.0, scheduler=INTERVAL, deciding=Deciding(0, 0.5))
    held.advance(0.5)
    assert held.created > 0
    assert len(held.step(0.0).pending["serial"]) == 0
    assert len(held.step(5.0).pending["serial"]) == pytest.approx(10, abs=1)  # 2 in a second


@pytest.mark.parametrize(("node", "seconds"), [(-1, 1.0), (2, 1.0), (9, 1.0), (0, -1.0), (0, np.inf), (0, np.nan)])
def test_what_cannot_decide_is_refused(node, seconds):
    with pytest.raises(ValueError, match=r"cannot (decide|take)"):
        central(1.0, deciding=Deciding(node, seconds))

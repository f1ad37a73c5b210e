"""Jobs: stages on several hosts, data between them, joins, failures."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum import INTERVAL, Decisions, JobStage, Kind, WorkloadStream
from cosim.engine.continuum.layout import COMPLETED, DEADLINE, FREE, JOIN, LEFT, NO_COVERAGE, NODE_FAILED, RUN, UP
from tests.unit.engine.continuum.happenings import apply, served, steps, world
from tests.unit.engine.continuum.worlds import CLOCK, attach, exponential, field, fixed

OWN = Kind(cores=1, clock=CLOCK)


def chain(*stages, size=1e6, **options):
    """A periodic job, one per 100 s."""
    return WorkloadStream(rate=0.01, periodic=True, work=fixed(0.0), input=fixed(size), graph=stages, **options)


def run(load, scheduler, devices=1, **options):
    """The stages and the job of the first 100 s, in which one job is made."""
    engine = field(load, devices, scheduler, device=OWN, **options)
    attach(engine, 3, 0)
    engine.advance(engine.state.due[0])
    start = engine.now
    engine.state.workloads["stop"] = 0.0
    engine.advance(start + 90.0)
    ended = engine.drain()
    stages = {int(n): {name: ended[name][k] for name in ended} for k, n in enumerate(ended["stage"]) if n >= 0}
    job = {name: ended[name][ended["stage"] < 0][0] for name in ended}
    return engine, start, stages, job


def by_stage(*hosts):
    """Stage k goes to hosts[k]."""
    return lambda request, reach, them: hosts[request.stage]


def test_a_chain_goes_from_the_device_over_two_hosts_and_back():
    load = chain(
        JobStage(fixed(0.5 * CLOCK), fixed(5e5), pinned=True),
        JobStage(fixed(1.0 * CLOCK), fixed(2e5), after=(0,)),
        JobStage(fixed(3.0 * CLOCK), fixed(1e5), after=(1,)),
        JobStage(fixed(0.2 * CLOCK), after=(2,), pinned=True),
        deadline=3.0,
    )
    engine, start, stages, job = run(load, by_stage(None, 0, 2, None))
    assert [stages[k]["host"] for k in range(4)] == [3, 0, 2, 3]
    assert stages[0]["computed"] - start == pytest.approx(0.5)
    assert stages[1]["uploaded"] - stages[0]["computed"] == pytest.approx(0.5)  # 0.5 MB over the air
    assert stages[1]["computed"] - stages[1]["uploaded"] == pytest.approx(1.0)
    assert stages[2]["uploaded"] - stages[1]["computed"] == pytest.approx(0.02 + 0.01)  # over the link to the cloud
    assert stages[2]["computed"] - stages[2]["uploaded"] == pytest.approx(1.0)  # 3 GHz
    assert stages[3]["uploaded"] - stages[2]["computed"] == pytest.approx(0.01 + 0.01 + 0.1)  # link and air
    assert job["ended"] - stages[3]["uploaded"] == pytest.approx(0.2)
    assert (job["status"], job["late"]) == (COMPLETED, 1)
    assert job["created"] == start
    assert [job[name] for name in ("uploaded", "started")] == [stages[0][name] for name in ("uploaded", "started")]
    assert job["computed"] == stages[3]["computed"]
    assert job["host"] == 3
    assert job["work"] == pytest.approx(4.7 * CLOCK)
    books = engine.ledger()
    assert books.tally[0, :3].tolist() == [1, 1, 1]
    assert books.stages[:, :2].tolist() == [[1, 1]] * 4
    assert books.input == pytest.approx((1e6 + 5e5 + 2e5 + 1e5,) * 2 + (0.0, 0.0))
    assert books.in_flight.tolist() == [0]


def test_the_input_of_a_job_is_there_when_that_of_the_stage_is_that_starts_first():
    load = chain(
        JobStage(fixed(0.1 * CLOCK), fixed(1e5)), JobStage(fixed(2.0 * CLOCK), fixed(1e5)),
        JobStage(fixed(0.1 * CLOCK), after=(0, 1), pinned=True),
    )  # fmt: skip
    _, start, stages, job = run(load, by_stage(2, 0, None))  # by way of the cloud's link, and without
    assert start < stages[1]["uploaded"] < stages[0]["uploaded"]
    assert job["uploaded"] == stages[1]["uploaded"]


def test_a_join_waits_for_all_of_its_inputs():
    load = chain(
        JobStage(fixed(0.1 * CLOCK), fixed(8e5), pinned=True),
        JobStage(fixed(1.0 * CLOCK), fixed(4e6), after=(0,)),
        JobStage(fixed(0.3 * CLOCK), fixed(1e5), after=(0,)),
        JobStage(fixed(0.5 * CLOCK), fixed(1e4), after=(1, 2)),
        size=0.0,
    )
    engine, start, stages, job = run(load, by_stage(None, 0, 2, 2))
    # both branches share the uplink: 0.8 MB each at 1 MB/s
    assert stages[1]["uploaded"] - start == pytest.approx(0.1 + 1.6)
    assert stages[2]["uploaded"] - start == pytest.approx(0.1 + 1.6 + 0.08 + 0.01)
    assert stages[2]["computed"] == pytest.approx(stages[2]["uploaded"] + 0.1)
    # decided when the slower branch is computed; its 4 MB go to the cloud, the other input is there
    assert stages[3]["created"] == stages[1]["computed"]
    assert stages[3]["uploaded"] == pytest.approx(stages[1]["computed"] + 0.4 + 0.01)
    assert stages[3]["started"] == stages[3]["uploaded"]
    assert job["ended"] == pytest.approx(stages[3]["computed"] + 2 * 0.01 + 0.001)
    assert engine.ledger().input == pytest.approx((2 * 8e5 + 4e6 + 1e5,) * 2 + (0.0, 0.0))
    assert engine.meters([2]).completed.tolist() == [2]
    assert engine.state.meta["live"][0] == engine.state.meta["jobs_live"][0] == 0


def test_inputs_of_a_join_come_from_wherever_they_were_made():
    load = chain(
        JobStage(fixed(0.1 * CLOCK), fixed(1e6), pinned=True),
        JobStage(fixed(0.1 * CLOCK), fixed(2e6)),
        JobStage(fixed(0.5 * CLOCK), after=(0, 1)),
    )
    _, start, stages, job = run(load, by_stage(None, 0, 1))
    assert stages[0]["ended"] == pytest.approx(start + 0.1)
    assert stages[1]["ended"] == pytest.approx(start + 1.1)
    # 1 MB over the air and three ways of 1 MB and 2 MB: links 0-2 and 2-1, the larger one is the last
    assert stages[2]["uploaded"] == pytest.approx(stages[1]["ended"] + max(2 * (0.2 + 0.01), 1.0 + 2 * (0.1 + 0.01)))
    assert job["status"] == COMPLETED


def test_a_stage_that_fails_takes_its_job_along():
    stages = (
        JobStage(fixed(0.1 * CLOCK), fixed(1e5), pinned=True),
        JobStage(fixed(50.0 * CLOCK), after=(0,)),
        JobStage(fixed(60.0 * CLOCK), after=(0,)),
    )
    engine = field(chain(*stages, size=0.0), scheduler=by_stage(None, 0, 2), device=OWN)
    attach(engine, 3, 0)
    engine.advance(engine.state.due[0] + 10.0)
    assert engine.ledger().in_flight.tolist() == [1]
    assert engine.ledger().stages_in_flight.tolist() == [0, 1, 1]
    engine.fail([0])
    ended = engine.drain()
    assert sorted(ended["stage"].tolist()) == [-1, 0, 1, 2]
    failed = ended["status"] == NODE_FAILED
    assert sorted(ended["stage"][failed].tolist()) == [-1, 1, 2]
    assert engine.state.hosts["running"].tolist() == [0, 0, 0]
    books = engine.ledger()
    assert books.tally[0, 2 + NODE_FAILED] == 1
    assert books.in_flight.tolist() == [0]


@pytest.mark.parametrize(("bound", "drop_late"), [("deadline", True), ("limit", False)])
def test_a_job_has_one_deadline_or_limit(bound, drop_late):
    first, second = JobStage(fixed(CLOCK), pinned=True), JobStage(fixed(9 * CLOCK), after=(0,), pinned=True)
    _, start, stages, job = run(chain(first, second, **{bound: 4.0}), 0, drop_late=drop_late)
    assert (stages[0]["status"], stages[1]["status"], job["status"]) == (COMPLETED, DEADLINE, DEADLINE)
    assert job["ended"] == pytest.approx(start + 4.0)


def test_a_job_whose_device_leaves():
    load = chain(JobStage(fixed(CLOCK), fixed(1e3), pinned=True), JobStage(fixed(50 * CLOCK), after=(0,)))
    engine = field(load, device=OWN)
    attach(engine, 3, 0)
    engine.advance(engine.state.due[0] + 10.0)
    engine.vanish([3])
    ended = engine.drain()
    assert ended["status"][ended["stage"] != 0].tolist() == [LEFT, LEFT]
    engine.appear([3], [1])
    engine.advance(engine.now + 5.0)
    assert engine.ledger().tally[0, 0] == engine.ledger().tally[0, 2:].sum() + engine.ledger().in_flight[0]


def test_a_job_without_coverage():
    load = chain(JobStage(fixed(CLOCK), fixed(1e3), pinned=True), JobStage(fixed(CLOCK), after=(0,)))
    engine = field(load, device=OWN, patience=2.0)
    start = engine.state.due[0]
    engine.advance(start + 10.0)
    ended = engine.drain()
    assert ended["status"].tolist() == [COMPLETED, NO_COVERAGE, NO_COVERAGE]
    assert ended["ended"][1:] - start == pytest.approx(3.0)


def test_a_graph_of_one_stage_is_a_task():
    plain = WorkloadStream(rate=2.0, work=exponential(CLOCK / 5), input=exponential(1e5), deadline=0.4)
    alike = WorkloadStream(
        rate=2.0, work=fixed(0.0), input=exponential(1e5), deadline=0.4, graph=(JobStage(fixed(CLOCK / 5)),)
    )
    one, two = (field(load, 5, 1, seed=8) for load in (plain, alike))
    for engine in (one, two):
        engine.state.workloads["work_law"] = 0
        engine.state.workloads["work_a"] = CLOCK / 5
        for slot in range(3, 8):
            attach(engine, slot, slot % 2)
        engine.advance(200.0)
    a, b = one.drain(), two.drain()
    jobs = b["stage"] < 0
    assert len(a["ended"]) == jobs.sum() > 1500
    assert np.array_equal(a["created"], b["created"][jobs])
    assert np.array_equal(a["ended"], b["ended"][jobs])
    assert np.array_equal(a["late"], b["late"][jobs])
    assert np.array_equal(one.ledger().tally, two.ledger().tally)


def test_stages_can_wait_for_the_next_interval():
    load = chain(JobStage(fixed(0.1 * CLOCK), fixed(1e5), pinned=True), JobStage(fixed(CLOCK), fixed(1e5), after=(0,)))
    engine = field(load, scheduler=INTERVAL, device=OWN)
    attach(engine, 3, 0)
    engine.advance(engine.state.due[0])
    view = engine.step(1.0)
    assert view.pending["stage"].tolist() == [1]
    assert view.pending["at"].tolist() == [3]
    view = engine.step(0.2, Decisions(view.pending["serial"], [2]))
    assert view.placed["host"].tolist() == [2]
    view = engine.step(0.0, Decisions(view.placed["serial"], [0]))
    view = engine.step(9.0)
    assert view.ended["host"].tolist() == [0, 0]


def test_graphs_are_checked():
    with pytest.raises(ValueError, match="stage 0 comes after"):
        field(chain(JobStage(fixed(1.0), after=(1,)), JobStage(fixed(1.0))))


law = st.sampled_from([fixed(0.05 * CLOCK), exponential(0.2 * CLOCK), fixed(0.0)])
size = st.sampled_from([fixed(0.0), exponential(1e5), fixed(2e5)])


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 5))
    return tuple(
        JobStage(draw(law), draw(size), tuple(sorted(draw(st.sets(st.integers(0, k - 1), max_size=3)))) if k else ())
        for k in range(count)
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1), scheduler=st.integers(0, 6), fcfs=st.booleans(), drop_late=st.booleans(),
    graph=graphs(), todo=steps,
)  # fmt: skip
def test_books_close_with_jobs(seed, scheduler, fcfs, drop_late, graph, todo):
    loads = [
        WorkloadStream(rate=2.0, work=fixed(0.0), input=exponential(1e5), deadline=1.5, graph=graph),
        WorkloadStream(rate=2.0, work=exponential(CLOCK / 5), periodic=True, active=1.0, idle=0.5),
    ]
    engines = [served(world(fcfs, loads), seed, scheduler, patience=0.7, drop_late=drop_late) for _ in range(2)]
    ended = [[], []]
    for number, engine in enumerate(engines):
        generations = {}
        for span, what in [*todo, (1.0, None)]:
            until = engine.now + span
            if number:
                engine.advance(until - span / 3)
            engine.advance(max(until, engine.now))
            if what is not None:
                apply(engine, what, generations)
            if number:
                engine.restore(engine.snapshot())
            ended[number].append(engine.drain())
    columns = [{name: np.concatenate([part[name] for part in parts]) for name in parts[0]} for parts in ended]
    engine, mine = engines[0], columns[0]
    books, s = engine.ledger(), engine.state
    assert np.array_equal(books.tally[:, 0], books.tally[:, 2:].sum(axis=1) + books.in_flight)
    assert np.array_equal(books.stages[:, 0], books.stages[:, 1:].sum(axis=1) + books.stages_in_flight)
    assert books.tally[0, 0] == np.sum((mine["stage"] < 0) & (mine["workload"] == 0)) + books.in_flight[0]
    assert np.sum(mine["stage"] >= 0) == books.stages[:, 1:].sum()
    for offered, *parts in (books.input, books.output):
        assert np.isclose(offered, sum(parts), rtol=1e-9, atol=1e-3)
    live = s.tasks[s.tasks["phase"] != FREE]
    assert len(live) == s.meta["live"][0]
    assert s.meta["jobs_live"][0] == len(np.unique(live["job"][live["job"] >= 0]))
    for h, host in enumerate(s.hosts):
        here = live["host"] == host["slot"]
        assert host["running"] == np.sum(here & (live["phase"] == RUN)), h
        assert host["assigned"] == np.sum(here & np.isin(live["phase"], (UP, RUN, JOIN)) & (live["join"] < 0)), h
    assert s.stations["active"].sum() + s.stations["queued"].sum() == np.sum(live["station"] >= 0)
    done = (mine["stage"] < 0) & (mine["workload"] == 0) & (mine["status"] == COMPLETED)
    for serial in mine["serial"][done]:
        own = mine["job"] == serial
        assert own.sum() == len(graph)
        assert math.isclose(mine["work"][own].sum(), mine["work"][mine["serial"] == serial][0], abs_tol=1e-3)
        order = {int(n): k for k, n in zip(np.flatnonzero(own), mine["stage"][own], strict=True)}
        for n, stage in enumerate(graph):
            for before in stage.after:
                assert mine["computed"][order[before]] <= mine["uploaded"][order[n]]
                assert mine["uploaded"][order[n]] <= mine["started"][order[n]]
    for name, column in columns[0].items():
        assert column.tobytes() == columns[1][name].tobytes(), name

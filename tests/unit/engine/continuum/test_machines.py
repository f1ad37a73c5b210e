"""Memory, storage, accelerators, power states and operating points, one behaviour at a time."""

import numpy as np
import pytest

from cosim.engine.continuum import (
    INTERVAL,
    Decisions,
    Engine,
    Kind,
    MachineAccelerator,
    MachinePoint,
    MachineScaling,
    PowerStates,
    Quota,
)
from cosim.engine.continuum.layout import CAPACITY, COMPLETED, NODE_FAILED, ONDEMAND, POWERSAVE, USERSPACE
from tests.unit.engine.continuum.worlds import CLOCK, attach, every, field, move, system

GPU, NPU = 0, 1
FLOPS = 1e12


def host(**options):
    """One edge host of a single core that makes its own tasks."""
    return Kind(**{"cores": 1, "clock": CLOCK, "fcfs": True} | options)


def alone(kind, *loads, seed=1):
    return Engine(system(["edge"], [kind], loads, [(0, k) for k in range(len(loads))]), seed, 0)


def finish(engine, until, empty=1000.0):
    """What ended, after no more tasks were made from `until` on."""
    engine.advance(until)
    engine.state.workloads["stop"] = 0.0
    engine.advance(until + empty)
    return engine.drain()


def test_tasks_wait_for_memory_in_order_of_arrival():
    # 3 GB of 4 GB each: one at a time, although there are cores for all
    engine = alone(host(cores=8, memory=4e9), every(1.0, 2 * CLOCK, memory=3e9))
    ended = finish(engine, 5.5)
    assert np.all(ended["status"] == COMPLETED)
    np.testing.assert_allclose(np.diff(ended["started"]), 2.0, rtol=1e-12)
    np.testing.assert_array_equal(ended["serial"], np.arange(len(ended["serial"])))


def test_what_could_never_fit_is_refused():
    ended = finish(alone(host(memory=4e9), every(1.0, CLOCK, memory=5e9)), 3.0)
    assert set(ended["status"]) == {CAPACITY}
    ended = finish(alone(host(storage=1e9), every(1.0, CLOCK, storage=2e9)), 3.0)
    assert set(ended["status"]) == {CAPACITY}


def test_a_task_that_takes_nothing_waits_for_nobody_to_leave():
    engine = alone(host(cores=8, memory=4e9), every(1.0, 4 * CLOCK))
    ended = finish(engine, 5.0)
    np.testing.assert_allclose(ended["started"], ended["created"])


def test_hosts_that_cannot_hold_a_task_are_not_in_reach():
    load = every(1.0, CLOCK / 10, memory=5e9)
    engine = field(load, host=Kind(cores=2, clock=CLOCK, memory=4e9))  # nearest: node 0
    attach(engine, 3, 0)
    engine.advance(5.0)
    ended = engine.drain()
    assert set(ended["host"]) == {2}


def test_work_on_the_core_then_on_the_accelerator():
    kind = host(accelerators=(MachineAccelerator(NPU, 4, 1.0), MachineAccelerator(GPU, 1, FLOPS, idle=10.0, max=60.0)))
    engine = alone(kind, every(10.0, CLOCK, accelerator=GPU, operations=(0, 2 * FLOPS, 0.0)))
    ended = finish(engine, 25.0)
    np.testing.assert_allclose(ended["computed"] - ended["started"], 3.0)
    count = len(ended["status"])
    parts = engine.resources()
    np.testing.assert_allclose(parts.accelerator_busy, [0.0, 2.0 * count])
    np.testing.assert_allclose(parts.accelerator_energy, [0.0, 10.0 * engine.now + 50.0 * 2.0 * count])
    assert parts.accelerator_completed.tolist() == [0, count]
    np.testing.assert_allclose(engine.ledger().energy, [10.0 * engine.now + 100.0 * count])


def test_work_on_the_accelerator_alone_leaves_the_core_to_others():
    kind = host(accelerators=(MachineAccelerator(GPU, 1, FLOPS),))
    busy = every(1000.0, 1e6 * CLOCK, stop=500.0)
    engine = alone(kind, busy, every(10.0, 0.0, accelerator=GPU, operations=(0, FLOPS, 0.0), start=500.0))
    engine.advance(600.0)
    ended = engine.drain()
    assert len(ended["status"]) >= 9
    np.testing.assert_allclose(ended["computed"] - ended["created"], 1.0)
    np.testing.assert_allclose(ended["started"], ended["created"])


@pytest.mark.parametrize(("shared", "times"), [(False, [2.0, 4.0]), (True, [4.0, 4.0])])
def test_a_unit_serves_one_after_another_or_all_at_once(shared, times):
    kind = host(cores=2, accelerators=(MachineAccelerator(GPU, 1, FLOPS, shared=shared),))
    load = every(100.0, CLOCK, accelerator=GPU, operations=(0, 2 * FLOPS, 0.0))
    engine = alone(kind, load, load)
    for k in range(2):  # both at once
        move(engine, k, 1.0)
    engine.advance(50.0)
    ended = engine.drain()
    both = np.sort(ended["computed"] - ended["created"])[:2]
    np.testing.assert_allclose(both, np.array(times) + 1.0)
    if not shared:
        np.testing.assert_allclose(engine.resources().accelerator_waited, [2.0])


def test_a_task_without_its_accelerator_is_refused_everywhere():
    load = every(1.0, CLOCK, accelerator=GPU, operations=(0, FLOPS, 0.0))
    assert set(finish(alone(host(), load), 3.0)["status"]) == {CAPACITY}
    kind = host(accelerators=(MachineAccelerator(NPU, 1, FLOPS),))
    assert set(finish(alone(kind, load), 3.0)["status"]) == {CAPACITY}


def test_schedulers_see_units():
    seen = []

    def choose(request, reach, hosts):
        seen.append((request.operations, [tuple(one[["units", "free_units"]]) for one in hosts], list(reach < np.inf)))
        return 2

    kind = Kind(cores=8, clock=CLOCK, accelerators=(MachineAccelerator(GPU, 3, FLOPS),))
    engine = field(every(1.0, 0.0, accelerator=GPU, operations=(0, 100 * FLOPS, 0.0)), cloud=kind, scheduler=choose)
    attach(engine, 3, 0)
    engine.advance(4.9)
    assert [hosts[2][1] for _, hosts, _ in seen[:5]] == [3, 2, 1, 0, 0]
    assert all(hosts[0] == (0, 0) and reach == [False, False, True] for _, hosts, reach in seen)


def test_an_idle_host_sleeps_and_wakes_for_a_task():
    states = PowerStates(sleep_after=5.0, sleep_power=2.0, wake_time=3.0, wake_power=40.0)
    engine = alone(host(power=(10.0, 30.0), states=states), every(100.0, 10 * CLOCK))
    first = engine.state.due[0]
    assert first > 5.0  # else the seed tests less than it should
    engine.advance(first + 90.0)
    task = {name: column[0] for name, column in engine.drain().items()}
    wake, on = 3.0, 5.0 + 10.0 + 5.0
    assert task["started"] - task["created"] == pytest.approx(wake)
    asleep = (first - 5.0) + (90.0 - wake - 15.0)
    parts = engine.resources()
    np.testing.assert_allclose(parts.spells[0], [on, asleep, wake, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(engine.ledger().energy, [10 * 10.0 + 10 * 30.0 + 2.0 * asleep + 40.0 * wake])
    assert parts.wakes.tolist() == [1]


def test_a_host_boots_after_it_has_failed():
    states = PowerStates(boot_time=4.0, boot_power=50.0, off_power=1.0)
    kind = host(power=(10.0, 10.0), states=states, accelerators=(MachineAccelerator(GPU, 1, FLOPS, idle=5.0, max=5.0),))
    engine = alone(kind, every(1.0, CLOCK / 10))
    engine.advance(10.0)
    engine.fail([0])
    engine.advance(12.0)
    engine.recover([0])
    engine.drain()
    engine.advance(20.0)
    ended = engine.drain()
    assert ended["started"].min() == 16.0
    np.testing.assert_allclose(engine.ledger().energy, [15 * 10.0 + 2 * 1.0 + 4 * 50.0 + 15 * 4.0])
    np.testing.assert_allclose(engine.resources().spells[0], [14.0, 0.0, 0.0, 4.0, 2.0, 0.0])


def test_tasks_at_the_door_end_with_their_host():
    states = PowerStates(sleep_after=0.1, wake_time=50.0)
    engine = alone(host(states=states, memory=1.0), every(1.0, CLOCK, memory=0.5))
    engine.advance(3.0)
    engine.fail([0])
    ended = engine.drain()
    assert len(ended["status"]) == engine.created
    assert set(ended["status"]) == {NODE_FAILED}
    assert engine.state.machines["waiting"].tolist() == [0]


POINTS = tuple(MachinePoint(f * CLOCK, (10.0, 10.0 + 20.0 * f)) for f in (0.5, 0.75, 1.0))


def test_a_slower_clock_takes_longer_by_the_class_of_the_work():
    def duration(sensitivity):
        engine = alone(
            host(scaling=MachineScaling(POINTS, POWERSAVE)), every(100.0, 10 * CLOCK, sensitivity=sensitivity)
        )
        ended = finish(engine, 150.0)
        return ended["computed"][0] - ended["started"][0]

    assert duration(1.0) == pytest.approx(20.0)
    assert duration(0.0) == pytest.approx(10.0)
    assert duration(0.06) == pytest.approx(10.0 * (1 + 0.06 * (2 - 1)))


@pytest.mark.parametrize("fcfs", [True, False])
def test_a_change_of_the_clock_holds_for_the_rest_of_the_work(fcfs):
    loads = [every(1000.0, 10 * CLOCK, sensitivity=c) for c in (1.0, 0.5)]
    engine = alone(host(cores=2, fcfs=fcfs, scaling=MachineScaling(POINTS, USERSPACE)), *loads)
    for k in range(2):
        move(engine, k, 1.0)
    engine.advance(5.0)  # 4 s of 10 s done
    engine.set_points([0], [0])
    engine.advance(100.0)
    ended = engine.drain()
    order = np.argsort(ended["workload"])
    np.testing.assert_allclose(ended["computed"][order], [1.0 + 4.0 + 6.0 * 2.0, 1.0 + 4.0 + 6.0 * 1.5])
    on = 4.0 * 30.0 + 9.0 * 20.0 + 3.0 * 15.0  # both cores at 1 GHz, both at 0.5 GHz, one of them
    np.testing.assert_allclose(engine.ledger().energy, [on + 10.0 * (100.0 - 16.0)])


def test_work_that_comes_while_the_quota_is_used_up_takes_as_long_as_at_any_time():
    loads = [every(1000.0, work * CLOCK, sensitivity=c) for work, c in ((0.06, 0.0), (0.02, 0.5), (0.01, 0.0))]
    engine = alone(host(scaling=MachineScaling(POINTS, USERSPACE), quota=Quota(0.2, 0.05)), *loads)
    engine.set_points([0], [0])
    for k, at in enumerate((1.0, 1.07, 1.08)):  # the first one uses up the quota until 1.05
        move(engine, k, at)
    engine.advance(1.15)
    np.testing.assert_allclose(engine.step(0.0).placed["left"], np.array([0.01, 0.02, 0.01]) * CLOCK)
    engine.set_points([0], [2])  # while the cores stand still
    engine.advance(3.0)
    ended = engine.drain()
    order = np.argsort(ended["workload"])
    np.testing.assert_allclose(ended["computed"][order], [1.21, 1.23, 1.24])


def test_ondemand_judges_the_use_by_the_clock_also_while_the_quota_is_used_up():
    scaling = MachineScaling(POINTS, ONDEMAND, period=0.08, threshold=0.9)
    engine = alone(host(scaling=scaling, quota=Quota(0.2, 0.15)), every(1000.0, 10 * CLOCK))
    move(engine, 0, 1.0)
    engine.advance(1.1)
    assert engine.state.hosts["frequency"][0] == CLOCK
    engine.advance(1.17)  # used for 0.07 s of 0.08 s, then stopped: 87.5 %, more than 90 % of 0.75 GHz
    assert engine.state.hosts["frequency"][0] == CLOCK


def test_unknown_operating_points_are_refused():
    engine = alone(host(scaling=MachineScaling(POINTS)), every(1.0, CLOCK))
    with pytest.raises(ValueError, match="node 0 has 3 operating points, none of them is 3"):
        engine.set_points([0], [3])
    with pytest.raises(ValueError, match="has 0 operating points"):
        alone(host(), every(1.0, CLOCK)).set_points([0], [0])


def test_ondemand_speeds_up_under_load_and_slows_down_after_it():
    engine = alone(host(scaling=MachineScaling(POINTS, ONDEMAND, period=0.5)), every(1000.0, 10 * CLOCK))
    start = engine.state.due[0]
    clocks = []
    for until in np.arange(0.25, 20.0, 0.5):
        engine.advance(start + until)
        clocks.append(engine.state.hosts["frequency"][0] / CLOCK)
    assert clocks[0] == 0.5  # before the first look
    assert clocks[1] == 1.0
    ended = engine.drain()
    assert ended["computed"][0] - ended["started"][0] == pytest.approx(0.5 + 9.75)
    assert clocks[-1] == 0.5
    assert np.isfinite(engine.state.due).sum() == 1  # the governor sleeps: only the source's next task is due


def test_ondemand_takes_the_slowest_clock_below_its_threshold():
    # half of a core at 1 GHz: 100 % at 0.5 GHz, 67 % at 0.75 GHz
    engine = alone(host(scaling=MachineScaling(POINTS, ONDEMAND, period=1.0)), every(0.01, 0.005 * CLOCK))
    engine.advance(100.0)
    assert engine.state.hosts["frequency"][0] == 0.75 * CLOCK


def test_decisions_per_interval_see_machines_and_move_tasks_between_them():
    gpu = Kind(cores=1, clock=CLOCK, memory=4.0, accelerators=(MachineAccelerator(GPU, 1, FLOPS),))
    plain = Kind(cores=4, clock=CLOCK)
    load = every(1000.0, CLOCK, accelerator=GPU, operations=(0, 10 * FLOPS, 0.0), memory=3.0)
    made = system(["edge"] * 3, [gpu, gpu, plain], [load], [(2, 0)], [(0, 1, 8e9, 0.0), (1, 2, 8e9, 0.0)])
    engine = Engine(made, 1, INTERVAL)
    view = engine.step(float(engine.state.due[0]))
    assert view.reach[0].tolist()[2] == np.inf
    assert np.isfinite(view.reach[0][:2]).all()
    assert (view.pending["operations"][0], view.pending["memory"][0]) == (10 * FLOPS, 3.0)
    serial, start = view.pending["serial"], engine.now
    view = engine.step(5.0, Decisions(serial, [0]))  # 1 s on the core, 4 s on the unit
    assert view.hosts["memory"].tolist() == [1.0, 4.0, np.inf]
    assert view.placed["left"].tolist() == [0.0]
    view = engine.step(10.0, Decisions(serial, [1]))
    assert view.hosts["memory"].tolist() == [4.0, 4.0, np.inf]
    assert view.ended["computed"] - start == pytest.approx([11.0])
    np.testing.assert_allclose(engine.resources().accelerator_busy, [4.0, 6.0])


def test_work_that_is_told_holds_for_the_next_tasks_until_it_is_taken_back():
    engine = alone(host(cores=9), every(1.0, CLOCK), every(1.0, CLOCK))
    engine.advance(2.5)
    engine.set_work([0], [1], [3.0 * CLOCK])
    engine.advance(4.5)
    engine.set_work([0], [1], [np.nan])
    engine.set_work([0], [7], [CLOCK])  # nobody makes such tasks
    ended = finish(engine, 6.5)
    reported = (ended["workload"] == 1) & (ended["created"] > 2.5) & (ended["created"] <= 4.5)
    assert reported.sum() == 2
    np.testing.assert_allclose(ended["computed"] - ended["started"], np.where(reported, 3.0, 1.0))
    with pytest.raises(ValueError, match="finite number of cycles"):
        engine.set_work([0], [1], [-1.0])

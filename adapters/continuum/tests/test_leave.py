"""Tasks that live nodes really run are not simulated besides, and their scheduler is the model's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosim.adapters.continuum.tests.test_continuum_adapter import (
    CLOUD,
    EDGE,
    UAV,
    SlotRange,
    begin,
    load,
    run,
    scene,
    served,
)
from cosim.adapters.live.policy import HostPolicy
from cosim.contract.adapter import Inputs
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame
from cosim.contract.signals import TASK, TASK_STATUS
from cosim.engine.continuum.arrivals import TaskSource, engine_seed

LOADS = (load(SlotRange(2)), load(SlotRange(2), name="track"))


@pytest.mark.parametrize(("share", "expected"), [(0.0, {0, 1}), (1.0, {0})])
def test_what_live_nodes_take_makes_no_tasks(share, expected):
    world = scene(workloads=LOADS)
    columns = {"workload": np.array([1], np.int32), "share": np.array([share])}

    def heard(time):
        return {**served(time), "taken": [Frame("taken", time, np.array([2], np.int32), columns)]}

    tasks, _, _ = run(begin(world, leave=["track"]), world, 10, heard)
    assert set(tasks["workload"].tolist()) == expected


def test_a_workload_that_is_not_there_is_named():
    with pytest.raises(ScenarioError, match="there is no workload 'tracks'"):
        begin(scene(workloads=LOADS), leave=["tracks"])


SCHEDULERS = ["nearest", "least-loaded", "cloud", "random", "round-robin", "hybrid", "edf", "priority", "fuzzy"]


@pytest.mark.parametrize("name", [*SCHEDULERS, "cosim.adapters.continuum.tests.test_leave:odd"])
def test_a_policy_outside_has_the_engines_answers(name):
    """One task at a time, so that hosts are idle in both: the same host for each."""
    other = replace(EDGE, id="edge-2", clock=1e9)
    world = scene(EDGE, CLOUD, UAV, other, workloads=(load(SlotRange(2), rate=0.5, work=_fixed(1e6)),))
    tasks, _, _ = run(begin(world, scheduler=name), world, 60, served)
    outside = replace(world, real="netns")
    left = begin(outside, scheduler=name, leave=["detect"])
    policy = HostPolicy(name, 2.0, outside)
    chosen, source = [], TaskSource(engine_seed((1, 2, 3)), world.workloads[0], 0, 2)
    for time in range(61):
        chosen += [policy.ask(0, world.workloads[0], task, {}, lambda _: True) for task in source.until(float(time))]
        frames = {frame.signal: frame for frame in left.step(float(time), Inputs(served(float(time))))}
        policy.heard([frames["reach"]])
    assert policy.knows(2)
    assert len(tasks["host"]) >= 29
    assert chosen[: len(tasks["host"])] == tasks["host"].tolist()


def _fixed(value):
    return replace(load(SlotRange(2)).work, law="fixed", a=value)


def odd(request, reach, hosts):
    """The hosts in reach by the request's chance."""
    able = [k for k in range(len(hosts)) if hosts[k]["up"] and reach[k] < float("inf")]
    return able[int(request.chance * len(able))]


def test_reach_is_told_of_devices_that_are_real_only():
    world = replace(scene(workloads=LOADS), real="netns")
    made = begin(world, leave=["track"])
    reach = _reach(made)
    assert reach.slot.tolist() == [2, 2]
    assert reach["host"].tolist() == [0, 1]
    assert reach["serving"].tolist() == [0, 0]
    assert reach["transfer"][0] == 0.0  # the serving node computes
    assert reach["transfer"][1] == pytest.approx(0.02 + 100e3 * 8 / 100e6)
    empty = _reach(begin(scene(workloads=LOADS), leave=["track"]))
    assert len(empty) == 0
    policy = HostPolicy("nearest", 2.0, world)
    for frame, known in ((reach, True), (empty, False)):  # as when the last device has left
        policy.heard([frame])
        assert policy.knows(2) is known


def _reach(adapter):
    return {frame.signal: frame for frame in adapter.step(0.0, Inputs(served(0.0)))}["reach"]


def test_a_scheduler_that_learns_hears_how_real_tasks_ended():
    """`bandit` takes the fastest host at first; after slow tasks there it tries the other one."""
    world = replace(scene(EDGE, CLOUD, UAV, workloads=(load(SlotRange(2), work=_fixed(1e6)),)), real="netns")
    left, policy = begin(world, scheduler="bandit", leave=["detect"]), HostPolicy("bandit", 2.0, world)
    source, chosen = TaskSource(engine_seed((1, 2, 3)), world.workloads[0], 0, 2), []
    for time in range(12):
        for task in source.until(float(time)):
            host = policy.ask(0, world.workloads[0], task, {}, lambda _: True)
            chosen.append(host)
            columns = {
                "task": 0, "workload": 0, "host": host, "status": TASK_STATUS.index("completed"), "created": task.at,
                "uploaded": task.at, "started": task.at, "computed": task.at + 50.0, "ended": task.at + 50.0,
                "input": 1.0, "output": 1.0, "work": 1e6, "deadline": 1.0, "value": 0.0, "late": True,
            }  # fmt: skip
            found = {one.name: np.array([columns[one.name]], one.dtype) for one in TASK.columns}
            policy.learn(Frame("task", float(time), np.array([task.device], np.int32), found))
        frames = {frame.signal: frame for frame in left.step(float(time), Inputs(served(float(time))))}
        policy.heard([frames["reach"]])
    assert len(set(chosen)) == 2

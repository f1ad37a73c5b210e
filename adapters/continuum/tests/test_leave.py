"""Workloads that live nodes really run are not simulated besides, but only where nodes are real."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.continuum.tests.test_continuum_adapter import SlotRange, begin, load, run, scene, served
from cosim.contract.errors import ScenarioError

LOADS = (load(SlotRange(2)), load(SlotRange(2), name="track"))


@pytest.mark.parametrize(("real", "expected"), [("", {0, 1}), ("netns", {0}), ("containers", {0})])
def test_what_is_left_makes_no_tasks_where_nodes_are_real(real, expected):
    world = replace(scene(workloads=LOADS), real=real)
    tasks, _, _ = run(begin(world, leave=["track"]), world, 10, served)
    assert set(tasks["workload"].tolist()) == expected


def test_a_workload_that_is_not_there_is_named():
    with pytest.raises(ScenarioError, match="there is no workload 'tracks'"):
        begin(scene(workloads=LOADS), leave=["tracks"])

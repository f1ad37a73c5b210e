"""What a scenario says of nodes and nobody takes up is said when it is checked."""

from __future__ import annotations

import pytest

from cosim.plan.compile import compile_plan
from cosim.scenario.load import load
from tests.unit.launch.worlds import EDGE, plan, write

LIVE = EDGE.replace("runs: vedgenode", "runs: vedgenode, live: {}")


def warnings(path, *overrides):
    return compile_plan(load(path, list(overrides))).warnings


def test_a_live_node_without_the_adapter_is_warned_of(tmp_path):
    path = write(tmp_path, one=LIVE, two=LIVE)
    (said,) = warnings(path)
    assert "'one' and 1 more are 'live'" in said
    assert "live: {}" in said
    assert plan(tmp_path / "with", adapters=", live: {}", one=LIVE).warnings == ()


@pytest.mark.parametrize(("nodes", "count"), [("process", 0), ("netns", 1), ("containers", 1)])
def test_real_nodes_without_a_network_are_warned_of(tmp_path, nodes, count):
    path = write(tmp_path, one=EDGE, two=EDGE)
    path.write_text(path.read_text().replace(", network: {}", ""))
    said = warnings(path, f"run.nodes={nodes}")
    assert len(said) == count
    assert all("network: {}" in one and "'one'" in one for one in said)

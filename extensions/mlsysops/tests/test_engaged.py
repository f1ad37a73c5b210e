"""A policy file of MLSysOps orders a drone out by deploying a component on it, and back by removing it."""

import shutil
from pathlib import Path

import pytest

import cosim

pytest.importorskip("pandas")

FARM = Path(__file__).resolve().parents[1] / "scenarios" / "smart-farm-mlsysops"
POLICY = """
import time


def initialize():
    return {
        "telemetry": {"metrics": [], "system_scrape_interval": "1s"}, "mechanisms": ["fluidity"], "packages": [],
        "configuration": {"analyze_interval": "1s"}, "scope": "application", "begun": time.time(), "wanted": None,
    }


async def analyze(context, application, system, mechanisms, telemetry, ml_connector):
    components = mechanisms["fluidity"]["state"]["applications"]["weeding"]["components"]
    on_board = components["weed-detection"]["node_placed"] == "uav-1"
    out = 20.0 <= time.time() - context["begun"] < 60.0
    context["wanted"] = None if out == on_board else "deploy" if out else "remove"
    return context["wanted"] is not None, context


async def plan(context, application, system, mechanisms, telemetry, ml_connector):
    action = [{"action": context["wanted"], "host": "uav-1"}]
    return {"fluidity": {"name": "weeding", "deployment_plan": {"weed-detection": action}}}, context
"""


def test_a_drone_flies_while_its_component_is_deployed(tmp_path):
    farm = tmp_path / "farm"
    shutil.copytree(FARM, farm)
    (farm / "policies" / "policy-quality.py").write_text(POLICY)
    engage = (
        "{drone: uav-1, target: tractor, controller: farm-house, behind: 6 m, height: 15 m, fence: 400 m, "
        "engage: {when: 'drone.placement.components >= 1', hysteresis: 1 s}, "
        "disengage: {when: 'drone.placement.components < 1', hysteresis: 1 s}}"
    )
    outcome = cosim.run(
        farm / "scenario.cosim.yaml", overrides=["run.duration=90 s", f"adapters.vehicle.engage=[{engage}]"],
        out=tmp_path / "runs",
    )  # fmt: skip
    assert outcome.error is None
    run = cosim.load(outcome.folder)
    placed = dict(run.sql("SELECT \"time\", components FROM placement WHERE node = 'uav-1'").fetchall())
    assert {time for time, count in placed.items() if count} == {float(t) for t in range(20, 60)}
    heights = dict(run.sql("SELECT \"time\", z FROM mobility WHERE node = 'uav-1'").fetchall())
    rising = min(time for time, z in heights.items() if z > 1.0)
    assert 21.0 <= rising < 30.0
    assert max(heights.values()) > 14.0
    assert heights[90.0] < max(heights.values())

"""Vehicles, Wi-Fi interfaces, containers and live machines of a scenario file."""

from __future__ import annotations

import pytest

from cosim.adapters.vehicle.keys import Pack, Vehicle
from cosim.contract.errors import ScenarioError
from cosim.contract.node_keys import Live, Software
from cosim.contract.signals import FAILSAFE, VEHICLE_MODE
from cosim.physics.vehicles.layout import FAILSAFES, MODES
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan

TEXT = """
apiVersion: cosim/v1
kind: Scenario
name: farm
run: {duration: 10 s}
adapters: {continuum: {}, vehicle: {mavlink: false}}
kinds:
  drone:
    kind: uav
    vehicle: {frame: copter, battery: {capacity: 4500 mAh}}
    wifi: {}
    runs: vuav
nodes:
  uav-[1..2]: {kind: drone, at: [0 m, 0 m]}
  tractor: {kind: rover, at: [5 m, 0 m], vehicle: {frame: rover, steering: ackermann, mass: 3 t, system: 7}}
  edge: {kind: edge, cpu: 4 x 2 GHz, live: {key: lab}, missing: wait, runs: {image: vedgenode, ports: [8080]}}
"""


def test_they_become_records(tmp_path):
    (tmp_path / "s.cosim.yaml").write_text(TEXT, encoding="utf-8")
    nodes = {node.id: node for node in compile_plan(load(tmp_path / "s.cosim.yaml")).scene.nodes}
    assert Vehicle.of(nodes["uav-2"]) == Vehicle(frame="copter", battery=Pack(capacity="4500 mAh"))
    assert nodes["uav-1"].wifi is not None
    assert nodes["uav-1"].wifi.carrier == 5.18e9
    assert nodes["uav-1"].runs == Software(image="vuav")
    assert Vehicle.of(nodes["tractor"]) == Vehicle(frame="rover", steering="ackermann", mass="3 t", system=7)
    assert not nodes["edge"].says("vehicle")
    assert nodes["edge"].live == Live(key="lab")
    assert nodes["edge"].missing == "wait"
    assert nodes["edge"].runs == Software(image="vedgenode", ports=(8080,))
    assert nodes["uav-1"].missing == "model"


def test_real_nodes_live_in_real_time(tmp_path):
    (tmp_path / "s.cosim.yaml").write_text(TEXT, encoding="utf-8")
    simulated, real = (
        compile_plan(load(tmp_path / "s.cosim.yaml", [f"run.nodes={where}"])) for where in ("process", "netns")
    )
    assert (simulated.pacing, simulated.scene.real) == (0.0, "")
    assert (real.pacing, real.scene.real) == (1.0, "netns")


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("{frame: rover, dynamics: rigid}", "for copters"),
        ("{frame: copter, autopilot: external}", "go together"),
        ("{frame: copter, battery: {low: 5 %}}", "above 'low'"),
        ("{frame: plane}", "copter"),
    ],
)
def test_impossible_vehicles_are_refused(tmp_path, block, said):
    text = TEXT.replace("{frame: copter, battery: {capacity: 4500 mAh}}", block)
    (tmp_path / "s.cosim.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=said):
        load(tmp_path / "s.cosim.yaml")


def test_signals_and_dynamics_use_the_same_words():
    assert VEHICLE_MODE == MODES
    assert FAILSAFE == FAILSAFES

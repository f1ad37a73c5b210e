"""Swarms of a scenario: refused when they cannot keep apart, and told about in the summary."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cosim.adapters.vehicle import ADAPTER
from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.keys import Vehicle
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import ScenarioError

COPTER, ROVER = Vehicle(frame="copter").written(), Vehicle(frame="rover").written()
NODES = (*(Node(f"uav-{k}", "uav", "device", (6.0 * k, 0.0, 0.0), keys=(COPTER,)) for k in range(4)),
         Node("close", "uav", "device", (1.0, 0.0, 0.0), keys=(COPTER,)),
         Node("car", "rover", "device", (0.0, 30.0, 0.0), keys=(ROVER,)))  # fmt: skip
VEE = {"formation": {"shape": "vee", "spacing": "5 m", "course": [["9 m", "20 m", "12 m"], ["9 m", "60 m", "12 m"]]}}
ALL = [f"uav-{k}" for k in range(4)]


def started(tmp_path, **config):
    adapter = ADAPTER.build(VehicleConfig.model_validate({"substep": "20 ms", **config}))
    adapter.start(Context("vehicle", Scene.build(NODES), 1.0, 90.0, (3,), str(tmp_path), str(tmp_path)))
    return adapter


def test_a_swarm_takes_off_flies_its_formation_and_keeps_apart(tmp_path):
    adapter = started(tmp_path, gusts="4 m/s", swarms={"team": {"members": ALL, **VEE}})
    for time in range(61):
        mobility, *_ = adapter.step(float(time), Inputs({}, []))
    assert mobility["z"][:4] == pytest.approx([12.0] * 4, abs=1.0)
    leader = mobility["y"][:4].max()
    assert leader == pytest.approx(60.0, abs=1.5)
    assert mobility["z"][4] == 0.0
    reported = adapter.finish()["swarms"]["team"]
    assert reported["members"] == 4
    assert reported["nearest"] >= reported["separation"] == 2.0


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"swarms": {"team": {"members": ["uav-0", "close"], **VEE}}}, "nearer to each other than 3.5 m"),
        ({"swarms": {"team": {"members": ["uav-0", "car"], **VEE}}}, "does not fly"),
        ({"swarms": {"team": {"members": ["uav-0", "nobody"], **VEE}}}, "is no vehicle"),
        ({"swarms": {"a": {"members": ALL, **VEE}, "b": {"members": ALL[:2], **VEE}}}, "besides"),
        ({"swarms": {"a": {"members": ALL, **VEE}}, "missions": {"uav-1": [["0 m", "0 m"]]}}, "a mission besides"),
        (
            {"swarms": {"a": {"members": ALL, "relay": {"begin": ["0 m", "0 m"], "end": ["9 m", "0 m"]}}}},
            "chain would be 1.8 m apart",
        ),
    ],
)
def test_swarms_that_cannot_be_are_refused(tmp_path, config, words):
    with pytest.raises(ScenarioError, match=words):
        started(tmp_path, **config)


@pytest.mark.parametrize(
    "part",
    [
        {"members": ALL},
        {"members": ALL[:1], **VEE},
        {"members": ["uav-0", "uav-0"], **VEE},
        {"members": ALL, "formation": {**VEE["formation"], "spacing": "2 m"}},
        {"members": ALL, **VEE, "relay": {"begin": ["0 m", "0 m"], "end": ["90 m", "0 m"]}},
    ],
)
def test_parts_that_contradict_themselves_are_refused(part):
    with pytest.raises(ValidationError):
        VehicleConfig.model_validate({"swarms": {"team": part}})

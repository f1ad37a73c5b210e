"""Clients that no one here wrote fly the emulator: connect, parameters, arm, fly, missions, return, land, battery."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(600)]
PERSONAS, SPEEDS = ("ardupilot", "px4"), (1, 5)
FLIGHT = {
    "connect",
    "parameters",
    "ready",
    "arm",
    "takeoff",
    "goto",
    "upload",
    "download",
    "mission",
    "return",
    "disarmed",
}


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("persona", PERSONAS)
def test_pymavlink(fly, persona, speed):
    assert FLIGHT | {"land", "battery"} <= set(fly("pymavlink", persona, speed))


@pytest.mark.parametrize("speed", SPEEDS)
def test_pymavlink_drives_a_rover(fly, speed):
    steps = fly("pymavlink", "ardupilot", speed, frame="rover", script="rover")
    assert {"connect", "arm", "upload", "mission"} <= set(steps)


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("persona", PERSONAS)
def test_mavsdk_3(fly, persona, speed):
    steps = set(fly("mavsdk3", persona, speed))
    assert FLIGHT | {"land", "battery"} <= steps
    if persona == "px4":  # the high-level mission plugin does not suit ArduPilot's item 0
        assert {"plan upload", "plan finished"} <= steps


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("persona", PERSONAS)
def test_mavsdk_4(fly, persona, speed):
    assert {"connect", "ready", "arm", "takeoff", "goto", "return", "land", "disarmed"} <= set(
        fly("mavsdk4", persona, speed)
    )


@pytest.mark.parametrize("speed", SPEEDS)
def test_mavproxy(fly, speed):
    assert FLIGHT | {"land", "log", "battery"} <= set(fly("mavproxy", "ardupilot", speed))


@pytest.mark.parametrize("speed", SPEEDS)
def test_dronekit(fly, speed):
    assert FLIGHT | {"land", "battery"} <= set(fly("dronekit", "ardupilot", speed))

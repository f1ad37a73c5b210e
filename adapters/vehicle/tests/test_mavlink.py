"""MAVLink endpoints on the bus: the plan of ids, and a ground station that flies a drone."""

from __future__ import annotations

import logging
import socket

import pytest

from adapters.vehicle import ADAPTER
from adapters.vehicle.config import VehicleConfig
from cosim.bus.adapter import Context, Inputs
from cosim.errors import ScenarioError, SetupError
from cosim.plan.entities import Geo, Node, Scene
from cosim.plan.reality import Vehicle

mavutil = pytest.importorskip("pymavlink.mavutil", reason="needs pymavlink (extra: vehicles)")
GEO = Geo(39.36, 22.95, 60.0)


def node(name, **vehicle):
    return Node(name, "uav", "device", (0.0, 0.0, 0.0), vehicle=Vehicle(**{"frame": "copter", **vehicle}))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def started(*nodes, geo=GEO, **mavlink):
    config = {"substep": "20 ms", "mavlink": {"udp": None, "tcp": None, **mavlink}}
    adapter = ADAPTER.build(VehicleConfig.model_validate(config))
    adapter.start(Context("vehicle", Scene.build(nodes, geo=geo), 0.2, 100.0, (1,), ".", "."))
    return adapter


def test_a_ground_station_flies_a_drone():
    port = free_port()
    adapter = started(node("uav-1"), tcp=port)
    station = mavutil.mavlink_connection(f"tcp:127.0.0.1:{port}", source_system=255)
    try:
        time, sent, highest = 0.0, 0, 0.0
        while time < 60.0 and highest < 9.0:
            frames = adapter.step(time, Inputs())
            highest = max(highest, float(frames[0]["z"][0]))
            while station.recv_match(blocking=False) is not None:
                pass
            if time > 15.0 and sent == 0:  # GUIDED = 4, then arm
                station.mav.set_mode_send(1, 1, 4)
                station.mav.command_long_send(1, 1, 400, 0, 1, 0, 0, 0, 0, 0, 0)
                sent = 1
            elif time > 17.0 and sent == 1:
                station.mav.command_long_send(1, 1, 22, 0, 0, 0, 0, 0, 0, 0, 10.0)
                sent = 2
            time = round(time + 0.2, 1)
        assert highest >= 9.0
        assert adapter.finish()["mavlink"] == {"uav-1": 1}
    finally:
        station.close()
        adapter.close()
        adapter.close()


def test_system_ids_are_those_of_the_scenario_or_free_ones(caplog):
    with caplog.at_level(logging.WARNING):
        adapter = started(node("a"), node("b", system=1), node("c", frame="rover"))
    try:
        assert adapter.finish()["mavlink"] == {"a": 2, "b": 1, "c": 3}
        assert "system id" in caplog.text
    finally:
        adapter.close()


def test_what_cannot_be_is_refused():
    with pytest.raises(ScenarioError, match="'b' and 'a' have the MAVLink system id 4 both"):
        started(node("a", system=4), node("b", system=4))
    with pytest.raises(ScenarioError, match="need the scenario's origin"):
        started(node("a"), geo=None)
    with pytest.raises(SetupError, match="'autopilot: ardupilot-json' has no backend"):
        started(node("a", autopilot="ardupilot-json"))

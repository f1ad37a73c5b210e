"""MAVLink endpoints on the bus: the plan of ids, and a ground station that flies a drone."""

from __future__ import annotations

import contextlib
import json
import logging
from dataclasses import replace

import pytest
import zmq

from cosim.adapters.vehicle import ADAPTER
from cosim.adapters.vehicle.config import MavlinkPart, VehicleConfig
from cosim.adapters.vehicle.keys import Vehicle
from cosim.adapters.vehicle.mavlink import Mavlink
from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Geo, Node, Scene
from cosim.contract.errors import ScenarioError
from cosim.contract.geo import to_ecef
from cosim.contract.node_keys import Software
from cosim.physics.vehicles import VehicleFleet
from tests.ports import free_port

mavutil = pytest.importorskip("pymavlink.mavutil")
GEO = Geo(39.36, 22.95, 60.0)


def node(name, **vehicle):
    return Node(name, "uav", "device", (0.0, 0.0, 0.0), keys=(Vehicle(**{"frame": "copter", **vehicle}).written(),))


def started(*nodes, geo=GEO, aeroloop=None, scratch="", missions=None, **mavlink):
    config = {"substep": "20 ms", "mavlink": {"udp": None, "tcp": None, **mavlink}, "aeroloop": aeroloop}
    config["missions"] = missions or {}
    adapter = ADAPTER.build(VehicleConfig.model_validate(config))
    adapter.start(Context("vehicle", Scene.build(nodes, geo=geo), 0.2, 100.0, (1,), ".", scratch))
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


def test_a_run_keeps_the_dataflash_logs_of_its_vehicles(tmp_path):
    logs = []
    for number in range(2):
        scratch = tmp_path / str(number)
        adapter = started(node("uav-1"), scratch=str(scratch), missions={"uav-1": [["20 m", "0 m", "10 m"]]})
        seen = {}
        for k in range(150):
            frames = adapter.step(0.2 * k, Inputs())
            seen[round(0.2e6 * k)] = float(frames[0]["z"][0])
        adapter.close()
        (path,) = scratch.glob("uav-1/*.BIN")
        logs.append(path.read_bytes())
    assert logs[0] == logs[1]
    log, heights = mavutil.mavlink_connection(str(path)), {}
    while (message := log.recv_match(type="POS")) is not None:
        heights[message.TimeUS] = message.RelHomeAlt
    log.close()
    both = heights.keys() & seen.keys()
    assert len(both) > 15
    assert max(heights.values()) > 9.5
    assert [heights[at] for at in both] == pytest.approx([seen[at] for at in both], abs=1e-4)


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


@pytest.mark.parametrize("way", ["real", "json"])
def test_vehicles_flown_elsewhere_have_their_own_endpoints(way, tmp_path):
    away = node("b", autopilot="ardupilot-json") if way == "json" else replace(node("b"), runs=Software(image="vuav"))
    scene = Scene.build((node("a"), away, node("c")), geo=GEO, real="netns" if way == "real" else "")
    context = Context("vehicle", scene, 0.2, 100.0, (1,), ".", str(tmp_path))
    roster = VehicleRoster(context, VehicleConfig())
    fleet = VehicleFleet(roster.airframes, roster.homes)
    port = free_port()
    made = Mavlink(context, fleet, roster, MavlinkPart(udp=None, tcp=port))
    made.close()
    # numbers and ports are those that they have when all are flown here
    assert [(slot.name, slot.sysid, slot.tcp.port) for slot in made.slots] == [("a", 1, port), ("c", 3, port + 20)]


def test_positions_of_all_are_published_as_aeroloop_takes_them():
    at = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(ScenarioError, match="need the scenario's origin"):
        started(node("a"), geo=None, aeroloop=at)
    adapter = started(node("a"), node("r", frame="rover"), node("b"), aeroloop=at)
    with zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
        subscriber.setsockopt(zmq.LINGER, 0)
        subscriber.setsockopt(zmq.RCVTIMEO, 50)
        subscriber.subscribe(b"")
        subscriber.connect(at)
        got, time = [], 0.0
        while len(got) < 3 and time < 100.0:
            adapter.step(time, Inputs())
            time = round(time + 0.2, 1)
            with contextlib.suppress(zmq.Again):
                while True:
                    got.append(subscriber.recv_multipart())
    adapter.close()
    assert [topic for topic, _ in got[:3]] == [b"UAV1", b"ROV1", b"UAV2"]
    x, y, z = to_ecef(GEO.latitude, GEO.longitude, GEO.height)
    assert json.loads(got[0][1]) == pytest.approx({"x": float(x), "y": float(y), "z": float(z)})

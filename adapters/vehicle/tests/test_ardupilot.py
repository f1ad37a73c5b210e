"""Vehicles under an ArduPilot of their own, for which a small program stands in."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading

import numpy as np
import pytest

from cosim.adapters.vehicle import ADAPTER
from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.keys import Vehicle
from cosim.autopilot.geodesy import Ground
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Geo, Node, Scene
from cosim.contract.errors import RunError, ScenarioError, SetupError
from cosim.contract.node_keys import Software
from cosim.physics.vehicles import Copter
from tests.ports import free_port
from tests.unit.autopilot.stand_in import Program

HOME = (10.0, 20.0, 5.0)


def drone(missing="model", **changes):
    vehicle = Vehicle(**{"frame": "copter", "autopilot": "ardupilot-json", **changes})
    return Node("uav", "uav", "device", HOME, keys=(vehicle.written(),), missing=missing)


ROVER = Node("rover", "rover", "device", (0.0, 0.0, 0.0), keys=(Vehicle(frame="rover").written(),))


class Run:
    """An adapter that is stepped every half second, with the vehicles' rows by name of column."""

    def __init__(self, *nodes, port=0, geo=None, ready="20 s", real="", patience="3 s", arming="60 s", **config):
        self.time = -0.5
        at = f"127.0.0.1:{port or free_port(socket.SOCK_DGRAM)}"
        reported = {"ardupilot": {"bind": at, "arming": arming}, **config}
        reported["real"] = {"ready": ready, "patience": patience}
        self.adapter = ADAPTER.build(VehicleConfig.model_validate(reported))
        scene = Scene.build(nodes, geo=geo, real=real)
        self.adapter.start(Context("vehicle", scene, 0.5, 900.0, (3,), ".", "."))

    def to(self, until):
        while self.time < until - 0.25:
            self.time += 0.5
            frames = self.adapter.step(self.time, Inputs())
        self.row = {**frames[0].columns, **frames[1].columns}
        return self

    def place(self, k=0):
        return [float(self.row[axis][k]) for axis in "xyz"]


@contextlib.contextmanager
def programs(*made):
    try:
        yield made
    finally:
        for program in made:
            program.close()


@pytest.mark.slow
def test_it_flies_on_our_physics_beside_our_own_vehicles(caplog):
    port = free_port(socket.SOCK_DGRAM)
    mission = {"rover": [["20 m", "0 m"]]}
    with programs(Program(port, (8.0, 5.0, -10.0))), caplog.at_level(logging.WARNING):
        run = Run(drone(heading="0 deg"), ROVER, port=port, geo=Geo(39.36, 22.95, 60.0), missions=mission)
        run.to(0.0)
        assert run.place() == pytest.approx(HOME)
        run.to(20.0)
        run.adapter.close()
        run.adapter.close()
    # 8 m north, 5 m east and 10 m above home
    assert run.place() == pytest.approx([15.0, 28.0, 15.0], abs=0.3)
    assert run.row["armed"].tolist()[0]
    assert run.row["power"][0] > 50.0
    assert 0.9 < run.row["charge"][0] < 1.0
    assert run.place(1) == pytest.approx([20.0, 0.0, 0.0], abs=0.5)
    found = run.adapter.finish()
    assert found["absences"] == {"uav": 0}
    assert found["vehicles"]["uav"]["travelled"] > 13.0
    assert f"uav  UDP 127.0.0.1:{port}  arducopter --model JSON:127.0.0.1" in caplog.text
    assert "--home 39.36018" in caplog.text


def test_wind_and_battery_are_those_of_the_scenario():
    port = free_port(socket.SOCK_DGRAM)
    node = drone()
    with programs(Program(port, (0.0, 0.0, -5.0))):
        run = Run(node, port=port, wind=["6 m/s", "0 m/s", "0 m/s"]).to(10.0)
        run.adapter.close()
    assert run.row["roll"][0] < -1.0  # against the wind from the left; it looks north
    assert run.row["x"][0] - HOME[0] > 0.3  # its controller has no integral part


def test_one_that_goes_is_held_and_one_that_starts_again_begins_at_home(caplog):
    port = free_port(socket.SOCK_DGRAM)
    first = Program(port, (0.0, 12.0, -6.0))
    with programs(first):
        run = Run(drone(), port=port, patience="400 ms").to(8.0)
    before = run.place()
    assert before[2] > 9.0
    run.to(12.0)
    assert run.place() == pytest.approx(before, abs=3.0)  # it brakes and holds
    assert run.row["mode"][0] == 1
    with programs(Program(port, (0.0, 0.0, -3.0))):
        for _ in range(400):  # until it has come
            run.to(run.time + 0.5)
            if np.hypot(run.row["x"][0] - HOME[0], run.row["y"][0] - HOME[1]) < 1.0:
                break
        run.to(run.time + 8.0)
    assert run.place() == pytest.approx([10.0, 20.0, 8.0], abs=0.3)
    assert run.adapter.finish()["absences"]["uav"] >= 1
    run.adapter.close()


def test_one_that_stood_still_goes_on_from_where_its_vehicle_is():
    port = free_port(socket.SOCK_DGRAM)
    with programs(Program(port, (0.0, 20.0, -6.0))) as (program,):
        run = Run(drone(), port=port, patience="400 ms").to(6.0)
        program.free.clear()
        held = run.to(12.0).place()
        assert run.adapter.finish()["absences"]["uav"] >= 1
        program.free.set()
        jumps = [held]
        for _ in range(400):
            jumps.append(run.to(run.time + 0.5).place())
            if run.row["mode"][0] == 0:
                break
        run.to(run.time + 12.0)
        assert max(np.linalg.norm(np.diff(jumps, axis=0), axis=1)) < 2.0
        assert run.place() == pytest.approx([30.0, 20.0, 11.0], abs=0.3)
    run.adapter.close()


def test_one_that_flies_into_a_wall_gets_back_the_place_at_which_it_was_stopped(tmp_path):
    geo, seen = Geo(39.36, 22.95, 60.0), []
    ground = Ground((geo.latitude, geo.longitude, geo.height))
    corners = [ground.place(x, y, 0.0) for x, y in ((-10, 26), (30, 26), (30, 27), (-10, 27), (-10, 26))]
    ring = [[corner.longitude, corner.latitude] for corner in corners]
    shape = {"type": "Polygon", "coordinates": [ring]}
    wall = {"type": "Feature", "properties": {"height": 40.0}, "geometry": shape}
    (tmp_path / "wall.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [wall]}))
    port = free_port(socket.SOCK_DGRAM)
    with programs(Program(port, (20.0, 0.0, -6.0))) as (program,):
        outputs = program.loop.outputs

        def watched(state):
            seen.append(state["position"])
            outputs(state)

        program.loop.outputs = watched
        run = Run(drone(heading="0 deg"), port=port, geo=geo, obstacles=str(tmp_path / "wall.geojson")).to(12.0)
        run.adapter.close()
    north = np.array(seen)[:, 0]
    body = float(Copter().row()["body"][0])
    assert run.row["y"][0] == pytest.approx(26.0 - body, abs=0.1)  # it still leans against the wall
    # what its own physics went on with until the run stopped it: one step of 0.5 s at 2 m/s at most
    assert north.max() < 6.0 - body + 1.0
    assert np.median(north[-200:]) == pytest.approx(run.row["y"][0] - HOME[1], abs=0.6)
    assert run.row["armed"][0]  # 2 m/s do not break it


def test_one_that_never_comes_is_flown_here_or_ends_the_run():
    run = Run(drone(), ready="100 ms").to(2.0)
    assert run.place() == pytest.approx(HOME)
    run.adapter.close()
    with pytest.raises(RunError, match="no autopilot has come for uav"):
        Run(drone(missing="fail"), ready="100 ms")
    port = free_port(socket.SOCK_DGRAM)
    with programs(Program(port, (0.0, 0.0, -6.0))):
        run = Run(drone(missing="fail"), port=port, patience="1 s").to(2.0)
    with pytest.raises(RunError, match="'missing: fail' ends the run"):
        run.to(20.0)
    run.adapter.close()


def test_the_run_waits_for_one_that_may_not_be_missing():
    port = free_port(socket.SOCK_DGRAM)
    with programs(Program(port, (0.0, 20.0, -6.0))) as (program,):
        run = Run(drone(missing="wait"), port=port, patience="200 ms").to(6.0)
        program.free.clear()
        timer = threading.Timer(1.0, program.free.set)
        timer.start()
        before = run.place()
        run.to(6.5)
        timer.join()
        assert 0.0 < run.place()[0] - before[0] < 2.0  # no time was lost
        assert run.adapter.finish()["absences"]["uav"] >= 1
        run.to(25.0)
        assert run.place() == pytest.approx([30.0, 20.0, 11.0], abs=0.3)
    run.adapter.close()
    port = free_port(socket.SOCK_DGRAM)
    with programs(Program(port, (0.0, 20.0, -6.0))):
        run = Run(drone(missing="wait"), port=port, patience="200 ms", ready="3 s").to(2.0)
    with pytest.raises(RunError, match="has not come back within 3 s"):
        run.to(20.0)
    run.adapter.close()


def test_what_cannot_be_is_refused():
    with pytest.raises(ScenarioError, match="gets its orders by MAVLink, which needs the scenario's origin"):
        Run(drone(), ROVER, missions={"uav": [["20 m", "0 m"]]})
    engage = [{"drone": "uav", "target": "rover", "commands": [{"at": "5 s"}]}]
    with pytest.raises(ScenarioError, match=r"9002 \+ 10 N for ArduPilot's instance N"):
        Run(drone(), ROVER, engage=engage, port=9001, geo=Geo(39.36, 22.95, 60.0))
    swarm = {"members": ["uav", "uav-2"], "formation": {"course": [["50 m", "0 m"]]}}
    second = Node("uav-2", "uav", "device", (30.0, 20.0, 5.0), keys=(Vehicle(frame="copter").written(),))
    with pytest.raises(ScenarioError, match="how near they may come follows from how it brakes"):
        Run(drone(), second, swarms={"both": swarm})
    both = Node("uav", "uav", "device", HOME, keys=drone().keys, runs=Software(image="vuav"))
    with pytest.raises(ScenarioError, match="a program of its own"):
        Run(both, real="netns")
    keys = (Vehicle(frame="copter").written(),)
    inside = Node("uav", "uav", "device", HOME, keys=keys, runs=Software(image="vuav-ardupilot"))
    with pytest.raises(ScenarioError, match="'vuav-ardupilot' needs the scenario's origin"):
        Run(inside, real="netns")
    with pytest.raises(ScenarioError, match="how near they may come follows from how it brakes"):
        Run(inside, second, swarms={"both": swarm}, real="netns", geo=Geo(39.36, 22.95, 60.0))
    many = [Node(f"u{k}", "uav", "device", HOME, keys=drone().keys) for k in range(3)]
    with pytest.raises(ScenarioError, match="end beyond 65535"):
        Run(*many, port=65520)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(SetupError, match="cannot listen for ArduPilot"):
            Run(drone(), port=taken.getsockname()[1])

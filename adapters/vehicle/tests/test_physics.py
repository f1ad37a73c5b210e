"""Copters of our autopilot that another program moves, for which a small physics stands in."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from cosim.adapters.vehicle.keys import Vehicle
from cosim.adapters.vehicle.tests.test_ardupilot import ROVER, Run
from cosim.contract.entities import Geo, Node
from cosim.contract.errors import RunError, ScenarioError
from cosim.contract.node_keys import Software
from tests.unit.autopilot.json_world import Program, World

HOME = (10.0, 20.0, 0.0)


def drone(port, name="uav", missing="model", **changes):
    vehicle = Vehicle(frame="copter", physics={"address": f"127.0.0.1:{port}", "rate": 200}, **changes)
    return Node(name, "uav", "device", HOME, keys=(vehicle.written(),), missing=missing)


@pytest.fixture
def world():
    program = Program(World(wind=(2.0, 1.0, 0.0)))
    yield program
    program.close()


def test_a_mission_is_flown_on_the_physics_of_another_program(world):
    mission = {"uav": {"points": [["10 m", "20 m", "5 m"], ["18 m", "20 m", "5 m"]], "start": "1 s"}}
    run = Run(drone(world.port), ROVER, geo=Geo(39.36, 22.95, 60.0), missions=mission, gusts="3 m/s")
    try:
        run.to(0.0)
        assert run.place() == pytest.approx(HOME, abs=0.01)
        offs = []
        for half in range(1, 29):
            run.to(0.5 * half)
            x, y, z = run.place()
            north, east, down = world.world.place  # it began at 3, -2
            assert (north - 3.0, east + 2.0, -down - 0.19) == pytest.approx((y - 20.0, x - 10.0, z), abs=0.01)
            offs.append(math.dist((x, y, z), (18.0, 20.0, 5.0)))
        assert min(offs) < 1.0
        assert run.row["charge"][0] < 1.0
    finally:
        run.adapter.close()


def test_a_program_that_goes_is_an_absence_and_our_physics_goes_on(world):
    run = Run(drone(world.port), patience="300 ms")
    try:
        run.to(0.5)
        world.close()
        run.to(2.0)
        assert run.adapter.finish()["absences"] == {"uav": 1}
    finally:
        run.adapter.close()


def test_a_run_without_the_program_says_so():
    with pytest.raises(RunError, match=r"no physics has come for uav within 0\.2 s; 'adapters\.vehicle\.real\.r"):
        Run(drone(9, missing="fail"), ready="200 ms")


def test_what_cannot_be_is_refused():
    with pytest.raises(ScenarioError, match="'a' and 'b' have one physics, 127"):
        Run(drone(9002, "a"), drone(9002, "b"))
    with pytest.raises(ValidationError, match="copters with our autopilot"):
        Vehicle(frame="rover", physics={})
    with pytest.raises(ValidationError, match="copters with our autopilot"):
        Vehicle(frame="copter", autopilot="ardupilot-json", physics={})
    real = Node("uav", "uav", "device", HOME, keys=drone(9002).keys, runs=Software(image="vuav"))
    with pytest.raises(ScenarioError, match="a physics and a program of its own"):
        Run(real, real="process")

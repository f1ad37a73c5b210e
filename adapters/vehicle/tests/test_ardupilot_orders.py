"""Missions and engagements that an ArduPilot of its own flies; our persona on our physics stands in for it."""

from __future__ import annotations

import logging
import math
import socket
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

pytest.importorskip("pymavlink")

from cosim.adapters.vehicle.keys import Vehicle
from cosim.adapters.vehicle.signals import EVENTS
from cosim.adapters.vehicle.tests.test_ardupilot import HOME, ROVER, Run, drone
from cosim.contract.adapter import Inputs
from cosim.contract.entities import Geo, Node
from cosim.physics.vehicles import phases as ph
from tests.ports import free_port
from tests.unit.autopilot.sitl import GEO, Sitl

RIGHT, AWAY = ["10 m", "60 m", "17 m"], ["40 m", "60 m", "17 m"]
ARM, TAKE_OFF, SPEED, MODE = 400, 22, 178, 176
GUIDED, RTL = 4, 6
BUILT_IN = Node("uav", "uav", "device", HOME, keys=(Vehicle(frame="copter", dynamics="rigid").written(),))
LOITER_AT = 30.0  # s


class Ordered(Run):
    """Keeps what the vehicle of the first node does, and what happens with its autopilot."""

    def __init__(self, *nodes, **config):
        self.events, self.states, self.flight = [], [], []
        super().__init__(*nodes, geo=Geo(*GEO), **config)

    def to(self, until):
        while self.time < until - 0.25:
            self.time += 0.5
            frames = {frame.signal: frame for frame in self.adapter.step(self.time, Inputs())}
            self.row = {**frames["mobility"].columns, **frames["vehicle"].columns}
            happened = frames["autopilot"]
            self.events += [
                (round(float(at)), EVENTS[k]) for k, at in zip(happened["event"], happened["at"], strict=True)
            ]
            self.states += [int(state) for state in frames["behaviour"]["state"][:1]]
            self.flight.append(self.place())
        return self

    def to_event(self, name):
        for _ in range(400):
            if self.events[-1][1] == name:
                break
            self.to(self.time + 0.5)

    def engagement(self):
        self.adapter.close()
        return self.adapter.finish()["engagements"]

    def passed(self, place, within):
        return np.linalg.norm(np.array(self.flight) - place, axis=1).min() < within


@contextmanager
def flying(*nodes, home=HOME, rover=False, **config):
    """The run and its ArduPilot."""
    own = {name: config.pop(name) for name in ("ready_after", "change", "rate") if name in config}
    port = free_port(socket.SOCK_DGRAM)
    sitl = Sitl(port, home, rover=rover, **{"rate": 50, **own})
    try:
        run = Ordered(*nodes, port=port, **config)
        try:
            yield run, sitl
        finally:
            run.adapter.close()
    finally:
        sitl.close()


def reported(commands, k):
    """A value of commands without those that were only sent again, as those are that wait for an answer."""
    return [value for value, _ in groupby(command[k] for command in commands)]


def mode(name):
    """What sets the mode at `LOITER_AT`, as a pilot does."""

    def change(sitl):
        if name and abs(sitl.fleet.now - LOITER_AT) < 0.5 * 0.02:
            sitl.autopilot.pilot.set_mode(name)

    return change


@pytest.mark.slow
def test_a_mission_is_flown_in_guided_and_ends_at_home(caplog):
    points = {"points": [RIGHT, AWAY], "speed": "6 m/s"}
    with flying(drone(), missions={"uav": points}) as (run, sitl):
        known = sitl.autopilot.parameters
        known.table = {name: one for name, one in known.table.items() if name != "WPNAV_ACCEL_Z"}  # not answered
        run.to(9.0)
        assert run.place() == pytest.approx(HOME)  # its position is not known before
        assert not run.row["armed"][0]
        run.to(90.0)
    tried, armed, up, speeds = (sitl.commands(k) for k in (MODE, ARM, TAKE_OFF, SPEED))
    assert reported(tried, 2) == [GUIDED, RTL]
    assert reported(armed, 1) == [1.0]
    assert reported(up, 3) == [pytest.approx(12.0)]  # above home
    assert reported(speeds, 2) == [6.0]
    assert run.passed((10.0, 60.0, 17.0), 2.5)
    assert run.passed((40.0, 60.0, 17.0), 2.5)
    assert np.max(np.linalg.norm(np.diff(run.flight, axis=0), axis=1)) / 0.5 < 6.6
    assert run.place() == pytest.approx(HOME, abs=0.5)
    assert not run.row["armed"][0]
    assert run.events == []
    assert run.states[-1] == ph.DONE
    assert {m.get_type() for _, m in sitl.orders} >= {"SET_POSITION_TARGET_GLOBAL_INT", "PARAM_SET"}
    (refused,) = [text for text in caplog.messages if "has not taken" in text]
    assert "the ArduPilot of 'uav' has not taken WPNAV_ACCEL_Z (WP_ACC_Z)" in refused


@pytest.mark.slow
def test_an_engagement_takes_as_long_as_with_our_autopilot_and_the_time_to_spin_up():
    commands = [{"at": "15 s", "for": "30 s"}]
    config = {
        "engage": [{"drone": "uav", "target": "rover", "commands": commands}],
        "missions": {"rover": {"points": [["90 m", "0 m"], ["90 m", "60 m"]]}},
    }
    with flying(drone(), ROVER, **config) as (run, sitl):
        (found,) = run.to(110.0).engagement()
        ours = Ordered(BUILT_IN, ROVER, **config)
        (wanted,) = ours.to(110.0).engagement()
    assert (found["outcome"], found["reason"]) == ("completed", "disengaged")
    later = found["t_engage"] - wanted["t_engage"]
    assert 1.0 < later < 5.0  # 2 s from arming to the motors, 0.75 s until they lift it
    assert found["error_max"] == pytest.approx(wanted["error_max"], abs=0.5)
    moving = [m for _, m in sitl.orders if getattr(m, "type_mask", 0) == 0x0DC0]
    assert len(moving) > 50
    assert all(m.coordinate_frame == 6 for m in moving)
    assert run.states[-1] == ph.HOME_IDLE


def test_one_that_cannot_be_armed_is_told_and_its_orders_are_dropped(caplog):
    def change(sitl):
        sitl.autopilot.parameters.set("BATT_ARM_VOLT", 99.0)

    engage = [{"drone": "uav", "target": "rover", "commands": [{"at": "2 s"}]}]
    with (
        caplog.at_level(logging.WARNING),
        flying(drone(), ROVER, engage=engage, arming="8 s", ready_after=1.0, change=change) as (run, sitl),
    ):
        (found,) = run.to(30.0).engagement()
    assert run.events == [(10, "refused")]
    assert "uav could not be armed for 8 s: PreArm: Battery 1 below minimum arming voltage" in caplog.text
    assert (found["outcome"], found["reason"]) == ("failed", "refused")
    assert run.states[-1] == ph.HOME_IDLE
    assert 5 <= len(sitl.commands(ARM)) <= 10  # once a second


def test_a_pilot_who_changes_the_mode_has_the_vehicle_until_it_is_in_guided_again():
    def change(sitl):
        mode("LOITER")(sitl)
        if abs(sitl.fleet.now - 45.0) < 0.01:
            sitl.autopilot.pilot.set_mode("GUIDED")

    with flying(drone(), missions={"uav": [["10 m", "900 m", "17 m"]]}, change=change) as (run, sitl):
        stopped = run.to(36.0).place()
        run.to(44.5)
        assert run.place() == pytest.approx(stopped, abs=0.5)
        assert run.row["mode"][0] == 1  # it holds
        assert run.row["armed"][0]
        asked = len(sitl.commands(MODE))
        run.to(45.0)
        assert len(sitl.commands(MODE)) == asked
        run.to(70.0)
        assert run.place()[1] > stopped[1] + 40.0
    assert [event for _, event in run.events] == ["taken-over", "given-back"]
    assert run.events[0][0] == pytest.approx(LOITER_AT, abs=1)


def test_a_pilot_who_lands_ends_what_was_ordered():
    engage = [{"drone": "uav", "target": "rover", "commands": [{"at": "2 s", "for": "60 s"}, {"at": "75 s"}]}]
    with flying(drone(), ROVER, engage=engage, change=mode("LAND"), ready_after=1.0) as (run, _):
        run.to(65.0)
        assert run.events == [(30, "taken-over")]
        assert not run.row["armed"][0]
        assert run.states[-1] == ph.HOME_IDLE
        run.to(90.0)
        assert run.row["armed"][0]  # the next order is obeyed
        assert run.place()[2] > HOME[2] + 5.0


def test_it_is_armed_again_when_it_has_disarmed_before_the_take_off():
    engage = [{"drone": "uav", "target": "rover", "arming": "24 s", "commands": [{"at": "2 s"}]}]
    with flying(drone(), ROVER, engage=engage, ready_after=1.0) as (run, sitl):
        run.to(45.0)
        assert run.place()[2] > HOME[2] + 8.0
    armed = [order[0] for order in sitl.commands(ARM)]
    assert armed[0] < 12.0  # simulated: it answers in real time, and forty times as much passes
    assert armed[-1] > armed[0] + 8.0


def test_a_weak_battery_is_a_fail_safe_and_no_pilot():
    pack = {"capacity": "0.9 Ah", "level": "36 %", "low": "30 %"}
    engage = [{"drone": "uav", "target": "rover", "commands": [{"at": "2 s"}]}]
    with flying(drone(battery=pack), ROVER, engage=engage, ready_after=1.0) as (run, _):
        run.to(2.0)
        while run.row["failsafe"][0] == 0 and run.time < 80.0:
            run.to(run.time + 0.5)
        assert run.row["mode"][0] == 6  # it returns
        assert run.row["charge"][0] == pytest.approx(0.30, abs=0.01)
        run.to(run.time + 60.0)
        (found,) = run.engagement()
    assert run.events == []
    assert found["reason"] == "battery"


def test_it_returns_when_it_has_left_the_fence():
    engage = [{"drone": "uav", "target": "rover", "fence": "30 m", "commands": [{"at": "2 s"}]}]
    target = {"rover": [["200 m", "0 m"]]}
    wind = ["7 m/s", "0 m/s", "0 m/s"]
    with flying(drone(), ROVER, engage=engage, missions=target, wind=wind, ready_after=1.0) as (run, _):
        run.to(40.0)
        away = math.dist(run.place()[:2], HOME[:2])
    assert away < 33.0


def test_one_that_starts_again_flies_its_mission_and_is_flown_here_meanwhile(caplog):
    port = free_port(socket.SOCK_DGRAM)
    first = Sitl(port, HOME, rate=50, ready_after=1.0)
    with caplog.at_level(logging.WARNING):
        run = Ordered(drone(), port=port, missions={"uav": [["10 m", "400 m", "17 m"]]}, patience="300 ms").to(15.0)
        before = run.place()
        first.close()
        assert run.to(18.0).place()[1] > before[1] + 10.0  # the model flies on
        second = Sitl(port, HOME, rate=50, ready_after=1.0)
        try:
            run.to_event("back")
            assert run.place() == pytest.approx(HOME, abs=1.0)
            run.to(run.time + 20.0)
            assert run.place()[1] > HOME[1] + 30.0
            assert run.row["armed"][0]
            run.adapter.close()
        finally:
            second.close()
    assert [event for _, event in run.events] == ["gone", "back"]
    assert "does not answer; it is flown here" in caplog.text


def test_a_rover_drives_its_mission_and_stands_in_its_pauses():
    node = replace(ROVER, id="rover", keys=(Vehicle(frame="rover", autopilot="ardupilot-json").written(),))
    mission = {
        "points": [["30 m", "0 m"], ["30 m", "20 m"]],
        "speed": "1.5 m/s",
        "pauses": [{"at": "20 s", "for": "10 s"}],
    }
    with flying(node, home=(0.0, 0.0, 0.0), rover=True, missions={"rover": mission}, ready_after=2.0) as (run, sitl):
        paused = run.to(23.0).place()
        assert run.to(29.0).place() == pytest.approx(paused, abs=0.05)
        assert sitl.mode == "HOLD"
        run.to(75.0)
    assert run.passed((30.0, 0.0, 0.0), 2.0)
    assert run.place() == pytest.approx((30.0, 20.0, 0.0), abs=2.0)
    assert run.states[-1] == ph.DONE
    assert {order[2] for order in sitl.commands(SPEED)} == {1.5}
    assert run.events == []


def test_one_that_stands_elsewhere_is_not_armed(caplog):
    port = free_port(socket.SOCK_DGRAM)
    sitl = Sitl(port, HOME, rate=50, ready_after=1.0, geo=(38.0, 22.0, 0.0))
    try:
        with caplog.at_level(logging.WARNING):
            run = Ordered(drone(), port=port, missions={"uav": [RIGHT]}, arming="30 s").to(40.0)
        run.adapter.close()
    finally:
        sitl.close()
    assert [event for _, event in run.events] == ["refused"]
    assert "m away; start it with the --home that the run has printed" in caplog.text
    assert sitl.commands(ARM) == []


def test_one_that_comes_late_takes_the_mission_from_the_model():
    port = free_port(socket.SOCK_DGRAM)
    run = Ordered(drone(), port=port, missions={"uav": [["10 m", "400 m", "17 m"]]}, ready="100 ms").to(20.0)
    assert run.events == [(0, "gone")]
    assert run.place()[1] > HOME[1] + 30.0
    sitl = Sitl(port, HOME, rate=50, ready_after=1.0)
    try:
        run.to_event("back")
        run.to(run.time + 20.0)
        run.adapter.close()
    finally:
        sitl.close()
    assert run.place()[1] > HOME[1] + 30.0
    assert reported(sitl.commands(TAKE_OFF), 3) == [pytest.approx(12.0)]


def test_a_rover_that_somebody_disarms_stays_where_it_is():
    def change(sitl):
        if abs(sitl.fleet.now - LOITER_AT) < 0.01:
            sitl.autopilot.pilot.disarm()

    node = replace(ROVER, id="rover", keys=(Vehicle(frame="rover", autopilot="ardupilot-json").written(),))
    mission = {"rover": [["200 m", "0 m"]]}
    with flying(node, home=(0.0, 0.0, 0.0), rover=True, missions=mission, ready_after=1.0, change=change) as (run, _):
        stopped = run.to(35.0).place()
        assert run.to(50.0).place() == pytest.approx(stopped, abs=0.1)
    assert run.events == [(30, "taken-over")]


def test_guided_belongs_to_the_run():
    with flying(drone(), missions={"uav": [RIGHT]}, change=mode("GUIDED"), ready_after=1.0) as (run, sitl):
        run.to(29.0)
        assert sitl.mode == "RTL"
        run.to(80.0)
    assert run.events == []
    asked = [order[0] for order in sitl.commands(MODE) if order[2] == RTL]
    assert asked[0] < LOITER_AT <= asked[-1]
    assert run.place() == pytest.approx(HOME, abs=0.5)
    assert not run.row["armed"][0]

"""Whatever a ground station sets or orders, the vehicle goes on: numbers beyond a message's fields end nothing."""

from __future__ import annotations

import math

import pytest

from cosim.autopilot.dialect import mavlink, saturate
from cosim.autopilot.telemetry import BUILDERS
from tests.unit.autopilot.wire import flying


def everything(s):
    """Every message that the vehicle can send, asked for once."""
    for number in BUILDERS:
        if s.autopilot.knows(number):
            s.autopilot.send_now(number)
    return s.collect()


def test_a_pack_holds_no_more_than_its_capacity():
    s = flying("ardupilot")
    s.set_parameter("BATT_CAPACITY", 3000.0)
    s.run(1.0)
    view = s.autopilot.pilot.look()
    assert view.charge <= 3.6 * 3000.0
    (status,) = [m for m in everything(s) if m.get_type() == "BATTERY_STATUS"]
    assert 99 <= status.battery_remaining <= 100


@pytest.mark.parametrize("persona", ["ardupilot", "px4"])
def test_homes_and_heights_out_of_the_air_are_refused(persona):
    s = flying(persona)
    home = s.autopilot.pilot.home
    assert s.command(179, 0, 0, 0, 0, 38.24, 21.73, 3e6) != mavlink.MAV_RESULT_ACCEPTED
    assert s.autopilot.pilot.home == home
    assert s.autopilot.pilot.take_off(1e6) == "beyond the air"


def test_wind_out_of_range_does_not_blow():
    s = flying("ardupilot")
    s.set_parameter("SIM_WIND_SPD", 1e9)
    s.run(1.0)
    assert not s.fleet.wind[0].any()
    assert any("SIM_WIND_SPD out of range" in m.text for m in s.heard if m.get_type() == "STATUSTEXT")


def test_a_number_beyond_its_field_is_sent_as_the_nearest_and_reported(caplog):
    s = flying("ardupilot")
    message = mavlink.MAVLink_home_position_message(0, 0, 2**40, 0, 0, 0, [1.0, 0, 0, 0], 0, 0, 0)
    for _ in range(2):
        s.autopilot.broadcast(message)
    assert [m.altitude for m in s.collect() if m.get_type() == "HOME_POSITION"] == [2**31 - 1] * 2
    assert sum("HOME_POSITION.altitude" in text for text in caplog.messages) == 1
    assert saturate(message) == []


def test_a_message_that_cannot_be_packed_is_left_out_and_the_next_one_is_sent(caplog):
    s = flying("ardupilot")
    s.autopilot.connect("other")
    s.autopilot.broadcast(mavlink.MAVLink_ping_message(0, math.nan, 0, 0))
    s.autopilot.broadcast(mavlink.MAVLink_statustext_message(6, b"next"))
    assert [m.text for m in s.collect() if m.get_type() == "STATUSTEXT"] == ["next"]
    assert sum("cannot be packed" in text for text in caplog.messages) == sum(s.autopilot.troubles.values()) == 1


def test_a_state_that_fits_no_message_leaves_that_message_out():
    s = flying("ardupilot")
    s.fleet.state["vx"][0] = math.nan
    s.autopilot.send_now(33)  # GLOBAL_POSITION_INT
    s.autopilot.send_now(1)
    kinds = {m.get_type() for m in s.collect()}
    assert "SYS_STATUS" in kinds
    assert "GLOBAL_POSITION_INT" not in kinds
    assert sum(s.autopilot.troubles.values()) >= 1

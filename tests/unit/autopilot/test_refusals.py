"""What a real ArduPilot or PX4 refuses is refused, and nothing that is meant for the vehicle is passed over in silence.

Where no record of a real one is at hand, the answers follow the sources of ArduPilot 4.6 (GCS_Common.cpp,
ArduCopter/GCS_MAVLink_Copter.cpp, MissionItemProtocol.cpp) and of PX4 1.15 (Commander.cpp, mavlink_receiver.cpp,
mavlink_mission.cpp).
"""

from __future__ import annotations

import itertools
import math

import pytest

from cosim.autopilot.dialect import mavlink
from cosim.autopilot.telemetry import BUILDERS
from cosim.physics.vehicles import Rover
from tests.unit.autopilot.wire import ORIGIN, Station, flying, rover, station

ACCEPTED, TEMPORARILY_REJECTED, DENIED, UNSUPPORTED, FAILED = range(5)
NAN, INF = math.nan, math.inf
COMMANDS = sorted(
    {number for name, number in vars(mavlink).items() if name.startswith("MAV_CMD_") and not name.endswith("_ENUM_END")}
)
ENDS = {21, 85, 185, 400}  # commands that bring the vehicle down


def acks(s, number):
    return [m.result for m in s.collect() if m.get_type() == "COMMAND_ACK" and m.command == number]


@pytest.mark.parametrize("persona", ["ardupilot", "px4"])
def test_every_command_has_one_answer_whatever_its_parameters(persona):
    s = flying(persona)
    for number, value in itertools.product(COMMANDS, (0.0, 1.0, -1.0, NAN, INF, 1e9)):
        s.send("command_long", 1, 1, number, 0, *[value] * 7)
        found = acks(s, number)
        place = 0 if not math.isfinite(value) else max(min(int(value), 2**31 - 1), -(2**31))
        for frame in (0, 1, 3):
            s.send("command_int", 1, 1, frame, number, 0, 0, *[value] * 4, place, place, value)
            found += acks(s, number)
        assert len(found) == 4, (number, value)
        if number in ENDS:
            s = flying(persona)


# persona, what it does, command by COMMAND_LONG, its parameters: the answer
LONG = [
    ("ardupilot", "stands", 400, (NAN,), UNSUPPORTED),
    ("ardupilot", "stands", 400, (2.0,), UNSUPPORTED),
    ("ardupilot", "stands", 400, (0.5,), UNSUPPORTED),
    ("px4", "stands", 400, (INF,), UNSUPPORTED),
    ("px4", "stands", 400, (0.5,), ACCEPTED),
    ("px4", "flies", 400, (0.0,), TEMPORARILY_REJECTED),
    ("ardupilot", "flies", 300, (1.0,), DENIED),
    ("px4", "stands", 300, (0.0,), DENIED),
    ("ardupilot", "flies", 115, (400.0, 0, 1, 0), FAILED),
    ("ardupilot", "flies", 115, (90.0, 0, 1, 2.0), FAILED),
    ("ardupilot", "flies", 115, (90.0, 0, 1, 0), ACCEPTED),
    ("ardupilot", "flies", 179, (2.0, 0, 0, 0, 38.2, 21.7, 60.0), DENIED),
    ("ardupilot", "flies", 179, (0.0, 0, 0, 0, 50.0, 21.7, 60.0), FAILED),
    ("px4", "flies", 179, (0.0, 0, 0, 0, 38.2, 21.7, NAN), DENIED),
    ("px4", "flies", 192, (-1.0, 0.0, 0, NAN, 38.24, 21.73, 75.0), UNSUPPORTED),
    ("px4", "flies", 192, (-1.0, 3.0, 0, NAN, 38.24, 21.73, 75.0), UNSUPPORTED),
    ("px4", "flies", 192, (-1.0, 1.0, 0, NAN, NAN, NAN, NAN), ACCEPTED),
    ("px4", "flies", 192, (-1.0, 1.0, 0, NAN, 95.0, 21.73, 75.0), DENIED),
    ("px4", "stands", 185, (1.0,), DENIED),
    ("px4", "flies", 193, (0.0,), UNSUPPORTED),
    ("px4", "flies", 224, (0.0,), UNSUPPORTED),
    ("ardupilot", "flies", 193, (7.0,), DENIED),
    ("ardupilot", "flies", 207, (NAN,), DENIED),
    ("ardupilot", "flies", 207, (INF,), DENIED),
    ("ardupilot", "flies", 207, (1.0, 4.0), FAILED),  # some of the fences
    ("ardupilot", "flies", 241, (1.0,), FAILED),
    ("px4", "flies", 241, (1.0,), TEMPORARILY_REJECTED),
    ("ardupilot", "stands", 208, (-1.0,), FAILED),
    ("ardupilot", "stands", 510, (9999.0,), FAILED),
    ("px4", "stands", 510, (9999.0,), ACCEPTED),
    ("ardupilot", "stands", 511, (0.0, -1.0), DENIED),
    ("px4", "flies", 201, (2.0, 0, 0, 0, 38.2, 21.7, 60.0), UNSUPPORTED),
]


@pytest.mark.parametrize(("persona", "does", "number", "params", "answer"), LONG)
def test_answers_are_those_of_the_real_ones(persona, does, number, params, answer):
    s = flying(persona) if does == "flies" else station(persona)
    assert s.command(number, *params) == answer


@pytest.mark.parametrize(
    ("number", "frame", "x", "y", "z"),
    [
        (22, 0, 0, 0, 20.0), (192, 1, 382400000, 217300000, 20.0), (192, 3, 950000000, 217300000, 20.0),
        (192, 3, 0, 0, 20.0), (192, 3, 2**31 - 1, 2**31 - 1, 20.0), (192, 3, 382400000, 217300000, NAN),
        (179, 1, 382400000, 217300000, 20.0), (195, 12, 382400000, 217300000, 20.0),
    ],
)  # fmt: skip
def test_places_that_are_none_are_refused_and_change_no_mode(number, frame, x, y, z):
    s = flying() if number != 22 else station()
    s.command(176, 1, 4 if number == 22 else 5)
    mode = s.autopilot.pilot.mode
    s.send("command_int", 1, 1, frame, number, 0, 0, 0.0, 1.0 if number == 192 else 0.0, 0.0, 0.0, x, y, z)
    assert acks(s, number) == [DENIED]
    assert s.autopilot.pilot.mode == mode


def test_a_rover_knows_no_commands_of_copters():
    s = rover()
    s.command(400, 1)
    for number in (17, 21, 22, 84, 85, 115, 193, 195, 201):
        assert s.command(number, 0, 0, 0, 0, 0, 0, 5.0) == UNSUPPORTED
    assert s.command(178, 1, 2.0) == FAILED  # nobody drives
    s.command(176, 1, 15)
    assert s.command(178, 1, 2.0) == ACCEPTED
    assert s.upload([(0, 16, 0, 0, 0, 0, *s.place(0, 0)), (3, 21, 0, 0, 0, 0, *s.place(0, 20))]) == 3
    s = station("px4", vehicle=Rover())
    assert s.command(195, 0, 0, 0, 0, 38.2, 21.7, 0.0) == ACCEPTED


@pytest.mark.parametrize("way", ["mission", "target"])
def test_a_pause_keeps_the_mode_and_the_way(way):
    s = flying()
    x, y, _ = s.place(0, 80)
    if way == "mission":
        s.upload([(0, 16, 0, 0, 0, 0, *s.place(0, 0)), (3, 16, 0, 0, 0, 0, x, y, 10.0)])
        s.command(176, 1, 3)
    else:
        s.send("set_position_target_global_int", 0, 1, 1, 6, 0xFF8, x, y, 10.0, *[0.0] * 8)
    mode = s.autopilot.pilot.mode
    s.run(5.0)
    assert s.command(193, 0) == ACCEPTED
    s.run(5.0)
    at = s.autopilot.pilot.look()
    assert 10.0 < at.y < 75.0
    assert math.hypot(at.vx, at.vy) < 0.1
    assert s.autopilot.pilot.mode == mode
    assert s.command(193, 1) == ACCEPTED
    s.until(lambda v: abs(v.y - 80.0) < 0.5)
    s.command(176, 1, 5)
    assert (s.command(193, 0), s.command(193, 1)) == (FAILED, FAILED)  # nothing is under way in LOITER


def test_px4_arms_when_a_mission_is_started():
    s = station("px4")
    assert s.upload([(3, 16, 0, 0, 0, 0, *s.place(0, 30, 12))]) == 0
    assert s.command(300, 5) == DENIED
    assert s.command(300, 0) == ACCEPTED
    s.until(lambda v: v.y > 29.0)


# -- setpoints

MASKS = [
    sum(bits) for bits in itertools.product((0, 7, 1), (0, 0x38, 8), (0, 0x1C0), (0, 0x400), (0, 0x800), (0, 0x200))
]


@pytest.mark.parametrize("persona", ["ardupilot", "px4"])
@pytest.mark.parametrize("frame", [1, 7, 8, 9, 12, 3, 0])
def test_every_mask_of_a_local_target_is_done_or_refused_aloud(persona, frame):
    s = flying(persona)
    known = frame in ((1, 8) if persona == "px4" else (1, 7, 8, 9))
    row = s.fleet.state
    for k, mask in enumerate(MASKS):
        if persona == "px4" and s.autopilot.pilot.mode != "OFFBOARD":
            s.send("set_position_target_local_ned", 0, 1, 1, 1, 0xFC7, *[0.0] * 11)
            s.command(176, 1, 6)
        s.heard.clear()
        s.autopilot.setpoints._refused.clear()
        before = row[0].copy()
        part = 0.2 * (k % 5 + 1)
        values = (part, -part, -10.0 - part, part, 0.3, -0.1, part, 0.1, -0.05, 0.2 * k, 0.2)
        s.send("set_position_target_local_ned", 0, 1, 1, frame, mask, *values)
        s.run(0.05)
        refused = [text for text in s.texts() if text.startswith("Refused")]
        moved = any(before[name] != row[name][0] for name in ("mode", "target_x", "target_vx", "target_vz", "ax"))
        assert refused or moved, hex(mask)
        assert known or refused, hex(mask)


def test_a_target_that_says_nothing_stops_an_arducopter():
    s = flying()
    velocity = (0, 1, 1, 1, 0xDC7, 0, 0, 0, 3.0, 0.0, 0.0, *[0.0] * 5)
    for name, values in (
        ("set_position_target_local_ned", (0, 1, 1, 12, 0xDC7, *velocity[5:])),
        ("set_position_target_local_ned", (0, 1, 1, 1, 0x9FF, *[0.0] * 10, 0.5)),
        ("set_attitude_target", (0, 1, 1, 0x3, [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.4, 0.5)),  # one rate of three
        ("set_attitude_target", (0, 1, 1, 0x7, [1.1, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0, 0.5)),
    ):
        s.send("set_position_target_local_ned", *velocity)
        s.run(1.0)
        assert s.fleet.state["vy"][0] > 0.5
        s.heard.clear()
        s.send(name, *values)
        s.run(1.9)
        assert abs(s.fleet.state["vy"][0]) < 0.3
        assert [text for text in s.texts() if text.startswith("Refused")]


def test_two_refusals_within_a_second_are_both_told():
    s = flying()
    s.send("set_position_target_local_ned", 0, 1, 1, 20, 0xFF8, *[0.0] * 11)
    s.send("set_position_target_local_ned", 0, 1, 1, 21, 0xFF8, *[0.0] * 11)
    s.send("set_position_target_local_ned", 0, 1, 1, 21, 0xFF8, *[0.0] * 11)
    s.run(0.2)
    assert [text for text in s.texts() if text.startswith("Refused")] == [
        f"Refused: frame {frame} of a local target" for frame in (20, 21)
    ]


# -- missions


def mission_acks(s):
    return [m.type for m in s.collect() if m.get_type() == "MISSION_ACK"]


def item(seq, command=16, kind=0, current=0):
    return (1, 1, seq, 3, command, current, 1, 0, 0, 0, 0, 382400000, 217300000, 10.0, kind)


def test_uploads_that_are_out_of_order_are_refused():
    """Recorded of a real ArduCopter 4.6: ERROR for clearing while somebody uploads."""
    s = station()
    s.send("mission_item_int", *item(0))
    assert mission_acks(s) == [mavlink.MAV_MISSION_ERROR]  # nobody asked for it
    s.send("mission_count", 1, 1, 3, 0)
    s.collect()
    s.send("mission_item_int", *item(2))
    assert mission_acks(s) == [mavlink.MAV_MISSION_INVALID_SEQUENCE]
    s.send("mission_item_int", *item(0, kind=1))
    assert mission_acks(s) == [mavlink.MAV_MISSION_ERROR]
    other = Station(s.autopilot, "other", system=254)
    other.send("mission_item_int", *item(0))
    assert mission_acks(other) == [mavlink.MAV_MISSION_DENIED]
    other.send("mission_request_list", 1, 1, 0)
    assert mission_acks(other) == [mavlink.MAV_MISSION_DENIED]
    other.send("mission_clear_all", 1, 1, 0)
    assert mission_acks(other) == [mavlink.MAV_MISSION_ERROR]
    for seq in range(3):  # and it goes on
        s.send("mission_item_int", *item(seq))
    assert mission_acks(s) == [0]


def test_px4_takes_the_last_item_twice_when_its_answer_was_lost():
    s = station("px4")
    s.send("mission_count", 1, 1, 1, 0)
    s.send("mission_item_int", *item(0))
    s.send("mission_item_int", *item(0))
    assert mission_acks(s) == [0, 0]
    s.send("mission_item_int", *item(4))
    assert mission_acks(s) == [mavlink.MAV_MISSION_ERROR]


def test_a_mission_that_is_flown_is_not_cleared():
    s = flying()
    s.upload([(0, 16, 0, 0, 0, 0, *s.place(0, 0)), (3, 16, 0, 0, 0, 0, *s.place(0, 80, 10))])
    s.command(176, 1, 3)
    s.run(1.0)
    s.send("mission_clear_all", 1, 1, 0)
    assert mission_acks(s) == [mavlink.MAV_MISSION_ERROR]
    s.command(176, 1, 5)
    s.run(0.2)
    s.send("mission_clear_all", 1, 1, 0)
    assert mission_acks(s) == [0]


def test_targets_by_mission_item_want_guided_a_waypoint_and_a_place():
    s = flying()
    for command, x, mode, answer in ((16, 38.2401, 4, 0), (17, 38.2401, 4, 1), (16, 95.0, 4, 10), (16, 38.2401, 5, 1)):
        s.command(176, 1, mode)
        s.send("mission_item", 1, 1, 0, 3, command, 2, 1, 0, 0, 0, 0, x, 21.73, 12.0, 0)
        assert mission_acks(s) == [answer]
    assert s.autopilot.pilot.mode == "LOITER"


@pytest.mark.parametrize(
    ("frame", "command", "param1", "answer"),
    [
        (3, 16, 0, 0), (3, 18, 1, 3), (3, 82, 0, 3), (3, 178, 1, 3), (2, 178, 1, 0), (3, 20, 0, 3), (2, 20, 0, 0),
        (2, 115, 90, 3), (2, 600, 1, 3), (2, 207, 1, 3), (2, 181, 0, 3), (10, 16, 0, 2), (3, 201, 3, 0), (3, 201, 2, 6),
    ],
)  # fmt: skip
def test_px4_takes_commands_in_their_frames(frame, command, param1, answer):
    s = station("px4")
    x, y, z = s.place(20, 20, 10)
    assert s.upload([(3, 16, 0, 0, 0, 0, x, y, z), (frame, command, param1, 5.0, -1.0, 0, x, y, z)]) == answer


@pytest.mark.parametrize(("kind", "command"), [(1, 5003), (2, 5100)])
def test_fences_and_rally_points_want_a_place(kind, command):
    s = station()
    assert s.upload([(3, command, 10.0, 0, 0, 0, *s.place(5, 5))], kind) == 0
    assert s.upload([(2, command, 10.0, 0, 0, 0, *s.place(5, 5))], kind) == mavlink.MAV_MISSION_UNSUPPORTED_FRAME


# -- signing


def signed(s, link, key, begin=10**12):
    """A station that signs with `key`."""
    one = Station(s.autopilot, link)
    signing = one.encoder.signing
    signing.secret_key, signing.sign_outgoing, signing.timestamp, signing.link_id = bytes(key), True, begin, 7
    one.decoder.signing.secret_key = bytes(key)
    return one


def test_with_a_key_only_signed_frames_are_obeyed_and_its_own_are_signed():
    s, key = station(), list(range(32))
    s.send("setup_signing", 1, 1, key, 10**12)
    s.run(0.1)
    assert "Signing on" in s.texts()
    assert int.from_bytes(s.heard[-1].get_msgbuf()[-12:-6], "little") > 10**12  # ours begin where the station says
    wrong, right = signed(s, "wrong", [9] * 32, 10**12 + 10**9), signed(s, "wrong", key)
    for one in (s, wrong):
        one.send("command_long", 1, 1, 400, 0, 1, 0, 0, 0, 0, 0, 0)
        s.run(0.1)
        assert not s.autopilot.pilot.look().armed
    assert "Refused: a frame that is not signed with the key" in s.texts()
    assert right.command(400, 1) == ACCEPTED  # what the wrong one sent has not spoilt its stream
    frame = right.encoder.signing.timestamp
    data = mavlink.MAVLink_command_long_message(1, 1, 400, 0, 0, 0, 0, 0, 0, 0, 0).pack(right.encoder)
    s.autopilot.receive(data, "wrong")
    s.run(0.1)
    assert not s.autopilot.pilot.look().armed
    assert right.command(400, 1) == ACCEPTED
    s.autopilot.receive(data, "wrong")  # sent again
    s.run(0.1)
    assert s.autopilot.pilot.look().armed
    assert right.decoder.signing.goodsig_count > 3
    assert right.encoder.signing.timestamp > frame
    right.send("setup_signing", 1, 1, [0] * 32, 0)
    right.run(0.1)
    assert "Refused: a key for signing while armed" in right.texts()
    assert right.command(400, 0) == ACCEPTED
    right.send("setup_signing", 1, 1, [0] * 32, 0)
    assert s.command(400, 1) == ACCEPTED  # off again
    assert s.heard[-1].get_msgbuf()[2] == 0  # incompatibility flags


# -- stations, parameters, everything else


def test_arducopter_obeys_the_sticks_of_its_own_station_only():
    s = flying()
    s.command(176, 1, 5)
    other = Station(s.autopilot, "other", system=254)
    for _ in range(15):
        other.send("rc_channels_override", 1, 1, 1500, 1300, 1500, 1500, 0, 0, 0, 0)
        s.send("manual_control", 7, 800, 0, 500, 0, 0)  # of another vehicle
        other.run(0.1)
    assert abs(s.fleet.state["y"][0]) < 0.05
    assert [text for text in other.texts() if "SYSID_MYGCS" in text]


def test_another_station_does_not_keep_arducopter_from_its_fail_safe():
    s = flying()
    s.set_parameter("FS_GCS_ENABLE", 1)
    other = Station(s.autopilot, "other", system=254)
    s.send("heartbeat", 6, 8, 0, 0, 0, 3)
    for _ in range(7):
        other.send("heartbeat", 6, 8, 0, 0, 0, 3)
        s.run(1.0)
    assert s.autopilot.pilot.mode == "RTL"


@pytest.mark.parametrize(
    ("name", "values", "answer"),
    [
        ("param_set", (1, 1, b"NOPE", 1.0, 9), "STATUSTEXT"),
        ("param_set", (1, 1, b"WPNAV_SPEED", NAN, 9), "STATUSTEXT"),
        ("param_request_read", (1, 1, b"NOPE", -1), "STATUSTEXT"),
        ("param_request_read", (1, 1, b"", 9999), "STATUSTEXT"),
        ("log_request_data", (1, 1, 3, 0, 90), "LOG_DATA"),
        ("log_erase", (1, 1), "STATUSTEXT"),
        ("param_map_rc", (1, 1, b"X", 0, 1, 0, 0, 0, 0), "STATUSTEXT"),
        ("play_tune", (1, 1, b"A"), "STATUSTEXT"),
        ("mount_control", (1, 1, 0, 0, 0, 0), "STATUSTEXT"),
        ("gimbal_manager_set_attitude", (1, 1, 0, 0, [1, 0, 0, 0], 0, 0, 0), "STATUSTEXT"),
        ("gimbal_manager_set_pitchyaw", (0, 0, 0, 0, 0.1, 0.1, 0, 0), "STATUSTEXT"),  # meant for everybody
        ("att_pos_mocap", (0, [1, 0, 0, 0], 0, 0, 0), "STATUSTEXT"),  # without a target
        ("autopilot_version_request", (1, 1), "AUTOPILOT_VERSION"),
        ("set_mode", (1, 0, 4), "STATUSTEXT"),  # without MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
        ("mission_set_current", (1, 1, 7), "STATUSTEXT"),
    ],
)
def test_what_is_meant_for_it_has_an_answer(name, values, answer):
    s = station()
    s.run(0.2)
    s.heard.clear()
    s.send(name, *values)
    s.run(0.1)
    assert answer in [m.get_type() for m in s.heard]


def test_px4_wants_the_type_of_a_parameter():
    s = station("px4")
    s.send("param_set", 1, 1, b"GF_ACTION", 3.0, mavlink.MAV_PARAM_TYPE_REAL32)
    s.run(0.1)
    assert s.autopilot.parameters["GF_ACTION"] < 10.0
    assert "Refused: GF_ACTION has another type" in s.texts()


@pytest.mark.parametrize("persona", ["ardupilot", "px4"])
def test_every_message_is_sent_when_asked_for_or_refused(persona):
    s = flying(persona)
    known = {number for number in BUILDERS if s.autopilot.knows(number)}
    for number in sorted({*mavlink.mavlink_map, 500, 65535}):
        s.heard.clear()
        result = s.command(512, number)
        assert (result == ACCEPTED) == any(m.get_msgId() == number for m in s.heard if m.get_type() != "COMMAND_ACK")
        assert (result == ACCEPTED) == (number in known - ({136} if persona == "ardupilot" else set()))
        assert (s.command(511, number, 1e6) == ACCEPTED) == (number in known)


def test_rates_are_kept_in_steps_of_half_a_frame():
    s = station()
    assert s.command(511, 30, 50_000) == ACCEPTED
    s.send("request_data_stream", 1, 1, 2, 10, 1)
    heard = [m.get_type() for m in s.run(2.0, step=0.01)]
    assert (heard.count("ATTITUDE"), heard.count("SYS_STATUS")) == pytest.approx((40, 20), abs=1)


def test_heartbeats_come_as_often_as_asked():
    s = station()
    assert s.command(511, 0, 200_000) == ACCEPTED
    beats = [m for m in s.run(4.0) if m.get_type() == "HEARTBEAT"]
    assert 18 <= len(beats) <= 21
    assert s.command(510, 0) == ACCEPTED
    assert s.last("MESSAGE_INTERVAL").interval_us == 200_000
    assert s.command(511, 0, 0) == ACCEPTED
    assert len([m for m in s.run(4.0) if m.get_type() == "HEARTBEAT"]) <= 5


def test_heights_of_a_take_off_by_command_int_are_above_home():
    s = station()
    s.command(176, 1, 4)
    s.command(400, 1)
    s.send("command_int", 1, 1, 3, 22, 0, 0, 0, 0, 0, 0, 0, 0, 12.0)
    assert acks(s, 22) == [ACCEPTED]
    s.until(lambda v: v.z > 11.5)
    assert s.autopilot.pilot.place().altitude == pytest.approx(ORIGIN[2] + 12.0, abs=0.6)

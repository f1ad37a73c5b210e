"""The protocol itself: identities, parameters, files, streams, time; and nonsense."""

from __future__ import annotations

import math
import struct
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymavlink.mavftp import MAVFTP

from cosim.autopilot.commands import HANDLERS
from cosim.autopilot.core import _HANDLERS, Autopilot
from cosim.autopilot.dialect import mavlink
from cosim.autopilot.parameters import Parameters, table
from cosim.autopilot.personas import PERSONAS
from cosim.autopilot.streams import DEFAULT
from cosim.autopilot.telemetry import BUILDERS
from cosim.physics.vehicles import Copter, VehicleFleet
from tests.unit.autopilot.wire import ORIGIN, Station, flying, station


def kinds(messages):
    return Counter(m.get_type() for m in messages)


# -- parameters and files


def test_parameters_come_completely_with_stable_indices():
    s = station()
    s.send("param_request_list", 1, 1)
    got = [m for m in s.run(5.0) if m.get_type() == "PARAM_VALUE"]
    assert [m.param_index for m in got] == list(range(len(s.autopilot.parameters)))
    assert {m.param_count for m in got} == {len(got)}
    assert [m.param_id for m in got] == sorted(m.param_id for m in got)
    s.send("param_request_read", 1, 1, b"", 7)
    assert s.collect()[-1].param_id == got[7].param_id


def test_values_are_cast_or_bytewise():
    s = station()
    assert s.set_parameter("BATT_FS_LOW_ACT", 2.4) == 2.0
    with pytest.raises(StopIteration):  # ArduPilot says nothing to that
        s.set_parameter("WPNAV_SPEED", math.nan)
    assert s.autopilot.parameters["WPNAV_SPEED"] == 1000.0
    s = station("px4")
    field = struct.unpack("<f", struct.pack("<i", -1))[0]
    assert s.set_parameter("COM_FLTMODE1", field) != field or math.isnan(field)
    assert s.autopilot.parameters["COM_FLTMODE1"] == -1
    assert s.set_parameter("MPC_XY_CRUISE", 7.5) == 7.5
    assert s.fleet.frames["speed"][0] == 7.5


def test_parameters_show_and_change_the_vehicle():
    s = station(vehicle=Copter(speed=8.0))
    assert s.autopilot.parameters["WPNAV_SPEED"] == 800.0
    s.set_parameter("RTL_ALT", 3000.0)
    assert s.fleet.frames["return_height"][0] == 30.0


@pytest.mark.parametrize("persona", PERSONAS.values(), ids=lambda p: f"{p.name}-{p.frame}")
def test_tables_hold_together(persona):
    found = table(persona)
    assert len(found) > 190
    for parameter in found.values():
        assert len(parameter.name) <= 16
        assert parameter.low <= parameter.default <= parameter.high + 1e-6, parameter
        assert parameter.meaning


@pytest.mark.parametrize("defaults", [False, True])
def test_pymavlink_reads_the_packed_parameters(defaults):
    s = station()
    s.set_parameter("RTL_ALT", 4321.0)
    s.set_parameter("FENCE_RADIUS", 123.5)
    decoded = MAVFTP.ftp_param_decode(s.autopilot.parameters.packed(defaults))
    assert {name.decode(): value for name, value, _ in decoded.params} == pytest.approx(
        {name: s.autopilot.parameters[name] for name in s.autopilot.parameters.names}
    )
    if defaults:
        assert {n.decode(): v for n, v, _ in decoded.defaults}["RTL_ALT"] == 1500.0


def ftp(s, opcode, offset=0, data=b"", size=None):
    payload = struct.pack("<HBBBBBBI", 3, 0, opcode, len(data) if size is None else size, 0, 0, 0, offset) + data
    s.send("file_transfer_protocol", 0, 1, 1, list(payload.ljust(251, b"\0")))
    got = [m for m in s.run(1.0) if m.get_type() == "FILE_TRANSFER_PROTOCOL"]
    return [bytes(m.payload) for m in got]


def test_files_are_read_in_bursts_and_others_refused():
    s = station()
    (opened,) = ftp(s, 4, data=b"@PARAM/param.pck")
    assert opened[3] == 128
    size = struct.unpack_from("<I", opened, 12)[0]
    content = {}
    for payload in ftp(s, 15, size=80):
        offset = struct.unpack_from("<I", payload, 8)[0]
        content[offset] = payload[12 : 12 + payload[4]]
    whole = b"".join(content[offset] for offset in sorted(content))
    assert whole == s.autopilot.parameters.packed()
    assert len(whole) == size
    (piece,) = ftp(s, 5, offset=10, size=20)
    assert piece[12:32] == whole[10:30]
    (end,) = ftp(s, 5, offset=size, size=20)
    assert (end[3], end[12]) == (129, 6)
    (missing,) = ftp(s, 4, data=b"/etc/passwd")
    assert (missing[3], missing[12]) == (129, 10)
    (none,) = ftp(station("px4"), 4, data=b"@PARAM/param.pck")
    assert none[3] == 129


# -- streams and time


def test_default_streams_have_their_rates():
    s = station()
    s.run(1.0)
    counts = kinds(s.run(10.0))
    assert counts["GLOBAL_POSITION_INT"] == pytest.approx(40, abs=1)
    assert counts["HEARTBEAT"] == pytest.approx(10, abs=1)
    assert sum(counts.values()) / 10.0 == pytest.approx(1.0 + sum(DEFAULT.values()), rel=0.05)


def test_rates_follow_both_requests():
    s = station()
    s.send("request_data_stream", 1, 1, 6, 10, 1)
    assert s.command(511, 30, 50_000) == 0
    assert s.command(511, 74, -1) == 0
    assert s.command(511, 12345, 1000) == 2  # as ArduPilot answers; PX4: 3
    assert station("px4").command(511, 12345, 1000) == 3
    s.run(1.0)
    counts = kinds(s.run(10.0, step=0.01))
    assert counts["GLOBAL_POSITION_INT"] == pytest.approx(100, abs=2)
    assert counts["ATTITUDE"] == pytest.approx(200, abs=3)
    assert counts["VFR_HUD"] == 0
    s.command(510, 30)
    assert s.last("MESSAGE_INTERVAL").interval_us == 50_000


def test_heartbeats_go_on_while_simulated_time_stands_still():
    s = station()
    s.run(1.0)
    heard = []
    for _ in range(100):  # 10 s of wall time
        s.wall += 0.1
        heard += s.collect()
    assert 9 <= kinds(heard)["HEARTBEAT"] <= 11
    assert set(kinds(heard)) == {"HEARTBEAT"}


def test_sped_up_telemetry_is_thinned_and_answers_are_not():
    s = station()
    s.send("request_data_stream", 1, 1, 0, 10, 1)
    s.run(5.0, step=0.05, speed=20.0)
    counts = kinds(s.run(100.0, step=0.05, speed=20.0))  # 5 s of wall time
    assert sum(counts.values()) / 5.0 <= 1.3 * max(200.0, sum(s.autopilot.streams.rates.values()))
    assert max(counts.values()) / 5.0 <= 50.0
    assert min(counts[kind] for kind in ("ATTITUDE", "GLOBAL_POSITION_INT", "VFR_HUD")) > 25
    for _ in range(500):
        s.send("command_long", 1, 1, 512, 0, 148, 0, 0, 0, 0, 0, 0)
    assert kinds(s.collect())["COMMAND_ACK"] == 500


def test_time_fields_carry_simulated_time():
    s = station()
    s.run(20.0, speed=10.0)
    assert s.last("ATTITUDE").time_boot_ms == pytest.approx(20_000, abs=300)
    s.send("timesync", 0, 77)
    answer = s.collect()[-1]
    assert answer.ts1 == 77
    assert answer.tc1 / 1e9 == pytest.approx(s.autopilot.epoch + 20.0, abs=0.1)


def test_each_link_counts_its_own_messages():
    s = station()
    other = Station(s.autopilot, "second")
    s.run(2.0)
    s.command(512, 148)
    sequence = []
    for _ in range(20):
        s.fleet.advance(s.fleet.now + 0.25)
        s.wall += 0.25
        for link, data in s.autopilot.emit(s.fleet.now, s.wall):
            if link == "second":
                sequence += [m.get_seq() for m in other.decoder.parse_buffer(data)]
    assert all((b - a) % 256 == 1 for a, b in pairwise(sequence))
    s.autopilot.disconnect("second")
    assert {link for link, _ in s.autopilot.emit(s.fleet.now, s.wall + 2.0)} == {"gcs"}


# -- who is meant, and nonsense


def test_only_messages_for_it_count():
    s = station()
    s.send("command_long", 7, 1, 400, 0, 1, 0, 0, 0, 0, 0, 0)
    assert not s.autopilot.pilot.look().armed
    gimbal = Station(s.autopilot, "gcs", system=1)  # a component of the same system that was heard
    gimbal.encoder.srcComponent = 154
    gimbal.send("heartbeat", 26, 8, 0, 0, 0, 3)
    s.send("command_long", 1, 154, 400, 0, 1, 0, 0, 0, 0, 0, 0)
    assert not s.autopilot.pilot.look().armed
    s.send("command_long", 0, 0, 400, 0, 1, 0, 0, 0, 0, 0, 0)  # dronekit's way
    assert s.autopilot.pilot.look().armed
    assert s.command(4242) == 3
    s = station()  # a real ArduPilot answers for components that nobody has heard of, PX4 does not
    s.send("command_long", 1, 154, 400, 0, 1, 0, 0, 0, 0, 0, 0)
    assert s.autopilot.pilot.look().armed
    s = station("px4")
    s.send("command_long", 1, 154, 400, 0, 1, 0, 0, 0, 0, 0, 0)
    assert not s.autopilot.pilot.look().armed


def test_mavlink_1_is_understood():
    s = station()
    arm = mavlink.MAVLink_command_long_message(0, 0, 400, 0, 1, 0, 0, 0, 0, 0, 0)
    s.autopilot.receive(arm.pack(s.encoder, force_mavlink1=True), "old")
    assert s.autopilot.pilot.look().armed


def test_every_message_can_be_asked_for():
    for persona in ("ardupilot", "px4"):
        s = flying(persona)
        for number in filter(s.autopilot.knows, BUILDERS):
            # 136: ArduPilot has terrain only where it flies by it
            assert s.command(512, number) == (4 if number == 136 and persona == "ardupilot" else 0), number
        assert {BUILDERS[number] for number in BUILDERS} == set(BUILDERS.values())


REALS = st.one_of(st.floats(width=32), st.sampled_from([0.0, 1.0, -1.0, 4.0, 21196.0]))


@st.composite
def messages(draw):
    """Any message that the autopilot acts on, with any values."""
    handled = sorted({*_HANDLERS, "MISSION_COUNT", "MISSION_ITEM", "MISSION_ITEM_INT", "MISSION_REQUEST",
        "MISSION_REQUEST_INT", "MISSION_REQUEST_LIST", "MISSION_CLEAR_ALL", "MISSION_SET_CURRENT",
        "MISSION_WRITE_PARTIAL_LIST", "MISSION_REQUEST_PARTIAL_LIST"})  # fmt: skip
    name = draw(st.sampled_from(handled))
    kind = getattr(mavlink, f"MAVLink_{name.lower()}_message")
    values = []
    lengths = dict(zip(kind.ordered_fieldnames, kind.array_lengths, strict=True))
    for field, form in zip(kind.fieldnames, kind.fieldtypes, strict=True):
        if form == "char":
            values.append(draw(st.sampled_from([b"WPNAV_SPEED", b"BATT_LOW_MAH", b"FENCE_ENABLE", b"NONE"])))
            continue
        if form in ("float", "double"):
            one = REALS
        else:
            bits = int("".join(c for c in form.split("_")[0] if c.isdigit()))
            low, high = (0, 2**bits - 1) if form.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            one = st.integers(low, high)
            if field in ("target_system", "target_component", "mission_type", "current", "seq", "frame"):
                one = st.one_of(st.integers(0, min(high, 3)), one)
            if field == "command":
                one = st.one_of(st.sampled_from([*sorted(HANDLERS[False]), 16, 17, 18, 82, 93, 177, 5001, 5003]), one)
        size = lengths[field]
        values.append(draw(st.lists(one, min_size=size, max_size=size)) if size else draw(one))
    return kind(*values)


@settings(max_examples=150, deadline=None)
@given(persona=st.sampled_from(["ardupilot", "px4"]), sent=st.lists(messages(), max_size=12))
def test_no_message_breaks_it(persona, sent):
    fleet = VehicleFleet([Copter()], [(0, 0, 0)])
    autopilot = Autopilot(fleet, 0, persona=persona, origin=ORIGIN, ready_after=0.0)
    encoder = mavlink.MAVLink(None, 255, 190)
    autopilot.pilot.arm()
    autopilot.pilot.set_mode("GUIDED" if persona == "ardupilot" else "HOLD")
    autopilot.pilot.take_off(10.0)
    fleet.advance(8.0)
    wall = 0.0
    for number, message in enumerate(sent, 1):
        autopilot.receive(message.pack(encoder), "gcs")
        fleet.advance(8.0 + 0.5 * number)
        wall += 0.5
        autopilot.emit(fleet.now, wall)
    state = fleet.state[0]
    assert all(math.isfinite(state[axis]) for axis in ("x", "y", "z", "vx", "vy", "vz", "charge"))


@given(st.lists(st.binary(max_size=80), max_size=10))
@settings(max_examples=50, deadline=None)
def test_noise_on_a_link_is_passed_over(pieces):
    s = station()
    for piece in pieces:
        s.autopilot.receive(piece, "gcs")
    s.autopilot.receive(b"\0" * 600, "gcs")
    assert s.command(512, 148) == 0


@given(st.dictionaries(st.sampled_from(Parameters(PERSONAS["ardupilot", "copter"]).names), st.floats(width=32)))
@settings(max_examples=50, deadline=None)
def test_any_values_can_be_packed(values):
    parameters = Parameters(PERSONAS["ardupilot", "copter"])
    for name, value in values.items():
        parameters.set(name, value)
    decoded = MAVFTP.ftp_param_decode(parameters.packed())
    assert {name.decode(): value for name, value, _ in decoded.params} == {n: parameters[n] for n in parameters.names}

"""Nothing that a client sends ends a flight: all parameters, all commands, random and damaged frames, on a mission.

What comes back is compared with MAVLink's own definitions, the XML files that pymavlink brings along.
"""

from __future__ import annotations

import math
import random
import socket
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pymavlink.dialects import v20

from cosim.autopilot.core import _HANDLERS
from cosim.autopilot.dialect import mavlink
from cosim.autopilot.external import External
from cosim.autopilot.table import Address
from cosim.physics.vehicles import Rover
from tests.unit.autopilot.wire import flying, station

VEHICLES = [("ardupilot", "copter"), ("ardupilot", "rover"), ("px4", "copter"), ("px4", "rover")]
EXTREMES = (0.0, -1.0, 1.0, 127.0, 32767.0, 3e38, -1e9, 1e9)
FLOATS = (*EXTREMES, math.nan, math.inf, -math.inf, 1e-30, 45.0, 1e12)
COMMANDS = [number for number in sorted(mavlink.enums["MAV_CMD"]) if number < 65536]
MESSAGES = [m for m in mavlink.mavlink_map.values() if m.msgname != "SETUP_SIGNING"]  # then unsigned ones are ignored
HANDLED = [m for m in MESSAGES if m.msgname in _HANDLERS or m.msgname.startswith("MISSION_")]
FIELDS = {
    (message.get("name"), field.get("name")): field.attrib
    for name in ("minimal", "common", "ardupilotmega")
    for message in ElementTree.parse(Path(v20.__path__[0]) / f"{name}.xml").iter("message")
    for field in message.iter("field")
}
UNKNOWN = {"uint8_t": 255, "uint16_t": 65535, "uint32_t": 2**32 - 1, "int8_t": -1, "int16_t": 32767}
UNITS = {"%": (0.0, 100.0), "d%": (0.0, 1000.0), "degE7": (-180e7, 180e7), "cdeg": (-36000.0, 36000.0)}


def outside(message):
    """Numbers of a message that its definition does not allow."""
    found = []
    for name, kind in zip(message.fieldnames, message.fieldtypes, strict=True):
        about, value = FIELDS.get((message.get_type(), name), {}), getattr(message, name)
        low, high = UNITS.get(about.get("units"), (-math.inf, math.inf))
        low, high = max(low, float(about.get("minValue", low))), min(high, float(about.get("maxValue", high)))
        members = mavlink.enums.get(message.fieldenums_by_name.get(name, ""), {})
        listed = members and name not in message.fielddisplays_by_name
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str | bytes) or one in (UNKNOWN.get(kind), 0) or (one != one and kind == "float"):
                continue
            if not low <= one <= high or (listed and one not in members):
                found.append((message.get_type(), name, one))
    return found


def on_a_mission(persona, frame):
    """A vehicle on its way to a far waypoint."""
    s, px4, copter = None, persona == "px4", frame == "copter"
    s = flying(persona) if copter else station(persona, Rover())
    far = [(3, 16, 0, 0, 0, 0, *s.place(3000.0, 50.0 * k)[:2], 20.0) for k in range(5)]
    assert s.upload(far) == mavlink.MAV_MISSION_ACCEPTED
    s.command(400, 1)
    assert s.command(176, 1, 4 if px4 else 3 if copter else 10, 4 if px4 else 0) == mavlink.MAV_RESULT_ACCEPTED
    s.run(3.0)
    v = s.autopilot.pilot.look()
    assert v.armed
    assert math.hypot(v.vx, v.vy) > 0.5
    return s


def still_going(s, persona, frame):
    """The same vehicle, or another one if that one is on its mission no more."""
    pilot, v = s.autopilot.pilot, s.autopilot.pilot.look()
    goes = v.armed and pilot.behaviour == "mission" and (frame == "rover" or not v.landed)
    return s if goes else on_a_mission(persona, frame)


def everything(s):
    """Ask for every message once: each is within its definition, and the state is finite."""
    a = s.autopilot
    for number in mavlink.mavlink_map:
        if a.knows(number):
            a.send_now(number)
    assert [trouble for m in s.collect() for trouble in outside(m)] == []
    assert not a.troubles
    v = a.pilot.look()
    assert all(math.isfinite(getattr(v, part)) for part in ("x", "y", "z", "vx", "vy", "vz", "charge", "heading"))


def set_parameters(persona, frame, every, first=0):
    s = on_a_mission(persona, frame)
    for name in s.autopilot.parameters.names[first::every]:
        parameters = s.autopilot.parameters
        before, kind = parameters[name], parameters.wire(name)[1]
        whole = s.autopilot.persona.px4 and parameters.table[name].type != "float"
        for value in EXTREMES:
            bits = struct.pack("<i", int(max(min(value, 2**31 - 1), -(2**31))))
            s.send("param_set", 1, 1, name.encode(), struct.unpack("<f", bits)[0] if whole else value, kind)
            s.run(0.1)
            everything(s)
        parameters.set(name, before)
        s.autopilot.pilot.tune(name)
        s = still_going(s, persona, frame)


def give_orders(persona, frame, every, first=0):
    s = on_a_mission(persona, frame)
    for number in COMMANDS[first::every]:
        for value in (*EXTREMES, math.nan, math.inf):
            place = int(max(-(2**31), min(2**31 - 1, value))) if math.isfinite(value) else 2**31 - 1
            s.send("command_long", 1, 1, number, 0, *[value] * 7)
            for kind in (0, 3, 6, 10):
                s.send("command_int", 1, 1, kind, number, 0, 0, *[value] * 4, place, place, value)
            s.send("mission_item_int", 1, 1, 0, 3, number, 2, 1, *[value] * 4, place, place, value, 0)
            s.run(0.05)
            everything(s)
            s = still_going(s, persona, frame)


def number_for(draw, kind):
    if kind in ("float", "double"):
        return draw.choice(FLOATS) if draw.random() < 0.7 else draw.uniform(-1e4, 1e4)
    bits = int(kind.strip("uint_"))
    low, high = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return draw.choice((low, high, 0, 1, draw.randint(low, high)))


def random_frame(draw, encoder, names):
    """A message of any kind, most of those that vehicles act on; its numbers are extreme more often than not."""
    made = draw.choice(HANDLED if draw.random() < 0.7 else MESSAGES)
    values = {}
    for name, kind in zip(made.fieldnames, made.fieldtypes, strict=True):
        size = made.array_lengths[made.ordered_fieldnames.index(name)]
        if name == "param_id":
            values[name] = draw.choice(names).encode()
        elif kind == "char":
            values[name] = draw.randbytes(size or 1)
        elif name.startswith("target"):
            values[name] = draw.choice((0, 1, 1, 1))
        elif name == "command" and not size:
            values[name] = draw.choice(COMMANDS)
        else:
            values[name] = [number_for(draw, kind) for _ in range(size)] if size else number_for(draw, kind)
        if name == "command" and kind == "uint8_t":
            values[name] %= 256
    encoder.seq = (encoder.seq + 1) % 256
    return made(**values).pack(encoder)


def damaged(draw, data):
    """The frame with other bytes, maybe cut off; the check sum of every second one is right again."""
    hurt = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        hurt[draw.randrange(len(hurt))] = draw.randrange(256)
    if draw.random() < 0.5:
        hurt[:3] = 253, len(hurt) - 12, 0
        extra = getattr(mavlink.mavlink_map.get(int.from_bytes(hurt[7:10], "little")), "crc_extra", 0)
        hurt[-2:] = mavlink.x25crc(bytes(hurt[1:-2]) + bytes((extra,))).crc.to_bytes(2, "little")
    return bytes(hurt[: draw.choice((len(hurt), draw.randint(1, len(hurt))))])


def bombard(persona, frame, count):
    draw = random.Random(count)
    encoder = mavlink.MAVLink(None, srcSystem=255, srcComponent=190)
    s = on_a_mission(persona, frame)
    for k in range(1, count + 1):
        data = random_frame(draw, encoder, s.autopilot.parameters.names)
        s.autopilot.receive(damaged(draw, data) if draw.random() < 0.3 else data, s.link)
        if k % 20 == 0:
            s.run(0.1)
        if k % 200 == 0:
            everything(s)
            s = still_going(s, persona, frame)


@pytest.mark.parametrize(("persona", "frame"), VEHICLES)
@pytest.mark.parametrize("attack", [set_parameters, give_orders])
def test_some_parameters_and_orders_end_no_flight(attack, persona, frame):
    attack(persona, frame, 40, 3)


@pytest.mark.parametrize(("persona", "frame"), VEHICLES)
def test_some_random_and_damaged_frames_end_no_flight(persona, frame):
    bombard(persona, frame, 1000)


@pytest.mark.slow
@pytest.mark.parametrize(("persona", "frame"), VEHICLES)
def test_no_parameter_and_no_order_ends_a_flight(persona, frame):
    set_parameters(persona, frame, 1)
    give_orders(persona, frame, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("persona", "frame"), VEHICLES)
def test_100000_frames_end_no_flight(persona, frame):
    bombard(persona, frame, 25_000)


def test_vehicles_of_others_may_send_anything():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        external = External(udp=Address("127.0.0.1", 0))
        draw, encoder = random.Random(1), mavlink.MAVLink(None, srcSystem=7, srcComponent=1)
        try:
            for k in range(2000):
                data = random_frame(draw, encoder, ["NAME"])
                other.sendto(damaged(draw, data) if k % 3 == 0 else data, external._socket.getsockname())
                external.poll(0.01 * k)
            assert 7 in external.vehicles
        finally:
            external.close()

"""A ground station in memory: what an autopilot sends, decoded, and what a client would send to it."""

from __future__ import annotations

import math

import numpy as np

from cosim.autopilot import Autopilot
from cosim.autopilot.dialect import mavlink
from cosim.physics.vehicles import Copter, Rover, VehicleFleet

ORIGIN = (38.24, 21.73, 60.0)  # deg, deg, m


def rotation(roll, pitch, yaw):
    """From forward, right, down to north, east, down."""
    (sr, cr), (sp, cp), (sy, cy) = ((math.sin(angle), math.cos(angle)) for angle in (roll, pitch, yaw))
    return np.array([
        [cp * cy, sr * sp * cy - cr * sy, cr * sp * cy + sr * sy],
        [cp * sy, sr * sp * sy + cr * cy, cr * sp * sy - sr * cy],
        [-sp, sr * cp, cr * cp],
    ])  # fmt: skip


class Station:
    """One client on one link, and the clock of the fleet."""

    def __init__(self, autopilot, link="gcs", system=255):
        self.autopilot, self.link = autopilot, link
        self.fleet = autopilot.pilot.fleet
        self.encoder = mavlink.MAVLink(None, srcSystem=system, srcComponent=190)
        self.decoder = mavlink.MAVLink(None)
        self.heard = []
        self.wall = 0.0
        autopilot.connect(link)

    def send(self, name, *values, **named):
        """Send the message `name` with these fields, as bytes."""
        message = getattr(mavlink, f"MAVLink_{name.lower()}_message")(*values, **named)
        self.autopilot.receive(message.pack(self.encoder), self.link)
        self.encoder.seq = (self.encoder.seq + 1) % 256

    def command(self, number, *params):
        """Send a COMMAND_LONG; the result in its acknowledgement."""
        self.send("command_long", self.autopilot.sysid, 1, number, 0, *params, *[0.0] * (7 - len(params)))
        acks = [m for m in self.collect() if m.get_type() == "COMMAND_ACK" and m.command == number]
        return acks[-1].result

    def collect(self):
        """What the autopilot has to send at this moment, decoded."""
        got = []
        for link, data in self.autopilot.emit(self.fleet.now, self.wall):
            if link == self.link:
                got += self.decoder.parse_buffer(data)
        self.heard += got
        return got

    def run(self, seconds, step=0.05, speed=1.0):
        """Let simulated time pass; the messages heard."""
        first = len(self.heard)
        for _ in range(round(seconds / step)):
            self.fleet.advance(self.fleet.now + step)
            self.wall += step / speed
            self.collect()
        return self.heard[first:]

    def until(self, condition, limit=200.0):
        """Run until `condition(view)`; the seconds it took."""
        begun = self.fleet.now
        while not condition(self.autopilot.pilot.look()):
            assert self.fleet.now - begun < limit, f"not within {limit} s: {self.autopilot.pilot.look()}"
            self.run(0.1)
        return self.fleet.now - begun

    def last(self, kind):
        """The last message of a kind."""
        return next(m for m in reversed(self.heard) if m.get_type() == kind)

    def texts(self):
        """All STATUSTEXT so far."""
        return [m.text for m in self.heard if m.get_type() == "STATUSTEXT"]

    def upload(self, items, kind=0):
        """Send items (frame, command, p1..p4, x, y, z) as they are asked for; the type in the MISSION_ACK."""
        a = self.autopilot
        self.send("mission_count", a.sysid, 1, len(items), kind)
        for _ in range(4 * len(items) + 4):
            for m in self.collect():
                if m.get_type() == "MISSION_ACK":
                    return m.type
                if m.get_type() in ("MISSION_REQUEST", "MISSION_REQUEST_INT"):
                    frame, command, *params, x, y, z = items[m.seq]
                    self.send("mission_item_int", a.sysid, 1, m.seq, frame, command, 0, 1, *params, x, y, z, kind)
        raise AssertionError("no MISSION_ACK")

    def download(self, kind=0):
        """The stored items, as MISSION_ITEM_INT."""
        a = self.autopilot
        self.send("mission_request_list", a.sysid, 1, kind)
        count = next(m.count for m in self.collect() if m.get_type() == "MISSION_COUNT")
        items = []
        for seq in range(count):
            self.send("mission_request_int", a.sysid, 1, seq, kind)
            items += [m for m in self.collect() if m.get_type() == "MISSION_ITEM_INT"]
        return items

    def set_parameter(self, name, value):
        """PARAM_SET of a float or, by ArduPilot, of any number; PX4's integers as bytes. The echoed value."""
        self.send("param_set", self.autopilot.sysid, 1, name.encode(), value, self.autopilot.parameters.wire(name)[1])
        return next(m for m in self.collect() if m.get_type() == "PARAM_VALUE").param_value

    def place(self, east, north, up=0.0):
        """1e-7 deg, 1e-7 deg, m above the origin."""
        p = self.autopilot.pilot.ground.place(east, north, up)
        return round(p.latitude * 1e7), round(p.longitude * 1e7), up


def station(persona="ardupilot", vehicle=None, ready_after=0.0, **options):
    """A station with one vehicle at the origin."""
    fleet = VehicleFleet([vehicle or Copter()], [(0.0, 0.0, 0.0)], **options)
    return Station(Autopilot(fleet, 0, persona=persona, origin=ORIGIN, ready_after=ready_after))


def rover(**options):
    """A station with a rover."""
    return station(vehicle=Rover(), **options)


def flying(persona="ardupilot", height=10.0, **options):
    """A station whose copter hovers at `height` m, in a guided mode."""
    s = station(persona, **options)
    s.run(0.1)
    if persona == "ardupilot":
        assert s.command(176, 1, 4) == 0
    assert s.command(400, 1) == 0
    assert s.command(22, 0, 0, 0, 0, 0, 0, height + (ORIGIN[2] if persona == "px4" else 0.0)) == 0
    s.until(lambda v: v.z > height - 0.4)
    s.run(1.0)
    return s

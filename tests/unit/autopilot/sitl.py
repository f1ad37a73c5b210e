"""A stand-in for ArduPilot in software in the loop: our persona and our pilot on the physics of the run.

It has both ends of the real one: motor outputs by the JSON interface, and MAVLink at the TCP port of serial1. Its clock
goes on by the answers of the physics only. `write` makes a program of it that is started with the real one's options.
"""

from __future__ import annotations

import argparse
import math
import shutil
import socket
import sys
import tempfile
import threading
import time
import zipapp
from pathlib import Path

import numpy as np

from cosim.autopilot.core import Autopilot
from cosim.autopilot.json_pilot import JsonPilot, parse
from cosim.autopilot.links import Endpoint, LinkEndpoints
from cosim.autopilot.table import Address
from cosim.physics.vehicles import Copter, Rover, VehicleFleet
from cosim.physics.vehicles.layout import GO, RETURN
from tests.unit.autopilot.stand_in import packet

GEO = (39.36, 22.95, 60.0)
SLICE = 0.02  # s between two looks at MAVLink


class Sitl(threading.Thread):
    """An ArduPilot of a vehicle at `home` (m). `change` is called in its thread with it every 20 ms, simulated."""

    def __init__(
        self, port, home, *, rover=False, rate=200, ready_after=10.0, change=lambda sitl: None, geo=GEO, sysid=7
    ):
        super().__init__(daemon=True)
        self.fleet = VehicleFleet([Rover() if rover else Copter(dynamics="rigid")], [home], substep=0.0025)
        self.autopilot = Autopilot(self.fleet, 0, sysid=sysid, origin=geo, ready_after=ready_after)
        self.orders = []  # s, name of every message that came, with what it says
        self.autopilot._tap = lambda now, _, frame: self.orders.append((now, self._read(frame)))
        self.endpoint = Endpoint(self.autopilot, tcp=Address("127.0.0.1", 5762 + port - 9002))
        self.endpoints = LinkEndpoints([self.endpoint])
        at = Address("127.0.0.1", port)
        self.pilot = Wheels(self.fleet, at, rate) if rover else JsonPilot(self.fleet, 0, at, rate=rate)
        self.change, self.ended, self.free = change, threading.Event(), threading.Event()
        self.free.set()
        self.start()

    @property
    def mode(self):
        return self.autopilot.pilot.mode

    def run(self):
        while not self.ended.is_set() and not self.pilot.seek():
            time.sleep(0.01)
        while not self.ended.is_set():
            self.free.wait()
            if not self.pilot.fly(self.fleet.now + SLICE, 0.5):
                continue
            self.fleet.now += SLICE
            self.change(self)
            self.autopilot.watch(self.fleet.now)
            self.endpoints.poll(0.0)
            self.endpoints.send(self.fleet.now, time.monotonic())
        self.endpoints.close()
        self.pilot.close()

    def close(self):
        self.ended.set()
        self.free.set()
        self.join()

    def _read(self, frame):
        from cosim.autopilot.dialect import mavlink

        return mavlink.MAVLink(None).parse_buffer(frame)[0]

    def commands(self, number):
        """When (s) and with which parameters a command came."""
        found = [(now, m) for now, m in self.orders if m.get_type() == "COMMAND_LONG" and m.command == number]
        return [(now, m.param1, m.param2, m.param7) for now, m in found]


class Wheels:
    """A rover: steering and throttle towards what its fleet has been told."""

    def __init__(self, fleet, at, rate):
        self.fleet, self.at, self.rate, self.now, self.count, self.home = fleet, at, rate, 0.0, 0, fleet.state[0].copy()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.pulses = [1500] * 4

    def seek(self):
        return self.fly(self.now + 1.0 / self.rate, 0.1)

    def fly(self, until, patience):
        self.socket.settimeout(patience)
        while self.now < until - 1e-9:
            try:
                self.socket.sendto(packet(self.count + 1, self.pulses, self.rate), self.at)
                reported = parse(self.socket.recv(2048))
            except (TimeoutError, ConnectionError):
                return False
            self.count, self.now = self.count + 1, reported.time
            self._decide(reported)
        return True

    def _decide(self, reported):
        s = self.fleet.state[0]
        w, x, y, z = reported.quaternion
        s["heading"] = 0.5 * math.pi - math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
        for axis, value in zip("xyz", reported.place, strict=True):
            s[axis] = self.home[axis] + value
        place = [s["target_x"], s["target_y"]] if s["mode"] == GO else [s["home_x"], s["home_y"]]
        far = math.hypot(place[0] - s["x"], place[1] - s["y"])
        self.pulses = [1500] * 4
        if s["armed"] and s["mode"] in (GO, RETURN) and far > 0.5 * self.fleet.frames["radius"][0]:
            turn = math.remainder(math.atan2(place[0] - s["x"], place[1] - s["y"]) - s["heading"], 2 * math.pi)
            self.pulses[0] = round(1500 + 400 * float(np.clip(2.0 * turn, -1.0, 1.0)))
            top = s["speed"] if s["speed"] > 0.0 else self.fleet.frames["speed"][0]
            fast = min(far, top) / self.fleet.frames["speed"][0]
            self.pulses[2] = round(1500 + 400 * (fast if abs(turn) < 0.5 else 0.05))

    def close(self):
        self.socket.close()


def started(words=None):
    """The one that a command line of ArduPilot's starts, with some options of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("-I", type=int, default=0)
    parser.add_argument("--home", required=True)
    parser.add_argument("--sysid", type=int, default=1)
    parser.add_argument("--serial0")
    parser.add_argument("--defaults")
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--ready", type=float, default=10.0)
    parser.add_argument("--unknown", action="append", default=[], help="a parameter that this version has not")
    given = parser.parse_args(words)
    assert given.model == "JSON:127.0.0.1"
    *place, _ = map(float, given.home.split(","))
    sys.stdout.write(Path(given.defaults.split(",")[-1]).read_text())
    sys.stdout.flush()
    made = Sitl(
        9002 + 10 * given.I, (0.0, 0.0, 0.0), rate=given.rate, ready_after=given.ready, geo=tuple(place),
        sysid=given.sysid,
    )  # fmt: skip
    known = made.autopilot.parameters
    known.table = {name: one for name, one in known.table.items() if name not in given.unknown}
    return made


def write(path, interpreter=sys.executable):
    """The program as one file that can be executed, wherever `interpreter` finds the package."""
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / "tests" / "unit" / "autopilot"
        inside.mkdir(parents=True)
        for name in ("sitl.py", "stand_in.py"):
            shutil.copy(Path(__file__).with_name(name), inside)
        (Path(folder) / "__main__.py").write_text("from tests.unit.autopilot import sitl\n\nsitl.started().join()\n")
        zipapp.create_archive(folder, path, interpreter)
    path.chmod(0o755)
    return path

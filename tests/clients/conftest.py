"""Client programs of others, each in a virtual environment of its own, and vehicles for them to fly."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.environments import interpreter
from tests.ports import free_port

HERE = Path(__file__).parent
REQUIREMENTS = {
    "pymavlink": ("pymavlink>=2.4",),
    "mavsdk3": ("mavsdk<4",),
    "mavsdk4": ("mavsdk>=4,<5",),
    "mavproxy": ("MAVProxy>=1.8",),
    "dronekit": ("dronekit>=2.9", "future"),
}


class Vehicle:
    """A vehicle in a process of its own, sending to `port`."""

    def __init__(self, persona, frame, speed):
        self.port = free_port(socket.SOCK_DGRAM)
        words = ["--persona", persona, "--frame", frame, "--speedup", str(speed), "--udp", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cosim.autopilot", *words], stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1]
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("vehicle"), "the vehicle did not start"

    def close(self):
        """Stop it; what it says about its pace."""
        self.process.terminate()
        try:
            out, _ = self.process.communicate(timeout=10.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, _ = self.process.communicate()
        return out


@pytest.fixture
def fly():
    """`fly(client, persona, speed, frame)` runs the client's script against a vehicle; the steps that it did."""
    vehicles = []

    def run(client, persona, speed, frame="copter", script=None, limit=450.0):
        python = interpreter(client, *REQUIREMENTS[client])
        vehicle = Vehicle(persona, frame, speed)
        vehicles.append(vehicle)
        script = HERE / f"fly_{script or client}.py"
        process = subprocess.Popen(
            [python, "-u", script, str(vehicle.port), persona, str(speed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        timer = threading.Timer(limit, lambda: os.killpg(process.pid, 9))
        timer.start()
        out, _ = process.communicate()
        timer.cancel()
        pace = vehicle.close()
        print(out, pace)  # noqa: T201 - shown by pytest when it fails
        assert process.returncode == 0, f"{client} with {persona} at {speed}x:\n{out[-3000:]}\n{pace}"
        # not by lines: a library of the client writes into them from another thread: "(ok armsystem_impl.cpp:390)"
        return re.findall(r"ok (plan upload|plan finished|[a-z]+?)(?=system|[^a-z]|$)", out)

    yield run
    for vehicle in vehicles:
        if vehicle.process.poll() is None:
            vehicle.process.kill()
            vehicle.process.communicate()

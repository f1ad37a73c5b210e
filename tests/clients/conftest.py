"""Client programs of others, each in a virtual environment of its own, and vehicles for them to fly.

With COSIM_CLIENTS=1 a missing environment is made (network needed) in COSIM_CLIENTS_DIR, by default
a folder of the user's cache; without, clients whose environment is there are tested and the rest is
skipped.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import venv
from pathlib import Path

import pytest

from tests.ports import free_port

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("COSIM_CLIENTS_DIR", Path.home() / ".cache" / "continuum-cosim" / "clients"))
# name: what pip installs, and a module that shows that it is there
REQUIREMENTS = {
    "pymavlink": ("pymavlink>=2.4", "pymavlink"),
    "mavsdk3": ("mavsdk<4", "mavsdk"),
    "mavsdk4": ("mavsdk>=4,<5", "mavsdk"),
    "mavproxy": ("MAVProxy>=1.8", "MAVProxy"),
    "dronekit": ("dronekit>=2.9 future", "pymavlink"),
}


def interpreter(name):
    """The Python that has the client, made on demand; skips when there is none."""
    requirement, module = REQUIREMENTS[name]
    folder = CACHE / name
    python = folder / "bin" / "python"
    if not has(python, module) and os.environ.get("COSIM_CLIENTS") != "1":
        pytest.skip(f"{name} is not in {folder}; COSIM_CLIENTS=1 installs {requirement} there")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be making it
        if not has(python, module):  # none yet, or one that was given up half made
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
            words = [python, "-m", "pip", "install", "--quiet", *requirement.split()]
            subprocess.run(words, check=True, timeout=1800)  # a busy machine builds for long
    if not has(python, module):
        pytest.skip(f"{python} cannot import {module}")
    return python


def has(python, module):
    """Whether there is a Python that can import the client."""
    if not python.exists():
        return False
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


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
        python = interpreter(client)
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

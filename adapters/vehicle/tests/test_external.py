"""Vehicles with an autopilot of somebody else: our own program stands in, over real sockets."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cosim.adapters.vehicle import ADAPTER
from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.keys import Vehicle
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Geo, Node, Scene
from cosim.contract.errors import RunError, ScenarioError, SetupError
from tests.ports import free_port

mavutil = pytest.importorskip("pymavlink.mavutil")
ROOT = Path(__file__).resolve().parents[3]
GEO = Geo(39.36, 22.95, 60.0)
LIMIT = 60.0  # s of wall time


def drone(address, name="uav", missing="model", **changes):
    vehicle = Vehicle(**{"frame": "copter", "autopilot": "external", "address": address, **changes})
    return Node(name, "uav", "device", (50.0, 0.0, 0.0), keys=(vehicle.written(),), missing=missing)


def started(*nodes, geo=GEO, pacing=1.0, ready="30 s", **config):
    adapter = ADAPTER.build(VehicleConfig.model_validate({"real": {"ready": ready}, **config}))
    adapter.start(Context("vehicle", Scene.build(nodes, geo=geo), 0.1, 900.0, (3,), ".", ".", pacing))
    return adapter


@pytest.fixture
def program():
    """`program(*words)` starts vehicles in a process of their own."""
    made = []

    def start(*words):
        command = [sys.executable, "-m", "cosim.autopilot", "--ready-after", "0", "--home", "39.361,22.95,60", *words]
        made.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))
        assert made[-1].stdout.readline().startswith("vehicle")
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.communicate()


class Clock:
    """Steps an adapter ten times a second until something is so."""

    def __init__(self, adapter):
        self.adapter, self.now = adapter, 0.0

    def until(self, condition):
        end = time.monotonic() + LIMIT
        while True:
            frames = self.adapter.step(self.now, Inputs())
            row = {**frames[0].columns, **frames[1].columns}
            if condition(row):
                return row
            assert time.monotonic() < end, row
            self.now = round(self.now + 0.1, 1)
            time.sleep(0.02)


def test_it_is_where_its_autopilot_says_until_that_is_gone(program):
    port = free_port()
    process = program("--tcp", str(port), "--speedup", "4")
    adapter = started(drone(f"tcp://127.0.0.1:{port}"))
    clock = Clock(adapter)
    row = clock.until(lambda row: np.isfinite(row["charge"][0]))
    # 0.001 degrees north of the origin, whatever the scenario calls its home
    assert [row[axis][0] for axis in "xyz"] == pytest.approx([0.0, 111.0, 0.0], abs=0.3)
    assert row["charge"][0] == pytest.approx(1.0, abs=0.02)
    assert not row["armed"][0]
    station = mavutil.mavlink_connection(f"tcp:127.0.0.1:{port}", source_system=254)
    try:
        station.wait_heartbeat(timeout=20)
        station.mav.set_mode_send(1, 1, 4)
        station.mav.command_long_send(1, 1, 400, 0, 1, 0, 0, 0, 0, 0, 0)
        station.mav.command_long_send(1, 1, 22, 0, 0, 0, 0, 0, 0, 0, 10.0)
        row = clock.until(lambda row: row["z"][0] > 5.0)
    finally:
        station.close()
    assert row["armed"][0]
    assert row["mode"][0] == 3  # GUIDED
    assert row["power"][0] > 50.0
    process.kill()
    row = clock.until(lambda row: row["mode"][0] == 1)
    assert row["z"][0] > 4.0  # it holds where it was
    found = adapter.finish()
    assert found["absences"] == {"uav": 1}
    assert found["vehicles"]["uav"]["energy"] > 0.0
    assert found["vehicles"]["uav"]["travelled"] < 20.0
    adapter.close()
    adapter.close()


def test_several_share_an_address_by_their_system_ids(program):
    port = free_port(socket.SOCK_DGRAM)
    program("--udp", f"127.0.0.1:{port}", "--vehicles", "2", "--sysid", "7")
    at = f"udp://127.0.0.1:{port}"
    adapter = started(drone(at, "b", system=8), drone(at, "a", system=7))
    row = Clock(adapter).until(lambda row: np.isfinite(row["charge"]).all())
    assert row["x"] == pytest.approx([5.0, 0.0], abs=0.3)
    adapter.close()


def test_one_that_is_not_there_is_flown_here_or_ends_the_run():
    at = f"tcp://127.0.0.1:{free_port()}"
    adapter = started(drone(at), ready="100 ms")
    frames = adapter.step(0.0, Inputs())
    assert frames[0]["x"][0] == 50.0
    assert frames[1]["charge"][0] == 1.0
    adapter.close()
    with pytest.raises(RunError, match="no autopilot has come for uav within"):
        started(drone(at, missing="fail"), ready="100 ms")


def test_what_cannot_be_is_refused():
    at = f"udp://127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
    for pacing in (0.0, 2.0):
        with pytest.raises(ScenarioError, match=r"wall clock only \(write run: \{pacing: real-time\}\)"):
            started(drone(at), pacing=pacing)
    with pytest.raises(ScenarioError, match="needs the scenario's origin"):
        started(drone(at), geo=None)
    with pytest.raises(ScenarioError, match="so that they can be distinguished"):
        started(drone(at, "a", system=7), drone(at, "b"))
    with pytest.raises(ScenarioError, match="'serial:/dev/x' is not an address"):
        started(drone("serial:/dev/x"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(SetupError, match="cannot listen at UDP"):
            started(drone(f"udp://127.0.0.1:{taken.getsockname()[1]}"))

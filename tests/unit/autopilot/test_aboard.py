"""A real ArduPilot inside a vehicle's program; our persona on our physics stands in for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("pymavlink")

from cosim.autopilot import aboard
from cosim.autopilot.aboard import AboardFlight, arguments, instance
from cosim.autopilot.member import AgentOptions
from cosim.autopilot.remote import Hub, HubVehicle, flown, take
from cosim.contract.errors import RunError, SetupError
from cosim.physics.vehicles import Copter, VehicleFleet, Waypoint
from tests.unit.autopilot.sitl import GEO, Sitl, write

HOME = (10.0, 20.0, 5.0)
QUIET = "#!/bin/sh\nexec sleep 600\n"
ABOUT = {"system": 9, "systems": {"uav": 9}, "persona": "ardupilot", "origin": list(GEO), "arming": 60.0}


def free_instance():
    """An instance of ArduPilot whose ports are free."""
    for number in range(os.getpid() % 300 + 100, 999):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp, socket.socket() as other:
            try:
                udp.bind(("127.0.0.1", 9002 + 10 * number))
                tcp.bind(("127.0.0.1", 5760 + 10 * number))
                other.bind(("127.0.0.1", 5762 + 10 * number))
            except OSError:
                continue
            return number
    raise AssertionError("all are taken")


def drone(*points):
    """A fleet of one copter at its home, with a mission that is ordered."""
    fleet = VehicleFleet([Copter(dynamics="rigid")], [HOME])
    if points:
        fleet.set_mission(0, [Waypoint(*point) if isinstance(point, tuple) else point for point in points])
        fleet.arm([0])
        fleet.start_mission([0])
    return fleet


def script(folder, text=QUIET):
    path = folder / "pilot"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def welcome(fleet, now=0.0):
    row, items = flown(fleet, 0)
    flat = {"box": [0.0] * 3, "columns": 0, "heights": b""}
    return {"airframe": fleet.frames[:1].tobytes(), "row": row, "items": items, "now": now, "about": ABOUT, **flat}


def flight(fleet, program, number, now=0.0):
    """Its flight, whose beacon is a broadcast of the loopback's."""
    return AboardFlight(
        welcome(fleet, now), AgentOptions("uav", "", 5760 + 10 * number, 0, "", program), ["127.255.255.255"]
    )


def grant(until):
    return {"row": b"", "items": b"", "wind": [0.0] * 3, "until": until}


def test_options_of_the_user_come_last_and_their_defaults_before_ours(tmp_path):
    ours = tmp_path / "ours.parm"
    assert arguments([], ours) == ["--serial0", "tcp:0", "--defaults", str(ours)]
    given = ["--speedup", "1", "--defaults", "/a.parm,/b.parm", "--serial0=udpclient:127.0.0.1", "--defaults=/c.parm"]
    assert arguments(given, ours) == [
        "--defaults", f"/a.parm,/b.parm,/c.parm,{ours}", "--speedup", "1", "--serial0=udpclient:127.0.0.1",
    ]  # fmt: skip
    assert [instance(port) for port in (0, 5760, 5790)] == [0, 0, 3]
    for port in (5765, 5750, 65000):
        with pytest.raises(SetupError, match="5760 \\+ 10 N"):
            instance(port)


def test_it_stands_until_its_autopilot_comes_then_flies_as_ordered_and_lands_at_home(tmp_path, monkeypatch):
    number = free_instance()
    fleet = drone(Waypoint(10, 20, 13, what="take-off"), (10, 40, 13), Waypoint(what="return"))
    found = flight(fleet, (script(tmp_path),), number, now=100.0)
    sitl = None
    try:
        before = found.fly(grant(100.2))
        assert before.unready
        assert before.row == flown(fleet, 0)[0]
        sitl = Sitl(9002 + 10 * number, HOME, rate=50, ready_after=2.0)
        known = sitl.autopilot.parameters
        known.table = {name: one for name, one in known.table.items() if name != "WPNAV_ACCEL_Z"}
        now, places, said, news, ready = 100.2, [], [], [], None
        while now < 170.0:
            now += 0.2
            step = found.fly(grant(now))
            take(fleet, 0, step.row, b"")
            places.append([float(fleet.state[axis][0]) for axis in "xyz"])
            said, news = [*said, *step.said], [*news, *step.news]
            ready = now if ready is None and not step.unready else ready
        assert 102.0 < ready < 115.0  # 2 s of its own until it knows where it is
        assert np.linalg.norm(np.array(places) - (10.0, 40.0, 13.0), axis=1).min() < 2.5
        assert places[-1] == pytest.approx(HOME, abs=0.5)
        assert (sitl.autopilot.parameters["WPNAV_SPEED"], fleet.frames["speed"][0]) == (1000.0, 10.0)
        assert said == ["its ArduPilot has confirmed 13 parameters"]
        assert [text.split(" (")[0] for _, _, text in news] == ["the ArduPilot of 'uav' has not taken WPNAV_ACCEL_Z"]
        fleet.state["x"] += 0.3  # the run has missed it for 5 s, in which the vehicle was flown there
        now += 5.0
        found.resume(welcome(fleet, now))
        step = found.fly(grant(now + 0.2))
        take(fleet, 0, step.row, b"")
        assert [float(fleet.state[axis][0]) for axis in "xyz"] == pytest.approx(
            np.add(places[-1], (0.3, 0, 0)), abs=0.05
        )
        now += 0.2
        sitl.free.clear()
        monkeypatch.setattr(found._pilot, "_patience", 0.1)
        with pytest.raises(RunError, match="no motor outputs"):
            found.fly(grant(now + 0.2))
    finally:
        found.close()
        if sitl is not None:
            sitl.close()


def test_a_program_that_cannot_be_started_ends_or_sends_nothing_is_named(tmp_path, monkeypatch):
    number = free_instance()
    with pytest.raises(SetupError, match=r"cannot start .*Exec format error; is it built for this machine"):
        flight(drone(), (script(tmp_path, "\0not a program"),), number)
    found = flight(drone(), (script(tmp_path, "#!/bin/sh\nexit 3\n"),), number)
    found._program.wait(20.0)
    with pytest.raises(RunError, match="has ended with exit code 3"):
        found.fly(grant(0.2))
    found.close()
    found = flight(drone(), (script(tmp_path),), number)
    monkeypatch.setattr(aboard, "BOOT", 0.0)
    with pytest.raises(RunError, match=r"no motor outputs .*software in the loop"):
        found.talk(0.0)
    found.close()
    assert found._program.poll() is not None


@pytest.mark.slow
def test_the_program_of_a_node_starts_it_and_ends_with_it(tmp_path):
    """As in a namespace or a container, with all processes, against the run's side."""
    number = free_instance()
    fleet = drone(Waypoint(10, 20, 13, what="take-off"), (10, 40, 13), Waypoint(what="return"))
    hub = Hub({"uav": HubVehicle(fleet.frames[:1].tobytes(), ABOUT)}, {"uav": flown(fleet, 0)})
    address = hub.open()
    command = [sys.executable, "-m", "cosim.autopilot.node", "--broadcast", "127.255.255.255", "--ardupilot"]
    variables = {"COSIM_NODE": "uav", "COSIM_VEHICLES": address, "COSIM_MAVLINK": str(5760 + 10 * number)}
    own = [str(write(tmp_path / "arducopter")), "--ready", "2", "--unknown", "WPNAV_ACCEL_Z"]
    process = subprocess.Popen([*command, *own], env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True)
    try:
        assert hub.wait(["uav"], 60.0) == set()
        end, now, places, said, news = time.monotonic() + 240.0, 0.0, [], [], []
        while len(places) < 300 and time.monotonic() < end:
            step = hub.advance({"uav": flown(fleet, 0)}, now + 0.2, {"uav": (0.0, 0.0, 0.0)}, 20.0)["uav"]
            take(fleet, 0, step.row, step.items)
            now += 0.2
            said, news = [*said, *step.said], [*news, *step.news]
            if step.unready:  # as a run that is paced by the wall clock
                time.sleep(0.05)
            else:
                places.append([float(fleet.state[axis][0]) for axis in "xyz"])
        assert np.linalg.norm(np.array(places) - (10.0, 40.0, 13.0), axis=1).min() < 2.5
        assert places[-1] == pytest.approx(HOME, abs=0.5)
        assert said == ["its ArduPilot has confirmed 13 parameters"]
        assert [text.split(" (")[0] for _, _, text in news] == ["the ArduPilot of 'uav' has not taken WPNAV_ACCEL_Z"]
        hub.close()
        process.terminate()
        output, _ = process.communicate(timeout=20.0)
        assert "MOT_THST_EXPO 0\nSIM_RATE_HZ 800\n" in output
    finally:
        process.kill()
        process.wait()
        hub.close()

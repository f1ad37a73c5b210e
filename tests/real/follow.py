"""A drone that joins a tractor beside an edge host: run it with real nodes, look at them, compare with a simulation."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cosim

psutil = pytest.importorskip("psutil")

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 150.0  # s, for what must happen; long, since the machine may be busy
NEAR = 1.0  # m between a real and a simulated run at equal times
SOON = 1.0  # s between their phases of an engagement
AGAIN = 15.0  # s in which a drone that has waited for word of the tractor has caught up

_SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: follow
run: {{duration: {duration} s, step: 200 ms}}
geo: {{origin: [39.36, 22.95, 60 m]}}
adapters:
  vehicle:
    missions: {{tractor: {{points: [[0 m, 300 m]]}}}}
    engage:
      - {{drone: uav-1, target: tractor, commands: [{{at: 1 s, for: 300 s}}]}}
    real: {{patience: 10 s}}
  wifi: {{}}
  network: {{silence: 30 s}}
kinds:
  drone: {{kind: uav, vehicle: {{frame: copter}}, wifi: {{}}, runs: {runs}, missing: {missing}}}
nodes:
  uav-1: {{kind: drone, at: [-20 m, 0 m]}}
  tractor: {{kind: rover, at: [0 m, 0 m], vehicle: {{frame: rover}}, wifi: {{}}, runs: vrover}}
  edge: {{kind: edge, cpu: 2 x 2 GHz, at: [20 m, 20 m], wifi: {{}}, runs: vedgenode}}
"""
NODES = ("uav-1", "tractor", "edge")
PROGRAMS = ("network", *(f"{node}{part}" for node in NODES for part in ("-net", "")))


def write(folder: Path, duration: float = 18.0, missing: str = "model", runs: str = "vuav") -> Path:
    """The scenario in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scenario.cosim.yaml").write_text(_SCENARIO.format(duration=duration, missing=missing, runs=runs))
    return folder


def simulated(folder: Path, out: Path, *values: str) -> Path:
    """The folder of the same run with all nodes simulated, with KEY=VALUE overridden."""
    return cosim.run(folder, out=out, overrides=values).folder


class Real:
    """`cosim run --nodes netns` while it runs."""

    def __init__(self, process: subprocess.Popen[str], out: Path, said: Path) -> None:
        from cosim.testbed.emulation.netns import run_of

        self.process, self._out, self._said = process, out, said
        self.run = run_of(process.pid)

    @property
    def said(self) -> str:
        """What it has written to standard error so far."""
        return self._said.read_text()

    @property
    def folder(self) -> Path:
        (found,) = (path.parents[1] for path in self._out.glob("*/*/logs/run.log"))
        return found

    @property
    def log(self) -> str:
        """Its log so far."""
        return (self.folder / "logs" / "run.log").read_text()

    def program(self, name: str) -> int:
        """The process of a program, named as `restart` of the launcher names it; 0 while there is none."""
        from cosim.testbed.launch.cleanup import members

        node = "" if name == "network" else name.removesuffix("-net")
        module = {"network": "cosim.testbed.emulation.service", "edge": "cosim.testbed.inference.node"}.get(
            name, "cosim.autopilot.agent"
        )
        module = "cosim.testbed.emulation.sidecar" if name.endswith("-net") else module
        for number in members(self.run):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(number)
                if module in process.cmdline() and node in ("", process.environ().get("COSIM_NODE")):
                    return number
        return 0

    def flying(self) -> None:
        """Wait until time passes in it."""
        until(lambda: self.process.poll() is not None or list(self._out.glob("*/*/frames/mobility/*")))
        assert self.process.poll() is None, self.said

    def ended(self) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(LIMIT + 60.0)
        assert "Traceback" not in self.said
        return code


def keepers(run: Real) -> list[int]:
    """The processes that wait for the end of a run."""
    end = ["cosim.testbed.launch.cleanup", str(run.process.pid), run.run]
    return [p.pid for p in psutil.Process(run.process.pid).children() if p.cmdline()[-3:] == end]


@contextlib.contextmanager
def real(scenario: Path, out: Path, *more: str) -> Iterator[Real]:
    """Start the run in a process group of its own, as a terminal would."""
    said = out.parent / f"{out.name}.said"
    command = [sys.executable, "-m", "cosim", "run", str(scenario), "--nodes", "netns", "--out", str(out), *more]
    with said.open("w") as file:
        process = subprocess.Popen(
            [*command, "--no-report"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
            text=True,
        )
    try:
        yield Real(process, out, said)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(true: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait until something holds."""
    end = time.monotonic() + limit
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def summary(folder: Path, adapter: str) -> dict[str, Any]:
    """What an adapter said at the end of the run."""
    (found,) = (row["summary"] for row in manifest(folder)["adapters"] if row["name"] == adapter)
    return dict(found)


def reached(folder: Path) -> float:
    """The time (s) up to which places of a run, be it going on, can be read."""
    with contextlib.closing(cosim.load(folder)) as run:
        ((found,),) = run.sql("select max(time) from mobility").fetchall()
    return float(found)


def apart(one: Path, other: Path, since: float = 0.0, until: float = math.inf) -> dict[str, float]:
    """The largest distance (m) between the places of each vehicle in two runs at equal times (s)."""
    places = []
    for folder in (one, other):
        with contextlib.closing(cosim.load(folder)) as run:
            rows = run.sql(
                f"select node, time, x, y, z from mobility where time between {since} and '{until}'"
            ).fetchall()
        places.append({(node, round(at, 6)): np.array(place) for node, at, *place in rows})
    assert places[0]
    assert places[0].keys() == places[1].keys()
    found: dict[str, float] = {}
    for key, place in places[0].items():
        found[key[0]] = max(found.get(key[0], 0.0), float(np.linalg.norm(place - places[1][key])))
    return found


def phases(folder: Path) -> dict[str, float | None]:
    """When the drone had reached each phase of its first engagement, in s."""
    found = summary(folder, "vehicle")["engagements"][0]
    return {name: found[name] for name in ("t_command", "t_arm", "t_takeoff", "t_approach", "t_engage")}


def assert_alike(one: Path, other: Path) -> None:
    """The vehicles were at the same places, and the drone had joined the tractor, at the same times."""
    assert max(apart(one, other).values()) < NEAR
    ours, theirs = phases(one), phases(other)
    for name, at in ours.items():
        assert at is not None, f"the run was too short for {name}"
        assert abs(at - (theirs[name] or 0.0)) < SOON, name


def with_ardupilot(folder: Path, interpreter: str = sys.executable) -> Path:
    """The scenario with a drone that a stand-in for ArduPilot flies, which has one parameter less than we set."""
    from tests.unit.autopilot.sitl import write as write_program  # which needs pymavlink

    program = write_program(folder / "arducopter", interpreter)
    command = f"[{program}, --ready, '2', --unknown, WPNAV_ACCEL_Z]"
    return write(folder / "s", duration=45.0, runs=f"{{image: vuav-ardupilot, command: {command}}}")


def assert_ardupilot(folder: Path) -> None:
    """It was engaged, had its parameters, and exchanged positions over the node's network."""
    assert all(at is not None for at in phases(folder).values())
    assert (phases(folder)["t_takeoff"] or 0.0) > 3.0  # 2 s pass from arming to the motors, which ours does not take
    assert summary(folder, "vehicle")["absences"] == {"uav-1": 0, "tractor": 0}
    log = (folder / "logs" / "run.log").read_text()
    assert "the ArduPilot of 'uav-1' has not taken WPNAV_ACCEL_Z (WP_ACC_Z): its own value holds" in log
    assert "uav-1: its ArduPilot has confirmed 13 parameters" in log
    counts = delivered(folder)
    assert min(counts["uav-1", "tractor"], counts["tractor", "uav-1"]) > 100  # 5 Hz, less what is under way


def links_apart(one: Path, other: Path) -> tuple[float, float, float]:
    """The largest difference between links of two runs at equal times: rate (relative), delay (s), loss."""
    tables = []
    for folder in (one, other):
        with contextlib.closing(cosim.load(folder)) as run:
            rows = run.sql("select node, peer, time, rate, delay, loss from peer_link").fetchall()
        tables.append({(node, peer, round(at, 6)): state for node, peer, at, *state in rows})
    assert tables[0].keys() == tables[1].keys()
    ours, theirs = (np.array([table[key] for key in tables[0]], float) for table in tables)
    away = np.abs(ours - theirs)
    away[:, 0] /= np.maximum(ours[:, 0], 1.0)
    rate, delay, loss = np.nanmax(away, axis=0)
    return float(rate), float(delay), float(loss)


def delivered(folder: Path, after: float = 0.0) -> dict[tuple[str, str], int]:
    """Packets between each two nodes from `after` s on."""
    query = f"select node, peer, sum(delivered)::bigint from link_traffic where time > {after} group by all"
    with contextlib.closing(cosim.load(folder)) as run:
        return {(sender, receiver): count for sender, receiver, count in run.sql(query).fetchall()}


def assert_nothing_left(run: str) -> None:
    """No process, namespace, interface or folder of a run."""
    from cosim.testbed.emulation import netns
    from cosim.testbed.launch.cleanup import members

    def left() -> list[str]:
        folders = Path(os.environ.get("TMPDIR", "/tmp")).glob(f"cosim-{run}-*")
        return [*map(str, [*members(run), *netns.FOLDER.glob(f"cosim-{run}-*"), *folders])]

    end = time.monotonic() + 20.0
    while (found := left()) and time.monotonic() < end:
        time.sleep(0.05)
    assert found == []

"""A flying drone's companion computer: its tasks cross the emulated Wi-Fi while its autopilot flies."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

import cosim
from cosim.results.ledgers import ledger_faults
from cosim.testbed.launch import cleanup as remains
from tests.real import follow
from tests.real.follow import Real, real, until

pytest.importorskip("pandas")
psutil = pytest.importorskip("psutil")

pytestmark = [pytest.mark.netns, pytest.mark.slow, pytest.mark.timeout(300)]

_SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: companion
run: {{duration: {duration} s, step: 200 ms}}
geo: {{origin: [39.36, 22.95, 60 m]}}
adapters:
  vehicle: {{missions: {{uav: {way}}}, real: {{patience: 10 s}}}}
  wifi: {{}}
  network: {{silence: 30 s}}
  continuum: {{leave: [pictures]}}
  live: {{offload: {{pictures: {{run: forward, kernel: histogram, size: 64, path: network, limit: 2 s}}}}}}
nodes:
  uav:
    kind: uav
    at: [0 m, 5 m, 0 m]
    vehicle: {{frame: copter, speed: 20 m/s}}
    wifi: {{power: 5 dBm}}
    runs: vuav
    live: {{lease: 2 s}}
  edge:
    kind: edge
    at: [0 m, 0 m, 2 m]
    cpu: 1 x 2 GHz
    wifi: {{power: 5 dBm}}
    runs: vedgenode
    live: {{lease: 2 s}}
    missing: wait
workloads:
  pictures: {{from: uav, arrivals: every 250 ms, input: {size} B, output: 300 B, work: 10 Mcycles, deadline: 1 s}}
"""
SIZE = 60_000  # B of a picture
FASTEST = 59.4e6  # bit/s that the model's Wi-Fi delivers at best
OUT, AROUND = "[[0 m, 400 m, 20 m]]", "[[20 m, 0 m, 15 m], [0 m, 20 m, 15 m], [20 m, 20 m, 15 m], [0 m, 0 m, 15 m]]"


def write(folder: Path, duration: float, way: str) -> Path:
    folder.mkdir()
    (folder / "scenario.cosim.yaml").write_text(_SCENARIO.format(duration=duration, way=way, size=SIZE))
    return folder


def tasks(folder: Path):
    with contextlib.closing(cosim.load(folder)) as run:
        return run.sql("select * from task order by created").df()


def test_pictures_take_longer_the_farther_the_drone_is_until_none_arrives(tmp_path):
    scenario = write(tmp_path / "s", 24.0, OUT)
    with real(scenario, tmp_path / "runs") as run:
        assert run.ended() == 0, run.said
        follow.assert_nothing_left(run.run)
    table, reported = tasks(run.folder), follow.manifest(run.folder)
    assert reported["signals"]["task"]["origin"] == "measured"
    assert ledger_faults(follow.summary(run.folder, "live")) == []
    done = table[table["status"] == "completed"]
    assert set(done["host"]) == {"edge"}
    stages = done[["created", "uploaded", "started", "computed", "ended"]].to_numpy()
    assert (stages[:, 1:] >= stages[:, :-1] - 1e-9).all()
    upload = done["uploaded"] - done["created"]
    assert upload.median() > SIZE * 8 / FASTEST
    since = done["created"].max() - 1.5
    with contextlib.closing(cosim.load(run.folder)) as found:
        ((rate,),) = found.sql(
            f"select max(rate) from peer_link where node = 'uav' and peer = 'edge' and time > {since} - 0.2"
        ).fetchall()
    assert rate < FASTEST / 2
    assert len(done[done["created"] < 9.0]) > 10
    assert upload[done["created"] > since].min() > SIZE * 8 / rate
    lost = table[table["created"] > done["created"].max()]
    assert len(lost) > 3  # out of range nothing arrives
    assert set(lost["status"]) <= {"deadline", "node-failed"}
    with contextlib.closing(cosim.load(run.folder)) as found:
        ((twice,),) = found.sql("select count(*) - count(distinct (node, time)) from mobility").fetchall()
    assert twice == 0  # one source of places
    assert follow.summary(run.folder, "vehicle")["absences"] == {"uav": 0}
    assert max(follow.apart(follow.simulated(scenario, tmp_path / "simulated"), run.folder).values()) < follow.NEAR


def process(run: Real, module: str) -> int:
    """The drone's process that runs a module, 0 while there is none."""
    for number in remains.members(run.run):
        with contextlib.suppress(psutil.Error):
            found = psutil.Process(number)
            if module in found.cmdline() and found.environ().get("COSIM_NODE") == "uav":
                return number
    return 0


def completed(run: Real) -> float:
    """When the last picture of those that came back was made, in s."""
    done = tasks(run.folder)
    return float(done[done["status"] == "completed"]["created"].max())


@pytest.mark.chaos
def test_neither_death_of_agent_nor_of_autopilot_ends_the_flight_or_the_tasks(tmp_path):
    scenario = write(tmp_path / "s", 600.0, AROUND)  # long enough however busy the machine is
    with real(scenario, tmp_path / "runs") as run:
        run.flying()
        until(lambda: list(run.folder.glob("frames/task/*")))
        for deaths, module in enumerate(("cosim.testbed.live", "cosim.autopilot.agent", "cosim.autopilot.node")):
            killed = process(run, module)
            assert killed, f"there is no {module}"
            os.kill(killed, signal.SIGKILL)
            until(lambda module=module, killed=killed: process(run, module) not in (0, killed))
            until(lambda deaths=deaths: run.log.count("uav is flown by its own program") == deaths)
            before = completed(run)
            until(lambda before=before: completed(run) > before + 8.0)
        os.killpg(run.process.pid, signal.SIGINT)
        assert run.ended() == 1, run.said
        follow.assert_nothing_left(run.run)
    assert follow.summary(run.folder, "vehicle")["absences"] == {"uav": 2}  # not noticed: the death of the agent
    assert ledger_faults(follow.summary(run.folder, "live")) == []
    expected, end = follow.simulated(scenario, tmp_path / "simulated"), follow.reached(run.folder)
    # Each of the two programs that were started again may hold the flight up for a moment, on a busy machine a second.
    assert max(follow.apart(expected, run.folder, until=end).values()) < 3.0 * follow.NEAR

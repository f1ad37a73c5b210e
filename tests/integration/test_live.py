"""A run and its agents as real processes: killed, refused, evicted, restarted; no task counts twice or is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cosim
from cosim.contract.errors import CosimError
from cosim.talk import control, keys

pytest.importorskip("pandas")

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.clock]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 40.0  # s

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: live
run: {{duration: {duration}, step: 250 ms, pacing: real-time}}
adapters:
  live: {{listen: "{listen}", keys: keys, offload: {{detection: {{run: busy, limit: 3 s}}}}}}
nodes:
  uav-[1..3]: {{kind: uav, at: [0 m, 0 m]}}
  pi-[1..2]: {{kind: edge, cpu: 4 x 1.5 GHz, live: {{key: {key}, lease: 2 s, wait: 30 s}}, missing: {missing}}}
workloads:
  detection: {{from: uav-*, arrivals: poisson 3 Hz, input: 20 kB, output: 4 kB, work: 30 Mcycles, deadline: 400 ms}}
"""


def eventually(condition, what="it"):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not happen in time"
        time.sleep(0.05)
    return found


class World:
    """A folder with a scenario and keys; starts runs and agents, and stops what is left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        server = keys.server_key(folder / "keys")
        for name in ("lab", "stranger"):
            keys.write(keys.make(name, server.public), folder)
        (folder / "lab.pub").rename(folder / "keys/lab.pub")

    def _start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "cosim", *words], cwd=self.folder, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def run(self, duration="6 s", missing="wait", listen="tcp://127.0.0.1:*") -> subprocess.Popen[str]:
        text = SCENARIO.format(duration=duration, missing=missing, listen=listen, key="lab")
        (self.folder / "scenario.cosim.yaml").write_text(text)
        return self._start(
            "run",
            "scenario.cosim.yaml",
            "--driver",
            "loop",
            "--no-report",
            "--json",
            "--out",
            str(self.folder / "runs"),
        )

    def agent(self, address: str, node: str, key: str = "lab") -> subprocess.Popen[str]:
        words = ("--key", f"{key}.key", "--server", address, "--node", node, "--concurrency", "1", "--clock", "1 GHz")
        return self._start("attach", *words)

    def nodes(self) -> dict:
        try:
            return control.command(*control.find("", "", control.LIVE, self.folder / "runs"), "nodes")
        except CosimError:
            return {}

    def address(self) -> str:
        return eventually(lambda: self.nodes().get("address"), "the gateway's address")

    def state(self, node: str) -> str:
        return next((row["state"] for row in self.nodes().get("nodes", []) if row["name"] == node), "")

    def attached(self, *names: str) -> None:
        for name in names:
            eventually(lambda name=name: self.state(name) == "attached", f"attaching '{name}'")

    def close(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


def ended(run: subprocess.Popen[str]) -> dict:
    text, _ = run.communicate(timeout=PATIENCE + 30)
    found: dict = json.loads(text[text.index("{") :])
    return found


def summary(outcome: dict) -> dict:
    manifest = json.loads((Path(outcome["folder"]) / "manifest.json").read_text())
    return next(row["summary"] for row in manifest["adapters"] if row["name"] == "live")


def account(outcome: dict) -> dict:
    """The tasks in the ledger, which must be those in the table, each once."""
    metrics = json.loads((Path(outcome["folder"]) / "metrics.json").read_text())
    assert metrics["faults"] == []
    tasks = summary(outcome)["tasks"]
    table = cosim.load(outcome["folder"]).table("task").df()
    assert table["task"].is_unique
    rows = table["status"].value_counts().to_dict()
    assert tasks["created"] == tasks["completed"] + sum(tasks["failed"].values()) + tasks["in_flight"]
    assert 0 <= tasks["completed"] - rows.get("completed", 0) <= 10  # those that ended after the last step
    return tasks


def test_two_agents_serve_a_run_and_one_is_killed(world):
    run = world.run("8 s", missing="model")
    address = world.address()
    victim, other = world.agent(address, "pi-1"), world.agent(address, "pi-2")
    world.attached("pi-1", "pi-2")
    stranger = world.agent(address, "pi-1", key="stranger")
    time.sleep(1.0)
    victim.kill()
    eventually(lambda: world.state("pi-1") == "lost", "the end of the lease")
    assert world.state("pi-2") == "attached"
    outcome = ended(run)
    assert outcome["status"] == "complete"
    tasks = account(outcome)
    assert tasks["completed"] > 5
    reported = summary(outcome)
    assert reported["refused_keys"] >= 1
    assert reported["nodes"]["pi-1"]["state"] == "lost"
    other.terminate()
    assert other.wait(PATIENCE) == 0
    assert stranger.poll() is None  # goes on seeking
    assert not list((world.folder / "runs").rglob(control.FILE))


def test_agents_outlive_the_death_of_a_run(world):
    first = world.run("60 s")
    address = world.address()
    agents = [world.agent(address, "pi-1"), world.agent(address, "pi-2")]
    world.attached("pi-1", "pi-2")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    for file in (world.folder / "runs").rglob(control.FILE):
        file.unlink()
    second = world.run("4 s", listen=address)
    outcome = ended(second)
    assert outcome["status"] == "complete", outcome["error"]
    assert account(outcome)["completed"] > 5
    assert [agent.poll() for agent in agents] == [None, None]


def test_a_run_without_its_machine_ends_and_names_it(world):
    run = world.run("30 s", missing="fail")
    address = world.address()
    agents = [world.agent(address, "pi-1"), world.agent(address, "pi-2")]
    world.attached("pi-1", "pi-2")
    time.sleep(1.0)
    agents[0].terminate()
    assert agents[0].wait(PATIENCE) == 0
    outcome = ended(run)
    assert outcome["status"] == "partial"
    assert "the machine of node 'pi-1' has left the run: SIGTERM" in outcome["error"]
    assert run.returncode == 1


def test_who_is_evicted_ends_and_stays_out(world):
    run = world.run("6 s", missing="model")
    address = world.address()
    evicted = world.agent(address, "pi-1")
    world.attached("pi-1")
    words = [sys.executable, "-m", "cosim", "nodes", "--evict", "pi-1", "--json"]
    done = subprocess.run(
        words, cwd=world.folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True
    )
    assert json.loads(done.stdout) == {"evicted": "pi-1"}
    assert evicted.wait(PATIENCE) == 1
    again = world.agent(address, "pi-1")
    assert again.wait(PATIENCE) == 1
    account(ended(run))

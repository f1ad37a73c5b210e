"""Real tasks go where the run's scheduler sends them: to the hosts of a run in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import cosim
from cosim.results.ledgers import ledger_faults
from cosim.results.pairing import pair

pytest.importorskip("pandas")

pytestmark = [pytest.mark.netns, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: hosts
run: {duration: 8 s, step: 200 ms, seed: 5}
adapters:
  radio: {model: ci, shadowing: 0 dB}
  network: {}
  continuum: {scheduler: "my_policies:by_chance", leave: [look]}
  live: {offload: {look: {run: forward, kernel: blur, size: 64, path: network}}}
kinds:
  roadside: {kind: base-station, cpu: 2 x 2 GHz, power: {idle: 10 W, max: 30 W}, runs: vedgenode, live: {}}
nodes:
  uav: {kind: uav, at: [0 m, 20 m, 20 m], cpu: 1 x 1 GHz, radio: {power: 23 dBm}, runs: vedgenode, live: {}}
  north: {kind: roadside, at: [0 m, 60 m, 0 m]}
  south: {kind: roadside, at: [0 m, -60 m, 0 m]}
  cloud: {kind: cloud, cpu: 8 x 3 GHz, runs: vedgenode, live: {}, missing: wait}
links:
  - {between: [north, south], rate: 1 Gbit/s, delay: 1 ms}
  - {between: [north, cloud], rate: 1 Gbit/s, delay: 5 ms}
workloads:
  look: {from: uav, arrivals: every 250 ms, input: 4 kB, output: 500 B, work: 5 Mcycles, deadline: 1 s}
"""
POLICY = """\
import numpy as np
from cosim.schedulers.state import decides


@decides("task")
def by_chance(state):
    '''South or the cloud, by the task's own chance.'''
    return np.where(state.tasks["chance"] < 0.5, 1, 2)
"""


WATCH = """\
apiVersion: cosim/v1
kind: Scenario
name: hosts
run: {duration: 8 s, step: 200 ms, seed: 5}
adapters:
  wifi: {}
  network: {}
  continuum: {scheduler: cloud, leave: [look]}
  live: {offload: {look: {run: forward, kernel: blur, size: 64, path: network}}}
nodes:
  uav-[1..2]: {kind: uav, at: [30 m, 20 m, 20 m], wifi: {mode: station}, runs: vedgenode, live: {}, missing: wait}
  edge:
    {kind: edge, at: [0 m, 0 m, 5 m], cpu: 2 x 2 GHz, wifi: {mode: access-point}, runs: vedgenode, live: {}}
  gateway: {kind: edge, runs: vedgenode}
  cloud: {kind: cloud, cpu: 8 x 3 GHz, runs: vedgenode, live: {}, missing: wait}
links:
  - {between: [edge, gateway], rate: 1 Gbit/s, delay: 1 ms}
  - {between: [gateway, cloud], rate: 1 Gbit/s, delay: 5 ms}
workloads:
  look: {from: uav-*, arrivals: every 500 ms, input: 4 kB, output: 500 B, work: 5 Mcycles, deadline: 1 s}
"""


def run(folder: Path, *words: str) -> Path:
    command = [sys.executable, "-m", "cosim", "run", str(folder), "--out", str(folder / "runs"), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120.0, cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return max((folder / "runs/hosts").iterdir(), key=lambda path: path.stat().st_mtime_ns)


def test_the_hosts_are_those_of_a_run_in_one_process(tmp_path):
    (tmp_path / "scenario.cosim.yaml").write_text(SCENARIO)
    (tmp_path / "my_policies.py").write_text(textwrap.dedent(POLICY))
    simulated = run(tmp_path)
    real = run(tmp_path, "--nodes", "netns")
    found = pair(simulated, real)
    assert found is not None
    assert found.paired >= 28
    assert found.same_host >= 0.95 * found.paired
    assert set(cosim.load(real).table("task").df()["host"]) >= {"south", "cloud"}
    look_at_load(simulated, real)


def look_at_load(simulated: Path, real: Path) -> None:
    """Hosts that compute have the load that they measured, and the energy of it by their own power curve."""
    hosts = cosim.load(real).table("host").df()
    measured = cosim.load(real).table("resources").df()
    both = hosts.merge(measured, on=["node", "time"], suffixes=("", "_measured"))
    both = both[(both["node"] == "south") & both["cpu"].notna() & (both["time"] > 0)]
    assert len(both) > 20
    assert both["utilisation"].max() > 0.0  # the kernel counts in ticks of 10 ms: how many depends on the machine
    assert both["utilisation"].to_numpy() == pytest.approx(both["cpu"].to_numpy())  # nothing is simulated there
    assert both["power"].to_numpy() == pytest.approx(10.0 + 20.0 * both["cpu"].to_numpy())
    manifest = json.loads((real / "manifest.json").read_text())
    assert manifest["signals"]["host"]["origin"] == "measured/modelled/simulated"
    assert "resources" not in _measured(simulated)
    (books,) = (row["summary"] for row in manifest["adapters"] if row["name"] == "continuum")
    assert ledger_faults(books) == []
    assert "south" in books["real_load"]["modelled"]
    last = hosts[hosts["time"] == hosts["time"].max()].set_index("node")["energy"]
    for node in ("north", "south"):
        assert books["energy"]["by_node"][node] == pytest.approx(last[node])
    figures = json.loads((real / "metrics.json").read_text())["figures"]
    assert figures["energy_total"]["value"] == pytest.approx(books["energy"]["total"])


def _measured(run: Path) -> set[str]:
    """The signals of a run that have rows and were measured."""
    signals = json.loads((run / "manifest.json").read_text())["signals"]
    return {name for name, one in signals.items() if one["rows"] and "measured" in one["origin"]}


def test_an_access_point_and_a_gateway_pass_packets_on(tmp_path):
    """Drones reach the cloud over Wi-Fi and two wires, as in one process, at the delay of the wires at least."""
    (tmp_path / "scenario.cosim.yaml").write_text(WATCH)
    simulated = run(tmp_path)
    real = run(tmp_path, "--nodes", "netns")
    found = pair(simulated, real)
    assert found is not None
    assert found.paired >= 28
    assert found.same_host >= 0.95 * found.paired
    tasks = cosim.load(real).table("task").df()
    cloud = tasks[tasks["host"] == "cloud"]
    assert (cloud["status"] == "completed").all()
    assert (cloud["ended"] - cloud["created"]).min() > 2 * 0.006

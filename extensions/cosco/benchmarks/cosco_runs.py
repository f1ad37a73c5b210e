"""Runs of the peer: recorded ones, and fresh ones by a copy of it that the user has.

A run is one JSON object: `fleet` (azure or bitbrain), `hosts`, `slots`, `interval_s`, `router_mb_s`;
`containers`: id, created (interval), ips series, max_ips, duration (intervals of work), sla (interval),
ram_mb series, disk_mb; `intervals`: decision [[container, host], ...] in order, energy_j of all hosts,
completed ids with response_s and late (found done when the interval begins). `replay` repeats one with
this model and says how far it is off.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cosim.extensions.cosco.interval import Interval, azure_fog, bitbrain_fog, compatible
from cosim.extensions.cosco.interval.workload import traces

RECORDED = Path(__file__).resolve().parents[3] / "../shared/data/cosco"
FLEETS = {"azure": azure_fog, "bitbrain": bitbrain_fog}
DRIVER = Path(__file__).with_name("cosco_driver.py")

Run = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Distance:
    """How far this model is from a run of the peer."""

    intervals: int
    completed: int
    energy: float  # greatest relative difference of an interval
    response: float  # greatest relative difference of a container
    completions: int  # intervals in which other containers completed
    late: int  # containers of which the two disagree whether they were late

    @property
    def equal(self) -> bool:
        """Whether energies and responses agree to 1e-9 and all else is the same."""
        return max(self.energy, self.response) <= 1e-9 and self.completions == self.late == 0


def load(path: Path) -> Run:
    """A recorded run."""
    with gzip.open(path) as file:
        run: Run = json.load(file)
    return run


def simulation(run: Run) -> Interval:
    """This model with the containers of `run`, at its beginning; the caller decides."""
    quirks, containers, length = compatible("cosco"), run["containers"], run["interval_s"]
    if [c["id"] for c in containers] != list(range(len(containers))):
        raise ValueError("containers must be numbered 0, 1, ... in the order of their creation")
    demand = np.full((len(containers), max(len(c["ips"]) for c in containers), 6), np.nan)
    for c in containers:
        samples = len(c["ips"])
        demand[c["id"], :samples, 0], demand[c["id"], :samples, 1] = c["ips"], c["ram_mb"]
        demand[c["id"], :samples, 2:] = 0.0
    work = [sum(ips * length for ips in c["ips"][: int(c["duration"])]) for c in containers]
    workload = traces(
        [str(c["id"]) for c in containers],
        demand,
        [c["max_ips"] for c in containers],
        [c["disk_mb"] for c in containers],
    ).replay([(c["created"], c["id"], w, c["sla"] - c["created"]) for c, w in zip(containers, work, strict=True)])
    fleet = FLEETS[run["fleet"]](run["hosts"], quirks)
    return Interval(fleet, workload, 0, policy=None, quirks=quirks, length=length, slots=run["slots"])


def replay(run: Run) -> Distance:
    """Repeat the decisions of `run` with this model."""
    one = simulation(run)
    energy, response, completions, late, total = 0.0, 0.0, 0, 0, 0
    ended: dict[int, tuple[float, bool]] = {}
    for interval in run["intervals"]:
        theirs = dict(
            zip(interval["completed"], zip(interval["response_s"], interval["late"], strict=True), strict=True)
        )
        total += len(theirs)
        completions += set(ended) != set(theirs)
        for number in set(ended) & set(theirs):
            response = max(response, _apart(ended[number][0], theirs[number][0]))
            late += ended[number][1] != theirs[number][1]
        view = one.state()
        slot = dict(zip(view.container.tolist(), view.slot.tolist(), strict=True))
        if not {c for c, _ in interval["decision"]} <= set(slot):
            return Distance(interval["interval"], total, np.inf, np.inf, completions + 1, late)
        row = one.step([(slot[c], host) for c, host in interval["decision"]])
        energy = max(energy, _apart(row["energy"], interval["energy_j"]))
        rows = one.drain()
        ended = {
            int(c): (float(r), bool(x))
            for c, r, x in zip(rows["container"], rows["response"], rows["late"], strict=True)
        }
    return Distance(len(run["intervals"]), total, energy, response, completions, late)


def draw(number: int, intervals: int = 60) -> dict[str, Any]:
    """A fresh configuration for the peer: fleet, containers, and the seed of its random decisions."""
    chance = np.random.Generator(np.random.PCG64(np.random.SeedSequence((4711, number))))
    fleet = str(chance.choice(list(FLEETS)))
    hosts = int(chance.integers(10, 50))
    length = float(chance.choice([5.0, 30.0, 300.0]))
    most_ram = float(chance.choice([3000.0, 20000.0]))
    containers: list[dict[str, Any]] = []
    for interval in range(intervals):
        for _ in range(chance.poisson(hosts / 6.0)):
            samples = int(chance.integers(3, 40))
            ips = np.minimum(chance.lognormal(6.3, 0.9, samples), 5000.0)
            containers.append({
                "id": len(containers), "created": interval, "ips": ips.tolist(),
                "max_ips": float(ips.max() * chance.uniform(1.0, 3.0)), "duration": int(chance.integers(2, 12)),
                "sla": interval + int(chance.integers(2, 12)),
                "ram_mb": chance.uniform(100.0, most_ram, samples).tolist(),
                "disk_mb": float(chance.uniform(100.0, 4000.0)),
            })  # fmt: skip
    return {
        "fleet": fleet, "hosts": hosts, "slots": hosts, "interval_s": length, "router_mb_s": 10_000.0,
        "containers": containers, "count": intervals, "seed": number, "moving": float(chance.uniform(0.1, 0.5)),
    }  # fmt: skip


def run_peer(peer: Path, configuration: Mapping[str, Any], python: str = sys.executable) -> dict[str, Any]:
    """The run of `configuration` by the copy of the peer in `peer`, with `cpu_s` that it took.

    Raises `RuntimeError` with the peer's own words when it fails.
    """
    done = subprocess.run(
        [python, str(DRIVER), str(peer.resolve())], input=json.dumps(configuration), capture_output=True, text=True,
        check=False, cwd=peer,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the peer in {peer} failed: {done.stderr.strip()[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**configuration, **result}


def _apart(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), abs(b), 1e-300)

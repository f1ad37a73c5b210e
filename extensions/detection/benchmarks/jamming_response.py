"""What responses to alarms save: tasks in time under a jammer, by what is done about it, beside nothing and an oracle.

A mast with a cell at 3.5 GHz serves eight people who walk; a jammer on its carrier is on for 40 s. Its power is the
least of `POWERS` at which at most half of the tasks of phones that it hits are done in time when nothing is done
about it (`severity`); no response is looked at for that. A second cell, at 3.54 GHz, is on the same mast, or
silent until there is an alarm, or on a drone that takes off at the alarm and has a radio link of 60 Mbit/s to the
mast. The same seeds, people, jammers and tasks for every response.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from benchmarks.jamming_scenes import LAST, START, scene

from cosim import api

RESPONSES = ("other-carrier", "spare-cell", "relay-drone", "disconnect")
POWERS = (30, 34, 37, 40, 43, 46)  # dBm of the jammer, weakest first
MOST = 0.5  # of the tasks that are hit: in time when nothing is done
HARD = 10.0  # dB of SINR lost: the loss from which detection is judged
_HOLD = "30 s"
_LATE = 5.0  # s before the end of the attack from which on tasks are not counted: they may end after it
_CELLS = {"bs-0": ("33 dBm", "3.5 GHz"), "bs-1": ("27 dBm", "3.54 GHz")}
Key = tuple[str, float]  # node and creation of a task


def folder_of(folder: Path, what: str, seed: int, detector: Path, power: str) -> Path:
    """The run of one seed in which `what` is done: a response, "nothing", "no jammer" or "oracle"."""
    made: dict[str, Any] = scene("jammed", seed, load=0.2).data
    made["workloads"]["upload"] |= {"deadline": "3 s", "arrivals": "poisson 0.3 Hz", "input": "100 kB"}
    nodes = {name: keys for name, keys in made["nodes"].items() if not name.startswith("bs-")}
    mast = {"kind": "base-station", "at": ["200 m", "200 m"], "cpu": "8 x 3 GHz"}
    for name, (strong, carrier) in _CELLS.items():
        nodes[name] = {**mast, "cell": {"power": strong, "carrier": carrier, "bandwidth": "20 MHz"}}
    nodes["jammer-0"]["jammer"] = {"power": power, "active": False}
    made["nodes"] = nodes
    made["events"] = [one for one in made["events"] if one["do"] == "jammer-on"]  # no other mast
    radio = made["adapters"]["radio"]
    if what == "no jammer":
        nodes.pop("jammer-0")
        made.pop("events")
    elif what == "oracle":
        made["adapters"]["oracle"] = {"use": "benchmarks.oracle:ADAPTER"}
        radio["response"] = {"do": "other-carrier", "hold": _HOLD}
    elif what != "nothing":
        made["adapters"]["detector"] = {"model": str(detector.resolve())}
        radio["response"] = {"do": what, "hold": _HOLD}
    if what in ("spare-cell", "relay-drone"):
        radio["response"]["spare"] = ["bs-1"]
    if what == "relay-drone":
        _on_a_drone(made)
    return api.run(made, out=folder / "runs").folder


def _on_a_drone(made: dict[str, Any]) -> None:
    """The second cell is a drone's, with 24 dBm and the mast behind it, and no processor of its own."""
    cell = {"power": "24 dBm", "height": "0 m", "carrier": "3.54 GHz", "bandwidth": "20 MHz"}
    made["nodes"]["bs-1"] = {
        "kind": "base-station", "at": ["200 m", "195 m", "10 m"], "cell": cell, "vehicle": {"frame": "copter"},
    }  # fmt: skip
    corners = [
        ["140 m", "140 m", "30 m"],
        ["260 m", "140 m", "30 m"],
        ["260 m", "260 m", "30 m"],
        ["140 m", "260 m", "30 m"],
    ]
    made["adapters"]["vehicle"] = {"missions": {"bs-1": {"points": corners * 4, "alarm": True, "speed": "10 m/s"}}}
    made["links"] = [{"between": ["bs-0", "bs-1"], "rate": "60 Mbit/s", "delay": "3 ms"}]


def severity(folder: Path, seeds: range) -> int:
    """The power in dBm of a jammer that is as bad as asked on `seeds`, or the strongest."""
    for power in POWERS:
        parts = []
        for seed in seeds:
            run = folder_of(folder, "nothing", seed, Path(), f"{power} dBm")
            good, hit = _tasks(run), _hit(run)
            parts += [np.mean([good[key] for key in hit])] if hit else []
        if parts and np.mean(parts) <= MOST:
            return power
    return POWERS[-1]


def measure(folder: Path, detector: Path, seeds: range, power: int) -> dict[str, dict[str, float]]:
    """By what is done: parts of tasks in time, of all made under attack and of those that the jammer hits.

    A task is hit when its phone has lost `HARD` dB or more at its creation in the run in which nothing is done;
    the same tasks count for every response. For responses also quantiles of the time in s from a phone's first alarm
    to a loss of less than 3 dB; there are none where the detector raises no alarm for a phone that is hit.
    """
    parts: dict[str, list[tuple[float, float]]] = {}
    back: dict[str, list[float]] = {}
    for seed in seeds:
        runs = {
            what: folder_of(folder, what, seed, detector, f"{power} dBm")
            for what in ("no jammer", "nothing", "oracle", *RESPONSES)
        }
        hit = _hit(runs["nothing"])
        for what, run in runs.items():
            good = _tasks(run)
            kept = hit & good.keys()
            parts.setdefault(what, []).append(
                (float(np.mean(list(good.values()))), float(np.mean([good[key] for key in kept])) if kept else np.nan)
            )
            if what in RESPONSES:
                back.setdefault(what, []).extend(_recoveries(run))
    found = {}
    for what, rows in parts.items():
        whole, hard = np.array(rows).T
        found[what] = {"under attack": float(whole.mean())}
        if not np.isnan(hard).all():
            found[what]["hit"] = float(np.nanmean(hard))
        if back.get(what):
            for q in (0.5, 0.95):
                found[what][f"recovered {q:.0%}, s"] = float(np.quantile(back[what], q, method="higher"))
    return found


def _tasks(run: Path) -> dict[Key, bool]:
    """Whether each task of the attack was done in time."""
    rows = pq.read_table(run / "tasks.parquet", columns=["node", "created", "status", "late"]).to_pydict()
    return {
        (str(node), float(at)): status == "completed" and not late
        for node, at, status, late in zip(*rows.values(), strict=True)
        if START <= at < START + LAST - _LATE
    }


def _hit(run: Path) -> set[Key]:
    """The tasks whose phone loses `HARD` dB or more when they are made."""
    lost = _losses(run)
    return {(node, at) for node, at in _tasks(run) if lost.get((node, np.floor(2.0 * at) / 2.0), 0.0) >= HARD}


def _losses(run: Path) -> dict[Key, float]:
    rows = pq.read_table(run / "frames" / "jamming" / "radio.parquet", columns=["node", "time", "loss"]).to_pydict()
    return {(str(node), float(at)): loss for node, at, loss in zip(*rows.values(), strict=True)}


def _recoveries(run: Path) -> list[float]:
    """For each phone that lost `HARD` dB: s from its first alarm until it has lost less than 3 dB; inf for never."""
    rows = pq.read_table(run / "frames" / "alarm" / "detector.parquet", columns=["node", "time", "on"]).to_pydict()
    first: dict[str, float] = {}
    for node, at, on in zip(*rows.values(), strict=True):
        if on and at >= START:
            first.setdefault(str(node), at)
    lost = _losses(run)
    hit = {node for (node, _), loss in lost.items() if loss >= HARD}
    well: dict[str, float] = {}
    for (node, at), loss in lost.items():
        if node in first and at > first[node] and loss < 3.0:
            well[node] = min(well.get(node, np.inf), at - first[node])
    return [well.get(node, np.inf) for node in sorted(hit & set(first))]

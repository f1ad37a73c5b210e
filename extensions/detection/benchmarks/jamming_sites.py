"""Scenes on real sites, by which detectors are judged: another generator than that of the scenes they learn from.

Sites are those of a mobile operator in the centre of Melbourne (EUA data set: P. Lai et al., Optimal Edge User
Allocation in Edge Computing with Variable Sized Vector Bin Packing, ICSOC 2018), or 17 in Turin (SimuTorino), which
were used for no choice.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.jamming_scenes import PATTERNS, RADIO

from cosim.api import Scenario

KINDS = ("reuse", "crowd", "failures", "jammed-sites")  # the first three without a jammer
SITES = Path("mobility/eua_melbourne/site-optus-melbCBD.csv")
TURIN = Path("mobility/turin_crocetta/gnodeB_IDs.json")
_LATITUDE = 111_320.0  # m in a degree
_SIDE, _SIDE_TURIN = 700.0, 1500.0  # m


def places(data: Path, turin: bool = False) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Where the sites are, (n, 2) m east and north of the first."""
    if turin:
        listed = json.loads((data / TURIN).read_text(encoding="utf-8"))["gnodeB"]
        pairs = [(float(row["lon"]), float(row["lat"])) for row in listed]
    else:
        with (data / SITES).open(encoding="utf-8") as file:
            pairs = [(float(row["LONGITUDE"]), float(row["LATITUDE"])) for row in csv.DictReader(file)]
    found = np.array(pairs, np.float64)
    return np.asarray((found - found[0]) * _LATITUDE * np.array([np.cos(np.radians(found[0, 1])), 1.0]), np.float64)


def on_sites(
    kind: str, seed: int, data: Path, turin: bool = False, load: float | None = None, reuse: int | None = None
) -> Scenario:
    """The scene `seed` of one of `KINDS` about one of the sites.

    `reuse`: two masts that share a carrier; `crowd`: people move together; `failures`: masts fail; two scenes in three
    have all sites on one carrier, the third has two, but for `reuse` carriers. Channels have 40 MHz. `load`: 0..1.
    """
    rng, side = np.random.default_rng([seed, 77 + turin, KINDS.index(kind)]), _SIDE_TURIN if turin else _SIDE
    sites = places(data, turin)
    near = sites - sites[rng.integers(len(sites))] + 0.5 * side
    near = near[(near > 0.0).all(axis=1) & (near < side).all(axis=1)]
    apart: list[Any] = []  # small cells of one place are left out
    for place in near[rng.permutation(len(near))]:
        if len(apart) < 7 and all(np.hypot(*(place - other)) > 120.0 for other in apart):
            apart.append(place)
    carriers = reuse or (1 if kind == "reuse" else 1 + seed % 3 // 2)
    if kind == "reuse":
        apart = [np.array([0.5 * side - 140.0, 0.5 * side]), np.array([0.5 * side + 140.0, 0.5 * side])]
    made = Scenario("jamming-sites")
    made.set("run", duration="90 s", step="500 ms", seed=seed)
    speed = {"crowd": 3.0}.get(kind, rng.uniform(1.0, 14.0))
    made.adapter(
        "walkers",
        use="benchmarks.walkers:ADAPTER",
        side=f"{side:.0f} m",
        speed=f"{speed:.2f} m/s",
        crowd=kind == "crowd",
    )
    busy = rng.uniform(5.0, 95.0)
    made.adapter("radio", **RADIO, background=f"{busy if load is None else 100.0 * load:.1f} %")
    made.adapter("continuum", scheduler="nearest")
    made.kind("jammer", tier="device")
    for k, (x, y) in enumerate(apart):
        cell = {"power": "36 dBm", "height": f"{rng.uniform(8.0, 15.0):.1f} m", "bandwidth": "40 MHz"}
        cell["carrier"] = f"{3500 + 40 * (k % carriers)} MHz"
        made.node(f"site-{k}", kind="base-station", at=[f"{x:.1f} m", f"{y:.1f} m"], cpu="8 x 3 GHz", cell=cell)
        if kind in ("failures", "jammed-sites") and k and rng.random() < 0.4:
            made.event(
                f"{rng.uniform(5.0, 60.0):.0f} s", "fail", node=f"site-{k}", lasting=f"{rng.uniform(5.0, 40.0):.0f} s"
            )
    people = rng.uniform(0.0, side, (14, 2))
    for k, (x, y) in enumerate(people.tolist()):
        made.node(f"phone-{k}", kind="device", at=[f"{x:.1f} m", f"{y:.1f} m"])
    sizes = {"input": f"{rng.uniform(50.0, 900.0):.0f} kB", "output": f"{rng.uniform(10.0, 900.0):.0f} kB"}
    made.workload(
        "pictures", source="phone-*", arrivals=f"poisson {rng.uniform(0.2, 1.5):.2f} Hz", **sizes, work="20 Mcycles"
    )
    if kind == "jammed-sites":
        at = [f"{v:.1f} m" for v in people[0] + rng.uniform(-60.0, 60.0, 2)]
        keys: dict[str, Any] = {**PATTERNS[seed % len(PATTERNS)], "power": f"{rng.uniform(15.0, 40.0):.1f} dBm"}
        keys |= {"carrier": "3.5 GHz", "bandwidth": "40 MHz", "active": False}
        if "blocks" in keys:
            keys["blocks"] = [20, 70]
        made.node("van", kind="jammer", at=at, jammer=keys)
        made.event(f"{rng.uniform(10.0, 40.0):.0f} s", "jammer-on", node="van", lasting="30 s")
    return made

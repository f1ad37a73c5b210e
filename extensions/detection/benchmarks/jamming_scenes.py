"""Scenes that a benchmark of jamming detection draws: other places, people, loads and jammers for every seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.api import Scenario

PATTERNS: tuple[dict[str, str], ...] = (
    {"pattern": "continuous"},
    {"pattern": "intermittent", "on": "4 s", "off": "6 s"},
    {"pattern": "random", "hold": "3 s", "depth": "20 dB"},
    {"pattern": "sine", "period": "12 s", "depth": "20 dB"},
    {"pattern": "ramp", "period": "12 s", "depth": "20 dB"},
    {"pattern": "square", "period": "12 s", "depth": "30 dB"},
    {"pattern": "reactive"},
    {"pattern": "continuous", "blocks": "[10, 35]"},
)
SETS = ("normal", "jammed", "hole", "overload", "neighbour")
START, LAST = 30, 40  # s: when a jammer starts, and for how long it stays on

RADIO = {
    "model": "umi", "fading": "rician", "link_adaptation": "outer-loop", "cqi_delay": "500 ms", "harq": "combining",
    "link_failure": {"t310": "1 s"}, "log": True,
}  # fmt: skip


def pattern_of(seed: int, jammer: int = 0) -> int:
    """The number in `PATTERNS` of the pattern of a scene's `jammer`."""
    return (seed + 3 * jammer) % len(PATTERNS)


def scene(
    kind: str, seed: int, *, phones: int = 8, load: float | None = None, jammers: int = 1, reuse: int | None = None
) -> Scenario:  # fmt: skip
    """The scene number `seed` of one of `SETS`; nothing of it is in a scene of another seed.

    `load` is the part of the airtime that other users take, by default drawn between 0 and 0.95. Half of the scenes
    have all masts on one carrier, the others three carriers, unless `reuse` is their number; in some the phones are a
    crowd that moves together, a mast fails, or a site is new.
    """
    rng = np.random.default_rng([seed, SETS.index(kind)])
    side = 900.0 if kind == "hole" else 400.0
    busy = {"overload": rng.uniform(0.9, 0.97), "neighbour": rng.uniform(0.7, 0.95)}.get(kind, rng.uniform(0.0, 0.95))
    made = Scenario("jamming-bench")
    made.set("run", duration="100 s", step="500 ms", seed=seed)
    made.adapter(
        "walkers", use="benchmarks.walkers:ADAPTER", side=f"{side:.0f} m", speed=f"{rng.uniform(0.5, 8.0):.2f} m/s",
        crowd=bool(rng.random() < 0.25),
    )  # fmt: skip
    made.adapter("radio", **RADIO, background=f"{100.0 * (busy if load is None else load):.1f} %")
    made.adapter("continuum", scheduler="nearest")
    made.kind("jammer", tier="device")
    cells = {"hole": 1, "neighbour": 6}.get(kind, int(rng.integers(2, 7)))
    drawn = int(rng.choice([1, 3]))
    reuse = (1 if kind == "neighbour" else drawn) if reuse is None else reuse
    bandwidth = "20 MHz"
    for k in range(cells):
        x, y = rng.uniform(0.15, 0.85, 2) * (400.0 if kind == "hole" else side)
        carrier = f"{3500 + 20 * (k % reuse)} MHz"
        cell: dict[str, Any] = {"power": f"{rng.uniform(24, 33):.1f} dBm", "carrier": carrier, "bandwidth": bandwidth}
        made.node(f"bs-{k}", kind="base-station", at=[f"{x:.1f} m", f"{y:.1f} m"], cpu="8 x 3 GHz", cell=cell)
    for k in range(phones):
        x, y = rng.uniform(0.0, side, 2)
        made.node(f"phone-{k}", kind="device", at=[f"{x:.1f} m", f"{y:.1f} m"])
    size = rng.uniform(100.0, 600.0) * (4.0 if kind == "overload" else 1.0)
    often = f"poisson {rng.uniform(0.3, 2.0):.2f} Hz"
    sizes = {"input": f"{size:.0f} kB", "output": f"{rng.uniform(20.0, 400.0):.0f} kB"}
    made.workload("upload", source="phone-*", arrivals=often, **sizes, work="20 Mcycles")
    change = rng.random()
    if cells > 1 and change < 0.25:  # of a mast
        made.event(f"{rng.uniform(10.0, 70.0):.0f} s", "fail", node=f"bs-{cells - 1}", lasting="20 s")
    elif cells > 1 and change < 0.5:  # a new site
        made.event("0 s", "fail", node=f"bs-{cells - 1}", lasting=f"{rng.uniform(20.0, 80.0):.0f} s")
    if kind == "jammed":
        for k in range(jammers):
            pattern = dict(PATTERNS[pattern_of(seed, k)])
            at = [f"{v:.1f} m" for v in rng.uniform(0.1, 0.9, 2) * side]
            keys: dict[str, Any] = {**pattern, "power": f"{rng.uniform(5.0, 35.0):.1f} dBm", "active": False}
            if "blocks" in keys:
                keys["blocks"] = [10, 35]
            made.node(f"jammer-{k}", kind="jammer", at=at, jammer=keys)
        made.event(f"{START} s", "jammer-on", node="jammer-*", lasting=f"{LAST} s")
    return made

"""Writes small run folders of format 1 whose ledgers close, for the report's tests."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CELLS = ((0.0, 0.0), (600.0, 100.0), (300.0, 500.0), (900.0, 600.0))
UNITS = {
    "mobility": {"x": "m", "y": "m", "z": "m", "speed": "m/s", "heading": "deg"},
    "link": {"cell": "", "rsrp": "dBm", "snr": "dB", "uplink_rate": "bit/s", "downlink_rate": "bit/s", "delay": "s",
             "loss": "1", "handovers": "1"},
    "host": {"running": "1", "utilisation": "1", "power": "W", "energy": "J", "cost": "1", "completed": "1", "up": ""},
    "task": {},
}  # fmt: skip


def _table(path: Path, columns: dict[str, object], words: tuple[str, ...] = ("node",)) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        k: pa.array(v, pa.string()).dictionary_encode() if k in words else pa.array(v) for k, v in columns.items()
    }
    table = pa.table(arrays)
    pq.write_table(table, path)
    return table.num_rows


def write_run(
    root: Path, *, vehicles: int = 12, hosts: int = 4, duration: float = 60.0, seed: int = 1, mobility: bool = True,
    radio: bool = True, tasks: bool = True, energy: bool = True, status: str = "complete", scheduler: str = "nearest",
    slowdown: float = 1.0, prefix: str = "veh", name: str | None = None, title: str = "Synthetic town",
) -> Path:  # fmt: skip
    """A run folder below `root`; `prefix` names the moving nodes, `slowdown` stretches computing."""
    rng = np.random.default_rng(seed)
    run = root / (name or f"20260101-0000{seed:02d}-{zlib.crc32(f'{scheduler} {slowdown}'.encode()):08x}")
    run.mkdir(parents=True)
    cars = [f"{prefix}{k}" for k in range(vehicles)]
    edges = [f"edge-{k}" for k in range(hosts)]
    signals: dict[str, dict[str, object]] = {}

    def record(signal: str, adapter: str, rows: int) -> None:
        signals[signal] = {"origin": "simulated", "adapters": [adapter], "rows": rows, "columns": UNITS[signal]}

    planned = duration
    if status == "partial":
        duration = duration / 2
    times = np.arange(0.0, duration + 0.5)
    t = np.repeat(times, vehicles)
    who = np.tile(np.arange(vehicles), len(times))
    phase, lane = rng.uniform(0, 6.28, vehicles), rng.uniform(150, 420, vehicles)
    turn = rng.uniform(0.01, 0.03, vehicles)
    x = 450 + 1.4 * lane[who] * np.cos(phase[who] + turn[who] * t)
    y = 300 + 0.8 * lane[who] * np.sin(phase[who] + 1.3 * turn[who] * t)
    enter = rng.uniform(0, duration / 3, vehicles)
    here = t >= enter[who]
    t, who, x, y = t[here], who[here], x[here], y[here]
    node = [cars[k] for k in who]
    if mobility:
        rows = _table(run / "frames/mobility/sumo.parquet", {
            "time": t, "node": node, "x": x, "y": y, "z": np.zeros_like(x), "speed": np.full_like(x, 12.0),
            "heading": np.full_like(x, np.nan)})  # fmt: skip
        record("mobility", "sumo", rows)
    places = np.array([CELLS[k % 4] + np.array([0.0, 40.0]) * (k // 4) for k in range(hosts)]).reshape(-1, 2)
    distance = np.hypot(x[:, None] - places[None, :, 0], y[:, None] - places[None, :, 1])
    radio = radio and hosts > 0
    if radio:
        serving, near = distance.argmin(1), distance.min(1)
        snr = 42 - 10 * np.log10(1 + (near / 60) ** 2.4) + rng.normal(0, 3, len(t))
        cell = [edges[c] if s > 2 else None for c, s in zip(serving, snr, strict=True)]
        rate = 10e6 * np.log2(1 + 10 ** (snr / 10))
        rows = _table(run / "frames/link/radio.parquet", {
            "time": t, "node": node, "cell": cell, "rsrp": snr - 95, "snr": snr, "uplink_rate": rate,
            "downlink_rate": 2 * rate, "delay": np.full_like(snr, 0.004), "loss": np.full_like(snr, 0.001),
            "handovers": np.zeros(len(t), np.int32)}, ("node", "cell"))  # fmt: skip
        record("link", "radio", rows)
    use = np.clip(rng.normal(0.35, 0.2, (len(times), hosts)) * slowdown, 0, 1)
    watts = 40 + 110 * use
    if hosts:
        rows = _table(run / "frames/host/continuum.parquet", {
            "time": np.repeat(times, hosts), "node": edges * len(times), "running": (use * 8).astype(np.int32).ravel(),
            "utilisation": use.ravel(), "power": watts.ravel(), "energy": np.cumsum(watts, 0).ravel(),
            "cost": np.cumsum(use, 0).ravel() * 1e-5, "completed": np.zeros(use.size, np.int64),
            "up": np.ones(use.size, bool)})  # fmt: skip
        record("host", "continuum", rows)
    ledger, workloads, response = _tasks(run, rng, cars, edges, duration, slowdown, tasks and hosts > 0)
    if ledger["created"]:
        record("task", "continuum", ledger["completed"] + sum(ledger["failed"].values()))
    joules = {e: float(watts[:, k].sum()) for k, e in enumerate(edges)} if energy else {}
    radio_joules = 12.5 if energy and radio else 0.0
    input_bytes = 180e3 * ledger["created"]
    ledgers = {
        "tasks": ledger,
        "workloads": workloads,
        "bytes": {
            "input": {"offered": input_bytes, "delivered": input_bytes * 0.75, "dropped": input_bytes * 0.125,
                      "in_transit": input_bytes * 0.125},
            "output": {"offered": 4e3, "delivered": 4e3, "dropped": 0.0, "in_transit": 0.0},
        },
        "energy": {"total": sum(joules.values()) + radio_joules, "by_node": joules,
                   "by_tier": {"edge": sum(joules.values())}, "radio": radio_joules, "links": 0.0},
        "cost": {"total": 0.3, "by_node": dict.fromkeys(edges, 0.3 / hosts), "cpu": 0.2, "transfer": 0.0,
                 "energy": 0.1} if hosts else {},
    }  # fmt: skip
    figures = {
        "tasks_created": (float(ledger["created"]), "1", "tasks made by all workloads"),
        "tasks_completed": (float(ledger["completed"]), "1", "tasks whose output came back"),
        "completion_ratio": (ledger["completed"] / ledger["created"] if ledger["created"] else None, "1",
                          "completed tasks over ended tasks"),
        "response_mean": (float(np.mean(response)) if len(response) else None, "s", "mean response time"),
        "response_p95": (float(np.quantile(response, 0.95)) if len(response) else float("nan"), "s",
                         "95 % of the completed tasks took no longer"),
        "energy_total": (ledgers["energy"]["total"], "J", "electrical energy of all hosts and radios"),
    }  # fmt: skip
    metrics = {
        "format": 1,
        "figures": {k: {"value": v, "unit": u, "meaning": m} for k, (v, u, m) in figures.items()},
        "workloads": {w: {"created": d["created"], "completed": d["completed"]} for w, d in workloads.items()},
        "hosts": {e: {"utilisation_mean": float(use[:, k].mean()), "energy": float(watts[:, k].sum())}
                  for k, e in enumerate(edges)},
        "cells": {},
        "ledgers": {"continuum": ledgers},
        "faults": [],
    }  # fmt: skip
    (run / "metrics.json").write_text(json.dumps(metrics))
    _table(run / "nodes.parquet", {
        "node": edges + cars, "kind": ["edge"] * hosts + ["car"] * vehicles,
        "tier": ["edge"] * hosts + ["device"] * vehicles, "fleet": [None] * hosts + ["cars"] * vehicles,
        "slot": list(range(hosts + vehicles)), "generation": [0] * (hosts + vehicles),
        "x": [float(p[0]) for p in places] + [None] * vehicles, "y": [float(p[1]) for p in places] + [None] * vehicles,
        "z": [5.0] * hosts + [None] * vehicles, "first_seen": [0.0] * hosts + enter.tolist(),
        "last_seen": [duration] * (hosts + vehicles), "color": [""] * (hosts + vehicles)},
        ("node", "kind", "tier", "fleet", "color"))  # fmt: skip
    event = {"time": [duration / 2], "kind": ["fail"], "node": ["edge-0"], "detail": ["scripted"]}
    _table(run / "events.parquet", event, ("kind", "node", "detail"))
    error = None
    if status == "partial":
        error = {"type": "AdapterError", "message": "adapter 'sumo' failed in step at 31 s: gone", "adapter": "sumo",
                 "phase": "step", "traceback": "Traceback (most recent call last):\n  ..."}  # fmt: skip
    plan_hash = f"{zlib.crc32(f'{scheduler} {seed} {slowdown}'.encode()):08x}" * 8
    manifest = {
        "format": 1, "scenario": "town", "title": title, "description": "Cars send camera images to edge hosts.",
        "plan_hash": plan_hash, "status": status, "error": error, "seed": seed, "duration": planned,
        "reached": duration, "step": 1.0, "ticks_done": int(duration) + 1,
        "pacing": 0.0, "driver": "mosaik", "started": "2026-01-01T10:00:00Z", "ended": "2026-01-01T10:00:05Z",
        "wall_seconds": 5.2, "cpu_seconds": 6.1, "compiling_seconds": 3.0,
        "versions": {"cosim": "0.1.0", "numpy": "2.0.0"},
        "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": True},
        "host": {"platform": "Linux-6.1-x86_64", "cpu": "Some CPU", "cores": 2, "memory": 8e9, "python": "3.11.9"},
        "lag": {"policy": "report", "max": 0.0, "mean": 0.0, "late_ticks": 0, "behind": 0.0},
        "adapters": [
            {"name": "sumo", "use": "sumo", "origin": "simulated", "period": 1.0, "isolated": True, "steps": 61,
             "wall_seconds": 2.1, "cpu_seconds": 1.9, "summary": {}},
            {"name": "continuum", "use": "continuum", "origin": "simulated", "period": 1.0, "isolated": False,
             "steps": 61, "wall_seconds": 1.4, "cpu_seconds": None, "summary": ledgers},
        ],
        "signals": signals, "slow": [],
    }  # fmt: skip
    (run / "manifest.json").write_text(json.dumps(manifest))
    (run / "plan.json").write_text(json.dumps({"name": "town", "seed": seed}))
    (run / "scenario.resolved.yaml").write_text(
        f"name: town\nrun: {{duration: {planned:g} s, seed: {seed}}}\n"
        f"adapters:\n  continuum:\n    scheduler: {scheduler}\nnodes:\n  edge-[0..{hosts - 1}]: {{kind: edge}}\n"
    )
    return run


def _tasks(run, rng, cars, edges, duration, slowdown, wanted):
    """The task table and its ledger: three workloads, some failures, some tasks still in flight."""
    names = ("navigation", "infotainment", "hazard-detection")
    empty = {"created": 0, "completed": 0, "late": 0, "failed": {}, "in_flight": 0}
    if not wanted or not cars:
        return empty, {}, []
    n = int(duration * 8)
    created = np.sort(rng.uniform(0, duration * 0.95, n))
    which = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    upload = rng.exponential(0.03 * (1 + which), n) + 0.005
    queue = rng.exponential(0.01 * slowdown, n) * (rng.random(n) < 0.5)
    compute = rng.exponential(0.05 * slowdown * (1 + which), n) + 0.01
    status = rng.choice(["completed", "no-coverage", "capacity", "left"], n, p=[0.9, 0.05, 0.03, 0.02])
    ok = status == "completed"
    nan = np.where(ok, 0.0, np.nan)
    ended = created + upload + queue + compute + 0.012
    response = ended - created
    _table(run / "tasks.parquet", {
        "time": ended, "node": [cars[k % len(cars)] for k in range(n)], "task": np.arange(n),
        "workload": [names[k] for k in which], "host": [edges[k % len(edges)] if o else None for k, o in enumerate(ok)],
        "status": list(status), "created": created, "uploaded": created + upload + nan,
        "started": created + upload + queue + nan, "computed": created + upload + queue + compute + nan, "ended": ended,
        "input": np.full(n, 180e3), "output": np.full(n, 4e3), "work": np.full(n, 9e7), "deadline": np.full(n, 0.4),
        "late": ok & (response > 0.4)}, ("node", "workload", "host", "status"))  # fmt: skip

    def ledger(rows):
        words, amounts = np.unique(status[rows & ~ok], return_counts=True)
        return {"created": int(rows.sum()), "completed": int((rows & ok).sum()),
                "late": int((rows & ok & (response > 0.4)).sum()),
                "failed": {str(w): int(a) for w, a in zip(words, amounts, strict=True)}, "in_flight": 0}  # fmt: skip

    return ledger(np.ones(n, bool)), {w: ledger(which == k) for k, w in enumerate(names)}, response[ok]

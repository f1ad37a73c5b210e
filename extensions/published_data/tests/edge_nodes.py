"""Telemetry of edge nodes that never were: written by a plain model of the same queues, with known values."""

from __future__ import annotations

import csv
import heapq
from pathlib import Path

import numpy as np

TRUTH = {("mobilenet_v2", 64): 0.017, ("mobilenet_v2", 128): 0.045, ("resnet18", 64): 0.070, ("resnet18", 128): 0.110}
CONTENTION = {"edge-1": 0.0, "edge-2": 0.35, "edge-3": 1.1}
OVERHEAD = 0.003
LOADS = ((0.2, "fit"), (0.5, "fit"), (0.8, "fit"), (0.35, "held-back"), (0.65, "held-back"), (0.65, "repeat"))
NODES = (("edge-1", 1.0, 1), ("edge-2", 2.0, 2), ("edge-3", 1.0, 2))
TASKS = ("window", "service", "size", "created", "assigned", "uploaded", "started", "computed", "ended", "status")
WINDOWS = ("window", "node", "cores", "concurrency", "load", "part", "disturbed")


def serve(arrivals, works, workers, contention):
    """(started, computed) of requests: first come first served, `workers` at once; step by step from event to event."""
    waiting, running, now, at = [], {}, 0.0, 0
    started, computed = np.empty(len(arrivals)), np.empty(len(arrivals))
    while at < len(arrivals) or waiting or running:
        speed = 1.0 / (1.0 + contention * (len(running) - 1)) if running else 1.0
        first = min(running, key=lambda k: running[k]) if running else -1
        ends = now + running[first] / speed if running else np.inf
        comes = arrivals[at] if at < len(arrivals) else np.inf
        until = min(ends, comes)
        for k in running:
            running[k] -= (until - now) * speed
        now = until
        if ends <= comes:
            computed[first] = now
            del running[first]
        else:
            heapq.heappush(waiting, at)
            at += 1
        while waiting and len(running) < workers:
            k = heapq.heappop(waiting)
            started[k], running[k] = now, works[k]
    return started, computed


def write(folder: Path, seconds: float = 60.0, seed: int = 4, sigma: float = 0.04, disturbed: tuple[int, ...] = ()):
    """A measurement of three nodes under six loads."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = list(TRUTH)
    mean = float(np.mean(list(TRUTH.values())))
    with (folder / "windows.csv").open("w", newline="") as a, (folder / "tasks.csv").open("w", newline="") as b:
        windows, tasks = csv.writer(a), csv.writer(b)
        windows.writerow(WINDOWS)
        tasks.writerow(TASKS)
        number = 0
        for load, part in LOADS:
            for k, (node, cores, workers) in enumerate(NODES):
                random = np.random.default_rng([seed, k, int(100 * load)])
                rate = load / mean * workers / (1.0 + CONTENTION[node] * (workers - 1))
                times = np.cumsum(random.exponential(1.0 / rate, int(rate * seconds * 1.5)))
                times = times[times < seconds]
                chosen = random.integers(0, len(kinds), len(times))
                noise = np.random.default_rng([seed, number, 9]).lognormal(0.0, sigma, len(times))
                works = np.array([TRUTH[kinds[c]] for c in chosen]) * noise
                came = times + 0.4 * OVERHEAD
                started, computed = serve(came, works, workers, CONTENTION[node])
                windows.writerow([number, node, cores, workers, load, part, int(number in disturbed)])
                for c, row in zip(chosen, zip(times, times, came, started, computed, strict=True), strict=True):
                    tasks.writerow([number, *kinds[c], *row, row[-1] + 0.6 * OVERHEAD, 200])
                number += 1
    return folder

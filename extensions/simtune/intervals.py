"""Hosts that run tasks between the ticks of an interval clock, and what a logger writes at every tick.

The exact queueing model of a small testbed. Every interval begins with new tasks; each goes to a host
drawn at random, starts after an overhead and computes until its work is done; tasks on one host share
it equally. The logger's CPU figure has steps and is smoothed, power follows it by a table of points.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.compiled.compiling import entry
from cosim.contract.records import Floats
from cosim.engine.continuum.draw import CHOICE, IDLE, mix, normal, uniform
from cosim.engine.continuum.jit import jit
from cosim.twin.space import Parameter, Space

STEP = 0.5  # % of CPU, the logger's resolution
_TASKS = 256  # that may be under way at once; a vector of parameters that needs more cannot be simulated
_DRAWS = 64  # tasks an interval that have random numbers of their own


class TestbedFacts(NamedTuple):
    """What is known of the testbed and its logger; not searched."""

    hosts: int = 16
    interval: float = 5.0  # s
    weight: float = 0.8  # of the new CPU figure in the smoothed one
    arrivals: float = 1.5  # sd of the normal law of mean 0 whose whole part, at least 1, arrives an interval
    noise: float = 0.4  # mean steps of CPU that a host shows without tasks


class Tasks(NamedTuple):
    """The tasks there are; (n,) each."""

    host_of: Floats
    start: Floats  # s
    work: Floats  # s left


def space() -> Space:
    """The free parameters; the start is the middle of the bounds, along their scales."""
    return Space([
        Parameter("work.median", 0.05, 20.0, scale="log", unit="s"),  # of the whole host
        Parameter("work.spread", 0.05, 2.5),  # sd of the logarithm
        Parameter("share", 0.2, 1.0),  # of the host that one task can use
        Parameter("overhead", 0.0, 15.0, unit="s"),  # before work begins
    ])  # fmt: skip


@jit
def _watts(cpu: float, points: Floats, curve: Floats) -> float:
    k = 0
    while k < len(points) - 2 and cpu >= points[k + 1]:
        k += 1
    watts: float = curve[k] + (cpu - points[k]) / (points[k + 1] - points[k]) * (curve[k + 1] - curve[k])
    return watts


@jit
def _poisson(mean: float, at: float) -> int:
    """The Poisson quantile at `at` in [0, 1)."""
    chance = math.exp(-mean)
    total, count = chance, 0
    while total <= at and count < 50:
        count += 1
        chance *= mean / count
        total += chance
    return count


@jit
def _share(host: int, at: float, until: float, rate: float, host_of: Floats, start: Floats, work: Floats) -> float:
    """Run the tasks of one host from `at` to `until` (s), equal shares; s of the whole host that they used.

    The work that is left of a task that ends is exactly 0.
    """
    used = 0.0
    while at < until:
        running, following = 0, until
        for k in range(len(host_of)):
            if host_of[k] == host and work[k] > 0.0:
                if start[k] <= at:
                    running += 1
                else:
                    following = min(following, start[k])
        each = min(rate, 1.0 / running) if running else 0.0
        for k in range(len(host_of)):
            if host_of[k] == host and work[k] > 0.0 and start[k] <= at:
                following = min(following, at + work[k] / each)
        for k in range(len(host_of)):
            if host_of[k] == host and work[k] > 0.0 and start[k] <= at:
                done = min(work[k], each * (following - at))
                used += done
                work[k] -= done
                if work[k] <= 1e-9:
                    work[k] = 0.0
        at = following
    return used


@jit
def _interval(
    t: int, testbed: TestbedFacts, rate: float, key: np.uint64, tasks: Tasks, smooth: Floats, points: Floats,
    curve: Floats,
) -> float:  # fmt: skip
    """One interval of all hosts; W of all of them by the logger's figures."""
    hosts, length, weight = len(smooth), testbed.interval, testbed.weight
    total = 0.0
    for host in range(hosts):
        busy = False
        for k in range(len(tasks.host_of)):
            busy = busy or tasks.host_of[k] == host
        cpu = STEP * _poisson(testbed.noise, uniform(key, t * hosts + host, IDLE))
        if busy:
            used = _share(host, t * length, (t + 1) * length, rate, tasks.host_of, tasks.start, tasks.work)
            cpu = min(cpu + 100.0 * used / length, 100.0)
        smooth[host] = weight * cpu + (1.0 - weight) * smooth[host]
        total += _watts(smooth[host], points, curve)
    return total


@entry()
def _run(
    values: Floats, seeds: NDArray[np.uint64], testbed: TestbedFacts, until: int, first: int, points: Floats,
    curve: Floats, energy: Floats, response: Floats,
) -> None:  # fmt: skip
    """Rows `first` to `until` of every vector under every seed, side by side in a row of the outputs."""
    rows, hosts, length, sd = until - first, testbed.hosts, testbed.interval, testbed.arrivals
    host_of, start, work, since = np.empty(_TASKS), np.empty(_TASKS), np.empty(_TASKS), np.empty(_TASKS)
    for v in range(len(values)):
        median, spread, rate, overhead = values[v]
        for s in range(len(seeds)):
            key = mix(seeds[s])
            smooth = np.zeros(hosts)
            count = 0
            for t in range(until):
                for n in range(max(1, int(sd * normal(key, _DRAWS * 2 * t + _DRAWS * 2 - 1)))):
                    if count == _TASKS or n == _DRAWS - 1:
                        break
                    draw = _DRAWS * 2 * t + 2 * n
                    host_of[count] = float(int(hosts * uniform(key, draw, CHOICE)))
                    start[count] = t * length + overhead
                    work[count] = median * math.exp(spread * normal(key, draw))
                    since[count] = t
                    count += 1
                tasks = Tasks(host_of[:count], start[:count], work[:count])
                watts = _interval(t, testbed, rate, key, tasks, smooth, points, curve)
                ended, sojourn, kept = 0, 0.0, 0
                for k in range(count):
                    if work[k] == 0.0:
                        ended += 1
                        sojourn += t + 1 - since[k]
                    else:
                        host_of[kept], start[kept], work[kept], since[kept] = host_of[k], start[k], work[k], since[k]
                        kept += 1
                if count == _TASKS:  # more than there is room for
                    energy[v, s * rows :] = np.nan
                    response[v, s * rows :] = np.nan
                    break
                count = kept
                if t >= first:
                    energy[v, s * rows + t - first] = watts * length
                    response[v, s * rows + t - first] = sojourn / ended if ended else 0.0


def simulate(
    values: ArrayLike,
    seeds: ArrayLike,
    points: Floats,
    curve: Floats,
    *,
    until: int,
    first: int = 0,
    testbed: TestbedFacts | None = None,
) -> dict[str, Floats]:
    """Energy (J an interval, all hosts) and mean response (intervals; 0 when nothing ended) of the log's rows.

    `values` (n, 4) as `space()` has them, `seeds` (k,): the same random numbers for all n vectors.
    `points` (%) and `curve` (W) are the power table of a host. Row `first` to row `until` of each seed
    follow each other: both signals are (n, k (until - first)). A vector that piles up tasks without end
    answers with NaN from there on.
    """
    testbed = testbed or TestbedFacts()
    values = np.ascontiguousarray(np.atleast_2d(values), np.float64)
    seeds = np.ascontiguousarray(np.atleast_1d(seeds), np.uint64)
    shape = (len(values), len(seeds) * (until - first))
    energy, response = np.empty(shape), np.empty(shape)
    _run(
        values, seeds, testbed, until, first,
        np.ascontiguousarray(points, np.float64), np.ascontiguousarray(curve, np.float64), energy, response,
    )  # fmt: skip
    return {"energy": energy, "response": response}

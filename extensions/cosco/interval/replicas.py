"""Many runs at once: every parameter set under every seed, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats
from cosim.extensions.cosco.interval import kernel
from cosim.extensions.cosco.interval.fleet import HostFleet, Type
from cosim.extensions.cosco.interval.layout import D_RAM, FIGURES, WAITING, link_up
from cosim.extensions.cosco.interval.simulator import Interval
from cosim.extensions.cosco.interval.workload import ContainerWorkload

_NONE = np.empty((0, 2), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The figures of all runs."""

    figures: Floats  # (parameter sets, seeds, intervals, len(FIGURES))

    def __getitem__(self, name: str) -> Floats:
        """(parameter sets, seeds, intervals) of one of `layout.FIGURES`."""
        return self.figures[..., FIGURES.index(name)]

    def totals(self) -> dict[str, Floats]:
        """(parameter sets, seeds) sums over the intervals; of utilisation and fairness the means."""
        sums = {name: self[name].sum(axis=2) for name in FIGURES}
        for name in ("utilisation", "fairness", "active", "waiting", "left", "ahead"):
            sums[name] = self[name].mean(axis=2)
        return sums


def _types(
    change: Callable[[Type], Type],
) -> Callable[[HostFleet, ContainerWorkload], tuple[HostFleet, ContainerWorkload]]:
    def apply(fleet: HostFleet, workload: ContainerWorkload) -> tuple[HostFleet, ContainerWorkload]:
        return replace(fleet, types=tuple(map(change, fleet.types))), workload

    return apply


def applied(
    name: str, value: float, fleet: HostFleet, workload: ContainerWorkload
) -> tuple[HostFleet, ContainerWorkload]:
    """Fleet and workload with one parameter at `value`; factors of 1 and the present values change nothing."""
    if name == "speed":
        return _types(lambda kind: replace(kind, mips=kind.mips * value))(fleet, workload)
    if name == "bandwidth":
        fleet = replace(fleet, router=fleet.router * value)
        return _types(lambda kind: replace(kind, up=kind.up * value, down=kind.down * value))(fleet, workload)
    if name == "latency":
        fleet = replace(fleet, latency=None if fleet.latency is None else tuple(value * s for s in fleet.latency))
        return _types(lambda kind: replace(kind, latency=kind.latency * value))(fleet, workload)
    if name == "idle-power":
        return _types(lambda kind: replace(kind, power=_idle(kind.power, value)))(fleet, workload)
    if name == "power":
        return _types(lambda kind: replace(kind, power=tuple(value * w for w in kind.power)))(fleet, workload)
    if name == "arrivals":
        return fleet, replace(workload, arrivals=replace(workload.arrivals, mean=value))
    if name == "spread":
        return fleet, replace(workload, spread=value)
    if name == "memory":
        demand = workload.demand.copy()
        demand[:, :, D_RAM] *= value
        return fleet, replace(workload, demand=demand)
    if workload.work is None:
        return fleet, replace(workload, duration=(workload.duration[0] * value, workload.duration[1] * value))
    return fleet, replace(workload, work=workload.work * value)


def _idle(power: tuple[float, ...], value: float) -> tuple[float, ...]:
    """A table whose first point is `value` times as high, and its last the same."""
    shift = power[0] * (value - 1.0)
    steps = len(power) - 1
    return tuple(w + shift * (steps - k) / steps for k, w in enumerate(power))


PARAMETERS: Mapping[str, str] = {
    "speed": "factor on the hosts' MIPS",
    "bandwidth": "factor on the bandwidths of hosts and router",
    "latency": "factor on the hosts' latencies",
    "power": "factor on the power tables",
    "idle-power": "factor on the power without load, the power at full load kept",
    "work": "factor on the containers' work (under the law of samples: on their duration)",
    "arrivals": "mean number per interval",
    "spread": "sigma of the log-normal factor on the work",
    "memory": "factor on the containers' memory, and so on what a move transfers",
    "overhead": "s that every transfer takes besides",
}


def batch(
    fleet: HostFleet,
    workload: ContainerWorkload,
    seeds: Sequence[int],
    intervals: int,
    *,
    parameters: Mapping[str, ArrayLike] | None = None,
    workers: int | None = None,
    **options: Any,  # noqa: ANN401 - those of Interval
) -> Batch:
    """Run `intervals` intervals from the beginning for every parameter set and every seed.

    `parameters` maps names of `PARAMETERS` to values (R,); without it there is one set. The sets meet
    the same containers under the same seed (common random numbers), so that differences between sets
    are not differences of luck. `options` are those of `Interval`; the policy must be a built-in one.
    `workers` threads, by default one per core; how many changes no bit. Raises `ValueError` for
    parameters that are unknown or of different lengths.
    """
    sets = _sets(parameters or {})
    if options.get("policy") is not None and not isinstance(options["policy"], str):
        raise ValueError("a batch takes built-in policies only")
    numbers = np.array([seed % 2**64 for seed in seeds], np.uint64)
    figures = np.zeros((len(sets), len(numbers), intervals, len(FIGURES)))
    workers = workers or len(os.sched_getaffinity(0))
    parts = max(1, min(len(numbers), -(-workers // max(len(sets), 1))))
    jobs = [(one, part) for one in range(len(sets)) for part in np.array_split(np.arange(len(numbers)), parts)]

    def work(job: tuple[int, np.ndarray[Any, Any]]) -> None:
        one, part = job
        if len(part):
            figures[one, part[0] : part[-1] + 1] = _simulate(
                fleet, workload, numbers[part], intervals, sets[one], options
            )

    if workers == 1:
        for job in jobs:
            work(job)
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, jobs))
    return Batch(figures)


def _sets(parameters: Mapping[str, ArrayLike]) -> list[dict[str, float]]:
    unknown = sorted(set(parameters) - set(PARAMETERS))
    if unknown:
        raise ValueError(f"there is no parameter {', '.join(map(repr, unknown))}; known: {', '.join(PARAMETERS)}")
    columns = {name: np.atleast_1d(np.asarray(values, np.float64)) for name, values in parameters.items()}
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"parameters of different lengths: {', '.join(f'{n} {len(v)}' for n, v in columns.items())}")
    count = lengths.pop() if lengths else 1
    return [{name: float(values[k]) for name, values in columns.items()} for k in range(count)]


def _simulate(
    fleet: HostFleet, workload: ContainerWorkload, seeds: np.ndarray[Any, Any], intervals: int,
    values: dict[str, float],
    options: dict[str, Any],
) -> Floats:  # fmt: skip
    for name, value in values.items():
        if name != "overhead":
            fleet, workload = applied(name, value, fleet, workload)
    overhead = {"overhead": values["overhead"]} if "overhead" in values else {}
    one = Interval(fleet, workload, 0, **{**options, **overhead, "keep": False})
    rows = np.empty((len(seeds), intervals, len(FIGURES)))
    done = 0
    while done < len(seeds):
        done += kernel.act(one.world.rules, kernel.BATCH, intervals, _NONE, seeds[done:], rows[done:])
        if done < len(seeds):  # more wait than the ring holds: this seed again with more room
            one.world = link_up(one.world._replace(queue=np.zeros(2 * len(one.world.queue), WAITING)))
    return rows

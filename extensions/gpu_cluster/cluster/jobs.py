"""A workload of training jobs as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats, Ints
from cosim.extensions.gpu_cluster.cluster import traffic
from cosim.extensions.gpu_cluster.cluster.engine.layout import WHOLE
from cosim.extensions.gpu_cluster.cluster.names import PATTERNS


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """Jobs in the order of arrival. `duration` holds on a network that never makes a job wait.

    Raises `ValueError` for shapes that differ and values out of range.
    """

    arrival: Floats  # (jobs,) s
    gpus: Ints  # (jobs,)
    duration: Floats  # (jobs,) s
    pattern: Ints = field(default_factory=_none)  # (jobs,) index into PATTERNS
    milli: Ints = field(default_factory=_none)  # (jobs,) thousandths of the one GPU of a job that shares it
    compute: Floats = field(default_factory=lambda: np.zeros(0))  # (jobs,) s of a step
    network: Floats = field(default_factory=lambda: np.zeros(0))  # (jobs,) s of a step's communication
    overlap: Floats = field(default_factory=lambda: np.zeros(0))  # (jobs,) part of it that hides behind computing
    rails: Ints = field(default_factory=_none)  # (jobs,) parallel rings
    group: Ints = field(default_factory=_none)  # (jobs,) ranks that share experts
    checkpoint: Floats = field(default_factory=lambda: np.zeros(0))  # (jobs,) s of work between two, 0: none

    def __post_init__(self) -> None:
        count = len(self.arrival)
        defaults = {"milli": WHOLE, "compute": 0.7, "network": 0.3, "rails": 8, "group": 8}
        for name in self.__slots__:
            values = np.asarray(getattr(self, name))
            if len(values) == 0 and count:
                values = np.full(count, defaults.get(name, 0))
            kind = np.int64 if name in ("gpus", "pattern", "milli", "rails", "group") else np.float64
            if values.shape != (count,):
                raise ValueError(f"'{name}' has {values.shape} values for {count} jobs")
            object.__setattr__(self, name, np.ascontiguousarray(values, kind))
        if count == 0:
            return
        if (np.diff(self.arrival) < 0.0).any():
            raise ValueError("the jobs are not in the order of arrival")
        checks = {
            "gpus": self.gpus >= 1,
            "duration": np.isfinite(self.duration) & (self.duration > 0.0),
            "arrival": np.isfinite(self.arrival) & (self.arrival >= 0.0),
            "milli": (self.milli >= 1) & (self.milli <= WHOLE) & ((self.milli == WHOLE) | (self.gpus == 1)),
            "pattern": (self.pattern >= 0) & (self.pattern < len(PATTERNS)),
            "overlap": (self.overlap >= 0.0) & (self.overlap <= 1.0),
            "rails": self.rails >= 1,
        }
        for name, right in checks.items():
            if not right.all():
                first = int(np.argmin(right))
                raise ValueError(f"'{name}' of job {first} is {getattr(self, name)[first]:g}, out of range")

    def __len__(self) -> int:
        return len(self.arrival)

    def take(self, rows: NDArray[np.intp] | slice) -> Jobs:
        """Those jobs, in the order of arrival."""
        return Jobs(*(getattr(self, name)[rows] for name in self.__slots__))

    def at_once(self) -> Jobs:
        """The same jobs, all there at the start."""
        return replace(self, arrival=np.zeros(len(self)))

    @property
    def gpu_seconds(self) -> float:
        return float((self.gpus * self.milli * self.duration).sum() / WHOLE)


def described(trainings: Sequence[traffic.Training], arrivals: Sequence[float], rate: float, per_server: int) -> Jobs:
    """Jobs from their owners' descriptions, on NICs of `rate` bit/s."""
    order = np.argsort(np.asarray(arrivals, np.float64), kind="stable")
    chosen = [trainings[i] for i in order]
    network = [traffic.network_time(one, rate, per_server) for one in chosen]
    steps = [traffic.step_time(one.compute, t, one.overlap) for one, t in zip(chosen, network, strict=True)]
    return Jobs(
        arrival=np.asarray(arrivals, np.float64)[order],
        gpus=np.array([one.ranks for one in chosen]),
        duration=np.array([one.steps * step for one, step in zip(chosen, steps, strict=True)]),
        pattern=np.array([PATTERNS.index(traffic.pattern(one)) for one in chosen]),
        compute=np.array([one.compute for one in chosen]),
        network=np.array(network),
        overlap=np.array([one.overlap for one in chosen]),
        rails=np.array([one.rails for one in chosen]),
        group=np.array([max(1, one.ep) for one in chosen]),
    )

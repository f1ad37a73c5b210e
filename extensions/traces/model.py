"""What every reader returns: utilisation by machine and period, or tasks by arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats, Ints

Shares = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class UtilisationTraces:
    """How busy each VM (or machine, or container) was in each period of equal length.

    Values are NaN where the source has none, as before a VM starts and after it stops. Raises
    `ValueError` when shapes disagree or a value lies outside its range.
    """

    ids: tuple[str, ...]
    utilisation: Shares  # (vms, periods) mean over the period, as a share 0..1 of the VM's cores
    period: float  # s
    start: float = 0.0  # s, beginning of period 0 on the source's clock
    peak: Shares | None = None  # (vms, periods) largest sample of the period, as `utilisation`
    memory_use: Shares | None = None  # (vms, periods) share 0..1 of the VM's memory
    cores: Floats | None = None  # (vms,)
    clock: Floats | None = None  # (vms,) Hz per core
    memory: Floats | None = None  # (vms,) B

    def __post_init__(self) -> None:
        shape = (len(self.ids), self.utilisation.shape[1] if self.utilisation.ndim == 2 else -1)
        if len(set(self.ids)) != len(self.ids):
            raise ValueError("two traces have the same id")
        if not self.period > 0.0:
            raise ValueError(f"the period is {self.period:g} s, not positive")
        for name in ("utilisation", "peak", "memory_use"):
            values = getattr(self, name)
            if values is None:
                continue
            if values.shape != shape:
                raise ValueError(f"{name} has shape {values.shape}, not {shape}")
            bad = ~((values >= 0.0) & (values <= 1.0) | np.isnan(values))
            if bad.any():
                vm, period = (int(i) for i in np.argwhere(bad)[0])
                raise ValueError(
                    f"{name} of '{self.ids[vm]}' in period {period} is {values[vm, period]:g}, not in 0..1"
                )
        for name in ("cores", "clock", "memory"):
            values = getattr(self, name)
            if values is not None and (values.shape != shape[:1] or not np.all((values > 0.0) | np.isnan(values))):
                raise ValueError(f"{name} must be one positive number for each of the {shape[0]} traces")

    @property
    def vms(self) -> int:
        return len(self.ids)

    @property
    def periods(self) -> int:
        return int(self.utilisation.shape[1])

    def select(self, vms: slice | Ints, periods: slice = slice(None)) -> UtilisationTraces:
        """The traces of some VMs in some consecutive periods."""
        begin, _, step = periods.indices(self.periods)
        if step != 1:
            raise ValueError("periods must be consecutive")
        index = np.arange(self.vms)[vms]

        def rows(values: Floats | None) -> Floats | None:
            return None if values is None else values[index]

        def part(values: Shares | None) -> Shares | None:
            return None if values is None else values[index][:, periods]

        return UtilisationTraces(
            ids=tuple(self.ids[i] for i in index),
            utilisation=self.utilisation[index][:, periods],
            period=self.period,
            start=self.start + begin * self.period,
            peak=part(self.peak),
            memory_use=part(self.memory_use),
            cores=rows(self.cores),
            clock=rows(self.clock),
            memory=rows(self.memory),
        )


@dataclass(frozen=True, eq=False)
class TaskTrace:
    """Tasks in order of arrival; NaN where the source gives no value.

    Raises `ValueError` when shapes disagree, a value is negative or arrivals are out of order.
    """

    arrival: Floats  # (tasks,) s since the first arrival, ascending
    duration: Floats  # (tasks,) s
    cores: Floats  # (tasks,) requested; a share of one machine if `unit` is "machine"
    memory: Floats  # (tasks,) requested, B; a share of one machine if `unit` is "machine"
    work: Floats  # (tasks,) cycles
    ids: tuple[str, ...] | None = None
    start: float = 0.0  # s, first arrival on the source's clock
    unit: str = "absolute"  # "absolute", or "machine": cores and memory are shares of one machine
    extra: Mapping[str, Floats] = field(default_factory=dict)  # further columns of the source, (tasks,) each
    left_out: tuple[str, ...] = ()  # how many tasks of the source are not here, and why

    def __post_init__(self) -> None:
        count = len(self.arrival)
        columns = {name: getattr(self, name) for name in ("arrival", "duration", "cores", "memory", "work")}
        for name, values in (columns | dict(self.extra)).items():
            if values.shape != (count,):
                raise ValueError(f"{name} has shape {values.shape}, not {(count,)}")
            if np.any(values < 0.0):
                raise ValueError(f"{name} of task {int(np.argmax(values < 0.0))} is negative")
        if self.ids is not None and len(self.ids) != count:
            raise ValueError(f"there are {len(self.ids)} ids for {count} tasks")
        if self.unit not in ("absolute", "machine"):
            raise ValueError(f"the unit is '{self.unit}', not 'absolute' or 'machine'")
        if np.any(np.isnan(self.arrival)) or np.any(np.diff(self.arrival) < 0.0):
            raise ValueError("arrivals are not in order")

    def __len__(self) -> int:
        return len(self.arrival)

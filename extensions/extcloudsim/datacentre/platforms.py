"""Kinds of hosts from platforms, tables and laws of power."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosim.engine.continuum.power import CLASSES, Platform, slowdown
from cosim.extensions.extcloudsim.datacentre.layout import CUBIC, LINEAR, TABLE, Kinds, contiguous


@dataclass(frozen=True, slots=True)
class HostKind:
    """A kind of host: a platform with operating points, or a law of power at one point.

    An empty host sleeps: `resting` W, and `waking` s at `waking_power` W until it runs again. A
    suspended server (ACPI S3) takes some 10 W and some 10 s to resume (Isci et al. 2013,
    doi 10.1145/2485922.2485931).
    """

    platform: Platform | None = None
    margin: int | None = None  # class of undervolting of the platform; None: nominal voltage
    idle: float = 0.0  # W, instead of a platform
    full: float = 0.0  # W
    law: str = "linear"  # or cubic
    table: Sequence[float] = ()  # W at equal steps of load, instead of a law
    resting: float = 10.0  # W when empty
    waking: float = 10.0  # s
    waking_power: float | None = None  # W; None: full power of the highest point
    memory: float = 0.0  # W of its memory while it is awake, on top of the platform or law
    points: tuple[int, ...] = ()  # operating points of the platform that may be used; (): all


def measured_rows(platform: Platform) -> list[list[float]]:
    """Slow-down per class and operating point, as measured; class io has none."""
    ones = (1.0,) * len(platform.frequency)
    return [list(platform.measured.get(work, ones)) for work in CLASSES]


def fitted_rows(platform: Platform) -> list[list[float]]:
    """Slow-down per class and operating point by 1 + c (f_max / f - 1), c fitted per platform and class."""
    top = platform.frequency[-1]
    return [[float(slowdown(platform.sensitivity(work), f, top)) for f in platform.frequency] for work in CLASSES]


def kinds_of(rows: Sequence[HostKind], measured: bool = True) -> Kinds:
    """The arrays of some kinds of hosts; slow-downs as measured, or by the fitted formula."""
    chosen = [row.points or tuple(range(len(row.platform.frequency) if row.platform else 1)) for row in rows]
    width = max(map(len, chosen))
    entries = max(2, *(len(row.table) for row in rows)) if rows else 2
    shape = (len(rows), width)
    frequency, idle, span = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    law = np.zeros(len(rows), np.int64)
    table = np.zeros((len(rows), entries))
    slow = np.ones((len(rows), len(CLASSES), width))
    for k, (row, points) in enumerate(zip(rows, chosen, strict=True)):
        for i, point in enumerate(points):
            if row.platform is None:
                frequency[k, i], idle[k, i], span[k, i] = 1.0, row.idle + row.memory, row.full - row.idle
                law[k] = TABLE if row.table else CUBIC if row.law == "cubic" else LINEAR
                if row.table:
                    at = np.linspace(0.0, 1.0, entries)
                    table[k] = np.interp(at, np.linspace(0.0, 1.0, len(row.table)), row.table) + row.memory
                continue
            frequency[k, i] = row.platform.frequency[point]
            nothing = row.platform.watts(0.0, point, row.margin)
            idle[k, i] = nothing + row.memory
            span[k, i] = row.platform.watts(1.0, point, row.margin) - nothing
            made = measured_rows(row.platform) if measured else fitted_rows(row.platform)
            slow[k, :, i] = [one[point] for one in made]
        # the highest point in use is the measure of capacity
        slow[k] /= slow[k, :, [len(points) - 1]].T
        for i in range(len(points), width):
            frequency[k, i], idle[k, i], span[k, i] = (a[k, len(points) - 1] for a in (frequency, idle, span))
    full = [
        row.waking_power
        if row.waking_power is not None
        else table[k, -1]
        if row.table
        else idle[k, len(points) - 1] + span[k, len(points) - 1]
        for k, (row, points) in enumerate(zip(rows, chosen, strict=True))
    ]
    return Kinds(
        points=contiguous([len(points) for points in chosen], np.int64),
        frequency=frequency, idle=idle, span=span, law=law, table=table, slowdown=slow,
        resting=contiguous([row.resting for row in rows]), waking=contiguous([row.waking for row in rows]),
        waking_power=contiguous(full),
    )  # fmt: skip

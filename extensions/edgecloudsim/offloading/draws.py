"""What devices draw: applications, active periods, tasks. Each draw is a hash of seed, device and its number.

So what a device draws depends on nothing that others do, nothing is generated before its time, and
a look ahead takes nothing away.
"""

from __future__ import annotations

import math

import numpy as np

from cosim.compiled.compiling import codes
from cosim.engine.continuum.draw import exponential, stream, uniform
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.queue import put
from cosim.extensions.edgecloudsim.offloading.layout import Record
from cosim.extensions.edgecloudsim.offloading.rows import app, device

# Purposes of draws. The last ones are for the kernels' own use.
(
    GAP, UPLOAD, DOWNLOAD, LENGTH, APPLICATION, START, HOME, STAY, NEXT_PLACE, TIER, PICK, BATTERY, CORES, SPEED,
    IMAGE, SPARE_1, SPARE_2, SPARE_3,
) = codes(18)  # fmt: skip

ACTIVITY_START = 10.0  # s, nothing happens before
_ONE = 1.0


@jit
def key_of(s: Record, d: int) -> np.uint64:
    """The key of the device's stream."""
    return stream(s.seed, d, 0, 0)


@jit
def draw_application(s: Record, d: int) -> None:
    """Give the device one application for the whole run, by the shares in percent; none beyond their sum."""
    dv = device(s.devices, d)
    x = 100.0 * uniform(dv.key, 0, APPLICATION)
    dv.app = -1
    for a in range(s.app_count):
        if x < app(s.apps, a).share:
            dv.app = a
            break


@jit
def whole_kb(s: Record, x: float) -> float:
    """A size or length as used: quirk integer-sizes cuts it to an integer, at least 1."""
    if s.integer_sizes != 0:
        return max(_ONE, math.floor(x))
    return x


@jit
def begin_activity(s: Record, d: int, latest: float) -> None:
    """The device's first active period begins at U(10 s, `latest`); its first task is scheduled."""
    dv = device(s.devices, d)
    if dv.app < 0:
        return
    dv.begin = ACTIVITY_START + (latest - ACTIVITY_START) * uniform(dv.key, 0, START)
    dv.until = dv.begin + app(s.apps, dv.app).active
    dv.at = dv.begin
    next_arrival(s, d)


@jit
def next_arrival(s: Record, d: int) -> None:
    """Draw and schedule the device's next task.

    Intervals are exponential. One that passes the end of the active period is dropped, and the next
    one counts from the beginning of the next period: periods begin strictly periodically.
    """
    dv = device(s.devices, d)
    a = app(s.apps, dv.app)
    at = dv.at
    while True:
        at += a.interarrival * exponential(dv.key, dv.gaps, GAP)
        dv.gaps += 1
        if at <= dv.until:
            break
        dv.begin += a.active + a.idle
        dv.until = dv.begin + a.active
        at = dv.begin
        if at > s.end:
            break
    dv.at = at
    put(s, s.first_arrival + d, at)

"""What the vehicular policies see: recent outcomes per option, the arms of the bandit, the players' shares.

Outcomes are counted in windows of 1/8 s, of which the last eight are kept. A window's age is 0 while
it is filled.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosim.compiled.compiling import codes
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.memory import real, rows_of
from cosim.extensions.edgecloudsim.offloading.vehicular.links import (
    GSM_DOWN,
    GSM_UP,
    MAN_DOWN,
    MAN_UP,
    WAN_DOWN,
    WAN_UP,
    downlink,
    shared,
    uplink,
)

EDGE, ROADSIDE, CELLULAR = codes(3)
OPTIONS: Final = 3
NAMES: Final = ("edge", "roadside", "cellular")
KEPT: Final = 8  # windows
SPAN: Final = 0.125  # s, a window
WEIGHTS: Final = (4.0, 3.0, 2.0, 1.0)  # of the predictive policy, by age
NO_FAILURE: Final = 0.1  # %, rate that stands for none
NO_SERVICE: Final = 0.01  # s, time that stands for none

RECENT = np.dtype([("sent", "f8"), ("completed", "f8"), ("failed", "f8"), ("service", "f8")])  # s, sum of completed
ARM = np.dtype([("mean", "f8"), ("tried", "f8")])  # s per unit of length; times
PLAYER = np.dtype([("share", "f8"), ("rate", "f8")])  # probability of the cloud; rate of tasks against the highest

# What is known of an option when a task is to be sent; delays as log10 of s.
FEATURES: Final = (
    "offered",  # tasks sent this way in the last second, against what its narrowest shared link carries
    "lately",  # the same of the last half second
    "computing",  # s, alone on a machine there
    "up",  # over the first link
    "down",  # over the last link
    "far-up",  # between the road side and the host; of the edge: over the metropolitan network
    "far-down",
    "load",  # %, mean of the tier's machines
)
FAILING: Final = 9.0  # s, delay that stands for a link that fails

recent = rows_of(RECENT)
arm = rows_of(ARM)
player = rows_of(PLAYER)


@jit
def turn_window(s: Record) -> None:
    """The present window is full; the oldest makes room for the next."""
    s.window = (s.window + 1) % KEPT
    for option in range(OPTIONS):
        row = recent(s.recent, s.window * OPTIONS + option)
        row.sent = 0.0
        row.completed = 0.0
        row.failed = 0.0
        row.service = 0.0


@jit
def _aged(s: Record, option: int, age: int) -> Record:
    return recent(s.recent, (s.window + KEPT - age) % KEPT * OPTIONS + option)


@jit
def offered(s: Record, option: int, windows: int) -> float:
    """Tasks sent this way in the last `windows`, the present one included."""
    total = 0.0
    for age in range(windows):
        total += _aged(s, option, age).sent
    return total


@jit
def failure_rate(s: Record, option: int) -> float:
    """Weighted sum of the failure rates (%) of the last four windows."""
    total = 0.0
    for age in range(len(WEIGHTS)):
        row = _aged(s, option, age)
        rate = NO_FAILURE
        if row.failed > 0.0:
            rate = 100.0 * row.failed / (row.failed + row.completed)
        total += (len(WEIGHTS) - age) * rate
    return total


@jit
def mean_service(s: Record, option: int) -> float:
    """Weighted sum of the mean service times (s) of the last four windows."""
    total = 0.0
    for age in range(len(WEIGHTS)):
        row = _aged(s, option, age)
        mean = NO_SERVICE
        if row.completed > 0.0:
            mean = row.service / row.completed
        total += (len(WEIGHTS) - age) * mean
    return total


@jit
def learn(s: Record, option: int, succeeded: int, service: float, length: float, max_delay: float) -> None:
    """A task that went this way has ended after `service` s."""
    row = _aged(s, option, 0)
    if succeeded != 0:
        row.completed += 1.0
        row.service += service
    else:
        row.failed += 1.0
        service = 0.5 + 1.5 * max_delay  # s, what a failure counts as: 1.25, 2, 2.75 in the peer's sample
    if s.rounds > 0.0:
        a = arm(s.arms, option)
        cost = service / length
        if s.mab_per_instruction == 0:
            cost *= s.mean_length
        if s.mab_divides_by_old_count != 0:
            a.mean = (a.mean * a.tried + cost) / a.tried
        else:
            a.mean = (a.mean * a.tried + cost) / (a.tried + 1.0)
        a.tried += 1.0
        s.rounds += 1.0


@jit
def _seen(delay: float) -> float:
    return math.log10(delay if delay > 0.0 else FAILING)


@jit
def _write(s: Record, option: int, k: int, value: float) -> None:
    real(s.features, option * len(FEATURES) + k).v = value


@jit
def observe(s: Record, place: int, length: float) -> None:
    """Write FEATURES of all options, for a task from this place, to `s.features`."""
    for option in range(OPTIONS):
        up, down = uplink(s, place).delay, downlink(s, place).delay
        far_up, far_down = shared(s, MAN_UP).delay, shared(s, MAN_DOWN).delay
        if option == ROADSIDE:
            far_up, far_down = shared(s, WAN_UP).delay, shared(s, WAN_DOWN).delay
        elif option == CELLULAR:
            up, down = shared(s, GSM_UP).delay, shared(s, GSM_DOWN).delay
            far_up = far_down = 1.0
        carried = real(s.carried, option).v * SPAN  # tasks per window
        _write(s, option, 0, offered(s, option, KEPT) / (carried * KEPT))
        _write(s, option, 1, offered(s, option, KEPT // 2) / (carried * (KEPT // 2)))
        _write(s, option, 2, length / (s.edge_mips if option == EDGE else s.cloud_mips))
        _write(s, option, 3, _seen(up))
        _write(s, option, 4, _seen(down))
        _write(s, option, 5, _seen(far_up))
        _write(s, option, 6, _seen(far_down))
        load = s.edge_load / s.edge_vms if option == EDGE else s.cloud_load / s.cloud_vms
        _write(s, option, 7, load)

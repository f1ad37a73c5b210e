"""Nomadic devices: a stay at a place, then any of the others.

Stays are exponential with the mean of the place's class; the first one begins at 10 s.
"""

from __future__ import annotations

import math

import numpy as np

from cosim.engine.continuum.draw import exponential, uniform
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.queue import put
from cosim.extensions.edgecloudsim.offloading.draws import ACTIVITY_START, HOME, NEXT_PLACE, STAY
from cosim.extensions.edgecloudsim.offloading.layout import Record
from cosim.extensions.edgecloudsim.offloading.rows import device, place


@jit
def _stay(s: Record, key: np.uint64, n: int, p: int) -> float:
    """s that a device stays at place p, its n-th."""
    if s.place_count < 2:
        return math.inf
    return float(place(s.places, p).dwell * exponential(key, n, STAY))


@jit
def _other(s: Record, key: np.uint64, n: int, p: int) -> int:
    """The place after p: any other, all equally likely."""
    q = int(uniform(key, n, NEXT_PLACE) * (s.place_count - 1))
    return q + 1 if q >= p else q


@jit
def settle(s: Record, d: int) -> None:
    """Give the device its first place and schedule its first move."""
    dv = device(s.devices, d)
    dv.place = int(uniform(dv.key, 0, HOME) * s.place_count)
    place(s.places, dv.place).devices += 1
    dv.next_move = ACTIVITY_START + _stay(s, dv.key, 0, dv.place)
    put(s, s.first_move + d, dv.next_move)


@jit
def move(s: Record, d: int, now: float) -> None:
    """The device goes to its next place."""
    dv = device(s.devices, d)
    place(s.places, dv.place).devices -= 1
    dv.place = _other(s, dv.key, dv.moves, dv.place)
    place(s.places, dv.place).devices += 1
    dv.moves += 1
    dv.next_move = now + _stay(s, dv.key, dv.moves, dv.place)
    put(s, s.first_move + d, dv.next_move)


@jit
def place_at(s: Record, d: int, time: float) -> int:
    """Where the device will be at `time`, now or later: the draws to come are known."""
    dv = device(s.devices, d)
    p, n, when = dv.place, dv.moves, dv.next_move
    while when <= time:
        p = _other(s, dv.key, n, p)
        n += 1
        when += _stay(s, dv.key, n, p)
    return int(p)

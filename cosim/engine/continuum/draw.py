"""Random numbers by counter: any draw of any stream at once, in any order.

A stream is a 64-bit key. Draw n for purpose p of a stream is a hash of (key, n, p), so that what a
source draws depends on nothing that other sources do, and not on when the engine is stepped.
"""

from __future__ import annotations

import math

import numpy as np

from cosim.compiled.compiling import codes
from cosim.compiled.splitmix import STEP as STEP
from cosim.compiled.splitmix import mix as mix
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import EXPONENTIAL, LOG_NORMAL, UNIFORM

GAP, INPUT, OUTPUT, WORK, ACTIVE, IDLE, OFFSET, SHARE, CHOICE, OPERATIONS, CHARGE, JITTER = codes(12)  # purposes
SLOW, PART = codes(16)[12:14]  # whether a task is of the second mode; whether it is among a share of all
BAG_SIZE, BAG_ANGLE = codes(16)[14:]  # those of stages go on from 16
ANGLE = 1 << 20  # added to a purpose: its second draw

SALT = np.uint64(0xD1B54A32D192ED03)
_S11 = np.uint64(11)


@jit
def stream(seed: np.uint64, slot: int, generation: int, workload: int) -> np.uint64:
    """The key of the stream of one source."""
    key = mix(seed + STEP)
    key = mix(key ^ (np.uint64(slot) * STEP + SALT))
    key = mix(key ^ (np.uint64(generation) * STEP + SALT))
    return mix(key ^ (np.uint64(workload) * STEP + SALT))


@jit
def uniform(key: np.uint64, n: int, purpose: int) -> float:
    """Draw n for `purpose` of the stream, in [0, 1) with 53 bits."""
    bits = mix(mix(key + np.uint64(n) * STEP) ^ (np.uint64(purpose + 1) * SALT))
    return float(bits >> _S11) * 1.1102230246251565e-16  # 2**-53


@jit
def exponential(key: np.uint64, n: int, purpose: int) -> float:
    """An exponential draw of mean 1."""
    return -math.log1p(-uniform(key, n, purpose))


@jit
def normal(key: np.uint64, n: int) -> float:
    """A standard normal draw (Box and Muller 1958, doi 10.1214/aoms/1177706645)."""
    radius = math.sqrt(2.0 * exponential(key, n, BAG_SIZE))
    return radius * math.cos(2.0 * math.pi * uniform(key, n, BAG_ANGLE))


@jit
def size(law: int, a: float, b: float, key: np.uint64, n: int, purpose: int) -> float:
    """A draw from the law: fixed a; exponential of mean a; uniform in [a, b); log-normal, mean a and deviation a b."""
    if law == EXPONENTIAL:
        return a * exponential(key, n, purpose)
    if law == LOG_NORMAL:
        radius = math.sqrt(2.0 * exponential(key, n, purpose))
        variance = math.log1p(b * b)  # of the logarithm
        deviations = radius * math.cos(2.0 * math.pi * uniform(key, n, purpose + ANGLE))
        return a * math.exp(math.sqrt(variance) * deviations - 0.5 * variance)
    if law == UNIFORM:
        return a + (b - a) * uniform(key, n, purpose)
    return a

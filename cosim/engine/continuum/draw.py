"""Random numbers by counter: any draw of any stream at once, in any order.

A stream is a 64-bit key. Draw n for purpose p of a stream is a hash of (key, n, p), so that what a
source draws depends on nothing that other sources do, and not on when the engine is stepped.
The mixing function is the finaliser of SplitMix64 (Steele, Lea, Flood 2014, doi 10.1145/2660193.2660195).
"""

from __future__ import annotations

import math

import numpy as np

from cosim.compiled.compiling import codes
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import EXPONENTIAL, LOG_NORMAL, UNIFORM

GAP, INPUT, OUTPUT, WORK, ACTIVE, IDLE, OFFSET, SHARE, CHOICE, OPERATIONS, CHARGE, JITTER = codes(12)  # purposes
SLOW, PART = codes(16)[12:14]  # whether a task is of the second mode; whether it is among a share of all
BAG_SIZE, BAG_ANGLE = codes(16)[14:]  # those of stages go on from 16
ANGLE = 1 << 20  # added to a purpose: its second draw

_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio
_SALT = np.uint64(0xD1B54A32D192ED03)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@jit
def mix(z: np.uint64) -> np.uint64:
    """A bijection of 64-bit numbers whose output bits look independent of the input's."""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@jit
def stream(seed: np.uint64, slot: int, generation: int, workload: int) -> np.uint64:
    """The key of the stream of one source."""
    key = mix(seed + _STEP)
    key = mix(key ^ (np.uint64(slot) * _STEP + _SALT))
    key = mix(key ^ (np.uint64(generation) * _STEP + _SALT))
    return mix(key ^ (np.uint64(workload) * _STEP + _SALT))


@jit
def uniform(key: np.uint64, n: int, purpose: int) -> float:
    """Draw n for `purpose` of the stream, in [0, 1) with 53 bits."""
    bits = mix(mix(key + np.uint64(n) * _STEP) ^ (np.uint64(purpose + 1) * _SALT))
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

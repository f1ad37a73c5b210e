"""Shadowing that is correlated along a device's path and does not depend on who else is there.

Draws are a function of a key, not of the order of calls: the same device, cell and move give the
same value in any order of rows and beside any other devices.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosim.compiled import splitmix
from cosim.compiled.compiling import entry, part

Word = np.uint64
_BLOCKS = 128
_R = 3.442619855899  # start of the tail for 128 blocks
_V = 9.91256303526217e-3  # area of a block


def _ziggurat() -> NDArray[np.float64]:
    """Right edges (129,) of 128 blocks of equal area under exp(-x*x/2)."""
    edges = np.zeros(_BLOCKS + 1)
    edges[0] = _V / math.exp(-0.5 * _R * _R)
    edges[1] = _R
    for i in range(2, _BLOCKS):
        edges[i] = math.sqrt(-2.0 * math.log(_V / edges[i - 1] + math.exp(-0.5 * edges[i - 1] ** 2)))
    return edges


_EDGES = _ziggurat()
_RATIO = _EDGES[1:] / _EDGES[:-1]


@part
def mix(word: Word) -> Word:
    """A well-mixed 64-bit word from another."""
    return splitmix.mix(np.uint64(word) + splitmix.STEP)


@part
def normal(key: Word) -> float:
    """The standard normal draw of `key` (64 bits), by the ziggurat of Doornik (2005) on mixed words."""
    word = np.uint64(key)
    while True:
        word = mix(word)
        u = 2.0 * (np.float64(word >> np.uint64(11)) * 2.0**-53) - 1.0
        block = np.int64(word & np.uint64(127))
        if abs(u) < _RATIO[block]:
            return float(u * _EDGES[block])
        if block == 0:
            while True:
                word = mix(word)
                a = math.log((np.float64(word >> np.uint64(11)) + 1.0) * 2.0**-53) / _R
                word = mix(word)
                b = math.log((np.float64(word >> np.uint64(11)) + 1.0) * 2.0**-53)
                if -2.0 * b >= a * a:
                    return a - _R if u < 0.0 else _R - a
        x = u * _EDGES[block]
        low = math.exp(-0.5 * (_EDGES[block] * _EDGES[block] - x * x))
        high = math.exp(-0.5 * (_EDGES[block + 1] * _EDGES[block + 1] - x * x))
        word = mix(word)
        if high + np.float64(word >> np.uint64(11)) * 2.0**-53 * (low - high) < 1.0:
            return float(x)


@part
def device_key(seed: Word, slot: int, generation: int) -> Word:
    """The key of one device: different for each (seed, slot, generation)."""
    return mix(np.uint64(seed) ^ mix((np.uint64(slot) << np.uint64(32)) | np.uint64(generation)))


@entry()
def device_keys(seed: np.uint64, rows: NDArray[np.int32], generation: NDArray[np.int32]) -> NDArray[np.uint64]:
    """The keys (n,) of the devices in slots `rows` (n,); `generation` (slots,) is that of each slot."""
    keys = np.empty(len(rows), np.uint64)
    for i in range(len(rows)):
        keys[i] = device_key(seed, rows[i], generation[rows[i]])
    return keys


@part
def draw_key(device: Word, draw: int) -> Word:
    """The key of a device's draw number `draw`, for all cells."""
    return mix(np.uint64(device) ^ mix(np.uint64(draw)))


@part
def cell_key(drawn: Word, cell: int) -> Word:
    """The key of `cell` within a draw: a step of SplitMix64's own sequence, which `normal` mixes."""
    return np.uint64(drawn) + np.uint64(cell) * splitmix.STEP


@part
def memory(moved: float, decorrelation: float) -> float:
    """Correlation exp(-moved / decorrelation) of shadowing before and after `moved` m; 0 beyond 40 decorrelations.

    3GPP TR 38.901 7.4.4 (after Gudmundson 1991).
    """
    if decorrelation <= 0.0 or moved > 40.0 * decorrelation:
        return 0.0 if moved > 0.0 else 1.0
    return math.exp(-moved / decorrelation)


@part
def wander(value: float, kept: float, fresh: float, key: Word) -> float:
    """A unit Gaussian `value` after a move with correlation `kept`: AR(1), kept * value + fresh * draw.

    `fresh` is sqrt(1 - kept * kept), so that the law stays N(0, 1) for any steps. A `value` of NaN
    starts anew.
    """
    if value != value:
        return normal(key)
    if fresh == 0.0:
        return value
    return kept * value + fresh * normal(key)

"""The draws of containers to come, compiled: to the bit those of `Context.rng`, in a small part of the time.

Most of that time goes into mixing a seed, key by key, and into making objects of it. numpy promises not to change its
`SeedSequence` (O'Neill 2015, "Developing a seed_seq alternative"). PCG64 is that of O'Neill (2014, "PCG: a family of
better random number generators"), and numba has numpy's laws.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import ready
from cosim.engine.continuum.jit import entry, part
from cosim.extensions.cosco.interval import compiled as simulated

NOTHING, EXPONENTIAL, UNIFORM, NORMAL = range(4)  # what is drawn for a container
Words = NDArray[np.uint64]

_A, _A_FACTOR, _B, _B_FACTOR, _LEFT, _RIGHT, _LOW = (
    np.uint64(x) for x in (0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED, 0xCA01F9DD, 0x4973F715, 2**32 - 1)
)  # of SeedSequence
_HIGH_FACTOR, _LOW_FACTOR = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645)  # of PCG64
_ONE, _16, _32, _63 = np.uint64(1), np.uint64(16), np.uint64(32), np.uint64(63)


def words_of(chance: np.random.Generator) -> Words:
    """The memory (4,) of a generator's PCG64: its state and its increment, the lower 64 bits of each first."""
    address = ctypes.c_uint64.from_address(chance.bit_generator.ctypes.state_address).value
    return np.ctypeslib.as_array((ctypes.c_uint64 * 4).from_address(address))


@part
def _hashed(value: np.uint64, constant: np.uint64, factor: np.uint64) -> tuple[np.uint64, np.uint64]:
    after = constant * factor & _LOW
    value = (value ^ constant) * after & _LOW
    return value ^ value >> _16, after


@part
def _begin(words: Words, entropy: Words) -> None:
    """Let a PCG64, whose memory is `words`, begin with a seed (4 or more,) of words of 32 bits."""
    pool, seed, constant = np.zeros(4, np.uint64), np.zeros(4, np.uint64), _A
    for k in range(4):
        pool[k], constant = _hashed(entropy[k], constant, _A_FACTOR)
    for k in range(len(entropy)):
        for target in range(4):
            if target != k:
                value, constant = _hashed(pool[k] if k < 4 else entropy[k], constant, _A_FACTOR)
                mixed = pool[target] * _LEFT - value * _RIGHT & _LOW
                pool[target] = mixed ^ mixed >> _16
    constant = _B
    for k in range(4):
        lower, constant = _hashed(pool[2 * k % 4], constant, _B_FACTOR)
        upper, constant = _hashed(pool[2 * k % 4 + 1], constant, _B_FACTOR)
        seed[k] = lower | upper << _32
    # (s + i) * factor + i with s and i of 128 bits, i odd
    high, low = seed[2] << _ONE | seed[3] >> _63, seed[3] << _ONE | _ONE
    s = seed[1] + low
    upper = seed[0] + high + (_ONE if s < low else np.uint64(0))
    x, y, f, g = s & _LOW, s >> _32, _LOW_FACTOR & _LOW, _LOW_FACTOR >> _32
    middle = (x * f >> _32) + (y * f & _LOW) + x * g
    words[0] = s * _LOW_FACTOR + low
    words[1] = y * g + (y * f >> _32) + (middle >> _32) + s * _HIGH_FACTOR + upper * _LOW_FACTOR + high
    if words[0] < low:
        words[1] += _ONE
    words[2], words[3] = low, high


@entry
def draws(
    chance: np.random.Generator, words: Words, seeds: Words, devices: NDArray[np.int64],
    expected: NDArray[np.float64], rules: NDArray[np.int64], counts: NDArray[np.int64], totals: NDArray[np.int64],
    drawn: NDArray[np.float64],
) -> int:  # fmt: skip
    """How many containers come in all R rows, each an interval of an episode.

    `chance`, whose memory is `words`, begins with each row's seed (R, 4 or more). Each of `devices` (R,) makes
    `expected` (R,), exactly or as a Poisson number; `counts` (D,) are those of the last row, `totals` (R,) of each.
    The rows of `drawn` (2, N) are draws of the standard law for each container, and uniform ones after those of a row,
    as far as they have room. `rules` are whether numbers are Poisson ones, the law, and whether there are uniform ones.
    """
    at = 0
    poisson, law, marked = rules[0] != 0, rules[1], rules[2] != 0
    values, marks = drawn[0], drawn[1]
    for r in range(len(devices)):
        _begin(words, seeds[r])
        totals[r] = 0
        for d in range(devices[r]):
            counts[d] = chance.poisson(expected[r]) if poisson else int(expected[r])
            totals[r] += counts[d]
        for k in range(at, at + totals[r] if law != NOTHING else at):
            if law == EXPONENTIAL:
                value = chance.standard_exponential()
            else:
                value = chance.random() if law == UNIFORM else chance.standard_normal()
            if k < len(values):
                values[k] = value
        for k in range(at, at + totals[r] if marked else at):
            value = chance.random()
            if k < len(marks):
                marks[k] = value
        at += totals[r]
    return at


def compiled() -> bool:
    """Whether the adapter starts without compiling."""
    return simulated() and ready(draws)

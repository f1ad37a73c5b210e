"""Many generators of an adapter's own at once: to the bit those of `Context.rng`, in a small part of the time.

Most of that time goes into mixing a seed, key by key. Here the mixing of `numpy.random.SeedSequence` (O'Neill 2015,
"Developing a seed_seq alternative"; numpy promises not to change it) is done for all keys together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import ArrayLike, NDArray

Words = NDArray[np.uint32]

_BLOCK = 1 << 14  # keys that are mixed together: their columns stay in the processor's cache
_POOL = 4  # words
_A, _A_FACTOR, _B, _B_FACTOR = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_HALF, _LOW = np.uint32(16), 2**32 - 1


class _Hash:
    """Hashes columns of words, each time with another constant."""

    def __init__(self, constant: int, factor: int) -> None:
        self._constant, self._factor = constant, factor

    def __call__(self, words: Words) -> Words:
        found: Words = words ^ np.uint32(self._constant)
        self._constant = self._constant * self._factor & _LOW
        found *= np.uint32(self._constant)
        found ^= found >> _HALF
        return found


def _mixed(x: Words, y: Words) -> Words:
    found: Words = x * _LEFT - y * _RIGHT
    found ^= found >> _HALF
    return found


def states(entropy: Words) -> NDArray[np.uint64]:
    """(R, 4) what `SeedSequence(row).generate_state(4, uint64)` is for each row of `entropy` (R, 4 or more)."""
    mix = _Hash(_A, _A_FACTOR)
    pool = [mix(entropy[:, k]) for k in range(_POOL)]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = _mixed(pool[target], mix(pool[source]))
    for source in range(_POOL, entropy.shape[1]):
        for target in range(_POOL):
            pool[target] = _mixed(pool[target], mix(entropy[:, source]))
    out = _Hash(_B, _B_FACTOR)
    words = np.stack([out(pool[k % _POOL]) for k in range(2 * _POOL)], axis=1).astype(np.uint64)
    found: NDArray[np.uint64] = words[:, 0::2] | words[:, 1::2] << np.uint64(32)
    return found


class _Mixed(ISeedSequence):
    """A seed that has been mixed already."""

    def __init__(self, state: NDArray[np.uint64]) -> None:
        self._state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:  # noqa: ANN401 - numpy's
        """What `PCG64` asks for: four words of 64 bits."""
        return self._state


def generators(seeds: Sequence[tuple[int, ...]], keys: ArrayLike) -> Iterator[np.random.Generator]:
    """The generators `Context.rng(*key)` of an adapter, for each of its seeds and then each row of `keys` (R, K).

    Raises `ValueError` for words that are not in 0..2**32 - 1, or fewer than four of seed and key together.
    """
    rows, entropy = np.array(keys, np.int64, ndmin=2), np.array(seeds, np.int64, ndmin=2)
    few = rows.shape[1] + entropy.shape[1] < _POOL
    if few or any(words.size and not 0 <= words.min() <= words.max() <= _LOW for words in (rows, entropy)):
        raise ValueError(
            f"seeds of {entropy.shape[1]} words, keys of {rows.shape[1]}; expected four or more of 32 bits"
        )
    some = max(1, _BLOCK // max(1, len(rows)))
    for first in range(0, len(entropy), some):
        block = entropy[first : first + some]
        words = np.concatenate([np.repeat(block, len(rows), axis=0), np.tile(rows, (len(block), 1))], axis=1)
        for state in states(words.astype(np.uint32)):
            yield np.random.Generator(np.random.PCG64(_Mixed(state)))  # type: ignore[arg-type]  # any ISeedSequence

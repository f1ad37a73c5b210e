"""What mixes words into random numbers: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).

The publication is doi 10.1145/2660193.2660195.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import part

Words = TypeVar("Words", np.uint64, NDArray[np.uint64])
STEP = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@part
def mix(z: Words) -> Words:
    """A bijection of 64-bit words, one or an array, whose output bits look independent of the input's."""
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))

"""One root seed, one named stream per component.

A stream's seed depends on the root seed and the component's name only, so adding or removing one
component leaves the streams of all others as they were.
"""

from __future__ import annotations

import hashlib


def stream(seed: int, name: str) -> tuple[int, ...]:
    """Entropy for the stream `name` under the root `seed`: fit for `numpy.random.SeedSequence`."""
    digest = hashlib.sha256(name.encode()).digest()
    words = (int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    return (seed & 0xFFFFFFFF, seed >> 32, *words)

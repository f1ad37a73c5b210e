"""Ages of the tasks that had not ended when their run did: how adapters report them, in the key `ages` of their books.

A list of s since creation, the least first. Of more than `MOST` tasks it has the least age of each of `MOST` parts of
nearly equal size, so that no age is overstated.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cosim.contract.records import Floats

MOST: Final = 256  # 5 kB in a manifest


def reported(ages: Floats) -> list[float]:
    """The list for the ages (n,) s of all tasks."""
    parts = np.array_split(np.sort(ages), min(MOST, len(ages)) or 1)
    return [float(part[0]) for part in parts if len(part)]


def restored(found: list[float], tasks: int) -> Floats:
    """(tasks,) s, an age for each of the tasks; 0 where none was reported, since nothing is known then."""
    ages = np.asarray(found, np.float64)
    if not len(ages):
        return np.zeros(tasks)
    return np.repeat(ages, [len(part) for part in np.array_split(np.empty(tasks), len(ages))])

"""Effect sizes of samples of tasks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def cliffs_delta(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """P(second > first) - P(second < first) for sorted samples: -1 all lower, 0 alike, 1 all higher."""
    if not len(first) or not len(second):
        return math.nan
    below = np.searchsorted(first, second, "left").sum(dtype=np.float64)
    above = (len(first) - np.searchsorted(first, second, "right")).sum(dtype=np.float64)
    return float((below - above) / (len(first) * len(second)))


def size_in_words(delta: float) -> str:
    """Cliff's delta in words, by the bounds 0.147, 0.33 and 0.474 (Romano et al., 2006)."""
    if not math.isfinite(delta):
        return ""
    bounds = ((0.147, "negligible"), (0.33, "small"), (0.474, "medium"))
    return next((name for bound, name in bounds if abs(delta) < bound), "large")

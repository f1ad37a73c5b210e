"""By how many rows one series comes after another: two clocks that differ, or a slow meter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosim.twin.judgement import course
from cosim.twin.judgement.course import LEAST
from cosim.twin.problem import Floats

STRONG = 0.5  # correlation: a large effect (J. Cohen, Statistical Power Analysis, 1988, 3.2)
_BETTER = 0.2  # than without a lag


@dataclass(frozen=True, slots=True)
class SignalLag:
    """`effect` follows its cause `rows` rows later; negative: it comes before."""

    rows: int
    correlation: float  # at that lag
    without: float  # correlation of the rows as they stand

    def __str__(self) -> str:
        order = "after" if self.rows > 0 else "before"
        return (
            f"{abs(self.rows)} rows {order} (correlation {self.correlation:.2f}, {self.without:.2f} as the rows stand)"
        )


def lag(cause: Floats, effect: Floats, most: int = 20) -> SignalLag | None:
    """The lag of `effect` (m,) behind `cause` (m,), None where the rows as they stand agree as well.

    Rows with a missing value are left out. Correlations are those of ranks (Spearman), which a single
    outlier cannot make. A lag counts when the correlation at it is strong, and
    clearly stronger in size than without; it is sought up to `most` rows and a quarter of the series.
    """
    most = min(most, len(cause) // 4)
    found = [(shift, correlation(cause, effect, shift)) for shift in range(-most, most + 1)]
    known = [(abs(value), -abs(shift), shift) for shift, value in found if np.isfinite(value)]
    without = abs(correlation(cause, effect))
    if not known or not np.isfinite(without):
        return None
    best, _, shift = max(known)
    return SignalLag(shift, best, without) if shift and best >= STRONG and best >= without + _BETTER else None


def correlation(cause: Floats, effect: Floats, shift: int = 0) -> float:
    """Rank correlation, `effect` taken `shift` rows later; NaN for fewer than 30 rows, and where one never changes."""
    first, second = (cause[: len(cause) - shift], effect[shift:]) if shift >= 0 else (cause[-shift:], effect[:shift])
    kept = np.isfinite(first) & np.isfinite(second)
    first, second = first[kept], second[kept]
    if len(first) < LEAST or np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return float("nan")
    return course.correlation(course.ranks(first), course.ranks(second))

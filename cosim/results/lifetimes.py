"""Statistics of times that are not all known: a task that had not ended with its run has an age, and no response time.

Kaplan and Meier's estimate (1958, doi 10.1080/01621459.1958.10501452) takes the ages as censored times. It supposes
that what is censored would have gone on as the others did, which is not so for a queue that grows. `low` and `high`
suppose nothing: every unfinished task ends now, or never.

Quantiles are interpolated between neighbours as Hyndman and Fan's type 7 (1996, doi 10.1080/00031305.1996.10473566)
does, the usual one of numpy and R, which they equal when everything is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

import numpy as np

from cosim.contract.records import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
    """Times (k,) s in order, how many ended after each, and the ages (n,) s of what has not ended."""

    times: Floats
    counts: Ints
    ages: Floats

    def survival(self) -> Floats:
        """(k,) The estimated share that takes longer than each of the times."""
        ended = int(self.counts.sum()) - np.cumsum(self.counts) + self.counts
        at_risk = ended + len(self.ages) - np.searchsorted(np.sort(self.ages), self.times, "left")
        left: Floats = np.cumprod(1.0 - self.counts / at_risk).astype(np.float64)
        return left

    def quantile(self, q: float) -> tuple[float, float, float]:
        """Estimate, low and high; the estimate is NaN where too few have ended for it, and high may be inf."""
        return self._estimate(q), self._bound(q, ends=True), self._bound(q, ends=False)

    def mean_at_least(self) -> float:
        """s, the mean if every unfinished one ended now."""
        n = int(self.counts.sum()) + len(self.ages)
        return float(self.times @ self.counts + self.ages.sum()) / n if n else nan

    def _bound(self, q: float, *, ends: bool) -> float:
        times = np.concatenate([self.times, self.ages if ends else np.full(len(self.ages), inf)])
        counts = np.concatenate([self.counts, np.ones(len(self.ages), np.int64)])
        order = np.argsort(times, kind="stable")
        times, behind = times[order], np.cumsum(counts[order])
        if not len(times):
            return nan
        place = q * (int(behind[-1]) - 1)
        below, above = (
            float(times[np.searchsorted(behind, rank, "right")]) for rank in (int(place), -int(-place // 1))
        )
        return below if below == above else below + (place - int(place)) * (above - below)

    def _estimate(self, q: float) -> float:
        """The quantile of masses by which the survival falls, equal among what ended at the same time."""
        if not len(self.times):
            return nan
        survival = self.survival()
        behind = 1.0 - survival
        each = np.diff(behind, prepend=0.0) / self.counts
        beyond = int((self.ages >= self.times[-1]).sum())  # what is left lies beyond all times
        last = float(survival[-1]) / beyond if beyond else float(each[-1])
        places = np.column_stack([behind - each * self.counts, behind - each]).reshape(-1)
        places /= 1.0 - last if last < 1.0 else 1.0
        if beyond and q > places[-1] + 1e-12:
            return nan
        return float(np.interp(q, places, np.repeat(self.times, 2)))

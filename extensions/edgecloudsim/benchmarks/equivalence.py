"""Are two samples of runs the same? Tests of equivalence, of difference, and of rare events.

*Equivalent* is shown by two one-sided Welch tests (Schuirmann 1987): both say that the difference of
the means lies inside a margin. *Different* is shown by Welch's test of equality; because it is asked
for every metric, its p-values are corrected over all of them (Holm 1979). Equivalence of all
metrics together is an intersection-union test, which needs no correction. Neither shown: *undecided*.

Percentages of rare failures are compared as pooled proportions of tasks. Failures of one run come in
bursts, so the binomial variance is multiplied by the dispersion that the runs show (at least 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import stats

LEVEL = 0.05  # of every test
POWER = 0.9  # at which the number of runs needed is stated, if there is no difference

Verdict = Literal["equivalent", "different", "undecided", "none"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What is known of some runs: their number, mean and standard deviation."""

    runs: int
    mean: float
    sd: float

    @staticmethod
    def of(values: Sequence[float]) -> Sample:
        """The sample of single values; NaN in any makes it NaN."""
        mean = math.fsum(values) / len(values)
        spread = math.fsum((value - mean) ** 2 for value in values)
        return Sample(len(values), mean, math.sqrt(spread / (len(values) - 1)) if len(values) > 1 else 0.0)

    @property
    def variance(self) -> float:
        """Of the mean."""
        return self.sd**2 / self.runs


@dataclass(frozen=True, slots=True)
class Comparison:
    """p-values of equality and of a difference outside the margin, and our runs needed to tell."""

    p_equal: float  # small: they differ
    p_outside: float  # small: they are equivalent
    margin: float  # in the metric's unit
    needed: float  # runs of ours; inf: the reference's own runs are too few


def compare_means(theirs: Sample, ours: Sample, margin: float) -> Comparison:
    """Welch's tests of the difference of two means against 0 and against +-`margin` (absolute)."""
    difference = ours.mean - theirs.mean
    variance = theirs.variance + ours.variance
    if variance <= (1e-9 * max(abs(theirs.mean), abs(ours.mean))) ** 2:  # constants, rounded when written down
        close = abs(difference) <= 1e-6 * max(abs(theirs.mean), 1e-30)
        return Comparison(float(close), float(abs(difference) > margin), margin, 2.0)
    freedom = variance**2 / sum(s.variance**2 / (s.runs - 1) for s in (theirs, ours) if s.runs > 1 and s.sd > 0.0)
    error = math.sqrt(variance)
    t = stats.t(freedom)
    outside = max(t.sf((difference + margin) / error), t.cdf((difference - margin) / error))
    return Comparison(2.0 * t.sf(abs(difference) / error), float(outside), margin, _needed(theirs, ours, margin))


def compare_rates(theirs: Sample, ours: Sample, tasks: tuple[float, float], margin: float) -> Comparison:
    """Two percentages of rare events as pooled proportions; `tasks` per run of theirs and of ours."""
    weights = [sample.runs * count for sample, count in zip((theirs, ours), tasks, strict=True)]
    if min(weights) <= 0.0:
        return Comparison(1.0, 1.0, margin, math.inf)
    pooled = sum(w * s.mean for w, s in zip(weights, (theirs, ours), strict=True)) / sum(weights) / 100.0
    if pooled <= 0.0:
        return Comparison(1.0, 0.0, margin, 2.0)
    single = 100.0**2 * pooled * (1.0 - pooled)  # variance of one task, in percent squared
    dispersion = max(1.0, *(s.sd**2 * count / single for s, count in zip((theirs, ours), tasks, strict=True)))
    spread = [math.sqrt(dispersion * single / count) for count in tasks]
    samples = [Sample(s.runs, s.mean, sd) for s, sd in zip((theirs, ours), spread, strict=True)]
    difference = ours.mean - theirs.mean
    error = math.sqrt(sum(s.variance for s in samples))
    normal = stats.norm
    outside = max(normal.sf((difference + margin) / error), normal.cdf((difference - margin) / error))
    return Comparison(
        float(2.0 * normal.sf(abs(difference) / error)), float(outside), margin, _needed(samples[0], samples[1], margin)
    )


def compare_pooled(pairs: Sequence[tuple[Sample, Sample]], margin: float) -> tuple[float, Comparison]:
    """Mean relative difference over several configurations, weighted by precision, and its tests.

    A bias that all configurations share shows here long before it shows in one of them. `margin` is
    relative. Pairs (theirs, ours) without variance or with a mean of 0 are left out.
    """
    differences, weights = [], []
    for theirs, ours in pairs:
        variance = theirs.variance + ours.variance
        if theirs.mean != 0.0 and variance > (1e-9 * theirs.mean) ** 2:
            differences.append((ours.mean - theirs.mean) / theirs.mean)
            weights.append(theirs.mean**2 / variance)
    if not weights:
        return 0.0, Comparison(1.0, 0.0, margin, 2.0)
    difference = math.fsum(d * w for d, w in zip(differences, weights, strict=True)) / math.fsum(weights)
    error = 1.0 / math.sqrt(math.fsum(weights))
    normal = stats.norm
    outside = max(normal.sf((difference + margin) / error), normal.cdf((difference - margin) / error))
    equal = float(2.0 * normal.sf(abs(difference) / error))
    return difference, Comparison(equal, float(outside), margin, math.nan)


def _needed(theirs: Sample, ours: Sample, margin: float) -> float:
    """Runs of ours for a power of `POWER` when there is no difference (normal approximation)."""
    quantiles = stats.norm.ppf(1.0 - LEVEL) + stats.norm.ppf(1.0 - (1.0 - POWER) / 2.0)
    room = (margin / quantiles) ** 2 - theirs.variance
    return math.inf if room <= 0.0 else max(2.0, math.ceil(ours.sd**2 / room))


def verdict(comparison: Comparison, p_corrected: float) -> Verdict:
    """What the tests show; `p_corrected` is the corrected p-value of equality."""
    if comparison.p_outside < LEVEL:
        return "equivalent"
    return "different" if p_corrected < LEVEL else "undecided"

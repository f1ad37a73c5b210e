"""Whether intervals contain the truth as often as stated: simulation-based calibration.

Truths are drawn from the prior, data are simulated with each, and each is calibrated like a measurement. The rank of
the truth among draws of the posterior is then uniform (S. Talts et al., arXiv:1804.06788, 2018), and 90 % of the 90 %
intervals contain it. Ranks concentrated at both ends mean intervals that are too narrow, in the middle too wide, at one
side a bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cosim.twin.calibration import Calibration
from cosim.twin.fitting.calibrate import INTERRUPTED, calibrate
from cosim.twin.fitting.judging import EDGE
from cosim.twin.judgement.subject import FALSE
from cosim.twin.problem import CalibrationProblem, Case, Floats, seeds_of
from cosim.twin.search.meter import Budget

BINS = 5  # of ranks: 4 truths each of the 20 that are drawn by default, as few as chi squared allows


@dataclass(frozen=True, slots=True)
class IntervalCoverage:
    """Of one parameter: how many intervals held the truth, and where it ranked."""

    name: str
    held: int
    of: int
    ranks: tuple[int, ...]  # truths per bin of their rank, from below all draws to above
    uniform: bool  # whether chance explains the heights of the bins

    @property
    def share(self) -> float:
        return self.held / self.of if self.of else float("nan")


def coverage(
    problem: CalibrationProblem, count: int = 20, *, budget: Budget | None = None, seed: int = 1, method: str = "auto",
    notify: Callable[[int, int], None] | None = None,
) -> tuple[IntervalCoverage, ...]:  # fmt: skip
    """Calibrate `count` truths of which the data are simulated. Parameters without effect are left out."""
    from scipy.stats import chisquare

    space = problem.space
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x736263]))
    units = EDGE + (1.0 - 2.0 * EDGE) * space.sample(count, random)  # nearer to the bounds intervals end there
    truths = space.values(units)
    answers: list[Calibration] = []
    for k, truth in enumerate(truths):
        measured = simulated(problem.fit, truth, seeds_of(seed, 0x736263, k)[0])
        alone = replace(problem, fit=measured, held_back=None, warnings=())
        answers.append(calibrate(alone, budget=budget, seed=seed + k, method=method))
        if answers[-1].stopped == INTERRUPTED:
            raise KeyboardInterrupt
        if notify is not None:
            notify(k + 1, count)
    found = []
    for j, p in enumerate(space.parameters):
        ranks, held = [], 0
        for truth, answer in zip(truths, answers, strict=True):
            one = answer.estimates[j]
            if one.low is None or one.high is None or not answer.draws or p.kind == "category":
                continue
            held += int(one.low <= truth[j] <= one.high)
            draws = np.array(answer.draws)[:, j]
            ranks.append(float(np.mean(draws < truth[j])))
        if ranks:
            bins = np.histogram(ranks, BINS, (0.0, 1.0))[0]
            even = bool(chisquare(bins).pvalue > FALSE)
            found.append(IntervalCoverage(p.name, held, len(ranks), tuple(bins.tolist()), even))
    return tuple(found)


def simulated(case: Case, truth: Floats, seed: int) -> Case:
    """`case` with what the simulation measures at `truth` (d,) in place of its own measurement."""
    rows = case.simulate(truth[None], seed)
    observed = {}
    for name, signal in case.observed.items():
        values = np.asarray(rows[name], np.float64)[0]
        if signal.paired or len(values) == len(signal.values):
            values = np.where(np.isfinite(signal.values), values, np.nan)
            observed[name] = replace(signal, values=values)
        else:
            observed[name] = replace(signal, values=values, times=None, groups=None)
    judged = case.judged and replace(case.judged, known=case.judged.simulate(truth, seed))
    return replace(case, observed=observed, judged=judged)

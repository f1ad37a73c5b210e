"""The judgement of a calibration: gaps, what there is to complain about, and values side by side for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cosim.twin.calibration import Calibration, Gap, Judgement, ParameterEstimate
from cosim.twin.fitting.misfit import ALL, Misfit, farther, gaps
from cosim.twin.fitting.posterior import LEVEL
from cosim.twin.judgement.subject import BEYOND
from cosim.twin.judgement.table import SHAPE
from cosim.twin.problem import CalibrationProblem, Case, Floats, Observed, Simulate
from cosim.twin.space import Space

EDGE = 0.5 * (1.0 - LEVEL)  # of the bounds: so near to one lies what the interval of a uniform prior leaves out


def before_and_after(
    case: Case, both: Floats, seeds: Sequence[int], part: str, draws: Sequence[Floats] | Floats = ()
) -> tuple[Judgement, bool, int]:
    """The gaps of the two points `both` (2, d) in values, under the same seeds, and how many runs they took.

    Between them, whether the second is clearly farther from what was measured, beyond chance and beyond how far runs
    with `draws` (n, d) are from one another: the values that the fitted data leave open.
    """
    simulated = [case.simulate(both, seed) for seed in seeds]

    def rows(point: int) -> dict[str, Floats]:
        found = {}
        for name, signal in case.observed.items():
            some = [np.asarray(one[name], np.float64)[point] for one in simulated]
            least = min(len(row) for row in some)
            if not signal.paired and any(len(row) != least for row in some):
                levels = (np.arange(least) + 0.5) / least
                some = [np.quantile(row, levels) for row in some]
            found[name] = np.stack(some)
        return found

    judged = Judgement(case.name or part, gaps(case.observed, rows(0)), gaps(case.observed, rows(1)))
    worse, runs = False, 2 * len(seeds)
    if any(signal.weight > 0.0 for signal in case.observed.values()):
        misfit = Misfit(case.observed)
        first, second = np.moveaxis(np.stack([misfit.left_out(one) for one in simulated]), 1, 0)
        by, chance = farther(first, second)
        worse = by > max(BEYOND * chance, SHAPE * float(first[:, 0].mean()))
        if worse and len(seeds) > 1:  # a run is as far off where those near saturation differ much
            own = [{name: np.asarray(one[name])[1:] for name in case.observed} for one in simulated]
            drawn = [case.simulate(draws[k % len(draws)][None], seed) for k, seed in enumerate(seeds) if len(draws)]
            runs += len(drawn)
            worse = not float(second[:, 0].mean()) <= misfit.usual(drawn or own)
    return judged, worse, runs


def summed(simulated: Sequence[Gap]) -> Gap:
    """The row of all signals together."""
    return next(gap for gap in simulated if gap.signal == ALL)


def complaints(
    space: Space,
    units: Floats,
    estimates: Sequence[ParameterEstimate],
    worse: Mapping[str, Judgement],
    held_back: Judgement | None,
) -> tuple[str, ...]:
    """What a reader should know before the values are used.

    `worse` are parts of the data, as a sentence names them, that the values agree less with than those before, by
    more than chance.
    """
    simulated: list[str] = []
    for what, judged in worse.items():
        before, after = summed(judged.before), summed(judged.after)
        if after.w1 > before.w1 * 1.001 and (np.isnan(after.nrmse) or after.nrmse > before.nrmse):
            simulated.append(
                f"the values agree less with {what} than those before: W1 {after.w1:.3g}, was {before.w1:.3g}"
            )
    if held_back is None:
        simulated.append("no data were held back: how the values do elsewhere is not known")
    elif not worse and (late := summed(held_back.after).w1) > (early := summed(held_back.before).w1) * 1.001:
        simulated.append(
            f"the data held back do not show that the values are better than before: W1 {late:.3g}, was {early:.3g}, "
            "a difference within chance"
        )
    for k, (p, estimate) in enumerate(zip(space.parameters, estimates, strict=True)):
        if estimate.verdict == "no effect":
            continue
        if not p.discrete and not EDGE < units[k] < 1.0 - EDGE and estimate.verdict != "fixed":
            end = "lower" if units[k] < 0.5 else "upper"
            simulated.append(
                f"'{p.name}' lies at its {end} bound or within 5 % of it: the best value may lie beyond, and its "
                "interval ends there; widen the bounds, or look for a cause that bends it"
            )
        if estimate.low is None or estimate.high is None or p.discrete:
            continue
        ends = np.tile(space.values(units[None]), (2, 1))
        ends[:, k] = estimate.low, estimate.high
        width = float(np.diff(space.units(ends)[:, k])[0])
        if width > 1.0 - 4.0 * EDGE and estimate.verdict == "fitted":
            simulated.append(f"the interval of '{p.name}' is hardly narrower than its bounds")
    return tuple(simulated)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One part of the data with simulations of it; rows of `before` and `after` are replicates."""

    part: str
    observed: Observed
    before: Mapping[str, Floats]  # signal -> (n, m), with the values that the parameters had
    after: Mapping[str, Floats]  # signal -> (n, m), with the calibrated ones


def replicate(simulate: Simulate, values: Floats, seeds: Sequence[int]) -> dict[str, Floats]:
    """Signal -> (len(seeds), m) simulations of one vector `values` (d,) under each seed.

    Where seeds lead to different numbers of values, NaN fills up the shorter rows.
    """
    parts = [simulate(np.atleast_2d(values), seed) for seed in seeds]
    found: dict[str, Floats] = {}
    for name in parts[0]:
        rows = [np.asarray(part[name], np.float64).ravel() for part in parts]
        found[name] = np.full((len(rows), max(len(row) for row in rows)), np.nan)
        for k, row in enumerate(rows):
            found[name][k, : len(row)] = row
    return found


def numbers(space: Space, calibration: Calibration) -> Floats:
    """(d,) calibrated values as numbers, in the order of `space`; a choice is its position."""
    return np.array([
        float(p.choices.index(calibration.value(p.name))) if p.kind == "category" else float(calibration.value(p.name))
        for p in space.parameters
    ])  # fmt: skip


def gather(
    problem: CalibrationProblem, calibration: Calibration, *, seeds: Sequence[int] = (1, 2, 3)
) -> tuple[Evidence, ...]:
    """Simulations of the fitted and the held-back part before and after calibration, under `seeds`."""
    before, after = problem.space.start, numbers(problem.space, calibration)
    seeds = seeds[:1] if problem.deterministic else seeds

    def shown(part: Case, otherwise: str) -> Evidence:
        name = f"{otherwise} ({part.name})" if part.name else otherwise
        return Evidence(
            name, part.observed, replicate(part.simulate, before, seeds), replicate(part.simulate, after, seeds)
        )

    parts = [shown(problem.fit, "fitted")]
    if problem.held_back is not None:
        parts.append(shown(problem.held_back, "held back"))
    return tuple(parts)

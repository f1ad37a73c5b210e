"""Can this model make these data? Posterior predictive checks (Gelman et al., Bayesian Data Analysis, 6.3).

Parameters are drawn from the posterior and the data are simulated with each, as many values as were measured. A figure
of the measurement that the search does not fit (length of the tail, autocorrelation, drift) should lie among those of
the simulations. If it lies far outside, no values of these parameters make such data, and the model lacks a cause.
Figures are also compared with the simulations in groups, those of the law of the values and those of their drift: many
small deviations of one kind show what no single one does. The simulations themselves give the chance distribution of a
group's chi squared.

A sound measurement is checked by dozens of figures, so each gets a share of the false-alarm probability (Bonferroni):
thresholds rise with the number of figures and signals, and where there are few simulations (Student's t).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from cosim.twin.fitting.distances import wasserstein
from cosim.twin.fitting.nearest import quantile
from cosim.twin.problem import ORDER, Case, Floats, MeasuredSignal
from cosim.twin.telemetry import order
from cosim.twin.telemetry.order import correlation, ranks
from cosim.twin.telemetry.outliers import robust
from cosim.twin.telemetry.tables import decimal_step, rounded

Figure = Callable[[Floats], float]

_LEAST = 40  # values of a signal, below which its figures carry no information
_FALSE = 0.01  # chance that any figure of sound data is reported, and the same for any group
_NO_MATTER = 0.02  # correlation, logarithm, of the mean: figures that differ by less are right enough
_MATTERS = 0.03  # of the mean: how far values lie from simulated ones, below which their law is right enough
_SHARE = 1.5  # deviations of a figure that is reported because all together are off
_DECADES = math.log(50.0)  # by which a chance falls from the median of a group's chi squared to its 99th percentile
_PAIRED, _SAME = 8.0, 1e-3  # robust deviations of pairs; of the median, by which equal ones differ
_IN_FLIGHT = 2.0  # times the longest task, at the end of a recording: pairs that are left out
_SOME_PAIRS, _FEW = 0.01, 3  # share and number of pairs that are far off
_VARIED, _ALONG = 0.2, 0.3  # times the median that simulated tasks differ by; rank correlation of pairs, at least
_SLIGHT = 0.05  # correlation, share, place: differences that are no matter, where simulations are all alike
_UNEVEN = 0.2  # of the gap between tasks that are created at even times in all simulations
_NEVER = 0.02  # share of tasks that are answered before an earlier one, where no simulated one is
_EQUAL = 1e-6  # relative: quantiles that differ by less are the same
_EARLY = 0.1  # of the values: the beginning


def _quantile(values: Floats, *levels: float) -> Floats:
    """`quantile`, for levels as they are written."""
    return quantile(values, np.array(levels))


def _tail(values: Floats) -> float:
    """How long the upper tail is: the 98th percentile over the median, as a logarithm where both are positive."""
    low, high = _quantile(values, 0.5, 0.98)
    return float(np.log(high / low)) if low > 0.0 else float(high - low)


def _spread(values: Floats) -> float:
    low, middle, high = _quantile(values, 0.1, 0.5, 0.9)
    return float(np.log(high / low)) if low > 0.0 else float((high - low) / (abs(middle) + 1e-300))


def _low(values: Floats) -> float:
    low, middle = _quantile(values, 0.02, 0.5)
    return float(np.log(middle / low)) if low > 0.0 else float(middle - low)


def _lean(values: Floats) -> float:
    """Bowley's skewness of the middle 80 %."""
    low, middle, high = _quantile(values, 0.1, 0.5, 0.9)
    return float((high + low - 2.0 * middle) / (high - low)) if high > low else 0.0


def _modes(values: Floats) -> float:
    """How empty the middle is between both halves: large with two modes (spread between halves over all)."""
    ordered = np.sort(values)
    half = len(ordered) // 2
    within = ordered[:half].var() + ordered[half:].var()
    return float(1.0 - within / (2.0 * ordered.var())) if ordered.var() > 0.0 else 0.0


def _together(values: Floats) -> float:
    """Rank correlation of values that follow one another."""
    places = ranks(values)
    return correlation(places[:-1], places[1:])


def _far_together(values: Floats) -> float:
    """The same between means of ten values."""
    count = len(values) // 10
    if count < 8:
        return 0.0
    means = values[: 10 * count].reshape(count, 10).mean(axis=1)
    return correlation(means[:-1], means[1:])


def _four_apart(values: Floats) -> float:
    places = ranks(values)
    return correlation(places[:-4], places[4:])


def _steps(values: Floats) -> float:
    """How far values are from the one before, over how far they spread."""
    low, high = _quantile(np.diff(values), 0.1, 0.9)
    wide = _quantile(values, 0.1, 0.9)
    return float(np.log(max(high - low, 1e-300) / max(float(np.ptp(wide)), 1e-300)))


def _drift(values: Floats) -> float:
    """Rank correlation with time."""
    return correlation(ranks(values), np.arange(len(values), dtype=np.float64))


def _beginning(values: Floats) -> float:
    count = max(int(_EARLY * len(values)), 1)
    return _ratio(float(np.median(values[:count])), float(np.median(values[count:])))


def _growth(values: Floats) -> float:
    """How much larger steps are in the second half than in the first, as a logarithm."""
    first, second = np.array_split(np.abs(np.diff(values)), 2)
    return _ratio(float(second.mean()), float(first.mean()))


def _variation(values: Floats) -> float:
    """Standard deviation over the mean above the lowest value."""
    above = float(values.mean() - values.min())
    return float(values.std()) / above if above > 0.0 else 0.0


def _asymmetry(values: Floats) -> float:
    """The third moment."""
    deviation = float(values.std())
    return float(((values - values.mean()) ** 3).mean()) / deviation**3 if deviation > 0.0 else 0.0


def _distances(a: float, b: float, c: float, d: float) -> Figure:
    """From quantile `b` to `a` over from `d` to `c`, as a logarithm."""

    def distances(values: Floats) -> float:
        one, two, three, four = _quantile(values, a, b, c, d).tolist()
        least = _EQUAL * max(abs(one), abs(four))
        return _ratio(one - two, three - four) if min(one - two, three - four) > least else 0.0

    return distances


def _ratio(a: float, b: float) -> float:
    return float(np.log(a / b)) if a > 0.0 and b > 0.0 else 0.0


def _level(at: float) -> Figure:
    def level(values: Floats) -> float:
        found = float(_quantile(values, at)[0])
        return float(np.log(found)) if found > 0.0 else found

    return level


LAW = "try another law of service times or sizes, or a cause that only some values have (contention, a second mode)"
MODES = "try a second mode: two kinds of tasks, a cache, or a throttled node"
_BURSTS = "try arrivals in bursts (bag), a quota group that throttles, or other work on the node"
_MEANS = "look at rates, sizes and the number of nodes"
_OF_LAW = (LAW, MODES, _MEANS)
ORDERLY = (
    "look at which response belongs to which task and at clocks, leave the beginning out, or let tasks be served in "
    "another order or elsewhere"
)
_FOLLOW = "follow the run with --follow, or fit a shorter time"
# Figure -> its function, whether it needs the order of time, what to try.
FIGURES: dict[str, tuple[Figure, bool, str]] = {
    "lowest values": (_level(0.02), False, LAW),
    "lower quarter": (_level(0.25), False, LAW),
    "median": (_level(0.5), False, LAW),
    "upper quarter": (_level(0.75), False, LAW),
    "95th percentile": (_level(0.95), False, LAW),
    "mean": (lambda values: float(values.mean()), False, _MEANS),
    "spread": (_spread, False, LAW),
    "upper tail": (_tail, False, LAW),
    "lower tail": (_low, False, LAW),
    "skewness": (_lean, False, LAW),
    "variation": (_variation, False, LAW),
    "asymmetry": (_asymmetry, False, LAW),
    "upper half": (_distances(0.9, 0.5, 0.5, 0.1), False, LAW),
    "lower half": (_distances(0.5, 0.02, 0.25, 0.02), False, LAW),
    "far tail": (_distances(0.99, 0.5, 0.9, 0.5), False, LAW),
    "lower edge": (_distances(0.1, 0.0, 0.25, 0.0), False, LAW),
    "middle": (_distances(0.75, 0.25, 0.95, 0.05), False, LAW),
    "modes": (_modes, False, MODES),
    "bursts": (_together, True, _BURSTS),
    "steps": (_steps, True, _BURSTS),
    "skewness of steps": (lambda values: _lean(np.diff(values)), True, LAW),
    "rhythm": (_four_apart, True, _BURSTS),
    "slow changes": (_far_together, True, _BURSTS),
    "drift": (_drift, True, _FOLLOW),
    "growth of steps": (_growth, True, _FOLLOW),
    "warm-up": (_beginning, True, "leave the beginning out: fit: {from: ...}"),
}


@dataclass(frozen=True, slots=True)
class Unexplained:
    """A figure of a signal that the model does not make."""

    signal: str
    figure: str
    measured: float
    low: float  # 90 % of the simulated figures lie between
    high: float
    deviations: float
    remedy: str
    part: str = ""
    slight: bool = False  # the law of the values is right enough: no matter to a reader, but values are bent by it

    def __str__(self) -> str:
        where = f"'{self.signal}'{f' ({self.part})' if self.part else ''}"
        made = f"simulated {self.low:.3g} to {self.high:.3g}"
        off = f"{abs(self.deviations):.0f} deviations off" if np.isfinite(self.deviations) else "in no simulation"
        return (
            f"the model cannot make the {self.figure} of {where}: measured {self.measured:.3g}, {made} "
            f"({off}): {self.remedy}"
        )


@dataclass(frozen=True, slots=True)
class Doubt:
    """The outcome of the checks of one part of the data."""

    unexplained: tuple[Unexplained, ...] = ()
    levels: tuple[float, ...] = ()  # deviations of the measured mean of each signal from the simulated ones


def check(case: Case, draws: Floats, seeds: Sequence[int], part: str = "") -> Doubt:
    """Figures of the measurement that simulations of `case` with `draws` (n, d) of the posterior never show.

    Every draw is simulated under a seed of its own. Figures depend on the values, so a wide posterior hides much. This
    dependence is removed by regression over the draws, and the measurement is compared with the rest, at the values
    that suit it best. Paired signals are left out: their values are compared one by one.
    """
    simulate = case.course or case.simulate
    signals = {name: s for name, s in case.observed.items() if not s.paired and np.isfinite(s.values).sum() >= _LEAST}
    if not signals or len(draws) < 10:
        return Doubt()
    runs = [simulate(draw[None], seed) for draw, seed in zip(draws, seeds, strict=True)]
    found: list[Unexplained] = []
    levels: list[float] = []
    count = len(signals)
    for name, signal in signals.items():
        rows = [np.asarray(run[name], np.float64)[0] for run in runs]
        rows = [row[np.isfinite(row)] for row in rows]
        kept = np.array([len(row) >= _LEAST // 2 for row in rows])
        if kept.sum() < 10:
            continue
        some = [row for row, one in zip(rows, kept.tolist(), strict=True) if one]
        found += _of(name, signal, some, draws[kept], part, count)
        means = np.array([row.mean() for row in some])
        levels.append(float((np.nanmean(signal.values) - means.mean()) / max(float(means.std(ddof=1)), 1e-300)))
        if ORDER + name in case.order:
            queued = [np.asarray(run[ORDER + name], np.float64)[0] for run in runs]
            whole = np.array([bool(np.isfinite(row).all()) for row in queued])
            if whole.sum() >= 10:
                rows = [row for row, one in zip(queued, whole.tolist(), strict=True) if one]
                found += _in_queue(name, case.order[ORDER + name], rows, draws[whole], part, count)
    return Doubt(tuple(found), tuple(levels))


def _of(
    name: str, signal: MeasuredSignal, rows: list[Floats], draws: Floats, part: str, signals: int
) -> list[Unexplained]:
    """What is off in the law of the values and in how they change with time."""
    values, ordered = _in_order(signal)
    step = decimal_step(values)  # what a table has not the digits for is no matter of the model
    values, rows = rounded(values, step), [rounded(row, step) for row in rows]
    quantiles = all(bool((np.diff(row) >= 0.0).all()) for row in rows)  # not in order of time
    chosen = [figure for figure, (_, in_order, _) in FIGURES.items() if not in_order or (ordered and not quantiles)]
    real = np.array([FIGURES[figure][0](values) for figure in chosen])
    made = np.array([[FIGURES[figure][0](row) for figure in chosen] for row in rows])
    remedies = {figure: FIGURES[figure][2] for figure in chosen}
    groups = {
        "law": [figure for figure in chosen if not FIGURES[figure][1]],
        "drift": [figure for figure in chosen if FIGURES[figure][2] == _FOLLOW],
    }
    found = _far_off(name, part, _Figures(remedies, real, made, draws, groups), signals)
    if any(one.remedy in _OF_LAW for one in found) and _apart(values, rows) < _MATTERS:
        found = [replace(one, slight=True) if one.remedy in _OF_LAW else one for one in found]
    return found


def _apart(values: Floats, rows: list[Floats]) -> float:
    """Distance of the law of the values from the simulated one, over their mean: Wasserstein-1, less that of chance.

    A thousand values can show that no answer is as fast as the fastest simulated one. That does not matter.
    """
    least = min(len(row) for row in rows)
    levels = (np.arange(least) + 0.5) / least
    same = np.array([quantile(row, levels) for row in rows])
    real = quantile(values, levels)
    off = float(np.median(wasserstein(real, same)))
    chance = float(np.median([np.abs(one - other).mean() for one, other in zip(same[1:], same[:-1], strict=True)]))
    scale = abs(float(values.mean())) or float(np.abs(values).max()) or 1.0
    return float(np.sqrt(max(off**2 - chance**2, 0.0))) / scale


def _in_queue(
    name: str, known: Floats, rows: list[Floats], draws: Floats, part: str, signals: int
) -> list[Unexplained]:
    """What is off in how tasks follow one another."""
    made = np.array(rows)
    found = []
    for figure, most in ((order.OVERTAKEN, _NEVER), (order.GAPS, _UNEVEN)):
        # Where no simulation ever does something, deviations are without a measure.
        k = order.FIGURES.index(figure)
        if float(np.ptp(made[:, k])) < 1e-6 and known[k] > made[0, k] + most:
            low = float(made[0, k])
            found.append(Unexplained(name, figure, float(known[k]), low, low, np.inf, ORDERLY, part))
    remedies = dict.fromkeys(order.FIGURES, ORDERLY)
    return [*found, *_far_off(name, part, _Figures(remedies, known, made, draws, {}), signals, _SLIGHT)]


def pairs(case: Case, values: Floats, seed: int, part: str = "") -> list[str]:
    """Of tasks that are made again and compared one by one, at `values` (d,): which of them took another time."""
    told = []
    made = case.simulate(values[None], seed)
    for name in case.tasks:
        signal = case.observed[name]
        real, row = signal.values, np.asarray(made[name], np.float64)[0]
        kept = np.isfinite(real) & np.isfinite(row)
        if signal.times is not None and kept.any():  # what was in flight at the end, and held these up, is not recorded
            kept &= signal.times < np.nanmax(signal.times) - _IN_FLIGHT * real[kept].max()
        real, row = real[kept], row[kept]
        if len(real) < _LEAST:
            continue
        subject = f"'{name}'{f' ({part})' if part else ''}"
        off = real - row
        middle, scale = robust(off)
        usual = max(scale, _SAME * float(np.median(real)))
        far = np.abs(off - middle) > _PAIRED * usual
        if (real > 0.0).all() and (row > 0.0).all():  # long ones differ by more
            ratio = np.log(real / row)
            center, spread = robust(ratio)
            far &= np.abs(ratio - center) > _PAIRED * max(spread, _SAME)
        along = correlation(ranks(real), ranks(row))
        if np.ptp(row) > _VARIED * np.median(row) and along < _ALONG:
            told.append(
                f"tasks of {subject} do not take longer where those made again do (rank correlation {along:.2f}): "
                f"{ORDERLY}"
            )
        elif far.sum() >= _FEW and far.mean() > _SOME_PAIRS:
            told.append(
                f"{int(far.sum())} of {len(real)} tasks of {subject} took another time than when they are made again, "
                f"such as {real[far][0]:.4g} instead of {row[far][0]:.4g}, while the others agree within {usual:.2g}: "
                "values that were changed, or a cause that only some tasks have"
            )
    return told


@dataclass(frozen=True, slots=True)
class _Figures:
    """Measured and simulated figures to compare."""

    remedies: Mapping[str, str]  # by figure
    real: Floats  # (k,)
    made: Floats  # (n, k)
    draws: Floats  # (n, d) values with which they were made
    groups: Mapping[str, Sequence[str]]  # that are looked at together, besides all

    def usable(self) -> _Figures:
        """Those that are numbers and differ."""
        kept = np.isfinite(self.made).all(axis=0) & np.isfinite(self.real) & (self.made.std(axis=0) > 1e-12)
        remedies = {name: remedy for (name, remedy), one in zip(self.remedies.items(), kept, strict=True) if one}
        groups = {name: [figure for figure in group if figure in remedies] for name, group in self.groups.items()}
        return _Figures(remedies, self.real[kept], self.made[:, kept], self.draws, groups)


def _far_off(name: str, part: str, figures: _Figures, signals: int, slight: float = 0.0) -> list[Unexplained]:
    """The figures that are too far off, the farthest of each remedy; of so many `signals` that are looked at.

    With `slight` only single ones that are outside of all simulated ones, which differ by so much at least.
    """
    figures = figures.usable()
    chosen, real, made = list(figures.remedies), figures.real, figures.made
    if not chosen:
        return []
    groups = {group: [chosen.index(figure) for figure in some] for group, some in figures.groups.items() if some}
    if not slight:
        groups["all"] = list(range(len(chosen)))
    away, odd, free = _deviations(real, made, figures.draws, groups, _FALSE / (signals * max(len(groups), 1)))
    far = _students(_FALSE / (2.0 * signals * len(chosen)), free)
    told = {max(groups[group], key=lambda k: abs(away[k])) for group in odd}
    worst: dict[str, Unexplained] = {}
    for k, figure in enumerate(chosen):
        low, high = made[:, k].min(), made[:, k].max()
        if slight > 0.0 and low - slight < real[k] < high + slight:
            continue
        scale = abs(float(made[:, k].mean())) if figure == "mean" else 1.0
        if abs(real[k] - np.median(made[:, k])) < _NO_MATTER * scale:
            continue
        if abs(away[k]) > far or ("all" in odd and abs(away[k]) > _SHARE) or k in told:
            low, high = np.quantile(made[:, k], [0.05, 0.95])
            remedy = figures.remedies[figure]
            one = Unexplained(name, figure, float(real[k]), float(low), float(high), float(away[k]), remedy, part)
            if remedy not in worst or abs(worst[remedy].deviations) < abs(away[k]):
                worst[remedy] = one
    return sorted(worst.values(), key=lambda one: -abs(one.deviations))


def _students(chance: float, free: int) -> float:
    """What Student's t with so many degrees of freedom exceeds by `chance` (E. A. Cornish, R. A. Fisher, 1938)."""
    z = NormalDist().inv_cdf(1.0 - chance)
    return z + (z**3 + z) / (4.0 * free) + (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * free**2)


def _deviations(
    real: Floats, made: Floats, draws: Floats, groups: Mapping[str, Sequence[int]], chance: float
) -> tuple[Floats, list[str], int]:
    """Deviations (k,) of measured figures, the groups that deviate, and degrees of freedom.

    Deviations are taken from the figures at the values that suit the measured ones best. Groups (positions of figures
    by name) deviate if they are farther off than simulations are, except with probability `chance`.

    Figures (n, k) are taken as linear in the values (n, d) with normal errors; the best-fitting values weigh the
    figures against the draws' own spread. Each simulation is then treated as a measurement as well. This shows how far
    the chi squared of a group is off by chance, without taking the figures as normal.
    """
    n, k = made.shape
    spread = draws.std(axis=0)
    moving = spread > 1e-12 * (np.abs(draws.mean(axis=0)) + 1e-300)
    scaled = (draws[:, moving] - draws[:, moving].mean(axis=0)) / spread[moving]
    d = scaled.shape[1]
    if n < 4 * (k + d) or d == 0:
        deviation = np.maximum(made.std(axis=0, ddof=1) * math.sqrt(1.0 + 1.0 / n), 1e-12)
        return (real - made.mean(axis=0)) / deviation, [], n - 1
    design = np.concatenate([np.ones((n, 1)), scaled], axis=1)
    slopes = np.linalg.lstsq(design, made, rcond=None)[0]
    left = made - design @ slopes
    covariance = left.T @ left / (n - d - 1)
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-18))
    correlation = 0.995 * covariance / np.outer(scale, scale) + 0.005 * np.eye(k)
    inverse = np.linalg.inv(correlation)
    per = (slopes[1:] / scale).T  # (k, d)
    fitting = np.linalg.solve(per.T @ inverse @ per + np.eye(d), per.T @ inverse)

    def left_over(figures: Floats) -> Floats:
        """Of each row (m, k) what the values that suit it best do not make."""
        off = (figures - slopes[0]) / scale
        return np.asarray(off - off @ fitting.T @ per.T)

    rest, simulated, odd = left_over(real[None])[0], left_over(made), []
    beyond = math.log(0.5 / chance) / _DECADES  # of the way from the median to the 99th percentile, as chances fall
    for name, group in groups.items():
        part = np.linalg.inv(correlation[np.ix_(group, group)])
        middle, high = np.quantile(
            np.einsum("ni,ij,nj->n", simulated[:, group], part, simulated[:, group]), [0.5, 0.99]
        )
        if float(rest[group] @ part @ rest[group]) - middle > beyond * (high - middle):
            odd.append(name)
    return rest, odd, n - d - 1


def _in_order(signal: MeasuredSignal) -> tuple[Floats, bool]:
    """The measured values in order of time, and whether they have an order."""
    values = signal.values
    if signal.times is not None:
        if signal.groups is not None and len(set(signal.groups)) > 1 and len(np.unique(signal.times)) < len(values):
            return values[np.isfinite(values)], False
        values = values[np.argsort(signal.times, kind="stable")]
    return values[np.isfinite(values)], True

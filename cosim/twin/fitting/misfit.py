"""Distance of a simulation from the measurement: the figure that the search lowers, and the figures reported.

    misfit = Misfit(problem.fit.observed)
    losses = misfit.losses(problem.fit.simulate(values, seed))  # (n,)
    found = gaps(problem.fit.observed, replicate(problem.fit.simulate, best, range(1, 21)))  # .evidence

All figures are scaled by the range of the measured values (`MeasuredSignal.span`), so that signals with different units
can be added. `gaps` always includes the noise floor: the distance of one half of the measurement from the other. No
model can be shown to be better than this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import Problem, ScenarioError
from cosim.results.distances import energy_distance, wasserstein
from cosim.twin.calibration import Gap
from cosim.twin.judgement.subject import SURE
from cosim.twin.problem import Distance, Floats, MeasuredSignal, Observed

ALL = "all"  # the row of `gaps` that sums up
_HALVES = 20  # random ones, whose mean is known to a tenth of what one differs by from another
BLOCKS = 10  # of the measured values, left out in turn (L. Breiman, P. Spector, Int. Stat. Review 60, 1992: 5 to 10)


class Misfit:
    """The figure that the search lowers, for many simulations at once.

    A paired signal counts with its NRMSE, the others with the distance between their distributions:
    W1 over the range, or the energy distance of the values over the range. `losses` is the mean over
    signals, weighted by `MeasuredSignal.weight`; signals of weight 0 are only reported. Raises `ScenarioError`
    when a signal has no measured value or all weights are 0.
    """

    def __init__(self, observed: Observed, distance: Distance = "w1") -> None:
        self.distance = distance
        self._signals = {name: signal for name, signal in observed.items() if signal.weight > 0.0}
        if not self._signals:
            hint = "give a signal a weight above 0" if observed else "name what was measured"
            raise ScenarioError(Problem("no measured signal counts in the misfit", "calibrate", hint=hint))
        for name, signal in observed.items():
            _check(name, signal)
        self._total = sum(signal.weight for signal in self._signals.values())
        self._kept = {name: np.isfinite(signal.values) for name, signal in self._signals.items()}

    def losses(self, simulated: Mapping[str, Floats]) -> Floats:
        """(n,) weighted mean misfit of each row of `simulated` (signal -> (n, m)).

        Infinite for a row that holds NaN or infinity where something was measured. Raises
        `ScenarioError` when a signal is missing or a paired one has another number of values.
        """
        return self._losses(simulated, self._kept)

    def left_out(self, simulated: Mapping[str, Floats]) -> Floats:
        """(n, 1 + BLOCKS) `losses`, and the losses without each tenth of the measured values, in order of time.

        A sum over blocks of their differences estimates the chance error of the measurement, also for autocorrelated
        values (delete-a-group jackknife: J. Shao, D. Tu, The Jackknife and Bootstrap, 1995, 2.3 and 9).
        """
        blocks = {name: _blocked(signal) for name, signal in self._signals.items()}
        parts = [self._kept, *({name: kept[k] for name, kept in blocks.items()} for k in range(BLOCKS))]
        return np.stack([self._losses(simulated, kept) for kept in parts], axis=1)

    def among(self, runs: Sequence[Mapping[str, Floats]]) -> Floats:
        """(runs,) mean misfit of each run (signal -> (1, m)) with the others, as if it were the measurement."""
        kept = dict(self._kept)
        found = np.zeros(len(runs))
        for k, one in enumerate(runs):
            for name, signal in self._signals.items():
                row = np.asarray(one[name], np.float64)[0]
                if not signal.paired:
                    kept[name] = np.isfinite(row)
                if not kept[name].any():
                    return np.full(len(runs), np.nan)
                others = [_rows(name, signal, other) for other in runs if other is not one]
                part = [self._loss(signal, rows, kept[name], row)[0] for rows in others]
                found[k] += signal.weight / self._total * float(np.mean(part))
        return found

    def usual(self, runs: Sequence[Mapping[str, Floats]]) -> float:
        """The misfit of `runs` with one another that hardly any exceeds; what lies nearer to them, they make."""
        among = self.among(runs)
        return float(among.mean() + SURE * among.std(ddof=1))

    def _losses(self, simulated: Mapping[str, Floats], kept: Mapping[str, NDArray[np.bool_]]) -> Floats:
        total: Floats | float = 0.0
        for name, signal in self._signals.items():
            rows = _rows(name, signal, simulated)
            total = total + signal.weight / self._total * self._loss(signal, rows, kept[name])
        return np.asarray(total, np.float64)

    def _loss(
        self, signal: MeasuredSignal, rows: Floats, kept: NDArray[np.bool_], known: Floats | None = None
    ) -> Floats:
        real, span = (signal.values if known is None else known)[kept], signal.span
        if signal.paired:
            with np.errstate(invalid="ignore", over="ignore"):
                squares = ((np.compress(kept, rows, axis=1) - real) / span) ** 2
            loss = np.sqrt(squares.mean(axis=1))
            return np.where(np.isfinite(loss), loss, np.inf)
        if self.distance == "energy":
            return energy_distance(real / span, rows / span)
        return wasserstein(real, rows) / span

    def residuals(self, simulated: Mapping[str, Floats]) -> Floats:
        """(n, total) scaled differences of paired signals, missing measurements left out.

        The sum of squares of a row is the weighted mean over signals of NRMSE squared. NaN where the
        simulation has NaN. Raises `ScenarioError` when a signal of the misfit is not paired.
        """
        parts: list[Floats] = []
        for name, signal in self._signals.items():
            if not signal.paired:
                message = f"signal '{name}' is not paired, so it has no residuals"
                raise ScenarioError(Problem(message, "calibrate", hint="use a search by losses, such as cma-es"))
            rows = _rows(name, signal, simulated)
            kept = self._kept[name]
            scale = np.sqrt(signal.weight / self._total / np.count_nonzero(kept)) / signal.span
            parts.append((np.compress(kept, rows, axis=1) - signal.values[kept]) * scale)
        return np.concatenate(parts, axis=1)


def _blocked(signal: MeasuredSignal) -> NDArray[np.bool_]:
    """(BLOCKS, m) the measured values without one block each; all of them where a block would leave none."""
    finite = np.isfinite(signal.values)
    order = np.arange(len(signal.values)) if signal.times is None else np.argsort(signal.times, kind="stable")
    kept = np.tile(finite, (BLOCKS, 1))
    for row, block in zip(kept, np.array_split(order[finite[order]], BLOCKS), strict=True):
        if len(block) < np.count_nonzero(finite):
            row[block] = False
    return kept


def farther(first: Floats, second: Floats) -> tuple[float, float]:
    """By how much the second of two points is farther from the measurement than the first, and the deviation of that.

    Both are (seeds, 1 + BLOCKS), `Misfit.left_out` under the same seeds. The deviation is that of a measurement of
    finite length and of simulations; of a single simulation it is taken to be the measurement's, as it is as long.
    """
    with np.errstate(invalid="ignore"):
        rows = second - first
    means = rows.mean(axis=0)
    left = means[1:]
    measured = (len(left) - 1) / len(left) * float(((left - left.mean()) ** 2).sum())
    simulated = float(rows[:, 0].var(ddof=1)) / len(rows) if len(rows) > 1 else measured
    return float(means[0]), float(np.sqrt(measured + simulated))


def noise_floor(signal: MeasuredSignal) -> float:
    """W1 over the range of one measured half against the other; NaN with fewer than two values.

    Of unpaired signals the first half against the second, which includes what drifts. The order of paired ones is often
    that of an input (a load from 0 to 100 %), by which such halves would differ: the mean over random halves is taken.
    """
    values = signal.values[np.isfinite(signal.values)]
    half = len(values) // 2
    if half == 0:
        return float("nan")
    if not signal.paired:
        return float(wasserstein(values[:half], values[half:])[0]) / signal.span
    random = np.random.default_rng(np.random.SeedSequence(1))
    mixed = [random.permutation(values) for _ in range(_HALVES)]
    return float(np.mean([wasserstein(one[:half], one[half:])[0] for one in mixed])) / signal.span


def gaps(observed: Observed, simulated: Mapping[str, Floats]) -> tuple[Gap, ...]:
    """Distance of each signal, and the row "all"; rows of `simulated` are replicates and are averaged.

    Paired signals are compared by position, the others by rank: their rmse is the Wasserstein-2 distance, and their r2
    measures how well the distribution is met, not the course. G1 always takes the rows in their given order, also for
    unpaired signals, as do the published figures of SimTune. It needs as many simulated values as measured ones, or a
    multiple: then they are consecutive blocks, and the mean over blocks is taken. "all" holds weighted means (those of
    `Misfit`), but g1 is the mean length of the vector of scaled differences, all signals alike. Figures of a replicate
    that holds NaN are infinite, so a mean never hides a failed replicate.
    """
    answered = [_gap(name, signal, _rows(name, signal, simulated)) for name, signal in observed.items()]
    weights = np.array([signal.weight for signal in observed.values()], np.float64)
    weights = weights / weights.sum() if weights.sum() > 0.0 else np.full(len(answered), 1.0 / max(len(answered), 1))

    def mean(name: str) -> float:
        figures = np.array([getattr(gap, name) for gap in answered], np.float64)
        return float(np.sum(weights[weights > 0.0] * figures[weights > 0.0]))

    together = Gap(
        ALL, mean("w1"), _vector_length(observed, simulated), float("nan"), mean("nrmse"), mean("r2"), mean("floor"),
        mean("energy_distance"), "", sum(gap.count for gap in answered),
    )  # fmt: skip
    return (*answered, together)


def _gap(name: str, signal: MeasuredSignal, rows: Floats) -> Gap:
    _check(name, signal)
    kept = np.isfinite(signal.values)
    real, span = signal.values[kept], signal.span
    paired = np.compress(kept, rows, axis=1) if signal.paired else rows
    w1 = wasserstein(real, paired) / span
    distance = energy_distance(real / span, paired / span)
    g1 = float("nan")
    with np.errstate(invalid="ignore", over="ignore"):
        blocks = _blocks(rows, signal)
        if blocks is not None:
            g1 = _mean(np.abs(blocks[:, kept] - real).mean(axis=1)) / span
        squares = ((paired - real) ** 2).mean(axis=1) if signal.paired else wasserstein(real, rows, power=2) ** 2
    rmse = _mean(np.sqrt(squares))
    variance = float(real.var())
    r2 = 1.0 - _mean(squares) / variance if variance > 0.0 else float("nan")
    return Gap(
        name, _mean(w1), g1, rmse, rmse / span, r2, noise_floor(signal), _mean(distance), signal.unit, int(kept.sum())
    )


def _vector_length(observed: Observed, simulated: Mapping[str, Floats]) -> float:
    """SimTune's reality gap G1: mean over rows t of sqrt(sum over signals of the squared scaled difference)."""
    blocks = [_blocks(_rows(name, signal, simulated), signal) for name, signal in observed.items()]
    whole = [block for block in blocks if block is not None]
    if len(whole) < len(blocks) or len({block.shape for block in whole}) != 1:
        return float("nan")
    kept = np.all([np.isfinite(signal.values) for signal in observed.values()], axis=0)
    if not kept.any():
        return float("nan")
    with np.errstate(invalid="ignore", over="ignore"):
        squares = [
            ((block[:, kept] - s.values[kept]) / s.span) ** 2 for block, s in zip(whole, observed.values(), strict=True)
        ]
        return _mean(np.sqrt(np.sum(squares, axis=0)).mean(axis=1))


def _blocks(rows: Floats, signal: MeasuredSignal) -> Floats | None:
    """`rows` cut into blocks of as many values as were measured; None when they do not come out even."""
    length = len(signal.values)
    return rows.reshape(-1, length) if rows.shape[1] % length == 0 else None


def _mean(figures: Floats) -> float:
    """The mean over replicates; infinite as soon as one of them is not a number."""
    mean = float(figures.mean())
    return mean if np.isfinite(mean) else float("inf")


def _check(name: str, signal: MeasuredSignal) -> None:
    if not np.isfinite(signal.values).any():
        message = f"signal '{name}' has no measured value"
        raise ScenarioError(Problem(message, "calibrate", hint="look at its column in the data, or leave it out"))


def _rows(name: str, signal: MeasuredSignal, simulated: Mapping[str, Floats]) -> Floats:
    if name not in simulated:
        known = ", ".join(simulated) or "none"
        raise ScenarioError(Problem(f"the simulation has no signal '{name}'; it has {known}", "calibrate"))
    rows = np.ascontiguousarray(np.atleast_2d(np.asarray(simulated[name], np.float64)))
    if signal.paired and rows.shape[1] != len(signal.values):
        message = f"signal '{name}' is paired: {len(signal.values)} measured values, {rows.shape[1]} simulated"
        raise ScenarioError(Problem(message, "calibrate", hint="simulate the same tasks, or take it as unpaired"))
    if rows.shape[1] == 0:
        raise ScenarioError(Problem(f"the simulation of signal '{name}' has no values", "calibrate"))
    return rows

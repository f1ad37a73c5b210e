"""Service-time functions: how long a service runs on a machine, as a function of the size of its input.

    function = fit(sizes, seconds)
    function.typical([224.0]), function.interval([224.0])  # s, and the bounds of 90 % of the runs

CoRaiS (Hu et al. 2024) fits such functions from the history of every edge, as lines in its experiments. Here
the shape is chosen by cross-validation among a constant, a line, a broken line and a monotone one. Runs
scatter in proportion to their duration, or by the same seconds everywhere; cross-validation decides which.
Intervals are conformal (Vovk et al. 2005; Romano et al. 2019): quantiles of the residuals of runs that the
function has not seen, so that they hold whatever law the residuals have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.contract.errors import Problem, ScenarioError

Floats = NDArray[np.float64]
Shape = Literal["constant", "linear", "piecewise", "monotone"]  # from simple to complex
Noise = Literal["multiplicative", "additive"]
SHAPES: tuple[Shape, ...] = ("constant", "linear", "piecewise", "monotone")
KNOTS = 5  # of a broken line, at most
HUBER = 1.345  # robust standard deviations from which a run counts less (Huber 1964: 95 % efficiency)
FAR = 10.0  # robust standard deviations from which a run is an outlier
FEW = 8  # runs, fewer of which no shape is chosen by


@dataclass(frozen=True, slots=True, eq=False)
class ServiceTime:
    """The run time of one service on one machine: straight lines between knots, and how runs scatter.

    `residuals` are of runs left out while the function was fitted: measured / typical when the noise is
    multiplicative, measured - typical (s) when it is additive. `error` is their mean |measured / typical - 1|.
    """

    shape: Shape
    sizes: Floats  # (k,) of the knots, ascending
    seconds: Floats  # (k,) s at the knots
    noise: Noise
    residuals: Floats  # (n,) ascending
    low: float  # smallest size that it was fitted on
    high: float  # largest one
    error: float  # 1
    runs: int
    outliers: int  # runs left out of `residuals`, too far away to be of the same kind

    def typical(self, sizes: ArrayLike) -> Floats:
        """Seconds of a typical run, neither slow nor fast for its size. Beyond the ends the last line goes on."""
        return _along(self.sizes, self.seconds, np.asarray(sizes, np.float64))

    def mean(self, sizes: ArrayLike) -> Floats:
        """Expected seconds, outliers aside."""
        return self._spread(self.typical(sizes), float(self.residuals.mean()))

    def interval(self, sizes: ArrayLike, level: float = 0.9) -> tuple[Floats, Floats]:
        """Bounds in s between which a new run lies with probability `level`; infinite with too few runs."""
        low, high = _conformal(self.residuals, level)
        typical = self.typical(sizes)
        return np.maximum(self._spread(typical, low), 0.0), self._spread(typical, high)

    def outside(self, sizes: ArrayLike) -> NDArray[np.bool_]:
        """Which sizes lie outside those that the function was fitted on: there it is a guess."""
        sizes = np.asarray(sizes, np.float64)
        return (sizes < self.low) | (sizes > self.high)

    def draw(self, sizes: ArrayLike, quantiles: ArrayLike) -> Floats:
        """Seconds of runs at these quantiles (in [0, 1)) of the measured scatter; uniform ones give random runs."""
        place = (np.asarray(quantiles, np.float64) * len(self.residuals)).astype(np.int64)
        chosen = self.residuals[np.minimum(place, len(self.residuals) - 1)]
        typical = self.typical(sizes)
        drawn: Floats = typical * chosen if self.noise == "multiplicative" else typical + chosen
        return np.maximum(drawn, 0.05 * typical)

    def cycles(self, sizes: ArrayLike, quantiles: ArrayLike, clock: float) -> Floats:
        """Work of runs in cycles of a core with this clock (1/s), as the continuum takes it; see `draw`."""
        return self.draw(sizes, quantiles) * clock

    def _spread(self, typical: Floats, residual: float) -> Floats:
        return typical * residual if self.noise == "multiplicative" else typical + residual


def fit(
    sizes: ArrayLike, seconds: ArrayLike, shapes: Sequence[Shape] = SHAPES, *, folds: int = 5, seed: int = 1
) -> ServiceTime:
    """The function of runs that took `seconds` (n,) for inputs of `sizes` (n,), in any unit of size.

    Of `shapes` that one is taken whose error on runs left out is smallest; a simpler one when it is
    within a standard error of that (Breiman et al. 1984). Values that are missing are left out. Raises
    `ScenarioError` for fewer than two runs, and for times that are not above 0.
    """
    x, y = _checked(sizes, seconds)
    order = np.random.default_rng(seed).permutation(len(x))
    fold = np.empty(len(x), np.int64)
    fold[order] = np.arange(len(x)) % min(folds, len(x))
    tried: dict[Shape, Floats] = {}
    for shape in _possible(x, shapes):
        tried[shape] = _left_out(shape, x, y, fold)
    errors = {shape: np.abs(y / guess - 1.0) for shape, guess in tried.items()}
    best = min(errors, key=lambda shape: float(_trimmed(errors[shape])))
    spread = float(np.std(np.minimum(errors[best], np.quantile(errors[best], 0.95)))) / math.sqrt(len(x))
    limit = _trimmed(errors[best]) + spread
    shape = next(shape for shape in SHAPES if shape in errors and _trimmed(errors[shape]) <= limit)
    knots, values = _SHAPES[shape](x, y)
    noise, residuals = _scatter(y, tried[shape])
    kept = _near(residuals)
    return ServiceTime(
        shape, knots, values, noise, np.sort(residuals[kept]), float(x.min()), float(x.max()),
        float(errors[shape].mean()), len(x), int(np.count_nonzero(~kept)),
    )  # fmt: skip


def fit_all(
    services: Sequence[str], edges: Sequence[str], sizes: ArrayLike, seconds: ArrayLike, *, seed: int = 1
) -> dict[tuple[str, str], ServiceTime]:
    """(service, edge) -> function, of a history of runs (n,) of many services on many edges."""
    x, y = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
    pairs = np.array([f"{service}\0{edge}" for service, edge in zip(services, edges, strict=True)])
    found = {}
    for pair in np.unique(pairs):
        service, edge = str(pair).split("\0")
        found[service, edge] = fit(x[pairs == pair], y[pairs == pair], seed=seed)
    return found


def table(functions: Mapping[tuple[str, str], ServiceTime], level: float = 0.9) -> list[dict[str, str | float]]:
    """A row per function and knot: service, edge, shape, size, seconds, low, high (s), error (1), runs."""
    rows: list[dict[str, str | float]] = []
    for (service, edge), function in sorted(functions.items()):
        low, high = function.interval(function.sizes, level)
        for k, size in enumerate(function.sizes):
            rows.append({
                "service": service, "edge": edge, "shape": function.shape, "size": float(size),
                "seconds": float(function.seconds[k]), "low": float(low[k]), "high": float(high[k]),
                "error": function.error, "runs": function.runs,
            })  # fmt: skip
    return rows


def _checked(sizes: ArrayLike, seconds: ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.atleast_1d(np.asarray(sizes, np.float64)), np.atleast_1d(np.asarray(seconds, np.float64))
    if x.shape != y.shape or x.ndim != 1:
        raise ScenarioError(Problem(f"there are {x.size} sizes and {y.size} run times", "service time"))
    there = np.isfinite(x) & np.isfinite(y)
    x, y = x[there], y[there]
    if len(x) < 2:
        raise ScenarioError(Problem(f"{len(x)} runs are left of {there.size}; two are needed", "service time"))
    if np.any(y <= 0.0):
        raise ScenarioError(
            Problem(
                f"{np.count_nonzero(y <= 0.0)} of {len(y)} run times are not above 0",
                "service time",
                hint="look at the clocks of the node that wrote them",
            )
        )
    return x, y


def _possible(x: Floats, shapes: Sequence[Shape]) -> list[Shape]:
    """The shapes that so many runs of so many sizes can distinguish; a line for few runs, as in CoRaiS."""
    different = len(np.unique(x))
    if different == 1:
        return ["constant"]
    found: list[Shape] = [shape for shape in shapes if shape != "monotone" or different > 2]
    if len(x) < FEW:
        found = [shape for shape in found if shape == "linear"]
    return found or ["linear"]


def _along(knots: Floats, values: Floats, x: Floats) -> Floats:
    """Straight lines between knots, the outer ones extended; never below a hundredth of the lowest value."""
    if len(knots) == 1:
        return np.full(x.shape, values[0])
    k = np.clip(np.searchsorted(knots, x, "right") - 1, 0, len(knots) - 2)
    part = (x - knots[k]) / (knots[k + 1] - knots[k])
    return np.maximum(values[k] + part * (values[k + 1] - values[k]), 0.01 * float(values.min()))


def _constant(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    return np.array([float(np.median(x))]), np.array([float(np.median(y))])


def _linear(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    return _hats(x, y, np.array([x.min(), x.max()]))


def _piecewise(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Knots at equal shares of the different sizes, few enough that each has some runs."""
    different = np.unique(x)
    count = max(2, min(KNOTS, len(different), len(x) // 4))
    places = np.linspace(0, len(different) - 1, count).round().astype(int)
    return _hats(x, y, different[np.unique(places)])


def _hats(x: Floats, y: Floats, knots: Floats) -> tuple[Floats, Floats]:
    """Values at the knots by least squares of relative errors, far ones counted less (Huber 1964)."""
    if len(knots) < 2 or knots[0] == knots[-1]:
        return _constant(x, y)
    k = np.clip(np.searchsorted(knots, x, "right") - 1, 0, len(knots) - 2)
    part = (x - knots[k]) / (knots[k + 1] - knots[k])
    basis = np.zeros((len(x), len(knots)))
    basis[np.arange(len(x)), k] = 1.0 - part
    basis[np.arange(len(x)), k + 1] = part
    scale = y.copy()  # what errors are relative to: the measured value first, then the fitted one
    weight = np.ones(len(x))
    least = 0.05 * float(y.min())
    values = np.full(len(knots), float(np.median(y)))
    for _ in range(30):
        root = np.sqrt(weight) / scale
        new = np.maximum(np.linalg.lstsq(basis * root[:, None], y * root, rcond=1e-10)[0], least)
        scale = basis @ new
        relative = y / scale - 1.0
        unit = _unit(relative)
        weight = np.minimum(1.0, HUBER * unit / np.maximum(np.abs(relative), 1e-300)) if unit > 0.0 else weight
        if np.allclose(new, values, rtol=1e-6, atol=0.0):
            break
        values = new
    return knots, new


def _monotone(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Medians by size (by groups of near sizes where there are many), made to rise by pooling adjacent violators."""
    different, group = np.unique(x, return_inverse=True)
    if len(different) > max(8, len(x) // 4):  # hardly two runs of a size: groups of equally many
        parts = np.array_split(np.argsort(x, kind="stable"), max(3, min(16, len(x) // 6)))
    else:
        parts = [np.flatnonzero(group == g) for g in range(len(different))]
    places = np.array([float(np.mean(x[part])) for part in parts])
    places, first = np.unique(places, return_index=True)
    parts = [parts[k] for k in first]
    blocks: list[tuple[float, float, list[int]]] = []  # logarithm of the value, weight, members
    for k, part in enumerate(parts):
        value, weight, members = float(np.median(np.log(y[part]))), float(len(part)), [k]
        while blocks and blocks[-1][0] > value:
            above, more, earlier = blocks.pop()
            value = (above * more + value * weight) / (more + weight)
            weight, members = weight + more, earlier + members
        blocks.append((value, weight, members))
    values = np.empty(len(parts))
    for value, _, members in blocks:
        values[members] = math.exp(value)
    return places, values


_SHAPES: Mapping[Shape, Callable[[Floats, Floats], tuple[Floats, Floats]]] = {
    "constant": _constant, "linear": _linear, "piecewise": _piecewise, "monotone": _monotone,
}  # fmt: skip


def _left_out(shape: Shape, x: Floats, y: Floats, fold: NDArray[np.int64]) -> Floats:
    """(n,) s that the shape predicts for each run, fitted without the run's fold."""
    guess = np.empty(len(x))
    for part in range(int(fold.max()) + 1):
        out = fold == part
        guess[out] = _along(*_SHAPES[shape](x[~out], y[~out]), x[out])
    return guess


def _trimmed(errors: Floats) -> float:
    """Their mean, the largest twentieth counted no more than its lower bound."""
    return float(np.minimum(errors, np.quantile(errors, 0.95)).mean())


def _unit(values: Floats) -> float:
    """Standard deviation from the median absolute deviation."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _near(residuals: Floats) -> NDArray[np.bool_]:
    """Which runs are of the same kind as the others."""
    unit = max(_unit(residuals), 0.25 * float(np.std(residuals)) if len(residuals) < 20 else 0.0)
    if unit == 0.0:
        return np.ones(len(residuals), np.bool_)
    near: NDArray[np.bool_] = np.abs(residuals - np.median(residuals)) <= FAR * unit
    return near


def _scatter(y: Floats, guess: Floats, level: float = 0.9) -> tuple[Noise, Floats]:
    """The noise whose interval is narrower for what it leaves outside: the interval score of Gneiting, Raftery 2007."""
    scores: dict[Noise, float] = {}
    residuals: dict[Noise, Floats] = {"multiplicative": y / guess, "additive": y - guess}
    for kind, values in residuals.items():
        low, high = np.quantile(values, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
        below, above = (guess * low, guess * high) if kind == "multiplicative" else (guess + low, guess + high)
        missed = np.maximum(below - y, 0.0) + np.maximum(y - above, 0.0)
        scores[kind] = float(np.mean((above - below + 2.0 / (1.0 - level) * missed) / guess))
    noise: Noise = "multiplicative" if scores["multiplicative"] <= scores["additive"] else "additive"
    return noise, residuals[noise]


def _conformal(ordered: Floats, level: float) -> tuple[float, float]:
    """The k-th smallest and largest residual, k = floor((n + 1) (1 - level) / 2); infinite where k is 0."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"the level is {level:g}; it lies between 0 and 1")
    k = math.floor((len(ordered) + 1) * (1.0 - level) / 2.0)
    return (float(ordered[k - 1]), float(ordered[-k])) if k >= 1 else (-math.inf, math.inf)

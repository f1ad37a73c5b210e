"""Summary statistics of a simulation, with the information that the measured signals carry about parameters.

Unpaired signals have their mean, standard deviation and quantiles. Paired ones have their values, or the means over
stretches when there are many. All are on an asinh scale, which is logarithmic for values far from 0, so that they
follow parameters on log scales smoothly.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cosim.twin.fitting.posterior import independent
from cosim.twin.problem import Floats, MeasuredSignal, Observed

_LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])  # quartiles and the ends of the 90 % band
_STRETCHES = 16  # of a paired signal, whose means take the place of its values


class _One:
    """The summaries of one signal."""

    def __init__(self, signal: MeasuredSignal) -> None:
        self._kept = np.isfinite(signal.values)
        self.values = signal.values[self._kept]
        self.paired, self.count = signal.paired, len(self.values)
        typical = float(np.median(np.abs(self.values))) or float(np.abs(self.values).max()) or 1.0
        self._scale = 0.1 * typical
        self._levels = _LEVELS if self.count >= 20 else _LEVELS[1:4] if self.count >= 5 else _LEVELS[:0]
        self.observed = self.of(signal.values[None])[0]

    def of(self, rows: Floats) -> Floats:
        """(n, k) of (n, m)."""
        rows = np.asarray(rows, np.float64)
        if self.paired:
            rows = rows[:, self._kept]
            if rows.shape[1] > _STRETCHES:
                cuts = np.linspace(0, rows.shape[1], _STRETCHES + 1).astype(int)[:-1]
                counts = np.diff(np.append(cuts, rows.shape[1]))
                rows = np.concatenate(
                    [np.add.reduceat(rows, cuts, axis=1) / counts, rows.std(axis=1, keepdims=True)], axis=1
                )
            return np.arcsinh(rows / self._scale)
        if rows.shape[1] == len(self._kept):  # as the measured ones stand: the same are missing
            rows = rows[:, self._kept]
        answered = [rows.mean(axis=1, keepdims=True)]
        if self.count > 1:
            answered.append(rows.std(axis=1, keepdims=True))
        if len(self._levels):
            answered.append(np.quantile(rows, self._levels, axis=1).T)
        return np.arcsinh(np.concatenate(answered, axis=1) / self._scale)

    def varied(self, random: np.random.Generator, repeats: int, simulated: Floats | None) -> Floats:
        """(repeats, k) summaries of the measurement drawn again, see `Summaries.sampling`."""
        pool, block = self.values, round(self.count ** (1 / 3))
        if independent(self.values) >= 0.8 * self.count:
            block = 1
            if simulated is not None and np.isfinite(simulated).all():
                pool = simulated
        starts = random.integers(0, max(1, len(pool) - block + 1), (repeats, -(-self.count // block)))
        places = (starts[:, :, None] + np.arange(block)).reshape(repeats, -1)[:, : self.count]
        drawn = np.full((repeats, len(self._kept)), np.nan)
        drawn[:, self._kept] = pool[places]
        return self.of(drawn)


class Summaries:
    """Summaries of all signals that count, one after the other."""

    def __init__(self, observed: Observed) -> None:
        self._signals = {
            name: _One(signal)
            for name, signal in observed.items()
            if signal.weight > 0.0 and np.isfinite(signal.values).any()
        }
        self.observed = np.concatenate([one.observed for one in self._signals.values()])

    def of(self, simulated: Mapping[str, Floats]) -> Floats:
        """(n, k); NaN in rows that could not be simulated."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.concatenate([one.of(simulated[name]) for name, one in self._signals.items()], axis=1)

    def sampling(
        self, random: np.random.Generator, simulated: Mapping[str, Floats] | None = None, repeats: int = 400
    ) -> Floats:
        """(k, k) covariance of the summaries that is due to the finite measurement, for models without chance.

        A bootstrap: autocorrelated values are drawn again in blocks of n^(1/3) (Hall, Horowitz, Jing, Biometrika 82,
        1995). Otherwise single values are drawn from `simulated` (signal -> (1, m)), the model at its best: the few
        measured ones estimate their own chance badly. Paired signals have 0.
        """
        k = len(self.observed)
        covariance = np.zeros((k, k))
        first = 0
        for name, one in self._signals.items():
            last = first + len(one.observed)
            if one.count > 1 and not one.paired:
                pool = None if simulated is None else np.asarray(simulated[name], np.float64)[0]
                part = np.cov(one.varied(random, repeats, pool).T.reshape(last - first, -1))
                covariance[first:last, first:last] = np.atleast_2d(part)
            first = last
        return covariance

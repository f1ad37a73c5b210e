"""What surrogates learn: a vector of normalised QoS figures per parameter vector, and how far it is from reality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cosim.contract.records import Floats
from cosim.twin.problem import CalibrationProblem, MeasuredSignal, Observed

BLOCKS = 8  # figures per signal
STEPS = 16  # of the workload series
_POINTS = 32  # quantiles per block


class QosTarget:
    """QoS vectors of simulated signals, in (0, 1), and their reality gap.

    Of a paired signal a figure is the mean of one of `blocks` parts in order of time; of others the mean
    of one of `blocks` parts of the quantile function, so that the mean difference of two vectors is about
    their Wasserstein-1 distance. With d the difference from the measured figure in measured spans the
    normalised figure is (1 + d / (1 + |d|)) / 2: the measured vector is 0.5 everywhere, figures near it
    are resolved finely, and nothing leaves the range of a sigmoid. A row that holds a NaN is 1 everywhere.
    """

    def __init__(self, observed: Observed, blocks: int = BLOCKS) -> None:
        self._observed = dict(observed)
        self._blocks = blocks
        self._figures = {name: self._blocked(signal, signal.values[None])[0] for name, signal in observed.items()}
        weights = [np.full(len(self._figures[name]), signal.weight) for name, signal in observed.items()]
        sizes = [np.full(len(figures), float(len(figures))) for figures in self._figures.values()]
        share = np.concatenate(weights) / np.concatenate(sizes)
        self.weights: Floats = share / share.sum()  # (q,)

    @property
    def width(self) -> int:
        """q, the length of the vector."""
        return len(self.weights)

    @property
    def measured(self) -> Floats:
        """(q,) the measured vector."""
        return np.full(self.width, 0.5)

    def _blocked(self, signal: MeasuredSignal, rows: Floats) -> Floats:
        """(n, <= blocks) figures of rows (n, m) in the unit of the signal."""
        if signal.paired:
            kept = np.isfinite(signal.values)
            parts = np.array_split(np.flatnonzero(kept), min(self._blocks, max(1, int(kept.sum()))))
            return np.stack([rows[:, part].mean(axis=1) for part in parts], axis=1)
        at = (np.arange(self._blocks * _POINTS) + 0.5) / (self._blocks * _POINTS)
        found = np.nanquantile(rows, at, axis=1) if np.isnan(signal.values).any() else np.quantile(rows, at, axis=1)
        return np.asarray(found.T.reshape(len(rows), self._blocks, _POINTS).mean(axis=2), np.float64)

    def qos(self, simulated: Mapping[str, Floats]) -> Floats:
        """(n, q) of simulated signals, each (n, m). Raises `KeyError` for a signal that is missing."""
        parts = []
        for name, signal in self._observed.items():
            rows = np.asarray(simulated[name], np.float64)
            lost = np.logical_not(np.isfinite(rows).all(axis=1))[:, None]
            figures = self._blocked(signal, np.where(lost, 0.0, rows))
            d = (figures - self._figures[name]) / signal.span
            parts.append(np.where(lost, 1.0, 0.5 * (1.0 + d / (1.0 + np.abs(d)))))
        return np.concatenate(parts, axis=1)

    def gaps(self, qos: Floats) -> Floats:
        """(...,) the L2 norm of equation 2 for vectors (..., q), weighted by signal, in normalised figures."""
        found: Floats = np.sqrt(((qos - 0.5) ** 2 * self.weights).sum(axis=-1))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """What the surrogate sees besides the parameters: the workload series W and the host graph G."""

    workload: Floats  # (T, F), each column in 0..1
    hosts: Floats  # (H, C), each column in 0..1

    @staticmethod
    def of(problem: CalibrationProblem) -> Conditions:
        """The conditions of a calibration, from what was measured in its fit part.

        W: every signal averaged over `STEPS` parts in order of its rows. G: a host for every group that a
        signal names (node, service), with mean, deviation and maximum of each signal in the group; one
        host when there are no groups. They are the same for all parameter vectors, because a `Case` is
        one period under one workload.
        """
        observed = problem.fit.observed
        series = [_steps(_unit(signal.values)) for signal in observed.values()]
        groups = sorted({group for signal in observed.values() for group in signal.groups or ()})
        hosts = np.zeros((max(1, len(groups)), 3 * len(observed)))
        for k, signal in enumerate(observed.values()):
            values = _unit(signal.values)
            for row in range(len(hosts)):
                mine = values
                if groups:
                    chosen = np.array([g == groups[row] for g in signal.groups or [""] * len(values)], np.bool_)
                    mine = values[chosen]
                if len(mine):
                    hosts[row, 3 * k : 3 * k + 3] = mine.mean(), mine.std(), mine.max()
        return Conditions(np.stack(series, axis=1), hosts)

    @staticmethod
    def measured(utilisation: Floats) -> Conditions:
        """The conditions of a testbed whose hosts' utilisation (rows, H), 0..1, was measured.

        W: the utilisation of all hosts over `STEPS` parts of the rows; G: mean, deviation, maximum of each.
        """
        series = np.stack([_steps(column) for column in utilisation.T], axis=1)
        return Conditions(series, np.stack([utilisation.mean(0), utilisation.std(0), utilisation.max(0)], axis=1))


def _unit(values: Floats) -> Floats:
    """Values from 0 to 1; missing ones are the mean."""
    kept = values[np.isfinite(values)]
    if not len(kept):
        return np.zeros_like(values)
    span = float(kept.max() - kept.min()) or 1.0
    return np.asarray((np.where(np.isfinite(values), values, kept.mean()) - kept.min()) / span, np.float64)


def _steps(values: Floats) -> Floats:
    """(STEPS,) means of the parts of a series; a shorter one is held constant between its values."""
    if len(values) < STEPS:
        at = np.arange(STEPS) * len(values) // STEPS
        return values[at] if len(values) else np.zeros(STEPS)
    return np.array([part.mean() for part in np.array_split(values, STEPS)])

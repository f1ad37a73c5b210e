"""Parameters as surrogates read them: real numbers as they stand in the unit cube, categories one-hot."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats
from cosim.twin.space import Space


class Encoding:
    """Features (n, e) of points (n, d) of the unit cube.

    A real number is one feature, its unit; an integer or a boolean is one, its level from 0 to 1; a
    category has one per choice. Units of the same level have the same features.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.real = np.array([c for c, p in enumerate(space.parameters) if not p.discrete], np.int64)
        self.discrete = np.array([c for c, p in enumerate(space.parameters) if p.discrete], np.int64)
        widths = [p.levels if p.kind == "category" else 1 for p in space.parameters]
        self._first = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        self.real_features = self._first[self.real]  # where the real parameters stand among the features

    @property
    def width(self) -> int:
        """e, the number of features."""
        return int(self._first[-1])

    def features(self, units: ArrayLike) -> Floats:
        """(n, e) features of points (n, d) of the unit cube."""
        units = np.clip(np.atleast_2d(np.asarray(units, np.float64)), 0.0, 1.0)
        values = self.space.values(units)
        found = np.zeros((len(units), self.width))
        for column, p in enumerate(self.space.parameters):
            first = self._first[column]
            if not p.discrete:
                found[:, first] = units[:, column]
            elif p.kind == "category":
                found[np.arange(len(units)), first + np.round(values[:, column]).astype(np.int64)] = 1.0
            else:
                found[:, first] = (values[:, column] - p.low) / (p.high - p.low)
        return found

    def level(self, column: int, unit: float) -> int:
        """The level, from 0, of a discrete parameter at `unit`."""
        at = np.full((1, len(self.space)), 0.5)
        at[0, column] = unit
        return round(float(self.space.values(at)[0, column] - self.space.parameters[column].low))

    def unit(self, column: int, level: int) -> float:
        """A unit of this level of a discrete parameter."""
        at = self.space.start
        at[column] = self.space.parameters[column].low + level
        return float(self.space.units(at)[0, column])

    def relaxed(self, slopes: Floats) -> Floats:
        """(n, d) slopes by units of slopes (n, e) by features, discrete levels taken for a line.

        A unit of a category moves weight from its first choice to its last.
        """
        found = np.zeros((len(slopes), len(self.space)))
        for column, p in enumerate(self.space.parameters):
            first, last = self._first[column], self._first[column + 1]
            found[:, column] = slopes[:, last - 1] - slopes[:, first] if p.kind == "category" else slopes[:, first]
        return found

"""What models that branch have in common: `branch(model, candidates, horizon) -> Figures`.

A candidate is what may happen to the model from its present instant on: decisions of the continuum
(`cosim.engine.continuum.branch`), the events of a coupled run (`cosim.bus.branch`), failures in models of extensions.
Every candidate begins at that instant and runs `horizon` (s) further; the model itself does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What each candidate led to within the horizon: `columns[name]` is (candidates,)."""

    columns: Mapping[str, NDArray[np.float64]]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, float]]) -> Figures:
        """Those of each candidate, which have the same names."""
        return cls({name: np.array([row[name] for row in rows], np.float64) for name in (rows[0] if rows else ())})

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        if name not in self.columns:
            raise KeyError(f"there is no figure '{name}'; there are {', '.join(self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

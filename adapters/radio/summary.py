"""What a run of the radio comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.frame import Array


class Totals:
    """Sums over all steps so far."""

    def __init__(self, cells: Sequence[str]) -> None:
        self._cells = cells
        self._steps = 0
        self._links = 0  # device steps
        self._covered = 0
        self._handovers = 0
        self._snr = 0.0  # dB, sum over covered device steps
        self._rsrp = 0.0  # dBm, the same
        self._attached: NDArray[np.float64] = np.zeros(len(cells))
        self._used: NDArray[np.float64] = np.zeros(len(cells))

    def add(self, link: Mapping[str, Array], handovers: int, cell: Mapping[str, Array]) -> None:
        """Take one step in: the columns of `link` and `cell`, and the handovers that happened."""
        covered = link["cell"] >= 0
        self._steps += 1
        self._links += len(covered)
        self._covered += int(covered.sum())
        self._handovers += handovers
        self._snr += float(link["snr"][covered].sum())
        self._rsrp += float(link["rsrp"][covered].sum())
        self._attached += cell["attached"]
        self._used += cell["utilisation"]

    def summary(self) -> Mapping[str, Any]:
        """JSON values; a mean over nothing is null."""
        return {
            "device_steps": self._links,
            "coverage": self._covered / self._links if self._links else None,
            "handovers": self._handovers,
            "mean_snr": self._snr / self._covered if self._covered else None,
            "mean_rsrp": self._rsrp / self._covered if self._covered else None,
            "cells": {
                name: {
                    "mean_attached": float(self._attached[i]) / max(self._steps, 1),
                    "mean_utilisation": float(self._used[i]) / max(self._steps, 1),
                }
                for i, name in enumerate(self._cells)
            },
        }

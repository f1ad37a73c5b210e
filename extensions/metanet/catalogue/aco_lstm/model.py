"""A small LSTM that forecasts the next value of a series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.layers import Weights, sigmoid

SIZE = 10


def begin(rng: np.random.Generator) -> dict[str, Floats]:
    """Weights to begin with."""
    wide = 1 + SIZE
    return {
        "gates.w0": rng.standard_normal((wide, 4 * SIZE)) / np.sqrt(wide), "gates.b0": np.zeros(4 * SIZE),
        "out.w0": 0.1 * rng.standard_normal((SIZE, 1)), "out.b0": np.zeros(1),
    }  # fmt: skip


def change(lib: Any, weights: Weights, series: Any) -> Any:  # noqa: ANN401 - numpy or torch
    """(n,) the next change of series (n, length), both against their mean (Hochreiter and Schmidhuber 1997)."""
    hidden = series[:, :1] * 0.0 + lib.zeros(SIZE)
    cell = hidden
    for k in range(series.shape[1]):
        x = lib.concatenate([series[:, k : k + 1], hidden], axis=1)
        gates = x @ weights["gates.w0"] + weights["gates.b0"]
        enter, keep, leave = (sigmoid(lib, gates[:, j * SIZE : (j + 1) * SIZE]) for j in range(3))
        cell = keep * cell + enter * lib.tanh(gates[:, 3 * SIZE :])
        hidden = leave * lib.tanh(cell)
    return (hidden @ weights["out.w0"] + weights["out.b0"])[:, 0]


def forecast(weights: Weights, series: Sequence[float]) -> float:
    """The next value."""
    known = np.asarray(series, np.float64)
    mean = max(float(np.abs(known).mean()), 1e-9)
    found = change(np, weights, (known / mean - 1.0)[None, :])
    return float(known[-1] + mean * found[0])

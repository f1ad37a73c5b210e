"""Train the forecast of LSTM + ACO: `python -m cosim.extensions.metanet.catalogue.train aco-lstm` (extra `learn`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.aco_lstm.model import begin, change
from cosim.extensions.metanet.catalogue.forecast import KEPT, arima
from cosim.extensions.metanet.catalogue.training import fit, library


def series(seed: int, count: int) -> Floats:
    """(count, KEPT + 1) demands with periods, trends, noise and steps, each against its mean."""
    rng = np.random.Generator(np.random.PCG64(seed))
    t = np.arange(KEPT + 1)
    period, phase = rng.uniform(8.0, 60.0, (count, 1)), rng.uniform(0.0, 2.0 * np.pi, (count, 1))
    found = 1.0 + rng.uniform(0.0, 0.8, (count, 1)) * np.sin(2.0 * np.pi * t / period + phase)
    found = found + rng.normal(0.0, 0.01, (count, 1)) * t
    found *= rng.lognormal(0.0, rng.uniform(0.0, 0.25, (count, 1)), found.shape)
    jump = rng.integers(0, 2 * KEPT, (count, 1))
    found *= np.where(t >= jump, rng.uniform(0.6, 1.6, (count, 1)), 1.0)
    found = np.maximum(found, 0.0)
    against: Floats = found / found[:, :-1].mean(axis=1, keepdims=True) - 1.0
    return against


def train(seed: int = 4, count: int = 6400, epochs: int = 20) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights, and root mean squared errors on new series: of the network, of ARIMA, of the last value."""
    torch = library()

    batches = torch.from_numpy(series(seed, count).astype(np.float32)).split(64)

    def loss(weights: dict[str, Any], rows: Any) -> Any:  # noqa: ANN401
        return ((rows[:, -2] + change(torch, weights, rows[:, :-1]) - rows[:, -1]) ** 2).mean()

    found, _ = fit(begin(np.random.Generator(np.random.PCG64(seed))), batches, loss, epochs=epochs, seed=seed, batch=1,
                   rate=5e-3)  # fmt: skip
    new = series(seed + 1, 500)
    true = new[:, -1]
    guesses = {
        "lstm": new[:, -2] + change(np, found, new[:, :-1]),
        "arima": np.array([arima((row + 1.0).tolist()) - 1.0 for row in new[:, :-1]]), "last": new[:, -2],
    }  # fmt: skip
    errors = {"rmse_" + name: float(np.sqrt(((guess - true) ** 2).mean())) for name, guess in guesses.items()}
    return found, {"seed": seed, "series": count, "epochs": epochs} | errors

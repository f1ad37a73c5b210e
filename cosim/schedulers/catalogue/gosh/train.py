"""Train GOSH's surrogate and its spread: `python -m cosim.schedulers.catalogue.gosh.train` (extra `learn`)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from cosim.schedulers.catalogue.experience import collect
from cosim.schedulers.catalogue.networks import surrogate_weights
from cosim.schedulers.catalogue.training import fit, prepared, ranks, save, surrogate_loss
from cosim.schedulers.state import Floats


def train(seed: int = 1, worlds: int = 140, epochs: int = 10) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights, and what was reached on worlds of other seeds."""
    begin = surrogate_weights(np.random.Generator(np.random.PCG64(seed)), graph=False)
    found, losses = fit(
        begin, prepared(collect(seed, worlds)), lambda w, sample: surrogate_loss(w, sample, spread=True),
        epochs=epochs, seed=seed,
    )  # fmt: skip
    figures: dict[str, Any] = {"seed": seed, "worlds": worlds, "epochs": epochs, "loss": losses[-1]}
    return found, figures | {"rank_" + name: value for name, value in ranks(found, list(collect(10_000, 12))).items()}


if __name__ == "__main__":
    begun = time.process_time()
    save(__file__, *train(), begun)

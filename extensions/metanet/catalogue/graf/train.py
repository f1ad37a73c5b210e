"""Train GRAF's graph network: `python -m cosim.extensions.metanet.catalogue.graf.train` (extra `learn`)."""

from __future__ import annotations

import time
from typing import Any

from cosim.extensions.metanet.catalogue.training import save, train_surrogate
from cosim.schedulers.state import Floats


def train(seed: int = 1, worlds: int = 140, epochs: int = 10) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights, and what was reached on worlds of other seeds."""
    return train_surrogate(seed, worlds, epochs, graph=True, spread=False)


if __name__ == "__main__":
    begun = time.process_time()
    save(__file__, *train(), begun)

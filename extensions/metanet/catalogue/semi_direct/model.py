"""The share of each host's speed that the next interval will use."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.extensions.metanet.catalogue.features import Features
from cosim.extensions.metanet.catalogue.networks import HOST_INPUT, Weights, host_input, made, perceptron
from cosim.schedulers.state import Floats


def begin(rng: np.random.Generator) -> dict[str, Floats]:
    """Weights to begin with."""
    return made(rng, "busy", HOST_INPUT, 24, 24, 1)


def busy(lib: Any, weights: Weights, f: Features, decision: Any) -> Any:  # noqa: ANN401 - numpy or torch
    """(..., H) of a decision (..., T, H)."""
    x = perceptron(weights, "busy", host_input(lib, f, decision))[..., 0]
    return 1.0 / (1.0 + lib.exp(-x.clip(-30.0, 30.0)))

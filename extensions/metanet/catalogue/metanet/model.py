"""The costs of all policies from what is seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.pool import POOL, SEEN
from cosim.extensions.metanet.layers import Tape, Weights, back, made, perceptron, scaled, sigmoid

WIDTH = 64


def begin(rng: np.random.Generator, seen: Floats, greatest: Floats) -> dict[str, Floats]:
    """Weights to begin with; `seen` (n, SEEN) sets the scales, `greatest` is the largest cost of each policy."""
    found = made(rng, "meta", SEEN, WIDTH, WIDTH, WIDTH, len(POOL))
    return found | {"mean": seen.mean(axis=0), "deviation": seen.std(axis=0) + 0.05, "greatest": greatest}


def costs(lib: Any, weights: Weights, seen: Any) -> Any:  # noqa: ANN401 - numpy or torch
    """(n, policies) of (n, SEEN)."""
    return weights["greatest"] * sigmoid(lib, perceptron(weights, "meta", scaled(weights, seen)))


def improve(weights: dict[str, Floats], seen: Floats, policy: int, cost: float, rate: float) -> None:
    """A gradient step on (cost - greatest sigmoid)^2 of one policy, in place."""
    tape: Tape = {}
    share = sigmoid(np, perceptron(weights, "meta", scaled(weights, seen), tape)[policy])
    slope = np.zeros(len(POOL))
    slope[policy] = np.clip(-2.0 * (cost / weights["greatest"][policy] - share) * share * (1.0 - share), -1.0, 1.0)
    back(weights, "meta", tape, slope, rate)

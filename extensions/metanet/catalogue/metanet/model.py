"""The costs of all policies from what is seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.extensions.metanet.catalogue.networks import Weights, made, perceptron
from cosim.extensions.metanet.catalogue.pool import POOL, SEEN
from cosim.schedulers.state import Floats

WIDTH = 64


def begin(rng: np.random.Generator, seen: Floats, greatest: Floats) -> dict[str, Floats]:
    """Weights to begin with; `seen` (n, SEEN) sets the scales, `greatest` is the largest cost of each policy."""
    found = made(rng, "meta", SEEN, WIDTH, WIDTH, WIDTH, len(POOL))
    return found | {"mean": seen.mean(axis=0), "deviation": seen.std(axis=0) + 0.05, "greatest": greatest}


def costs(lib: Any, weights: Weights, seen: Any) -> Any:  # noqa: ANN401 - numpy or torch
    """(n, policies) of (n, SEEN)."""
    x = ((seen - weights["mean"]) / weights["deviation"]).clip(-5.0, 5.0)
    answer = perceptron(weights, "meta", x)
    return weights["greatest"] / (1.0 + lib.exp(-answer.clip(-30.0, 30.0)))


def improve(weights: dict[str, Floats], seen: Floats, policy: int, cost: float, rate: float) -> None:
    """A gradient step on (cost - greatest sigmoid)^2 of one policy, in place."""
    x = ((seen - weights["mean"]) / weights["deviation"]).clip(-5.0, 5.0)
    tape = [x]
    for k in range(3):
        tape.append(np.maximum(tape[-1] @ weights[f"meta.w{k}"] + weights[f"meta.b{k}"], 0.0))
    share = 1.0 / (1.0 + np.exp(-(tape[3] @ weights["meta.w3"][:, policy] + weights["meta.b3"][policy])))
    top = weights["greatest"][policy]
    slope = np.clip(-2.0 * (cost / top - share) * share * (1.0 - share), -1.0, 1.0)
    back = slope * weights["meta.w3"][:, policy]
    weights["meta.w3"][:, policy] -= rate * slope * tape[3]
    weights["meta.b3"][policy] -= rate * slope
    for k in range(2, -1, -1):
        back = back * (tape[k + 1] > 0.0)
        before = weights[f"meta.w{k}"] @ back
        weights[f"meta.w{k}"] -= rate * np.outer(tape[k], back)
        weights[f"meta.b{k}"] -= rate * back
        back = before

"""Scores of all pairs of a task and a host, given a decision to improve."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.extensions.metanet.catalogue.networks import Weights, perceptron


def logits(lib: Any, weights: Weights, f: Any, decision: Any, loads: Any) -> Any:  # noqa: ANN401 - numpy or torch
    """(T, H); `loads` (H, ...) of `networks.host_input` under the decision (T, H), numpy or torch."""
    tasks, hosts = decision.shape
    own = f.tasks[:, None, :]
    if lib is np:
        wide = (
            f.pairs, np.broadcast_to(own, (tasks, hosts, own.shape[-1])),
            np.broadcast_to(loads, (tasks, *loads.shape)), decision[..., None],
        )  # fmt: skip
        return perceptron(weights, "pair", np.concatenate(wide, axis=-1))[..., 0]
    parts = f.pairs, own.expand(tasks, hosts, -1), loads.expand(tasks, -1, -1), decision[..., None]
    return perceptron(weights, "pair", lib.cat(parts, dim=-1))[..., 0]

"""Train Decision-NN: `python -m cosim.extensions.metanet.catalogue.train decision-nn` (extra `learn`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.experience import collect
from cosim.extensions.metanet.catalogue.networks import DecisionSurrogate, stored
from cosim.extensions.metanet.catalogue.sequential import logits, pair_weights
from cosim.extensions.metanet.catalogue.training import fit, library, one_hot, tensors


def train(seed: int = 2, worlds: int = 120, epochs: int = 6) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights, and the surrogate's cost of the decisions against that of those to be improved (1: no better)."""
    torch = library()

    frozen = DecisionSurrogate(
        {name: torch.tensor(value, dtype=torch.float32) for name, value in stored("gobi").items()}
    )
    samples = [
        (tensors(row.features), one_hot(row.hosts, len(row.features.hosts)))
        for row in collect(seed, worlds, count=6)
    ]  # fmt: skip
    turn = np.random.Generator(np.random.PCG64(seed))

    def loss(weights: dict[str, Any], sample: Any) -> Any:  # noqa: ANN401
        f, decisions = sample
        begin = decisions[int(turn.integers(min(3, len(decisions))))]
        found = logits(torch, weights, f, begin)
        found = torch.where(f.allowed > 0, found, -1e9)
        soft = torch.softmax(found, dim=-1)
        sharp = torch.nn.functional.one_hot(found.argmax(dim=-1), found.shape[-1]).float()
        decision = sharp + soft - soft.detach()  # forward the hosts chosen, backward the distribution
        energy, response, _, _ = frozen.forward(torch, f, decision)
        with torch.no_grad():
            energy_0, response_0, _, _ = frozen.forward(torch, f, begin)
            load = decision.T @ f.tasks[:, 1] / f.speed
        over = (soft.T @ f.tasks[:, 1] / f.speed - 1.0).clip(0.0) * (load > 1.0)
        return 0.5 * energy / energy_0 + 0.5 * response / response_0 + over.sum() / len(f.tasks)

    found, losses = fit(pair_weights(turn), samples, loss, epochs=epochs, seed=seed)
    return found, {"seed": seed, "worlds": worlds, "epochs": epochs, "relative_cost": losses[-1]}

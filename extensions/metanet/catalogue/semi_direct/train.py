"""Train Semi-Direct: `python -m cosim.extensions.metanet.catalogue.train semi-direct` (extra `learn`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.experience import collect
from cosim.extensions.metanet.catalogue.semi_direct.decide import begin, busy
from cosim.extensions.metanet.catalogue.training import fit, library, one_hot, tensors


def train(seed: int = 3, worlds: int = 200, epochs: int = 12) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights, and the mean squared error of the utilisation with the variance to compare it with."""
    torch = library()

    samples = []
    for row in collect(seed, worlds, count=6):
        hosts = row.hosts[row.taken : row.taken + 1]
        used = torch.from_numpy(row.busy.astype(np.float32))
        samples.append((tensors(row.features), one_hot(hosts, len(row.features.hosts))[0], used))

    def loss(weights: dict[str, Any], sample: Any) -> Any:  # noqa: ANN401
        f, decision, used = sample
        return ((busy(torch, weights, f, decision) - used) ** 2).mean()

    found, losses = fit(begin(np.random.Generator(np.random.PCG64(seed))), samples, loss, epochs=epochs, seed=seed)
    variance = float(np.var(np.concatenate([used.numpy() for _, _, used in samples])))
    return found, {"seed": seed, "worlds": worlds, "epochs": epochs, "mse": losses[-1], "variance": variance}

"""Training with torch (extra `learn`): plain arrays in, plain arrays out, repeatable from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cosim.contract.extras import how_to_install
from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.experience import DecisionResults, collect
from cosim.extensions.metanet.catalogue.features import Features
from cosim.extensions.metanet.catalogue.networks import SPREADS, DecisionSurrogate, surrogate_weights

JUDGED = 10_000  # seed of the first world that surrogates are judged on
Loss = Callable[[Any], Any]  # a sample -> a scalar tensor


def library() -> Any:  # noqa: ANN401 - a module that need not be there
    """torch. Raises `ModuleNotFoundError` without the extra `learn`."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(f"training needs torch: {how_to_install('learn')}", name="torch") from None
    return torch


def tensors(f: Features) -> Features:
    """The same as float32 tensors."""
    torch = library()

    parts: Any = (torch.from_numpy(np.ascontiguousarray(part, np.float32)) for part in f)
    return Features(*parts)


def trainable(weights: Mapping[str, Floats]) -> dict[str, Any]:
    """The same as float32 tensors that a loss can be differentiated by."""
    torch = library()

    return {name: torch.tensor(value, dtype=torch.float32, requires_grad=True) for name, value in weights.items()}


def one_hot(hosts: Any, count: int) -> Any:  # noqa: ANN401
    """(K, T, H) of hosts (K, T)."""
    torch = library()

    return torch.nn.functional.one_hot(torch.from_numpy(hosts), count).float()


def fit(
    weights: dict[str, Floats], samples: Sequence[Any], loss: Callable[[dict[str, Any], Any], Any], *,
    epochs: int, seed: int, rate: float = 2e-3, batch: int = 8,
) -> tuple[dict[str, Floats], list[float]]:  # fmt: skip
    """Weights that lower `loss(weights, sample)` over the samples (Adam, cosine rate), and the mean loss per epoch."""
    torch = library()

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    held = trainable(weights)
    steps = epochs * -(-len(samples) // batch)
    optimiser = torch.optim.Adam(held.values(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    rng = np.random.Generator(np.random.PCG64(seed))
    means = []
    for _ in range(epochs):
        total = 0.0
        order = rng.permutation(len(samples))
        for at in range(0, len(order), batch):
            optimiser.zero_grad()
            for k in order[at : at + batch]:
                value = loss(held, samples[k])
                (value / batch).backward()
                total += float(value.detach())
            torch.nn.utils.clip_grad_norm_(held.values(), 1.0)
            optimiser.step()
            schedule.step()
        means.append(total / len(order))
    return {name: value.detach().numpy().astype(np.float32) for name, value in held.items()}, means


def prepared(rows: Iterable[DecisionResults]) -> list[tuple[Features, Any, Any, Any]]:
    """Features, decisions (K, T, H), log energy and log response as tensors."""
    torch = library()

    return [
        (
            tensors(row.features), one_hot(row.hosts, len(row.features.hosts)),
            torch.from_numpy(np.log(row.energy).astype(np.float32)),
            torch.from_numpy(np.log(row.response).astype(np.float32)),
        )
        for row in rows
    ]  # fmt: skip


def surrogate_loss(weights: dict[str, Any], sample: Any, spread: bool) -> Any:  # noqa: ANN401
    """Squared errors of log energy and log response, those between decisions of one state counted more.

    With `spread` the likelihood of normal errors of the predicted deviations besides.
    """
    torch = library()

    f, decisions, energy, response = sample
    found_e, found_r, first, second = DecisionSurrogate(weights).forward(torch, f, decisions)
    loss = 0.0
    for found, true, deviation in ((found_e, energy, first), (found_r, response, second)):
        error = torch.log(found + 1e-6) - true
        loss = loss + (error**2).mean() + 4.0 * ((error - error.mean()) ** 2).mean()
        if spread:
            wide = deviation.clip(*SPREADS)
            loss = loss + 0.1 * (0.5 * error.detach() ** 2 * torch.exp(-2.0 * wide) + wide).mean()
    return loss


def train_surrogate(
    seed: int, worlds: int, epochs: int, *, graph: bool, spread: bool
) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights of a surrogate, and what was reached on worlds of other seeds."""
    begin = surrogate_weights(np.random.Generator(np.random.PCG64(seed)), graph=graph)
    found, losses = fit(
        begin, prepared(collect(seed, worlds)), lambda w, sample: surrogate_loss(w, sample, spread=spread),
        epochs=epochs, seed=seed,
    )  # fmt: skip
    figures: dict[str, Any] = {"seed": seed, "worlds": worlds, "epochs": epochs, "loss": losses[-1]}
    return found, figures | judged(found)


def judged(weights: dict[str, Floats], first: int = JUDGED, worlds: int = 100) -> dict[str, float]:
    """Means over worlds that a surrogate was not trained on, of the seeds from `first` on, and 95 % of each."""
    each = [ranks(weights, list(collect(first + k, 1))) for k in range(worlds)]
    found: dict[str, float] = {}
    for name in ("energy", "response"):
        values = [one[name] for one in each if name in one]
        found["rank_" + name] = float(np.mean(values))
        found[f"rank_{name}_95"] = float(1.96 * np.std(values, ddof=1) / len(values) ** 0.5)
    return found


def ranks(weights: dict[str, Floats], rows: Sequence[DecisionResults]) -> dict[str, float]:
    """How well a surrogate orders decisions of each state: mean rank correlations, of what differs in any."""
    one = DecisionSurrogate({name: np.asarray(value, np.float64) for name, value in weights.items()})
    found: dict[str, list[float]] = {"energy": [], "response": []}
    for row in rows:
        d = np.eye(len(row.features.hosts))[row.hosts]
        energy, response, _, _ = one.forward(np, row.features, d)
        for name, a, b in (("energy", energy, row.energy), ("response", response, row.response)):
            if np.ptp(b) > 1e-9:
                found[name].append(_rank_correlation(a, b))
    return {name: float(np.mean(values)) for name, values in found.items() if values}


def _rank_correlation(a: Floats, b: Floats) -> float:
    first, second = (np.argsort(np.argsort(v, kind="stable"), kind="stable").astype(float) for v in (a, b))
    return float(np.corrcoef(first, second)[0, 1])

"""A small convolutional network over the last rows of a node: trained with torch, kept and asked as plain arrays.

Two convolutions of width 3 over time with 16 channels each, rectified; the mean over time and the newest row's
channels go into one logistic output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LAGS = 10  # rows of a node that the network sees
_CHANNELS, _WIDTH = 16, 3
_EPOCHS, _BATCH, _RATE = 12, 256, 2e-3
_MOST = 60_000  # rows that are fitted to


def lagged_names(names: Sequence[str]) -> list[str]:
    """What a network sees of the features `names`: `column@lag` of the plain columns, the newest row first."""
    plain = [name for name in names if name != "rows" and not name.endswith(("_mean", "_dev", "_diff"))]
    return [f"{name}@{lag}" for lag in range(LAGS) for name in plain]


def lags_of(names: Sequence[str]) -> int:
    """How many rows `names` come from."""
    return 1 + max((int(name.rpartition("@")[2]) for name in names if "@" in name), default=0)


def lagged(rows: NDArray[Any], who: NDArray[np.int64], lags: int) -> NDArray[np.float32]:
    """The last `lags` of `rows` (n, k) of the same `who` (n,), as (n, lags k), newest first; NaN before the first.

    Rows of one are neighbours and in the order of time.
    """
    count, width = rows.shape
    found = np.full((count, lags, width), np.nan, np.float32)
    here = np.arange(count)
    first = np.maximum.accumulate(np.where(np.concatenate([[True], who[1:] != who[:-1]])[:count], here, 0))
    for lag in range(lags):
        there = here - lag >= first
        found[there, lag] = rows[here[there] - lag]
    return found.reshape(count, lags * width)


def ask(arrays: Mapping[str, NDArray[Any]], rows: Floats) -> Floats:
    """The output (n,) before the logistic for `rows` (n, lags k)."""
    lags = int(arrays["lags"][0])
    x = ((rows - arrays["mean"]) / arrays["scale"]).reshape(len(rows), lags, -1)
    for layer in ("1", "2"):
        x = np.maximum(_convolved(x, arrays[f"kernel_{layer}"], arrays[f"offset_{layer}"]), 0.0)
    return np.asarray(np.hstack([x.mean(axis=1), x[:, 0]]) @ arrays["weight"] + arrays["bias"][0])


def _convolved(x: Floats, kernel: Floats, offset: Floats) -> Floats:
    """`x` (n, lags, k) under `kernel` (channels, k, width), zeros beyond its ends."""
    half, lags = kernel.shape[2] // 2, x.shape[1]
    wide = np.pad(x, ((0, 0), (half, half), (0, 0)))
    made = np.zeros((*x.shape[:2], kernel.shape[0])) + offset
    for shift in range(kernel.shape[2]):
        made += wide[:, shift : shift + lags] @ kernel[:, :, shift].T
    return made


def learn(x: Floats, y: NDArray[np.bool_], names: Sequence[str], seed: int) -> dict[str, NDArray[Any]]:
    """The arrays of a network fitted to `x` (n, lags k) with labels `y` (n,). Needs torch."""
    import torch
    from torch import nn

    if len(x) > _MOST:
        some = np.sort(np.random.default_rng(seed).permutation(len(x))[:_MOST])
        x, y = x[some], y[some]
    lags = lags_of(names)
    width = x.shape[1] // lags
    mean, scale = (  # a column has one scale, whatever its age
        np.tile(values, lags)
        for values in (x.reshape(-1, width).mean(axis=0), np.maximum(x.reshape(-1, width).std(axis=0), 1e-9))
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in one order
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers: list[Any] = [
                nn.Conv1d(width, _CHANNELS, _WIDTH, padding=_WIDTH // 2),
                nn.Conv1d(_CHANNELS, _CHANNELS, _WIDTH, padding=_WIDTH // 2),
                nn.Linear(2 * _CHANNELS, 1),
            ]
            given = torch.from_numpy(((x - mean) / scale).astype(np.float32).reshape(-1, lags, width))
            wanted = torch.from_numpy(y.astype(np.float32))
            weight = torch.tensor(float((~y).sum()) / max(float(y.sum()), 1.0))
            optimiser = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr=_RATE)
            rounds = _EPOCHS * -(-len(x) // _BATCH)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE * 2.0, total_steps=rounds)
            for _ in range(_EPOCHS):
                order = torch.randperm(len(x))
                for at in range(0, len(x), _BATCH):
                    batch = order[at : at + _BATCH]
                    predicted = forward(layers, given[batch])
                    loss = nn.functional.binary_cross_entropy_with_logits(predicted, wanted[batch], pos_weight=weight)
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
                    schedule.step()
    finally:
        torch.set_num_threads(threads)
    first, second, last = ([p.detach().numpy().astype(np.float64) for p in layer.parameters()] for layer in layers)
    return {
        "lags": np.array([lags]), "mean": mean, "scale": scale, "kernel_1": first[0], "offset_1": first[1],
        "kernel_2": second[0], "offset_2": second[1], "weight": last[0][0], "bias": last[1],
    }  # fmt: skip


def forward(layers: Sequence[Any], rows: Any) -> Any:  # noqa: ANN401 - torch's tensors and modules
    """The same as `ask`, in torch: `rows` (n, lags, k) through two convolutions and a linear layer."""
    import torch

    x = rows.transpose(1, 2)
    for layer in layers[:2]:
        x = torch.relu(layer(x))
    return layers[2](torch.cat([x.mean(dim=2), x[:, :, 0]], dim=1))[:, 0]

"""Layers of small networks over plain arrays: forward in numpy or torch, backward written out in numpy.

Layer k of the perceptron `name` has the weights `name.wk` (in, out) and `name.bk` (out,). `lib` is numpy or torch, so
that training differentiates the very code that decides, and deciding needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.records import Floats

Weights = Mapping[str, Any]
Tape = dict[str, list[Floats]]  # what each layer of a perceptron was given, by the perceptron's name


def weights_in(path: Path) -> dict[str, Floats]:
    """The arrays of a file, in double precision. Raises `FileNotFoundError` without the file."""
    with np.load(path) as file:
        return {key: file[key].astype(np.float64) for key in file.files}


def made(rng: np.random.Generator, name: str, *sizes: int) -> dict[str, Floats]:
    """Weights of a perceptron to begin with (He et al. 2015)."""
    found = {}
    for k, (a, b) in enumerate(pairwise(sizes)):
        found[f"{name}.w{k}"] = rng.standard_normal((a, b)) * np.sqrt(2.0 / a)
        found[f"{name}.b{k}"] = np.zeros(b)
    return found


def perceptron(weights: Weights, name: str, x: Any, tape: Tape | None = None, leak: float = 0.0) -> Any:  # noqa: ANN401 - numpy or torch
    """(..., out) of x (..., in): ReLU between layers, of slope `leak` below 0, and none at the end."""
    depth = sum(key.startswith(f"{name}.w") for key in weights)
    for k in range(depth):
        if tape is not None:
            tape.setdefault(name, []).append(x)
        x = x @ weights[f"{name}.w{k}"] + weights[f"{name}.b{k}"]
        if k < depth - 1:
            x = x.clip(0.0) + leak * x.clip(None, 0.0) if leak else x.clip(0.0)
    return x


def back(weights: Weights, name: str, tape: Tape, slope: Floats, rate: float = 0.0) -> Floats:
    """The derivative by a perceptron's input from that by its answer; with `rate` the weights take a step down it.

    A step is in place, and of one row: `slope` (out,).
    """
    for k, given in reversed(list(enumerate(tape[name]))):
        w, b = weights[f"{name}.w{k}"], weights[f"{name}.b{k}"]
        before = slope @ w.T
        if rate:
            w -= rate * np.outer(given, slope)
            b -= rate * slope
        slope = before * (given > 0.0) if k else before
    return slope


def scaled(weights: Weights, seen: Any) -> Any:  # noqa: ANN401
    """What a network is shown of `seen`: deviations from a mean, within 5."""
    return ((seen - weights["mean"]) / weights["deviation"]).clip(-5.0, 5.0)


def sigmoid(lib: Any, x: Any) -> Any:  # noqa: ANN401
    """1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1.0 + lib.tanh(0.5 * x))


def softplus(lib: Any, x: Any) -> Any:  # noqa: ANN401
    """log(1 + exp(x)), for large x too."""
    return x.clip(0.0) + lib.log1p(lib.exp(-abs(x)))


def softmax(lib: Any, x: Any) -> Any:  # noqa: ANN401
    """Chances along the last axis."""
    likely = lib.exp(x - lib.amax(x, axis=-1, keepdims=True))
    return likely / likely.sum(-1)[..., None]

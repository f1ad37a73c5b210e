"""CoRaiS' attention network: one forward pass gives, for every request, the probability that each edge runs it.

It has two encoders, of edges and of requests, a context of each request over the edges' embeddings, and clipped scores
(equations 16 to 21). Requests are decided independently, so many decisions can be drawn from one pass. The ablations
FC1, FC2 and FC3 have a perceptron instead of attention in the encoder of edges, of requests, or of both. Width and
layers are smaller than in the paper, which has some four million weights; heads, hidden width and clipping are the
paper's. Decisions need numpy only. `train` makes the weights and needs torch (extra `learn`). The shipped weights were
trained on the family `corais` at (10, 5, 50), and on `corais-tight` at (20, 10, 100).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.corais.baselines import best_of
from cosim.extensions.corais.problem import Decision, Instance
from cosim.extensions.metanet.layers import Weights, softmax, weights_in

SHIPPED = Path(__file__).parent
TIGHT = SHIPPED / "tight"  # for the family `corais-tight`
VARIANTS = ("corais", "fc1", "fc2", "fc3")
WIDTH, LAYERS, HEADS, HIDDEN = 128, 2, 8, 512
CLIP = 10.0  # of the scores
PER_EDGE = 10.0  # requests, in training
EDGE, REQUEST = 8, 6  # columns
Norm = Callable[[str, Any], Any]  # (name, (..., width)) -> normalised


def columns(instance: Instance) -> tuple[Floats, Floats]:
    """(edges, 8) place, run time, replicas, own and coming work and its arrival; (requests, 6) places and sizes.

    Attention does not see how many equal requests there are. Where an edge gets more than in training, backlogs are
    shorter by as much, so that they are as large a part of the work as then.
    """
    shorter = min(1.0, PER_EDGE * instance.edges / len(instance.source))
    place = instance.place * instance.transfer  # the same decision; the network need not see how long a unit takes
    edges = np.column_stack([
        place[: instance.edges], instance.slope, instance.offset, instance.replicas, instance.own_work * shorter,
        instance.coming_work * shorter, instance.coming,
    ])  # fmt: skip
    requests = np.column_stack([place[instance.source], instance.input, place[instance.target], instance.output])
    return edges.astype(np.float64), requests.astype(np.float64)


def begin(rng: np.random.Generator, variant: str) -> dict[str, Floats]:
    """Weights to begin with, uniform within 1 / sqrt(width of the input)."""
    found: dict[str, Floats] = {}

    def linear(name: str, before: int, after: int, bias: bool = True) -> None:
        limit = before**-0.5
        found[f"{name}.w"] = rng.uniform(-limit, limit, (before, after))
        if bias:
            found[f"{name}.b"] = rng.uniform(-limit, limit, after)

    def attention(name: str, query: int) -> None:
        for part, before in (("q", query), ("k", WIDTH), ("v", WIDTH), ("o", WIDTH)):
            linear(f"{name}.{part}", before, WIDTH, bias=False)

    for side, size in (("e", EDGE), ("r", REQUEST)):
        linear(side, size, WIDTH)
        for k in range(LAYERS):
            if attends(variant, side):
                attention(f"{side}{k}.a", WIDTH)
            else:  # as many weights
                linear(f"{side}{k}.m1", WIDTH, 2 * WIDTH)
                linear(f"{side}{k}.m2", 2 * WIDTH, WIDTH)
            linear(f"{side}{k}.f1", WIDTH, HIDDEN)
            linear(f"{side}{k}.f2", HIDDEN, WIDTH)
            for part in ("n1", "n2"):
                found[f"{side}{k}.{part}.scale"], found[f"{side}{k}.{part}.shift"] = np.ones(WIDTH), np.zeros(WIDTH)
                found[f"{side}{k}.{part}.mean"], found[f"{side}{k}.{part}.spread"] = np.zeros(WIDTH), np.ones(WIDTH)
    attention("c", 3 * WIDTH)
    linear("s", WIDTH, WIDTH, bias=False)
    return found


def attends(variant: str, side: str) -> bool:
    """Whether the encoder of edges (e) or requests (r) has attention."""
    return variant == "corais" or (variant, side) in (("fc1", "r"), ("fc2", "e"))


def scores(lib: Any, weights: Weights, edges: Any, requests: Any, norm: Norm) -> Any:  # noqa: ANN401 - numpy or torch
    """(batch, requests, edges) of (batch, edges, 8) and (batch, requests, 6): logits within CLIP."""
    of_edges, of_requests = _encoded(lib, weights, "e", edges, norm), _encoded(lib, weights, "r", requests, norm)
    shape = of_requests.shape
    all_edges, all_requests = (lib.amax(x, axis=-2, keepdims=True) for x in (of_edges, of_requests))
    query = lib.concatenate(
        [lib.broadcast_to(all_edges, shape), lib.broadcast_to(all_requests, shape), of_requests], -1
    )
    context = _attention(lib, weights, "c", query, of_edges)
    found = context @ (of_edges @ weights["s.w"]).swapaxes(-1, -2) / WIDTH**0.5
    return CLIP * lib.tanh(found)


def _encoded(lib: Any, w: Weights, side: str, x: Any, norm: Norm) -> Any:  # noqa: ANN401
    h = x @ w[f"{side}.w"] + w[f"{side}.b"]
    for k in range(LAYERS):
        name = f"{side}{k}"
        mixed = _attention(lib, w, f"{name}.a", h, h) if f"{name}.a.q.w" in w else _perceptron(w, name, "m", h)
        h = norm(f"{name}.n1", h + mixed)
        h = norm(f"{name}.n2", h + _perceptron(w, name, "f", h))
    return h


def _perceptron(w: Weights, name: str, part: str, x: Any) -> Any:  # noqa: ANN401
    hidden = (x @ w[f"{name}.{part}1.w"] + w[f"{name}.{part}1.b"]).clip(0.0, None)
    return hidden @ w[f"{name}.{part}2.w"] + w[f"{name}.{part}2.b"]


def _attention(lib: Any, w: Weights, name: str, asking: Any, asked: Any) -> Any:  # noqa: ANN401
    def heads(part: str, x: Any) -> Any:  # noqa: ANN401
        y = x @ w[f"{name}.{part}.w"]
        return y.reshape(*y.shape[:-1], HEADS, WIDTH // HEADS).swapaxes(-2, -3)

    q, k, v = heads("q", asking), heads("k", asked), heads("v", asked)
    joined = (softmax(lib, q @ k.swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5) @ v).swapaxes(-2, -3)
    return joined.reshape(*joined.shape[:-2], WIDTH) @ w[f"{name}.o.w"]


@cache
def stored(folder: Path = SHIPPED, variant: str = "corais") -> dict[str, Floats]:
    """What `train` wrote: weights of the network or of an ablation; by default the network's that are shipped.

    Raises `FileNotFoundError` without the file; no ablation is shipped.
    """
    return weights_in(folder / f"{variant}.npz")


def chances(instance: Instance, w: Weights) -> Floats:
    """(requests, edges) how likely each edge is to run each request."""

    def norm(name: str, x: Floats) -> Floats:
        found: Floats = (x - w[f"{name}.mean"]) / w[f"{name}.spread"] * w[f"{name}.scale"] + w[f"{name}.shift"]
        return found

    edges, requests = columns(instance)
    logits = scores(np, w, edges[None], requests[None], norm)[0]
    found: Floats = softmax(np, logits)
    return found


def solve(instance: Instance, weights: Weights, *, count: int = 0, seed: int = 0) -> Decision:
    """The likeliest edge of each request; with `count` the best of that and so many joint draws."""
    return drawn(instance, chances(instance, weights), count, seed)


def drawn(instance: Instance, likely: Floats, count: int, seed: int = 0) -> Decision:
    """The likeliest decision by chances (requests, edges), or the best of it and `count` joint draws."""
    greedy: Decision = likely.argmax(axis=1)
    if count < 1:
        return greedy
    rng = np.random.default_rng(seed)
    ends = likely.cumsum(axis=1)
    ends[:, -1] = 1.0
    draws = (rng.random((count, instance.requests))[..., None] > ends).sum(axis=-1)
    return best_of(instance, np.concatenate([greedy[None], draws]))

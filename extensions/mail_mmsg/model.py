"""The learned virtual platform in numpy: clients by a generator, their feedback by a policy, the rest from a log.

Weights, by name: `g` the generator, `c` the clients' policy, `e` the
engine's, a network per sub-scenario (3, in, out); `mean` and `deviation` scale what is seen. The log is `windows`
(W, T, 52), T requests of one client one after the other, with the level of its features (W, 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats, Ints
from cosim.extensions.mail_mmsg.platform import (
    CANDIDATES,
    FEATURES,
    HIST,
    IN_TIME,
    LEVELS,
    OUTCOMES,
    OWN,
    SCENES,
    STAT,
    chosen,
    masks,
)
from cosim.extensions.metanet.layers import Weights, perceptron, scaled, softmax, weights_in

BINS = 20
NAMES = ("task time", "convergence time", "offloading ratio", "agent")
NOISE = 64  # dimensions of z ~ U[0, 1]
STEPS = 10  # requests of a trajectory
_COARSE = 4  # bins that count as one where a window is looked for


@cache
def stored() -> dict[str, Floats]:
    """The shipped weights and log."""
    return weights_in(Path(__file__).parent / "weights.npz")


def generated(lib: Any, weights: Weights, noise: Any, groups: Sequence[int]) -> list[Any]:  # noqa: ANN401 - numpy or torch
    """Probabilities of each feature's bins, (n, bins) each, from noise (n, NOISE)."""
    scores = perceptron(weights, "g", noise, leak=0.2)
    ends = np.cumsum(groups).tolist()
    return [softmax(lib, scores[:, end - size : end]) for size, end in zip(groups, ends, strict=True)]


def draw(probability: Floats, rng: np.random.Generator) -> Ints:
    """(n,) an outcome of each row of probabilities (n, k)."""
    sums = probability.cumsum(axis=1)
    found: Ints = (rng.random((len(sums), 1)) * sums[:, -1:] > sums).sum(axis=1)
    return found


def clients(weights: Weights, count: int, rng: np.random.Generator) -> Ints:
    """(count, 4) bins of generated clients, in the order of NAMES."""
    parts = generated(np, weights, rng.random((count, NOISE)), weights["groups"].astype(int).tolist())
    return np.stack([draw(part, rng) for part in parts], axis=1)


def each(lib: Any, weights: Weights, name: str, x: Any, scene: Any) -> Any:  # noqa: ANN401 - numpy or torch
    """(n, out) of the network of each row's sub-scenario (n,), ReLU between layers."""
    nets = {key: value for key, value in weights.items() if key.startswith(f"{name}.")}
    nets |= {key: value[:, None] for key, value in nets.items() if key.startswith(f"{name}.b")}
    return perceptron(nets, name, x)[scene, lib.arange(len(x))]


def engine(weights: Weights, seen: Floats) -> Floats:
    """(n, 10) mean action of the engine's policy."""
    scene = seen[:, OWN : OWN + len(SCENES)].argmax(axis=1)
    found: Floats = np.tanh(each(np, weights, "e", scaled(weights, seen), scene)) * masks()[scene]
    return found


def of_client(seen: Floats, action: NDArray[np.floating[Any]], pick: Ints) -> Floats:
    """(n, 69) what a client sees: the state, the engine's action, the candidate that it chose."""
    features = seen[:, :OWN].reshape(-1, CANDIDATES, len(FEATURES))
    return np.concatenate([seen, action, features[np.arange(len(seen)), pick]], axis=1)


def feedback(weights: Weights, seen: Floats, action: Floats, pick: Ints) -> Floats:
    """(n, 6) probabilities of the levels of feedback."""
    x = of_client(scaled(weights, seen), action, pick)
    found: Floats = softmax(np, perceptron(weights, "c", x))
    return found


class VirtualPlatform:
    """`count` trajectories side by side. `reset` draws clients, `step` takes actions (count, 10).

    Only the feedback is predicted: histories and means follow from it, what clients and groups are like otherwise
    comes from the log. Hosts in the log are as loaded as they were under the engine that wrote it, whatever is done
    here.
    """

    def __init__(self, weights: Weights, count: int) -> None:
        self.weights, self.count = weights, count
        self.windows: Floats = weights["windows"]
        levels = weights["levels"].astype(np.int64)
        self._by: dict[tuple[int, int, int], Ints] = {}
        keys = np.stack([levels[:, 3], levels[:, 0] // _COARSE, levels[:, 2] // _COARSE], axis=1)
        for key in np.unique(keys, axis=0):
            scene, time, ratio = key.tolist()
            self._by[scene, time, ratio] = np.flatnonzero((keys == key).all(axis=1))
        self._scene = [np.flatnonzero(levels[:, 3] == s) for s in range(len(SCENES))]
        self.seen = np.zeros((count, self.windows.shape[2]))
        self.at = 0

    def reset(self, rng: np.random.Generator, scene: int | None = None) -> Floats:
        """(count, 52) first observations of generated clients (of one sub-scenario, if `scene` is given)."""
        asked = clients(self.weights, self.count, rng)
        if scene is not None:
            asked[:, 3] = scene
        rows = []
        for time, _, ratio, kind in asked.tolist():
            near = self._by.get((kind, time // _COARSE, ratio // _COARSE), self._scene[kind])
            rows.append(int(near[rng.integers(len(near))]))
        self._rows, self.at = np.array(rows), 0
        self.seen = self.windows[self._rows, 0].copy()
        return self.seen

    def step(self, action: Floats, rng: np.random.Generator, level: Ints | None = None) -> tuple[Floats, Floats, bool]:
        """Next observations, whether each request was offloaded and in time (count,), and whether this was the last.

        level: (count,) feedback, drawn from the clients' policy if not given.
        """
        pick = chosen(self.seen, action)
        if level is None:
            level = draw(feedback(self.weights, self.seen, action, pick), rng)
        done = ((pick > 0) & (level < IN_TIME)).astype(np.float64)
        last = np.concatenate([self.seen[:, HIST][:, 1:], done[:, None]], axis=1)
        ratio, time = self.seen[:, STAT.start], self.seen[:, STAT.start + 1]
        self.at += 1
        over = self.at >= self.windows.shape[1]
        now = self.windows[self._rows, min(self.at, self.windows.shape[1] - 1)].copy()
        now[:, HIST] = last
        now[:, STAT.start] = ratio + 0.1 * (done - ratio)
        now[:, STAT.start + 1] = time + 0.1 * (level / len(LEVELS) - time)
        self.seen = now
        return now, done, over


__all__ = ["OUTCOMES", "VirtualPlatform", "clients", "engine", "feedback", "generated", "stored"]

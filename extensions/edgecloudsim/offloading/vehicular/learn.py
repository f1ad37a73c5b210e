"""Train the networks of the policy `ai-based` on this package's own simulations.

    python -m cosim.extensions.edgecloudsim.offloading.vehicular.learn --seed 1

1. Play: ring roads with few to too many vehicles run under a policy that sends tasks by shares which
   change every few seconds, so that every option is seen idle and overloaded. What is known of an
   option before a task is sent, and how the task ends, makes one example.
2. Fit: per option a network for success (logistic loss) and one for the logarithm of the service time
   of successful tasks (squared loss), by Adam (Kingma and Ba 2015, arXiv:1412.6980).
3. Play again under the networks themselves, with some tasks at random, and fit once more on all
   examples, three times over: a policy must know the states that it leads to (Ross, Gordon, Bagnell 2011, DAgger).

The same seed gives the same weights on the same machine and numpy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.edgecloudsim.offloading.layout import COMPLETED
from cosim.extensions.edgecloudsim.offloading.simulation import Simulation
from cosim.extensions.edgecloudsim.offloading.transport import ring_road
from cosim.extensions.edgecloudsim.offloading.vehicular import VehicularRequest
from cosim.extensions.edgecloudsim.offloading.vehicular.learned import FILE, HIDDEN, INPUTS, SHAPE, SURE
from cosim.extensions.edgecloudsim.offloading.vehicular.observed import FEATURES, NAMES, OPTIONS

DEVICES: Final = (200, 500, 800, 1100, 1400, 1700, 2000, 2300)
SECONDS: Final = 90.0  # s, of one simulation
BLOCK: Final = 5.0  # s, for which shares hold
EXPLORED: Final = 0.2  # of the tasks of the later plays
ROUNDS: Final = 3  # of playing with what was learned


class Examples(NamedTuple):
    """Tasks of one option."""

    features: Floats  # (n, INPUTS)
    success: Floats  # (n,) 0 or 1
    service: Floats  # (n,) s, of successful ones


class Net(NamedTuple):
    """One hidden layer of tanh."""

    inner: Floats  # (HIDDEN, INPUTS)
    bias: Floats  # (HIDDEN,)
    outer: Floats  # (HIDDEN,)
    offset: Floats  # (1,)


class _Player:
    """A policy that notes what it saw; the networks' choice or, for a part of the tasks, one by shares."""

    def __init__(self, rng: np.random.Generator, weights: Floats | None) -> None:
        self.rng = rng
        self.weights = weights
        self.shares = np.ones(OPTIONS) / OPTIONS
        self.until = 0.0
        self.seen: list[Floats] = []
        self.chosen: list[int] = []

    def __call__(self, request: VehicularRequest) -> int:
        if request.now >= self.until:
            self.until = request.now + BLOCK
            self.shares = self.rng.dirichlet(np.full(OPTIONS, 0.7))
        if self.weights is None or self.rng.random() < EXPLORED:
            option = int(self.rng.choice(OPTIONS, p=self.shares))
        else:
            option = decide(self.weights, request.features)
        self.seen.append(request.features)
        self.chosen.append(option)
        return option


def answers(weights: Floats, features: Floats) -> Floats:
    """(OPTIONS, 2): log-odds of success and log of the service time, for features (OPTIONS, INPUTS)."""
    found = np.zeros((OPTIONS, 2))
    for option in range(OPTIONS):
        mean, scale, nets = unpack(weights[option])
        z = (features[option] - mean) * scale
        found[option] = [np.tanh(net.inner @ z + net.bias) @ net.outer + net.offset[0] for net in nets]
    return found


def decide(weights: Floats, features: Floats) -> int:
    """The soonest of the options that will succeed; the likeliest to succeed if none will."""
    odds, seconds = answers(weights, features).T
    if np.all(odds <= SURE):
        return int(np.argmax(odds))
    return int(np.argmin(np.where(odds > SURE, seconds, np.inf)))


def unpack(row: Floats) -> tuple[Floats, Floats, list[Net]]:
    """Mean, 1 / deviation and the two networks of one option."""
    mean, scale, rest = row[:INPUTS], row[INPUTS : 2 * INPUTS], row[2 * INPUTS :]
    nets = []
    for part in np.split(rest, 2):
        inner, bias, outer, offset = np.split(part, np.cumsum([HIDDEN * INPUTS, HIDDEN, HIDDEN]))
        nets.append(Net(inner.reshape(HIDDEN, INPUTS), bias, outer, offset))
    return mean, scale, nets


def play(seed: np.random.SeedSequence, weights: Floats | None, devices: Sequence[int] = DEVICES) -> list[Examples]:
    """Simulate and note: examples per option."""
    found: list[list[Any]] = [[] for _ in range(OPTIONS)]
    for number, child in zip(devices, seed.spawn(len(devices)), strict=True):
        player = _Player(np.random.default_rng(child), weights)
        study = ring_road(number, duration=SECONDS, warm_up=0.0)
        run = Simulation(study, int(child.generate_state(1)[0]), choose=player, trace=True)
        run.advance(SECONDS)
        ended = run.drain()
        seen, chosen = np.array(player.seen)[ended["serial"]], np.array(player.chosen)[ended["serial"]]
        success = (ended["cause"] == COMPLETED).astype(np.float64)
        service = ended["ended"] - ended["created"]
        for option in range(OPTIONS):
            mine = chosen == option
            found[option].append((seen[mine, option], success[mine], service[mine]))
    return [Examples(*(np.concatenate(column) for column in zip(*rows, strict=True))) for rows in found]


def _fit(rng: np.random.Generator, x: Floats, y: Floats, logistic: bool, epochs: int) -> Net:
    """A network for y (n,) of standardised inputs x (n, INPUTS)."""
    net = Net(
        rng.normal(0.0, INPUTS**-0.5, (HIDDEN, INPUTS)), np.zeros(HIDDEN),
        rng.normal(0.0, HIDDEN**-0.5, HIDDEN), np.array([0.0 if logistic else float(y.mean())]),
    )  # fmt: skip
    first = [np.zeros_like(part) for part in net]
    second = [np.zeros_like(part) for part in net]
    step, batch = 0, 512
    for epoch in range(epochs):
        rate = 0.01 * 0.5 * (1.0 + np.cos(np.pi * epoch / epochs))
        order = rng.permutation(len(x))
        for start in range(0, len(x), batch):
            rows = order[start : start + batch]
            hidden = np.tanh(x[rows] @ net.inner.T + net.bias)
            out = hidden @ net.outer + net.offset[0]
            error = ((1.0 / (1.0 + np.exp(-out)) if logistic else out) - y[rows]) / len(rows)
            back = error[:, None] * net.outer * (1.0 - hidden**2)
            gradient = (back.T @ x[rows], back.sum(axis=0), hidden.T @ error, np.array([error.sum()]))
            step += 1
            for part, g, m, v in zip(net, gradient, first, second, strict=True):
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                part -= rate * (m / (1.0 - 0.9**step)) / (np.sqrt(v / (1.0 - 0.999**step)) + 1e-8)
    return net


def fit(seed: np.random.SeedSequence, examples: Sequence[Examples], epochs: int = 30) -> Floats:
    """The weights of all options."""
    weights = np.zeros(SHAPE)
    for option, child in enumerate(seed.spawn(OPTIONS)):
        rng = np.random.default_rng(child)
        one = examples[option]
        mean = one.features.mean(axis=0)
        scale = 1.0 / np.maximum(one.features.std(axis=0), 1e-3)
        x, good = (one.features - mean) * scale, one.success > 0.0
        success = _fit(rng, x, one.success, True, epochs)
        service = _fit(rng, x[good], np.log(one.service[good]), False, epochs)
        parts = [part.ravel() for net in (success, service) for part in net]
        weights[option] = np.concatenate([mean, scale, *parts])
    return weights


def train(seed: int, devices: Sequence[int] = DEVICES, epochs: int = 30, rounds: int = ROUNDS) -> Floats:
    """Play and fit, then `rounds` times play with what was learned and fit on everything."""
    seeds = iter(np.random.SeedSequence(seed).spawn(2 * (rounds + 1)))
    examples = play(next(seeds), None, devices)
    weights = fit(next(seeds), examples, epochs)
    for _ in range(rounds):
        more = play(next(seeds), weights, devices)
        examples = [
            Examples(*(np.concatenate(parts) for parts in zip(a, b, strict=True)))
            for a, b in zip(examples, more, strict=True)
        ]
        weights = fit(next(seeds), examples, epochs)
    return weights


def save(weights: Floats, seed: int, file: Path = FILE) -> None:
    """Write the weights, to six digits."""
    head = (
        f"made by: python -m cosim.extensions.edgecloudsim.offloading.vehicular.learn --seed {seed}\n"
        f"options: {', '.join(NAMES)}; features: {', '.join(FEATURES)}; hidden units: {HIDDEN}"
    )
    np.savetxt(file, weights, fmt="%.6g", delimiter=",", header=head)


def main() -> None:
    """Train and write the file."""
    parser = argparse.ArgumentParser(description="train the networks of the policy ai-based")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    save(train(options.seed), options.seed, options.out)


if __name__ == "__main__":
    main()

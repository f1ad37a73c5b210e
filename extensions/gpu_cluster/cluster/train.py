"""Train the ranker: `python -m cosim.extensions.gpu_cluster.cluster.train [--windows 300] [--out weights.npz]`.

Windows come from the generator with seeds of their own. All orders of each are simulated. A pair of orders of
one window is labelled by which is better; the difference decides its weight (at most 1).
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.fabric import Fabric, plain
from cosim.extensions.gpu_cluster.cluster.generate import patterns, uniform
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs
from cosim.extensions.gpu_cluster.cluster.order import WINDOW, all_orders, better
from cosim.extensions.gpu_cluster.cluster.rank import FEATURES, Ranker, features
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSettings, ClusterSimulation

UNITS, EPOCHS, RATE = 8, 60, 0.01
FIRST_SEED = 50_000  # of training; tests and benchmarks use others


def windows(fabric: Fabric, jobs: Jobs, settings: ClusterSettings, most: int) -> list[tuple[Floats, Floats]]:
    """Features and figures of all orders of the windows of a run, which goes on with the best ones."""
    simulation = ClusterSimulation(fabric, jobs, settings)
    simulation.asking()
    found: list[tuple[Floats, Floats]] = []
    while len(found) < most and not simulation.advance(log=False):
        line = simulation.line(WINDOW)
        if len(line) < WINDOW:
            break
        orders = np.asarray(line)[all_orders(WINDOW)]
        figures = simulation.try_orders(orders)
        found.append((features(line, simulation), figures - simulation.now * np.array([1.0, 1.0, WINDOW])))
        for job in reversed(orders[better(figures)[0]]):
            simulation.decide(int(job))
    return found


def targets(figures: Floats, scale: float) -> Floats:
    """(orders,) what the ranker is to put in order: the end, and by little weight the last start and the sum."""
    return np.asarray((figures[:, 0] + 0.05 * figures[:, 1] + 0.001 * figures[:, 2]) / scale)


def fit(data: list[tuple[Floats, Floats]], seed: int = 0, epochs: int = EPOCHS) -> Ranker:
    """Weights by Adam on the pairwise loss log(1 + exp(better - worse)), 256 pairs of a window at a time."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 3])))
    w = [
        rng.normal(0.0, 0.3, (UNITS, FEATURES)), np.zeros(UNITS), rng.normal(0.0, 0.3, UNITS), np.zeros(FEATURES)
    ]  # fmt: skip
    w[3][0] = 1.0
    first, second = [np.zeros_like(one) for one in w], [np.zeros_like(one) for one in w]
    step = 0
    goals = [targets(figures, float(np.ptp(figures[:, 0])) or float(figures[:, 0].mean())) for _, figures in data]
    for epoch in range(epochs):
        for i in rng.permutation(len(data)):
            x, y = data[i][0], goals[i]
            a, b = rng.integers(0, len(y), (2, 256))
            gap = y[b] - y[a]
            weight = np.minimum(1.0, np.abs(gap)) * np.sign(gap)  # positive: a is better, its score should be less
            hidden = np.tanh(x @ w[0].T + w[1])
            score = hidden @ w[2] + x @ w[3]
            push = weight / (1.0 + np.exp(np.sign(gap) * (score[b] - score[a]) * 5.0)) * 5.0 / 256
            grad = np.bincount(a, push, len(y)) - np.bincount(b, push, len(y))
            back = grad[:, None] * w[2] * (1.0 - hidden**2)
            grads = [back.T @ x, back.sum(0), grad @ hidden, grad @ x]
            step += 1
            rate = RATE * (1.0 - 0.9 * epoch / epochs)
            for k, g in enumerate(grads):
                first[k] = 0.9 * first[k] + 0.1 * g
                second[k] = 0.999 * second[k] + 0.001 * g * g
                w[k] -= rate * (first[k] / (1 - 0.9**step)) / (np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8)
    return Ranker(*w)


def _tight(rng: np.random.Generator, seed: int) -> tuple[Fabric, Jobs, ClusterSettings]:
    """A few leaves with few uplinks, and jobs of powers of two whose durations have a long tail."""
    leaves, servers = int(rng.integers(2, 7)), int(rng.integers(1, 3))
    ocs = int(rng.choice([0, 2, 4]))
    up = int(rng.choice([2, 4, 8])) * servers
    fabric = plain(leaves, servers, up, ocs)
    sizes = 2 ** np.arange(int(rng.integers(0, 3)), int(np.log2(fabric.gpus)) + 1)
    share = sizes ** -float(rng.uniform(0.0, 1.0))
    count = 60
    pattern, part = patterns(rng, count, {"llm": float(rng.random()), "dlrm": float(rng.random())})
    gpus = rng.choice(sizes, count, p=share / share.sum())
    duration = np.maximum(1.0, rng.lognormal(7.0, float(rng.uniform(0.5, 2.5)), count))
    pattern = np.where(gpus == 1, l.LOCAL, pattern)
    jobs = Jobs(np.zeros(count), gpus, duration, pattern, compute=1.0 - part, network=part)
    return fabric, jobs, ClusterSettings("circuits" if ocs else "packet", "exhaustive", seed=seed)


def examples(count: int, first: int = FIRST_SEED) -> list[tuple[Floats, Floats]]:
    """Windows of several mixes, sizes of clusters and numbers of uplinks: a third as generated, the rest tight."""
    found: list[tuple[Floats, Floats]] = []
    seed = first
    while len(found) < count:
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 4])))
        if seed % 3 == 0:
            up = int(rng.choice([24, 32]))
            mix = {"llm": float(rng.random()), "dlrm": float(rng.random())}
            fabric, jobs, settings = (
                plain(32, 4, up, 8),
                uniform(seed, 100, mix),
                ClusterSettings("circuits", "exhaustive"),
            )
        else:
            fabric, jobs, settings = _tight(rng, seed)
        made = windows(fabric, jobs, settings, 12)
        found += [one for one in made if np.ptp(one[1][:, 0]) > 0.0][: count - len(found)]  # where orders differ
        seed += 1
    return found


def main() -> None:
    """Train and write the weights."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--windows", type=int, default=300)
    asked.add_argument("--out", type=Path, default=Path(__file__).with_name("weights.npz"))
    given = asked.parse_args()
    np.savez_compressed(given.out, **asdict(fit(examples(given.windows))))


if __name__ == "__main__":
    main()

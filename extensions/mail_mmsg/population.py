"""Features of clients, their distributions, and what generates them (training: extra `learn`).

A row is a client in one of the 12 parts of a day: mean task time of its completed tasks (s); the convergence time of
its service group (s); its offloading ratio; its sub-scenario. The convergence time of a group (all clients of one
cell, a mixed one) is the time from a change of its members until its offloading ratio over 30 s stays within 0.05 of
what it becomes, the mean from 30 to 60 s after the change; at most 60 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cosim.contract.errors import require
from cosim.contract.records import Floats, Ints
from cosim.extensions.mail_mmsg.model import BINS, NAMES, NOISE, clients, generated
from cosim.extensions.mail_mmsg.platform import SCENES
from cosim.extensions.mail_mmsg.world import EDGES, PART, PARTS, WINDOW, WITHIN, RequestLog
from cosim.extensions.metanet.catalogue.training import library, trainable
from cosim.extensions.metanet.layers import made, perceptron

_GRID, _FEWEST = 2.0, 3  # s; requests of a client in a part that has a row


def features(log: RequestLog) -> tuple[Floats, Ints]:
    """(n, 4) in the order of NAMES, and (n, 2) client and part of each row."""
    times = _convergence(log)
    part = np.minimum((log.time / PART).astype(int), PARTS - 1)
    rows, keys = [], []
    order = np.lexsort((log.time, part, log.client))
    cuts = np.flatnonzero((np.diff(log.client[order]) != 0) | (np.diff(part[order]) != 0)) + 1
    for mine in np.split(order, cuts):
        if len(mine) < _FEWEST or np.isnan(log.seconds[mine]).all():
            continue
        when, spent = times[int(log.cell[mine[-1]])]
        k = int(np.searchsorted(when, log.time[mine[-1]])) - 1
        if k < 0:
            continue
        during = spent[min(k, int(np.searchsorted(when, log.time[mine[0]]))) : k + 1]
        rows.append((np.nanmean(log.seconds[mine]), during.mean(), log.done[mine].mean(), log.scene[mine[0]]))
        keys.append((log.client[mine[0]], part[mine[0]]))
    return np.array(rows, float), np.array(keys, np.int64)


def _convergence(log: RequestLog) -> dict[int, tuple[Floats, Floats]]:
    """Per group: s of its changes, and the convergence time after each."""
    found = {}
    for g in range(EDGES):
        mine = log.cell == g
        when = np.sort(log.changes[log.changes[:, 0] == g, 1])
        at = log.time[mine]
        sums = np.concatenate([[0.0], np.cumsum(log.done[mine])])
        spent = []
        for t in when:
            grid = t + np.arange(0.0, 2.0 * WINDOW + _GRID, _GRID)
            last, first = np.searchsorted(at, grid), np.searchsorted(at, grid - WINDOW)
            ratio = (sums[last] - sums[first]) / np.maximum(last - first, 1)
            off = np.abs(ratio - ratio[len(ratio) // 2 :].mean()) > WITHIN
            spent.append(0.0 if not off.any() else min(float(np.flatnonzero(off)[-1] + 1) * _GRID, 2.0 * WINDOW))
        found[g] = when, np.array(spent)
    return found


def cuts(rows: Floats) -> list[Floats]:
    """Bounds of the bins of each continuous feature: quantiles for 20 bins, of which equal ones are one."""
    return [np.unique(np.quantile(rows[:, k], np.arange(1, BINS) / BINS)) for k in range(3)]


def sizes(bounds: list[Floats]) -> tuple[int, ...]:
    """Bins of each feature."""
    return (*(len(part) + 1 for part in bounds), len(SCENES))


def binned(rows: Floats, bounds: list[Floats]) -> Ints:
    """(n, 4) bins."""
    parts = [np.searchsorted(bounds[k], rows[:, k], "right") for k in range(3)]
    return np.stack([*parts, rows[:, 3].astype(np.int64)], axis=1)


def divergences(real: Ints, virtual: Ints, groups: tuple[int, ...]) -> dict[str, float]:
    """KL(real || virtual) of each feature, natural logarithm, 0.5 added to each count."""
    found = {}
    for k, (name, size) in enumerate(zip(NAMES, groups, strict=True)):
        p, q = (np.bincount(rows[:, k], minlength=size) + 0.5 for rows in (real, virtual))
        p, q = p / p.sum(), q / q.sum()
        found[name] = float((p * np.log(p / q)).sum())
    return found


def mixture(rows: Floats, bounds: list[Floats], count: int, seed: int) -> Ints:
    """Bins of `count` clients drawn from a mixture of 10 Gaussians, the sub-scenario one-hot and rounded."""
    require("learn", "sklearn")
    from sklearn.mixture import GaussianMixture

    x = np.concatenate([rows[:, :3], np.eye(3)[rows[:, 3].astype(int)]], axis=1)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    one = GaussianMixture(10, random_state=seed, reg_covar=1e-4).fit((x - mean) / deviation)
    y = one.sample(count)[0] * deviation + mean
    return binned(np.concatenate([y[:, :3], y[:, 3:].argmax(axis=1)[:, None]], axis=1), bounds)


def adversarial(
    bins: Ints, groups: tuple[int, ...], seed: int, *, entropy: float = 1.0, divergence: float = 1.0,
    wasserstein: bool = False, steps: int = 400, inner: int = 3, batch: int = 500,
) -> dict[str, Floats]:  # fmt: skip
    """The generator's weights: GAN-SMMSG (Algorithm 1), without the last two terms a GAN, else a WGAN.

    Discriminator: E log D(x) + E log(1 - D(G(z))); the paper prints (3) with both expectations over G. Generator:
    E[D(G(z))] + alpha H(V(G(z))) - beta KL(V(x) || V(G(z))), V the shares of each feature's bins in the mini-batch.
    As in Algorithm 1, `inner` steps of the generator come before each of the discriminator. The WGAN clips weights
    at 0.05 and takes `inner` steps of the critic for each of the generator, as usual.
    """
    torch = library()
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.Generator(np.random.PCG64(seed))
    size = sum(groups)
    g = trainable(made(rng, "g", NOISE, 128, size))
    d = trainable(made(rng, "d", size, 128, 128, 1))
    optimise_g = torch.optim.RMSprop(g.values(), lr=1e-3)
    optimise_d = torch.optim.RMSprop(d.values(), lr=1e-4 if wasserstein else 3e-4)
    real = torch.from_numpy(np.concatenate([np.eye(n)[bins[:, k]] for k, n in enumerate(groups)], axis=1)).float()
    n_g, n_d = (1, inner) if wasserstein else (inner if entropy or divergence else 1, 1)

    def sample() -> Any:  # noqa: ANN401
        return real[torch.from_numpy(rng.integers(0, len(real), batch))]

    def fake() -> tuple[list[Any], Any]:
        parts = generated(torch, g, torch.rand(batch, NOISE), groups)
        drawn = []
        for part in parts:  # one bin each for the discriminator, the gradient of the shares (Jang et al. 2017)
            soft = torch.nn.functional.gumbel_softmax((part + 1e-6).log(), tau=1.0, hard=True)
            drawn.append(soft)
        return parts, torch.cat(drawn, dim=1)

    for _ in range(steps):
        for _ in range(n_g):
            parts, x = fake()
            score = perceptron(d, "d", x)
            if wasserstein:
                gain = score.mean()
            elif entropy or divergence:
                gain = torch.sigmoid(score).mean()
            else:
                gain = torch.nn.functional.logsigmoid(score).mean()  # the usual loss, which does not saturate
            if entropy or divergence:
                true = torch.split(sample(), groups, dim=1)
                for part, other in zip(parts, true, strict=True):
                    q, p = part.mean(0) + 1e-6, other.mean(0) + 1e-6
                    gain = gain - entropy * (q * q.log()).sum() - divergence * (p * (p / q).log()).sum()
            optimise_g.zero_grad()
            (-gain).backward()
            optimise_g.step()
        for _ in range(n_d):
            with torch.no_grad():
                _, x = fake()
            a, b = perceptron(d, "d", sample()), perceptron(d, "d", x)
            loss = b.mean() - a.mean()
            if not wasserstein:
                soft = torch.nn.functional.softplus
                loss = soft(-a).mean() + soft(b).mean()
            optimise_d.zero_grad()
            loss.backward()
            optimise_d.step()
            if wasserstein:
                with torch.no_grad():
                    for value in d.values():
                        value.clamp_(-0.05, 0.05)
    return {name: value.detach().numpy().astype(np.float32) for name, value in g.items()}


KINDS: dict[str, dict[str, Any]] = {
    "GAN-SMMSG": {},
    "GAN": {"entropy": 0.0, "divergence": 0.0},
    "WGAN": {"entropy": 0.0, "divergence": 0.0, "wasserstein": True},
}


def populations(
    logs: Sequence[RequestLog], held_out: Sequence[RequestLog], seed: int, count: int = 100_000
) -> tuple[Ints, dict[str, Ints], tuple[int, ...]]:
    """Bins of clients on held-out days, of generated ones for each method, and of the days that were learned from."""
    rows = np.concatenate([features(log)[0] for log in logs])
    bounds = cuts(rows)
    bins, real = binned(rows, bounds), binned(np.concatenate([features(log)[0] for log in held_out]), bounds)
    rng = np.random.Generator(np.random.PCG64(seed))
    groups = sizes(bounds)
    found = {"training days": bins}
    for name, settings in KINDS.items():
        weights = adversarial(bins, groups, seed, **settings) | {"groups": np.array(groups, float)}
        found[name] = clients(weights, count, rng)
    found["GMM"] = mixture(rows, bounds, count, seed)
    return real, found, groups


def differences(real: Ints, virtual: Ints, groups: tuple[int, ...]) -> dict[str, float]:
    """Points (0 to 100) by which shares differ, half the sum over a feature's bins; and those of the offloading ratio.

    The latter is the mean over sub-scenarios of the difference of the clients' mean bin, as a share of all bins.
    """
    found, last = {}, len(groups) - 1
    for k, (name, size) in enumerate(zip(NAMES, groups, strict=True)):
        p, q = (np.bincount(rows[:, k], minlength=size) / len(rows) for rows in (real, virtual))
        found[name] = 50.0 * float(np.abs(p - q).sum())
    scenes = np.unique(real[:, last])
    a, b = (np.array([rows[rows[:, last] == s, 2].mean() for s in scenes]) for rows in (real, virtual))
    return found | {"ratio by agent": 100.0 * float(np.abs(a - b).mean()) / max(groups[2] - 1, 1)}

"""Workloads like one's own: a law that is fitted to a trace, and jobs drawn by it.

Gaps between arrivals and durations by size are known by their quantiles, so they may have any form; hours of the day
stretch the gaps. What follows one another is alike, as where somebody sends a job many times: ranks of gaps and of
durations follow a Gaussian copula (Joe 1997, Multivariate Models and Dependence Concepts, 8.1) whose correlation over
k jobs is share x lasting^k, and a job has the size of the one before with some probability. Days of the week, trends
and users are not in it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from statistics import NormalDist

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.gpu_cluster.cluster.engine.layout import LOCAL, WHOLE
from cosim.extensions.gpu_cluster.cluster.generate import MIX, generator, patterns
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs
from cosim.extensions.gpu_cluster.cluster.law import LEVELS, LawBlock, SizeBlock

DAY = 86_400.0  # s
_STEP = 100  # thousandths of a GPU


def fitted(
    seed: int, jobs: int, gap: float, law: LawBlock, mix: dict[str, float] | None = None, span: float = 0.0
) -> Jobs:
    """Jobs by a law, from midnight on, `gap` s apart on average, or over `span` s."""
    rng = generator(seed, 3)
    apart = _at(law.gaps, _ranks(rng, jobs, *law.alike[:2]))
    since = np.concatenate([[0.0], np.cumsum(np.asarray(law.day) / np.mean(law.day)) * 3600.0])  # day without hours
    if span:
        worked = span // DAY * DAY + np.interp(span % DAY, np.arange(25) * 3600.0, since)
        apart *= worked / apart.sum() * jobs / (jobs + 1)
    else:
        apart *= gap / (_at(law.gaps, (np.arange(100_000) + 0.5) / 100_000).mean() or 1.0)
    whole, rest = np.divmod(np.cumsum(apart), DAY)
    arrival = np.maximum.accumulate(whole * DAY + np.interp(rest, since, np.arange(25) * 3600.0))
    weight = np.array([one.weight for one in law.sizes])
    size = rng.choice(len(weight), jobs, p=weight / weight.sum())
    begins = np.where(rng.random(jobs) < law.alike[4], 0, np.arange(jobs))  # of the run of equal sizes that a job is in
    size = size[np.maximum.accumulate(begins)]
    rank, duration = _ranks(rng, jobs, *law.alike[2:4]), np.empty(jobs)
    for k, one in enumerate(law.sizes):
        duration[size == k] = _at(one.durations, rank[size == k])
    gpus, milli = (np.array([getattr(one, name) for one in law.sizes])[size] for name in ("gpus", "milli"))
    pattern, share = patterns(rng, jobs, mix or MIX)
    pattern = np.where(gpus == 1, LOCAL, pattern)
    return Jobs(arrival, gpus, np.maximum(duration, 1e-3), pattern, milli, compute=1.0 - share, network=share)


def philly_like(seed: int, jobs: int, span: float, mix: dict[str, float] | None = None) -> Jobs:
    """`jobs` over `span` s by the law of half of Microsoft's trace: most have one GPU, few are large and long."""
    law = tomllib.loads(Path(__file__).with_name("philly.toml").read_text("utf-8"))
    law["sizes"] = [SizeBlock.si(**one) for one in law["sizes"]]
    return fitted(seed, jobs, 0.0, LawBlock.si(**law), mix, span)


def fit(jobs: Jobs, start: float = 0.0) -> tuple[float, LawBlock]:
    """The mean gap (s) and the law of at least two jobs; `start` is the time of day (s) at time 0."""
    at = start % DAY + jobs.arrival
    day = np.bincount((at % DAY // 3600).astype(np.int64), minlength=24) + 1.0
    since = np.concatenate([[0.0], np.cumsum(day / day.mean()) * 3600.0])
    gaps = np.diff(at // DAY * DAY + np.interp(at % DAY, np.arange(25) * 3600.0, since))
    share = np.where(jobs.milli < WHOLE, -(-jobs.milli // _STEP) * _STEP, WHOLE)
    kinds, kind = np.unique(np.stack([jobs.gpus, share]), axis=1, return_inverse=True)
    kind = kind.reshape(-1)  # numpy 2.0 gives another shape
    sizes, rank = [], np.empty(len(jobs))
    for k, (gpus, milli) in enumerate(kinds.T.tolist()):
        mine = kind == k
        rank[mine] = _rank(jobs.duration[mine])
        lasted = _quantiles(jobs.duration[mine])
        sizes.append(SizeBlock.si(gpus=gpus, milli=milli, weight=float(mine.mean()), durations=lasted))
    chance = sum(one.weight**2 for one in sizes)
    same = float((kind[1:] == kind[:-1]).mean())
    kept = min(max(0.0, (same - chance) / (1.0 - chance)), 0.9999) if chance < 1.0 else 0.0
    alike = [*_alike(_rank(gaps)), *_alike(rank), kept]
    return float(gaps.mean()), LawBlock.si(gaps=_quantiles(gaps), day=day.tolist(), sizes=sizes, alike=alike)


def _quantiles(values: Floats) -> list[float]:
    """At LEVELS; the last one so that the mean beyond the one before is right, which a single long gap would spoil."""
    found = np.quantile(values, LEVELS)
    low = 1.0 + found[-2]
    if found[-1] > found[-2]:
        top = low * np.geomspace(1.0 + 1e-6, 10.0 * (1.0 + found[-1]) / low, 1000)
        found[-1] = np.interp(1.0 + values[values >= found[-2]].mean(), (top - low) / np.log(top / low), top) - 1.0
    return [float(one) for one in found]


def _at(quantiles: Sequence[float], rank: Floats) -> Floats:
    return np.asarray(np.expm1(np.interp(rank, LEVELS, np.log1p(quantiles))))


def _rank(values: Floats) -> Floats:
    """(n,) in (0, 1); equal values by chance, since their order would look like a trend."""
    place = np.empty(len(values))
    place[np.lexsort((np.random.default_rng(0).random(len(values)), values))] = np.arange(len(values)) + 0.5
    return place / len(values)


def _ranks(rng: np.random.Generator, count: int, share: float, lasting: float) -> Floats:
    """(count,) uniform on (0, 1), correlated by share x lasting^k with the one k before."""
    drawn = rng.standard_normal(count)
    drawn[1:] *= np.sqrt(1.0 - lasting * lasting)
    slow = np.array(list(accumulate(drawn.tolist(), lambda before, new: lasting * before + new)))
    normal = np.sqrt(share) * slow + np.sqrt(1.0 - share) * rng.standard_normal(count)
    return np.array([_NORMAL.cdf(one) for one in normal.tolist()])


def _alike(rank: Floats) -> tuple[float, float]:
    """Share and lasting of the correlation by which these ranks follow one another, by least squares over some lags."""
    normal = np.array([_NORMAL.inv_cdf(one) for one in rank.tolist()])
    lags = [k for k in (1, 2, 5, 10, 20, 50, 100) if 4 * k < len(rank)]
    if not lags:
        return 0.0, 0.0
    found = np.array([(normal[k:] * normal[:-k]).mean() for k in lags]) / (normal * normal).mean()
    lasting = 1.0 - np.logspace(-4.0, 0.0, 200)
    fall = lasting[:, None] ** np.array(lags)
    share = np.clip(fall @ found / np.maximum((fall * fall).sum(axis=1), 1e-300), 0.0, 0.9999)
    best = int(((share[:, None] * fall - found) ** 2).sum(axis=1).argmin())
    return float(share[best]), float(lasting[best])


_NORMAL = NormalDist()

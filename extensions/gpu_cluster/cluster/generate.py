"""Jobs made at random: uniform mixes, by the published settings of MLSysOps D4.3's simulator of optical switches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosim.extensions.gpu_cluster.cluster.engine.layout import ALL_TO_ALL, EXPERTS, LOCAL, PIPELINE, RING, TREE
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs

SIZES, DURATIONS = (16, 128), (600.0, 14_400.0)
_NUMBER = {"llm": RING, "dlrm": ALL_TO_ALL, "tree": TREE, "pipeline": PIPELINE, "experts": EXPERTS, "local": LOCAL}
MIX = {"llm": 0.5, "dlrm": 0.5}
_COMMUNICATION = {"llm": 0.3, "dlrm": 0.5, "tree": 0.3, "pipeline": 0.2, "experts": 0.4, "local": 0.0}


@dataclass(frozen=True, slots=True)
class Phase:
    """A mix that holds for some jobs."""

    jobs: int
    mix: dict[str, float]


def generator(seed: int, key: int) -> np.random.Generator:
    """A stream of random numbers for one purpose."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, key])))


def patterns(rng: np.random.Generator, count: int, mix: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """(count,) patterns and the part of a step that is communication, by the weights of a mix."""
    unknown = sorted(set(mix) - set(_NUMBER))
    if unknown or not mix or sum(mix.values()) <= 0.0:
        raise ValueError(f"'{', '.join(unknown) or mix}' is no mix of {', '.join(_NUMBER)}")
    names = sorted(mix)
    weight = np.array([mix[name] for name in names], float)
    chosen = rng.choice(len(names), count, p=weight / weight.sum())
    return (
        np.array([_NUMBER[name] for name in names])[chosen],
        np.array([_COMMUNICATION[name] for name in names])[chosen],
    )


def uniform(
    seed: int,
    jobs: int,
    mix: dict[str, float] | None = None,
    sizes: tuple[int, int] = SIZES,
    durations: tuple[float, float] = DURATIONS,
    gap: float = 0.0,
    rails: int = 8,
    checkpoint: float = 0.0,
) -> Jobs:
    """Sizes and durations uniform, arrivals `gap` s apart on average (Poisson), 0: all at once."""
    rng = generator(seed, 1)
    gpus = rng.integers(sizes[0], sizes[1] + 1, jobs)
    duration = rng.uniform(*durations, jobs)
    pattern, share = patterns(rng, jobs, mix or MIX)
    arrival = np.cumsum(rng.exponential(gap, jobs)) if gap > 0.0 else np.zeros(jobs)
    return Jobs(
        arrival, gpus, duration, pattern, compute=1.0 - share, network=share, rails=np.full(jobs, rails),
        checkpoint=np.full(jobs, checkpoint),
    )  # fmt: skip


def phases(seed: int, parts: list[Phase], gap: float = 0.0) -> Jobs:
    """Mixes one after the other, as when a team trains language models and then recommenders."""
    made = [uniform(seed * 1009 + i, part.jobs, part.mix, gap=gap) for i, part in enumerate(parts)]
    offset, arrivals = 0.0, []
    for one in made:
        arrivals.append(one.arrival + offset)
        offset = float(arrivals[-1][-1]) if len(one) else offset
    names = [name for name in Jobs.__slots__ if name != "arrival"]
    return Jobs(np.concatenate(arrivals), **{n: np.concatenate([getattr(one, n) for one in made]) for n in names})

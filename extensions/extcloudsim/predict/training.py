"""Training samples from traces: windows of the past with what followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.extcloudsim.predict.samples import HORIZON, LONGEST_LIFE, WINDOW
from cosim.extensions.traces import UtilisationTraces

Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TrainingSamples:
    """Inputs and targets of a network."""

    past: Array  # (n, window) 0..1
    auxiliary: Array  # (n, 2) age (1 = 20 days) and largest value so far
    target: Array  # (n, 3) mean, peak and life (1 = 20 days); life is NaN where the source does not state it

    def __len__(self) -> int:
        return len(self.past)


def draw(
    traces: UtilisationTraces, count: int, seed: np.random.SeedSequence, *, lives: bool = False
) -> TrainingSamples:
    """`count` moments of VMs at random, each equally likely among those with a past and a future.

    With `lives`, a VM ends where its values end; otherwise this is where the trace was cut.
    """
    use = traces.utilisation
    known = ~np.isnan(use)
    held = filled(use)
    # A moment t counts when the VM has a value at t and at t + 1.
    vm, at = np.nonzero(known[:, :-1] & known[:, 1:])
    if not len(vm):
        raise ValueError("no VM has two consecutive values")
    chosen = np.random.default_rng(seed).integers(0, len(vm), count)
    vm, at = vm[chosen], at[chosen]
    first = np.argmax(known, axis=1)[vm]
    last = use.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)[vm]
    back = np.maximum(at[:, None] + np.arange(1 - WINDOW, 1), first[:, None])
    ahead = at[:, None] + np.arange(1, HORIZON + 1)
    inside = (ahead <= last[:, None]) & known[vm[:, None], np.minimum(ahead, use.shape[1] - 1)]
    then = np.where(inside, held[vm[:, None], np.minimum(ahead, use.shape[1] - 1)], 0.0)
    largest = np.maximum.accumulate(np.where(known, use, 0.0), axis=1)
    target = np.full((count, 3), np.nan, np.float32)
    target[:, 0] = then.sum(axis=1) / inside.sum(axis=1)
    target[:, 1] = then.max(axis=1)
    if lives:
        target[:, 2] = np.minimum((last - at) * traces.period / LONGEST_LIFE, 1.0)
    age = np.minimum((at - first + 1) * traces.period / LONGEST_LIFE, 1.0)
    auxiliary = np.stack([age, largest[vm, at]], axis=1).astype(np.float32)
    return TrainingSamples(held[vm[:, None], back], auxiliary, target)


def joined(parts: Sequence[TrainingSamples]) -> TrainingSamples:
    """All samples one after another."""
    return TrainingSamples(
        np.concatenate([part.past for part in parts]),
        np.concatenate([part.auxiliary for part in parts]),
        np.concatenate([part.target for part in parts]),
    )


def filled(use: Array) -> Array:
    """Gaps filled with the value before them, 0 before the first."""
    known = ~np.isnan(use)
    latest = np.maximum.accumulate(np.where(known, np.arange(use.shape[1]), -1), axis=1)
    values: Array = np.take_along_axis(use, np.maximum(latest, 0), axis=1)
    return np.where(latest < 0, np.float32(0.0), values)

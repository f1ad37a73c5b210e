"""Inputs and targets of predictors: windows of the past and figures of the future."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats

WINDOW = 36  # periods of the past that a network sees: 3 h of 5 min
HORIZON = 12  # periods of the future that mean and peak cover: 1 h of 5 min
LONGEST_LIFE = 20 * 86400.0  # s, the life that counts as 1; longer lives saturate


def recent(history: NDArray[np.floating], window: int = WINDOW) -> NDArray[np.float32]:
    """The last `window` periods of each VM, (vms, window).

    A VM with a shorter past is taken to have been at its first known value before; a gap keeps the value
    before it. A VM of which nothing is known is at 0.
    """
    past = np.asarray(history[:, -window:], np.float32)
    short = window - past.shape[1]
    if short > 0:
        past = np.concatenate([np.full((len(past), short), np.nan, np.float32), past], axis=1)
    known = ~np.isnan(past)
    if known.all():
        return past
    first = np.argmax(known, axis=1)
    latest = np.maximum.accumulate(np.where(known, np.arange(window), -1), axis=1)
    filled: NDArray[np.float32] = np.take_along_axis(past, np.where(latest < 0, first[:, None], latest), axis=1)
    return np.nan_to_num(filled, nan=0.0)


def future(utilisation: NDArray[np.floating], period: int, horizon: int = HORIZON) -> tuple[Floats, Floats]:
    """Mean and peak of each VM over the `horizon` periods from `period` on: two of (vms,).

    Fewer where the trace ends; at its end the last value stays. NaN is left out; a VM with nothing
    known is at 0.
    """
    begin = min(period, utilisation.shape[1] - 1)
    ahead = np.asarray(utilisation[:, begin : period + horizon], np.float64)
    known = ~np.isnan(ahead)
    ahead = np.where(known, ahead, 0.0)
    mean = ahead.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return mean, ahead.max(axis=1)

"""Descent along gradients by batched central differences.

One batch of 2 d points gives the gradient and the curvature along every axis, a second one tries steps
of several lengths at once. Losses may be piecewise smooth; under noise the differences shrink no further
than `least`.
"""

from __future__ import annotations

import numpy as np

from cosim.twin.search.meter import CONVERGED, Floats, Found, Meter

_LENGTHS = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.03, 0.01])


def descend(meter: Meter, start: Floats, *, step: float = 0.05, least: float = 1e-4, iterations: int = 200) -> Found:
    """Descend from `start` (d,); differences begin at `step` and shrink to `least` where none helps.

    Tried are Newton's step along every axis (gradient over curvature, where that is positive), steepest
    descent, and the points of the differences themselves.
    """
    at = np.clip(np.asarray(start, np.float64), 0.0, 1.0)
    now = float(meter(at[None])[0])
    n = len(at)
    for _ in range(iterations):
        if meter.over:
            return meter.found(at, meter.over)
        high, low = np.minimum(at + step, 1.0), np.maximum(at - step, 0.0)
        around = np.tile(at, (2 * n, 1))
        around[np.arange(n), np.arange(n)], around[n + np.arange(n), np.arange(n)] = high, low
        losses = meter(around)
        up, down, above, below = losses[:n], losses[n:], high - at, at - low
        usable = np.isfinite(up) & np.isfinite(down)
        up, down = np.where(usable, up, now), np.where(usable, down, now)
        slope = (up - down) / (above + below)
        with np.errstate(divide="ignore", invalid="ignore"):
            curve = 2.0 * (up / above + down / below - now * (1 / above + 1 / below)) / (above + below)
        size = float(np.abs(slope).max())
        floor = max(size, 1e-12) / 0.5  # no step along an axis is longer than half the cube
        curve = np.where(np.isfinite(curve), np.maximum(curve, floor), floor)
        trials = np.concatenate(
            [
                np.clip(at - _LENGTHS[:, None] * (slope / curve), 0.0, 1.0),
                np.clip(at - _LENGTHS[:, None] * (step * slope / max(size, 1e-300)), 0.0, 1.0),
            ]
        )
        answers = np.concatenate([losses, meter(trials)])
        trials = np.concatenate([around, trials])
        best = int(np.argmin(answers))
        if answers[best] < now - 1e-12 * abs(now):
            at, now = trials[best], float(answers[best])
        elif step <= least:
            break
        else:
            step = max(step / 4.0, least)
    return meter.found(at, meter.over or CONVERGED)

"""Nonlinear least squares by batched finite differences: one batch per Jacobian, one per step.

Levenberg and Marquardt's step (J'J + l D) p = -J'r with D the diagonal of J'J (D. Marquardt, SIAM J. 11(2),
1963), several l at once, within the bounds by an active set: parameters that press against a bound are
held there. A model that is linear in its parameters is solved by the first step, as l goes to 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cosim.twin.search.meter import CONVERGED, RUNS, Floats, Meter, SearchResult

Residuals = Callable[[Floats], Floats]  # points (n, d) -> residuals (n, m), NaN rows where it cannot be simulated

_DAMPINGS = np.array([0.0, 1e-3, 1e-1, 1.0, 10.0, 1e3])  # Marquardt (SIAM J. 11, 1963), all at once


def jacobian(residuals: Residuals, at: Floats, step: float | Floats = 1e-4) -> tuple[Floats, Floats]:
    """Residuals (m,) at a point (d,) and their derivatives (m, d), from one batch of 2 d + 1 points.

    Differences are central; at a bound the step is cut there. The error is O(step^2) inside.
    """
    n = len(at)
    steps = np.broadcast_to(np.asarray(step, np.float64), (n,))
    up, down = np.minimum(at + steps, 1.0) - at, at - np.maximum(at - steps, 0.0)
    answers = residuals(np.concatenate([at[None], at + np.diag(up), at - np.diag(down)]))
    return answers[0], ((answers[1 : n + 1] - answers[n + 1 :]) / (up + down)[:, None]).T


def least_squares(
    residuals: Residuals, meter_of: Callable[[Callable[[Floats], Floats]], Meter], starts: Floats, *,
    step: float = 1e-4, tolerance: float = 1e-12, iterations: int = 60,
) -> tuple[SearchResult, Meter]:  # fmt: skip
    """The least sum of squared residuals from each of `starts` (n, d), best of all.

    `meter_of` makes a meter of an objective. A descent ends when no step betters the sum by `tolerance`,
    relatively.
    """
    last = np.empty((0, 1))

    def squares(units: Floats) -> Floats:
        nonlocal last
        last = residuals(units)
        return np.asarray(np.einsum("ij,ij->i", last, last))

    meter = meter_of(squares)

    def ask(units: Floats) -> Floats:
        """Residuals through the meter; NaN for points without room."""
        losses = meter(units)
        answers = np.full((len(units), last.shape[1]), np.nan)
        known = min(len(last), len(units))
        answers[:known] = last[:known]
        answers[~np.isfinite(losses)] = np.nan
        return answers

    ended = True
    for start in np.atleast_2d(starts):
        ended = not meter.over and _descend(ask, meter, start.copy(), step, tolerance, iterations)
        if not ended:
            break
    return meter.found(np.atleast_2d(starts)[0], meter.over or (CONVERGED if ended else RUNS)), meter


def _descend(ask: Residuals, meter: Meter, at: Floats, step: float, tolerance: float, iterations: int) -> bool:
    """Go down from `at`; False when there was no room for the next slope."""
    scale = 1.0  # of the dampings
    for _ in range(iterations):
        if meter.room < 2 * len(at) + 1:
            return False
        now, slope = jacobian(ask, at, step)
        loss = float(now @ now)
        if not (math.isfinite(loss) and np.isfinite(slope).all()):
            return True
        trials = np.stack([_step(at, now, slope, damping * scale) for damping in _DAMPINGS])
        answers = ask(trials)
        losses = np.where(np.isfinite(answers).all(axis=1), np.einsum("ij,ij->i", answers, answers), np.inf)
        best = int(np.argmin(losses))
        if losses[best] >= loss * (1.0 - tolerance) or not math.isfinite(losses[best]):
            if scale >= 1e3 or loss == 0.0 or losses[best] == loss:
                return True
            scale *= 1e3
            continue
        at, scale = trials[best], max(scale / 10.0, 1e-6) if best < 3 else scale
    return True


def _step(at: Floats, residual: Floats, slope: Floats, damping: float) -> Floats:
    """The damped Gauss-Newton step within the cube; parameters that would leave it stop at the bound."""
    free = np.ones(len(at), np.bool_)
    held = np.zeros(len(at))  # steps of those that are held at a bound
    for _ in range(len(at)):
        part = slope[:, free]
        normal = part.T @ part
        diagonal = np.diag(normal).copy()
        diagonal = np.maximum(diagonal, 1e-12 * max(float(diagonal.max(initial=0.0)), 1e-300))
        right = -part.T @ (residual + slope[:, ~free] @ held[~free])
        move = np.zeros(len(at))
        move[free] = np.linalg.lstsq(normal + damping * np.diag(diagonal), right, rcond=1e-13)[0]
        move[~free] = held[~free]
        outside = free & ((at + move < 0.0) | (at + move > 1.0))
        if not outside.any():
            return np.clip(at + move, 0.0, 1.0)
        held[outside] = np.clip(at + move, 0.0, 1.0)[outside] - at[outside]
        free &= ~outside
        if not free.any():
            break
    return np.clip(at + held, 0.0, 1.0)

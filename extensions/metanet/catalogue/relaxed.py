"""Minimise a surrogate over decisions: rows of a softmax follow its gradient, one host per task only at the end."""

from __future__ import annotations

import numpy as np

from cosim.contract.records import Flags, Floats, Ints
from cosim.extensions.metanet.catalogue.features import Features, features
from cosim.extensions.metanet.catalogue.networks import DecisionSurrogate
from cosim.extensions.metanet.layers import softmax
from cosim.schedulers.objective import WEIGHT, Scale, powers
from cosim.schedulers.placing import decided, full, packed, settle, spread
from cosim.schedulers.state import State

_STEADY = 6  # steps without another host in any row, after which there is nothing more to find
_CYCLE = 12  # steps from one restart of the rate to the next
_BEGIN = 4.0  # logit of the host that a row begins with


def scales(state: State, scale: Scale, weight: float = WEIGHT) -> tuple[float, float]:
    """What the surrogate's energy and response count in the cost of `objective`."""
    _, most = powers(state)
    return weight * float(most.sum()) / scale.power, (1.0 - weight) * max(len(state.tasks), 1) / scale.tasks


def hard(state: State, found: Ints) -> Floats:
    """(T, H) a decision of one host per task; a row of zeros for one that waits."""
    hosts = full(state, found)
    d = np.zeros((len(hosts), len(state.hosts)))
    rows = np.flatnonzero(hosts >= 0)
    d[rows, hosts[rows]] = 1.0
    return d


def best_of(
    surrogate: DecisionSurrogate,
    f: Features,
    state: State,
    found: list[Ints],
    parts: tuple[float, float],
    caution: float,
) -> Ints:
    """The decision with the least predicted cost; those that leave more tasks waiting only if all do."""
    left = np.array([(full(state, row) < 0).sum() for row in found])
    keep = [row for row, count in zip(found, left, strict=True) if count == left.min()]
    return keep[int(surrogate.objective(f, np.stack([hard(state, row) for row in keep]), parts, caution).argmin())]


class Relaxed:
    """A policy that follows the gradient of a surrogate.

    `second`: steps by the diagonal of the Hessian (AdaHessian, Yao et al. 2021), estimated by Hutchinson's
    method from differences of gradients; otherwise Adam. The rate follows a cosine with restarts.
    """

    def __init__(
        self,
        surrogate: DecisionSurrogate,
        *,
        steps: int = 48,
        rate: float = 1.0,
        caution: float = 0.0,
        second: bool = False,
    ) -> None:
        self.surrogate, self.steps, self.rate, self.caution, self.second = surrogate, steps, rate, caution, second
        self.scale = Scale()

    def __call__(self, state: State) -> Ints:
        """(T,) destinations."""
        self.scale.see(state)
        can = decided(state)
        if not can.any():
            return np.full(len(state.tasks), -1, np.int64)
        f = features(state, self.scale)
        parts = scales(state, self.scale)
        starts = [spread(state), packed(state)]
        first = best_of(self.surrogate, f, state, starts, parts, self.caution)
        ends = self.descend(f, hard(state, first) * _BEGIN, can, parts, state)
        found = [first, *(settle(state, logits) for logits in ends)]
        return best_of(self.surrogate, f, state, found, parts, self.caution)

    def descend(
        self, f: Features, logits: Floats, can: Flags, parts: tuple[float, float], state: State
    ) -> list[Floats]:
        """The logits (T, H) at the end of each cycle of the rate."""
        rng = np.random.Generator(np.random.PCG64(int(2**53 * float(state.tasks["chance"][0]))))
        shut = np.where(f.allowed > 0.0, 0.0, -1e9)
        move = can[:, None] * f.allowed
        mean, square = np.zeros_like(logits), np.zeros_like(logits)
        last, steady = (logits + shut).argmax(axis=1), 0
        ends = []
        for step in range(self.steps):
            slope = self._slope(f, logits + shut, parts) * move
            curve = slope
            if self.second:
                z = rng.integers(0, 2, logits.shape) * 2.0 - 1.0
                z *= move
                curve = z * (self._slope(f, logits + 0.05 * z + shut, parts) * move - slope) / 0.05
            mean = 0.8 * mean + 0.2 * slope
            square = 0.9 * square + 0.1 * curve**2
            down = (mean / (1.0 - 0.8 ** (step + 1))) / (np.sqrt(square / (1.0 - 0.9 ** (step + 1))) + 1e-6)
            rate = self.rate * 0.5 * (1.0 + np.cos(np.pi * (step % _CYCLE) / _CYCLE))
            logits = logits - rate * np.clip(down, -3.0, 3.0)
            now = (logits + shut).argmax(axis=1)
            steady = steady + 1 if (now == last).all() else 0
            last = now
            if (step + 1) % _CYCLE == 0:
                ends.append(logits + shut)
                if steady >= _STEADY:
                    break
        return ends

    def _slope(self, f: Features, logits: Floats, parts: tuple[float, float]) -> Floats:
        d = softmax(np, logits)
        _, slope = self.surrogate.gradient(f, d, parts, self.caution)
        found: Floats = d * (slope - (d * slope).sum(axis=1, keepdims=True))
        return found * len(d)  # as the derivative of a task's own part

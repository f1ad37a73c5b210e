"""The tasks that live nodes get: arrivals and sizes of the scenario's workloads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from adapters.live.check import output, rate_of
from adapters.live.check import sent as sent_of
from adapters.live.config import OffloadBlock
from cosim.contract.entities import Law, Workload


@dataclass(frozen=True, slots=True)
class Arrival:
    """A task that is to be made."""

    at: float  # s, simulated
    device: int  # slot of the node that makes it
    input: int  # B
    output: int  # B
    work: float  # cycles, of all stages
    sent: int  # B that go to the host: the input, or what the stages on board have left of it
    onboard: float = 0.0  # cycles of the stages on board


class Arrivals:
    """The arrivals of one workload, in order. The same generator gives the same ones."""

    def __init__(self, load: Workload, block: OffloadBlock, rng: np.random.Generator) -> None:
        self._load, self._rng = load, rng
        self._sources = [part.first + k for part in load.sources for k in range(part.count)]
        self._rate = rate_of(load, block)
        self._next = load.start + self._pause()

    def until(self, time: float) -> Iterator[Arrival]:
        """Those up to `time` (s) that were not given yet."""
        while self._next <= min(time, self._load.stop):
            load = self._load
            size, back = (int(min(self._draw(law), 2**62)) for law in (load.input, output(load)))
            device = self._sources[int(self._rng.integers(len(self._sources)))]
            if load.graph:
                sent = int(min(self._draw(sent_of(load)), 2**62))
                onboard = sum(self._draw(stage.work) for stage in load.graph if stage.pinned)
                work = onboard + sum(self._draw(stage.work) for stage in load.graph if not stage.pinned)
                yield Arrival(self._next, device, size, back, work, sent, onboard)
            else:
                yield Arrival(self._next, device, size, back, self._draw(load.work), size)
            self._next += self._pause()

    def _pause(self) -> float:
        if self._rate <= 0.0:
            return float("inf")
        mean = 1.0 / self._rate
        return float(self._rng.exponential(mean)) if self._load.arrivals == "poisson" else mean

    def _draw(self, law: Law) -> float:
        if law.law == "fixed":
            return law.a
        if law.law == "exponential":
            return float(self._rng.exponential(law.a))
        return float(self._rng.uniform(law.a, law.b))

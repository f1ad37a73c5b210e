"""The tasks that live nodes get: those that the model would make."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from cosim.adapters.live.config import OffloadBlock
from cosim.contract.entities import Workload
from cosim.engine.continuum.arrivals import SourceTask, TaskSource


class LiveArrivals:
    """The tasks of workload `number`, of all devices that are there, in order of time.

    `seed` is the engine's (`cosim.engine.continuum.arrivals.engine_seed`). Of the tasks, `block.share` are given.
    """

    def __init__(self, seed: int, load: Workload, number: int, block: OffloadBlock) -> None:
        self._seed, self._load, self._number, self._share = seed, load, number, block.share
        self._sources: dict[int, TaskSource] = {}
        self._due: list[tuple[float, int, int]] = []  # a heap: time, slot, generation; old entries of the gone
        self._generation: dict[int, int] = {}
        self.slots = [part.first + k for part in load.sources for k in range(part.count)]  # where tasks come from

    def appear(self, slot: int, generation: int = 0, now: float = 0.0) -> None:
        """Add a member at `slot`, which makes tasks from `now` (s) on."""
        source = self._sources[slot] = TaskSource(self._seed, self._load, self._number, slot, generation, now)
        self._generation[slot] = generation
        heapq.heappush(self._due, (source.next, slot, generation))

    def vanish(self, slot: int) -> None:
        """Remove the member at `slot`."""
        self._sources.pop(slot, None)

    def until(self, time: float) -> Iterator[SourceTask]:
        """Those up to `time` (s) that were not given yet."""
        while self._due and self._due[0][0] <= time:
            _, slot, generation = heapq.heappop(self._due)
            source = self._sources.get(slot)
            if source is None or self._generation[slot] != generation or source.next > time:
                continue
            task = next(source.until(source.next))
            heapq.heappush(self._due, (source.next, slot, generation))
            if task.chance < self._share:
                yield task

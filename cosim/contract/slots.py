"""Who is at which slot of a fleet, while members come and go."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import RunError
from cosim.contract.frame import SlotTable


class SlotBook:
    """Gives the members of one fleet their slots: stable while present, lowest free one on arrival.

    `first` and `capacity` are the fleet's range in the scene, `name` is the fleet's name. A member
    that vanishes frees its slot at once; the slot keeps its id in the table until another member
    takes it, and only then does its generation grow.
    """

    def __init__(self, first: int, capacity: int, name: str) -> None:
        self.first, self.capacity, self.name = first, capacity, name
        self._slot: dict[str, int] = {}  # present id -> offset from `first`
        self._free: list[int] = []  # heap of freed offsets, all below len(_ids)
        self._ids: list[str] = []  # by offset: who is there, or was there last
        self._generation: list[int] = []  # by offset
        self._last: Sequence[str] = ()
        self._last_slots = np.empty(0, np.int32)
        self._table = SlotTable(first, (), np.empty(0, np.int32), 0)
        self._changed = False

    def __len__(self) -> int:
        """Members that are present."""
        return len(self._slot)

    def assign(self, ids: Sequence[str]) -> NDArray[np.int32]:
        """The slots (len(ids),) of exactly those members that are present now, in the order given.

        Members that are missing from `ids` are freed first, then new ones get the lowest free slots
        in the order of `ids`. The array is the caller's own. Raises `RunError` when there are
        more members than the fleet's capacity and `ValueError` for an empty id or one that occurs
        twice; the book is then unusable.
        """
        if ids == self._last:
            return self._last_slots.copy()
        count = len(ids)
        offsets = np.fromiter(map(self._slot.get, ids, repeat(-1)), np.int32, count)
        known = offsets[offsets >= 0]
        present = np.zeros(len(self._ids), bool)
        present[known] = True
        staying = int(np.count_nonzero(present))
        if staying != len(known):
            raise ValueError(self._twice(ids))
        if staying != len(self._slot):
            self._release(present)
        if staying != count:
            self._take(ids, offsets)
        offsets += np.int32(self.first)
        self._last, self._last_slots = list(ids), offsets
        return offsets.copy()

    def table(self) -> SlotTable:
        """The ids of all slots taken so far; the same object until an arrival changes one of them."""
        if self._changed:
            generation = np.array(self._generation, np.int32)
            generation.flags.writeable = False
            self._table = SlotTable(self.first, tuple(self._ids), generation, self._table.epoch + 1)
            self._changed = False
        return self._table

    def _release(self, present: NDArray[np.bool_]) -> None:
        """Free the slots of all members whose offset is not marked in `present`."""
        occupied = np.zeros(len(self._ids), bool)
        occupied[np.fromiter(self._slot.values(), np.int32, len(self._slot))] = True
        for offset in np.flatnonzero(occupied & ~present).tolist():
            del self._slot[self._ids[offset]]
            heapq.heappush(self._free, offset)

    def _take(self, ids: Sequence[str], offsets: NDArray[np.int32]) -> None:
        """Give slots to the members whose entry in `offsets` is negative, and write them there."""
        for row in np.flatnonzero(offsets < 0).tolist():
            member = ids[row]
            if not member or member in self._slot:
                raise ValueError(self._twice(ids) if member else f"a member of fleet '{self.name}' has an empty id")
            if self._free:
                offset = heapq.heappop(self._free)
                if self._ids[offset] != member:
                    self._ids[offset] = member
                    self._generation[offset] += 1
                    self._changed = True
            else:
                offset = len(self._ids)
                if offset == self.capacity:
                    text = (
                        f"fleet '{self.name}' has {len(ids)} members at the same time, its capacity is {self.capacity}"
                    )
                    raise RunError(f"{text}; set nodes.{self.name}.capacity to {len(ids)} or more")
                self._ids.append(member)
                self._generation.append(0)
                self._changed = True
            self._slot[member] = offset
            offsets[row] = offset

    def _twice(self, ids: Sequence[str]) -> str:
        seen: set[str] = set()
        for member in ids:
            if member in seen:
                return f"member '{member}' of fleet '{self.name}' occurs twice at the same time"
            seen.add(member)
        raise AssertionError("no id occurs twice")

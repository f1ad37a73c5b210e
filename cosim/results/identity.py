"""Who was at a slot when: serial numbers for nodes, whatever slots they take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import Scene
from cosim.contract.frame import SlotTable


class SlotHolder(NamedTuple):
    """One taking of a slot: by a static node for the whole run, by a fleet's member for a while."""

    serial: int
    id: str
    fleet: str  # "" for a static node
    slot: int
    generation: int
    first_seen: float  # s


class Identities:
    """Gives every (slot, generation) a serial number, so that rows stay short while running.

    Static nodes have the serials 0..len(nodes)-1. A fleet's members are learned from the slot
    tables of their owner; a slot that shows up in rows but in no table gets the id `<fleet>#<i>`.
    """

    def __init__(self, scene: Scene) -> None:
        static = len(scene.nodes)
        self.members: list[SlotHolder] = [SlotHolder(i, node.id, "", i, 0, 0.0) for i, node in enumerate(scene.nodes)]
        self._scene = scene
        self._previous: list[int] = [-1] * static  # serial -> serial that held the same slot before
        # one place more than slots: slot -1 (no node) indexes the last place, which holds -1
        self._current = np.full(scene.capacity + 1, -1, np.int32)  # slot -> serial
        self._current[:static] = np.arange(static)
        self._generation = np.full(scene.capacity, -1, np.int64)
        self._since = np.zeros(scene.capacity)  # slot -> s, when its present member came
        self._seen = np.full(scene.capacity, np.nan)  # slot -> s, last row of its present member
        self._last: dict[int, float] = {}  # serial -> s, for members that have lost their slot
        self._epochs: dict[int, int] = {}  # first slot of a table -> its epoch
        self._present: dict[int, tuple[NDArray[np.int32], float]] = {}  # the same -> latest rows, not yet in _seen

    def learn(self, table: SlotTable, time: float) -> list[SlotHolder]:
        """The members that are new in `table`, which holds from `time` (s) on."""
        if self._epochs.get(table.first) == table.epoch:
            return []
        self._epochs[table.first] = table.epoch
        generations = self._generation[table.first : table.first + len(table.ids)]
        changed = np.flatnonzero(generations != table.generation)
        taken = [i for i in changed.tolist() if table.ids[i]]
        if not taken:
            return []
        generations[taken] = table.generation[taken]
        slots = np.array(taken) + table.first
        return self._take(slots, [table.ids[i] for i in taken], table.generation[taken].tolist(), time)

    def seen(self, table: SlotTable, slots: NDArray[np.int32], time: float) -> None:
        """The members of `table` at `slots` are present at `time` (s)."""
        # most frames have the rows of the frame before; comparing is ten times cheaper than scattering
        before = self._present.get(table.first)
        if before is not None and np.array_equal(before[0], slots):
            self._present[table.first] = (before[0], time)
            return
        if before is not None:
            self._seen[before[0]] = before[1]
        self._present[table.first] = (slots.copy(), time)

    def serials(self, slots: NDArray[np.int32], out: NDArray[np.int32]) -> None:
        """Write the present serials of `slots` to `out`; slot -1 gives -1."""
        self._current.take(slots, out=out, mode="wrap")

    def strangers(self, slots: NDArray[np.int32], time: float) -> list[SlotHolder]:
        """Serials for those of `slots` that no table has introduced; the new members."""
        unknown = np.unique(slots[(slots >= 0) & (self._current.take(slots, mode="wrap") < 0)])
        if not len(unknown):
            return []
        return self._take(unknown, [self._anonymous(slot) for slot in unknown.tolist()], [0] * len(unknown), time)

    def serials_at(self, slots: NDArray[np.int32], times: NDArray[np.float64], out: NDArray[np.int32]) -> None:
        """As `serials`, but of the node that held slot `slots[i]` at `times[i]` (s), which may have left since."""
        self.serials(slots, out)
        for i in np.flatnonzero((slots >= 0) & (times < self._since.take(slots, mode="clip"))).tolist():
            serial, time = int(out[i]), float(times[i])
            while time < self.members[serial].first_seen and self._previous[serial] >= 0:
                serial = self._previous[serial]
            out[i] = serial

    def last_seen(self) -> dict[int, float]:
        """Serial -> time (s) of the last row in its owner's frames, for members that had one."""
        self._settle()
        present = np.flatnonzero(~np.isnan(self._seen))
        now = zip(self._current[present].tolist(), self._seen[present].tolist(), strict=True)
        return {**self._last, **dict(now)}

    def _take(
        self, slots: NDArray[Any], ids: Sequence[str], generations: Sequence[int], time: float
    ) -> list[SlotHolder]:
        """New members at `slots`, whose members until now have left."""
        self._settle()
        old = self._current[slots]
        gone = slots[(old >= 0) & ~np.isnan(self._seen[slots])]
        self._last.update(zip(self._current[gone].tolist(), self._seen[gone].tolist(), strict=True))
        self._seen[slots] = np.nan
        first = len(self.members)
        fleets = self._fleets(slots)
        new = [
            SlotHolder(first + i, identity, fleet, slot, generation, time)
            for i, (identity, fleet, slot, generation) in enumerate(
                zip(ids, fleets, slots.tolist(), generations, strict=True)
            )
        ]
        self.members += new
        self._previous += old.tolist()
        self._current[slots] = np.arange(first, len(self.members))
        self._since[slots] = time
        return new

    def _settle(self) -> None:
        for slots, time in self._present.values():
            self._seen[slots] = time
        self._present.clear()

    def _fleets(self, slots: NDArray[Any]) -> list[str]:
        """The fleets that own `slots`, "" for static nodes."""
        names = np.full(len(slots), "", object)
        for fleet in self._scene.fleets:
            names[(slots >= fleet.first) & (slots < fleet.first + fleet.capacity)] = fleet.name
        found: list[str] = names.tolist()
        return found

    def _anonymous(self, slot: int) -> str:
        fleet = next((f for f in self._scene.fleets if f.first <= slot < f.first + f.capacity), None)
        return f"slot#{slot}" if fleet is None else f"{fleet.name}#{slot - fleet.first}"


def members_line(members: Sequence[SlotHolder]) -> bytes:
    """Members as one line of JSON; `members_from` reads it back."""
    return json.dumps(members, separators=(",", ":")).encode() + b"\n"


def members_from(line: bytes) -> list[SlotHolder]:
    return [SlotHolder(*fields) for fields in json.loads(line)]

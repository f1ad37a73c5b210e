"""Who was at a slot when: serial numbers for nodes, whatever slots they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.bus.frame import SlotTable
from cosim.plan.entities import Scene


@dataclass(frozen=True, slots=True)
class Member:
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
        self.members: list[Member] = [Member(i, node.id, "", i, 0, 0.0) for i, node in enumerate(scene.nodes)]
        self._scene = scene
        self._previous: list[int] = [-1] * static  # serial -> serial that held the same slot before
        # one place more than slots, so that slot -1 (nobody) finds the last place and reads -1
        self._current = np.full(scene.capacity + 1, -1, np.int32)  # slot -> serial
        self._current[:static] = np.arange(static)
        self._generation = np.full(scene.capacity, -1, np.int64)
        self._since = np.zeros(scene.capacity)  # slot -> s, when its present member came
        self._seen = np.full(scene.capacity, np.nan)  # slot -> s, last row of its present member
        self._last: dict[int, float] = {}  # serial -> s, for members that have lost their slot
        self._epochs: dict[int, int] = {}  # first slot of a table -> its epoch

    def learn(self, table: SlotTable, time: float) -> list[Member]:
        """The members that are new in `table`, which holds from `time` (s) on."""
        if self._epochs.get(table.first) == table.epoch:
            return []
        self._epochs[table.first] = table.epoch
        generations = self._generation[table.first : table.first + len(table.ids)]
        changed = np.flatnonzero(generations != table.generation)
        new = []
        for i in changed.tolist():
            if table.ids[i]:
                generations[i] = table.generation[i]
                new.append(self._take(table.first + i, table.ids[i], int(table.generation[i]), time))
        return new

    def seen(self, slots: NDArray[np.int32], time: float) -> None:
        """The members at `slots` are present at `time` (s)."""
        self._seen[slots] = time

    def serials(self, slots: NDArray[np.int32], out: NDArray[np.int32]) -> None:
        """Write the present serials of `slots` to `out`; slot -1 gives -1."""
        self._current.take(slots, out=out, mode="wrap")

    def strangers(self, slots: NDArray[np.int32], time: float) -> list[Member]:
        """Serials for those of `slots` that no table has introduced; the new members."""
        unknown = np.unique(slots[(slots >= 0) & (self._current.take(slots, mode="wrap") < 0)])
        return [self._take(slot, self._anonymous(slot), 0, time) for slot in unknown.tolist()]

    def serials_at(self, slots: NDArray[np.int32], times: NDArray[np.float64], out: NDArray[np.int32]) -> None:
        """As `serials`, but whoever held slot `slots[i]` at `times[i]` (s), which may have left since."""
        self.serials(slots, out)
        for i in np.flatnonzero((slots >= 0) & (times < self._since.take(slots, mode="clip"))).tolist():
            serial, time = int(out[i]), float(times[i])
            while time < self.members[serial].first_seen and self._previous[serial] >= 0:
                serial = self._previous[serial]
            out[i] = serial

    def last_seen(self) -> dict[int, float]:
        """Serial -> time (s) of the last row in its owner's frames, for members that had one."""
        present = np.flatnonzero(~np.isnan(self._seen))
        now = zip(self._current[present].tolist(), self._seen[present].tolist(), strict=True)
        return {**self._last, **dict(now)}

    def _take(self, slot: int, identity: str, generation: int, time: float) -> Member:
        old = int(self._current[slot])
        if old >= 0 and not np.isnan(self._seen[slot]):
            self._last[old] = float(self._seen[slot])
            self._seen[slot] = np.nan
        static = slot < len(self._scene.nodes)
        member = Member(len(self.members), identity, "" if static else self._fleet(slot), slot, generation, time)
        self.members.append(member)
        self._previous.append(old)
        self._current[slot] = member.serial
        self._since[slot] = time
        return member

    def _fleet(self, slot: int) -> str:
        return next((f.name for f in self._scene.fleets if f.first <= slot < f.first + f.capacity), "")

    def _anonymous(self, slot: int) -> str:
        fleet = next((f for f in self._scene.fleets if f.first <= slot < f.first + f.capacity), None)
        return f"slot#{slot}" if fleet is None else f"{fleet.name}#{slot - fleet.first}"


def member_line(member: Member) -> list[Any]:
    """`member` as a JSON line's content; `member_from` reads it back."""
    return [member.serial, member.id, member.fleet, member.slot, member.generation, member.first_seen]


def member_from(line: list[Any]) -> Member:
    serial, identity, fleet, slot, generation, first_seen = line
    return Member(int(serial), str(identity), str(fleet), int(slot), int(generation), float(first_seen))

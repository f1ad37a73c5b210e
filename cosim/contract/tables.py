"""What a fleet's slot tables must keep to from frame to frame, so that no reader mixes up two members."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import Scene
from cosim.contract.frame import Frame, SlotTable


class Names:
    """Who bears which id in a scene, and when a slot gets another member; one for all adapters of a run."""

    def __init__(self, scene: Scene) -> None:
        self._holders = {node.id: -1 for node in scene.nodes}  # id -> first slot of its fleet, -1: a static node
        self._borne: dict[int, set[str]] = {}  # by the first slot of a fleet
        self.on_reborn: list[Callable[[NDArray[np.intp]], None]] = []  # called with slots that have another member

    def take(self, table: SlotTable, before: SlotTable | None) -> str:
        """Note the ids of a new `table` of a fleet in the place of those `before`; why that cannot be, or ""."""
        ids, known = set(table.ids) - {""}, self._borne.get(table.first, set())
        for name in ids - known:
            if not isinstance(name, str):
                return f"has the id {name!r}, a {type(name).__name__} and not a text"
            if not name.isascii() and not valid_text(name):
                return f"has the id {name!a}, which is no valid text"
            if (holder := self._holders.get(name, table.first)) != table.first:
                return f"has the id '{name}', which {'a node' if holder < 0 else 'a member of another fleet'} bears"
        for name in known - ids:
            del self._holders[name]
        self._holders |= dict.fromkeys(ids - known, table.first)
        self._borne[table.first] = ids
        if before is not None:
            grown = np.flatnonzero(table.generation[: len(before.ids)] != before.generation)
            for hear in self.on_reborn if len(grown) else ():
                hear(grown + table.first)
        return ""


class TableCheck:
    """Follows the tables and rows that one adapter publishes about the fleets it owns.

    `look(frame)` returns what is wrong, "" if nothing is. Between two changes of a table it costs
    two comparisons of the rows' slots; only a new table is read in full.
    """

    def __init__(self, adapter: str, scene: Scene, names: Names | None = None) -> None:
        self._names = names or Names(scene)
        self._fleets = {fleet.first: fleet for fleet in scene.fleets if fleet.adapter == adapter}
        self._tables: dict[int, SlotTable] = {}  # the last ones as given, by first slot
        self._frozen: dict[int, SlotTable] = {}  # copies of them, which their owner cannot change
        self._named: dict[int, NDArray[np.bool_]] = {}  # which places have an id
        self._numbers: dict[int, NDArray[np.int64] | None] = {}  # equal ids have equal numbers; None: all differ
        self._shown: dict[int, tuple[SlotTable, NDArray[np.int32]]] = {}  # table and slots that were good last

    def look(self, frame: Frame) -> str:
        """What is wrong with the table of `frame`, or with its rows about a fleet of the adapter's own."""
        if frame.table is None:
            if frame.signal == "mobility" and any(len(self._rows(frame, first)) for first in self._fleets):
                return "the mobility frame has rows of the adapter's own fleet but no table"
            return ""
        wrong = self._table(frame.table) or self._present(frame, frame.table)
        return f"the table of '{frame.signal}' {wrong}" if wrong else ""

    def generation(self, slots: NDArray[np.int32]) -> NDArray[np.int64]:
        """The generation of the member at each of `slots`, 0 for slots that are in no table."""
        found = np.zeros(len(slots), np.int64)
        for first, table in self._frozen.items():
            inside = (slots >= first) & (slots < first + len(table.ids))
            found[inside] = table.generation[slots[inside] - first]
        return found

    def kept(self, table: SlotTable) -> SlotTable:
        """A copy of `table`, which was found good, that its owner cannot change."""
        return self._frozen[table.first]

    @property
    def owner(self) -> bool:
        """Whether a table has been shown."""
        return bool(self._frozen)

    def _rows(self, frame: Frame, first: int) -> NDArray[np.int32]:
        """Places in the fleet that starts at `first` that have a row in `frame`."""
        slot, end = frame.slot, first + self._fleets[first].capacity
        if len(slot) and (slot.min() < first or slot.max() >= end):
            slot = slot[(slot >= first) & (slot < end)]
        rows: NDArray[np.int32] = slot - np.int32(first)
        return rows

    def _table(self, table: SlotTable) -> str:
        if not isinstance(table, SlotTable):
            return f"is a {type(table).__name__}, not a SlotTable"
        before = self._tables.get(table.first) if isinstance(table.first, int) else None
        if table is before and not table.generation.flags.writeable:
            return ""
        fleet = self._fleets.get(table.first) if isinstance(table.first, int) else None
        if fleet is None:
            return f"starts at slot {table.first}, where no fleet of this adapter starts"
        n = len(table.ids)
        if n > fleet.capacity:
            return f"has {n} ids for a fleet of {fleet.capacity}"
        if type(table.generation) is not np.ndarray or table.generation.shape != (n,):
            return "must have one int32 generation per id"
        if table.generation.dtype != np.int32 or not isinstance(table.epoch, (int, np.integer)):
            return "must have int32 generations and a whole number as its epoch"
        last = self._frozen.get(table.first)
        wrong = _change(last, table) if last is not None else ""
        if wrong:
            return wrong
        if last is None or last.epoch != table.epoch:
            if wrong := self._names.take(table, last):
                return wrong
            self._learn(table)
        self._tables[table.first] = table
        return ""

    def _learn(self, table: SlotTable) -> None:
        first, ids = table.first, table.ids
        self._frozen[first] = SlotTable(first, tuple(ids), table.generation.copy(), table.epoch)
        self._named[first] = np.fromiter(map(bool, ids), np.bool_, len(ids))
        numbers = {name: number for number, name in enumerate(ids)}
        alike = len(numbers) + ids.count("") - bool(ids.count("")) != len(ids)
        self._numbers[first] = np.fromiter(map(numbers.__getitem__, ids), np.int64, len(ids)) if alike else None

    def _present(self, frame: Frame, table: SlotTable) -> str:
        known = self._shown.get(table.first)
        if known is not None and known[0] is self._frozen[table.first] and np.array_equal(known[1], frame.slot):
            return ""
        rows = self._rows(frame, table.first)
        if not len(rows):
            return ""
        if rows.max() >= len(table.ids) or not self._named[table.first][rows].all():
            return "has no id for a slot that has a row"
        numbers = self._numbers[table.first]
        if numbers is not None and len(np.unique(numbers[rows])) != len(np.unique(rows)):
            return "gives one id to two members that are present"
        self._shown[table.first] = (self._frozen[table.first], frame.slot.copy())
        return ""


def same_table(a: SlotTable | None, b: SlotTable | None) -> bool:
    """Whether two frames introduce the same ids."""
    if a is None or b is None:
        return a is b
    same_range = a.first == b.first and a.ids == b.ids and a.epoch == b.epoch
    return same_range and np.array_equal(a.generation, b.generation)


def _change(before: SlotTable, after: SlotTable) -> str:
    """What is wrong with the step from one table to the next."""
    if after.epoch == before.epoch:
        return "" if same_table(before, after) else "has changed while its epoch has not"
    n = len(before.ids)
    if len(after.ids) < n:
        return "has become shorter"
    if np.any(after.generation[:n] < before.generation):
        return "has a generation that shrinks"
    same = (after.generation[:n] == before.generation).tolist()
    if any(held and a and a != b for held, a, b in zip(same, before.ids, after.ids, strict=False)):
        return "gives a slot to another id without a new generation"
    return ""


def valid_text(text: str) -> bool:
    """Whether a file can hold `text`: not half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

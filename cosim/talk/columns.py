"""Frames as messages: the raw columns are the buffers behind a message, and its body describes them.

The buffers follow as further ZeroMQ parts or lie in shared memory (`cosim.talk.memory`). Everything is checked on
arrival: invalid input raises `ProtocolError` and nothing else.

Slot tables travel as differences. Both ends of a connection remember the last table per fleet, so
an unchanged epoch costs one number, and the reader gets the very same `SlotTable` object.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import compress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from cosim.contract.adapter import Inputs
from cosim.contract.entities import Event
from cosim.contract.errors import ProtocolError
from cosim.contract.frame import Array, Frame, SlotTable
from cosim.talk.codec import MAX_BUFFER_BYTES

DTYPES = frozenset(
    np.dtype(name).str
    for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()  # noqa: SIM905
)
_INT32 = np.dtype(np.int32).str

T = TypeVar("T")


class Buffers:
    """The buffers of a message that arrived, taken one after another as read-only arrays.

    `parts` are (object with the buffer protocol, offset in bytes) pairs, one per size in the header.
    """

    def __init__(self, parts: Sequence[tuple[Any, int]], sizes: Sequence[int]) -> None:
        expect(len(parts) == len(sizes), f"it has {len(parts)} buffers, its header names {len(sizes)}")
        self._parts = parts
        self._sizes = sizes
        self._next = 0

    @classmethod
    def of(cls, parts: Sequence[memoryview], sizes: Sequence[int]) -> Buffers:
        """Buffers that came as message parts of their own."""
        expect([part.nbytes for part in parts] == list(sizes), "its buffers have not the lengths that its header names")
        return cls([(part, 0) for part in parts], sizes)

    def take(self, dtype: str, rows: int) -> Array:
        """The next buffer as (rows,) array; a view unless its memory is not aligned."""
        expect(self._next < len(self._sizes), "it has fewer buffers than its frames need")
        kind = np.dtype(dtype)
        if self._sizes[self._next] != rows * kind.itemsize:  # not `expect`: the text costs more than the rest
            raise ProtocolError(f"the far end sent a buffer that is not {rows} values of {kind}")
        part, offset = self._parts[self._next]
        self._next += 1
        array: Array = np.frombuffer(part, kind, rows, offset) if rows else np.empty(0, kind)
        if not array.flags.aligned:  # compiled code would need a version of its own for such an array
            array = array.copy()
        array.flags.writeable = False
        return array

    def end(self) -> None:
        """Check that nothing is left."""
        expect(self._next == len(self._sizes), "it has more buffers than its frames need")


@dataclass(frozen=True, slots=True)
class SentTable:
    """What to remember of a sent table to find what is new in the next one."""

    epoch: int
    generation: NDArray[np.int32]
    empty: list[int]  # indices of the slots that were never taken


class Encoder:
    """Turns frames into header items and arrays; remembers the tables that the far end has."""

    def __init__(self) -> None:
        self._sent: dict[int, SentTable] = {}  # by first slot

    def frames(self, frames: Iterable[Frame], arrays: list[Array]) -> list[list[Any]]:
        """The header items of `frames`; their arrays are appended to `arrays`."""
        return [self._frame(frame, arrays) for frame in frames]

    def inputs(self, inputs: Inputs, arrays: list[Array]) -> list[object]:
        """The header item of `inputs`."""
        frames = [[signal, self.frames(of, arrays)] for signal, of in inputs.frames.items()]
        return [frames, [asdict(event) for event in inputs.events]]

    def _frame(self, frame: Frame, arrays: list[Array]) -> list[Any]:
        if not isinstance(frame, Frame):
            raise ProtocolError(f"expected a Frame, found a {type(frame).__name__}")
        arrays.append(_sendable(frame.slot, frame, "slot", len(frame.slot)))
        columns: list[str] = []
        for name, column in frame.columns.items():
            arrays.append(_sendable(column, frame, name, len(frame.slot)))
            columns += (str(name), column.dtype.str)
        table = None if frame.table is None else self._table(frame.table, arrays)
        return [frame.signal, float(frame.time), len(frame.slot), frame.slot.dtype.str, columns, table]

    def _table(self, table: SlotTable, arrays: list[Array]) -> list[object]:
        sent = self._sent.get(table.first)
        if sent is not None and sent.epoch == table.epoch:
            return [table.first, table.epoch]
        generation = np.array(table.generation, np.int32)  # a copy: it is compared with at the next change
        if generation.shape != (len(table.ids),):
            raise ProtocolError(f"slot table at {table.first}: {generation.shape} generations for {len(table.ids)} ids")
        if sent is not None and len(sent.generation) == len(table.ids):
            changed = changes(sent, table.ids, generation)
            empty = [i for i in sent.empty if not table.ids[i]]
            self._sent[table.first] = SentTable(table.epoch, generation, empty)
            if len(changed) * 2 < len(table.ids):
                arrays += (changed, generation[changed])
                ids = [table.ids[i] for i in changed.tolist()]
                return [table.first, table.epoch, len(table.ids), ids, sent.epoch]
        else:
            empty = [i for i, text in enumerate(table.ids) if not text]
            self._sent[table.first] = SentTable(table.epoch, generation, empty)
        arrays.append(generation)
        return [table.first, table.epoch, len(table.ids), list(table.ids), None]


def changes(sent: SentTable, ids: Sequence[str], generation: NDArray[np.int32]) -> NDArray[np.int32]:
    """Ascending indices at which a table of the same length differs from the one that was sent.

    An id changes together with its generation, or when its slot is taken for the first time.
    Comparing the texts would cost 15 ms of CPU for 100,000 of them, mostly in cache misses.
    """
    differ = sent.generation != generation
    differ[list(compress(sent.empty, map(ids.__getitem__, sent.empty)))] = True
    return np.flatnonzero(differ).astype(np.int32)


class Decoder:
    """Turns header items and buffers back into frames; remembers the last table of every fleet."""

    def __init__(self, tables: dict[int, SlotTable] | None = None) -> None:
        self._tables = {} if tables is None else tables  # by first slot
        self._ids: dict[int, list[str]] = {}  # the ids of each, to be changed

    def frames(self, items: object, buffers: Buffers) -> list[Frame]:
        """Frames whose columns are read-only views of `buffers`."""
        return [self._frame(item, buffers) for item in expect_list(items, "frames")]

    def inputs(self, item: object, buffers: Buffers) -> Inputs:
        """Inputs whose frames are read-only views of `buffers`."""
        frames_item, events_item = expect_list(item, "inputs", 2)
        frames = {}
        for pair in expect_list(frames_item, "inputs"):
            signal, items = expect_list(pair, "input", 2)
            expect(type(signal) is str, "a signal's name is not a text")
            frames[signal] = self.frames(items, buffers)
        return Inputs(frames, decode(tuple[Event, ...], events_item) if events_item else ())

    def _frame(self, item: object, buffers: Buffers) -> Frame:
        signal, time, rows, dtype, pairs, table_item = expect_list(item, "frame", 6)
        expect(type(signal) is str and type(time) is float, "a frame has no signal or time")
        expect(type(rows) is int and rows >= 0, "a frame's number of rows is not a number")
        expect(type(dtype) is str and dtype in DTYPES, "the type of a slot column is not allowed")
        slot = buffers.take(dtype, rows)
        columns: dict[str, Array] = {}
        names = expect_list(pairs, "columns")
        expect(len(names) % 2 == 0, "a column has no type")
        for name, kind in zip(names[::2], names[1::2], strict=True):
            expect(type(name) is str and name not in columns, "a column has no name of its own")
            expect(type(kind) is str and kind in DTYPES, "the type of a column is not allowed")
            columns[name] = buffers.take(kind, rows)
        table = None if table_item is None else self._table(table_item, buffers)
        return Frame(signal, time, slot, columns, table)

    def _table(self, item: object, buffers: Buffers) -> SlotTable:
        parts = expect_list(item, "slot table")
        expect(len(parts) in (2, 5), "a slot table has neither two nor five parts")
        first, epoch = parts[:2]
        expect(type(first) is int and first >= 0 and type(epoch) is int, "a slot table has no first slot or epoch")
        last = self._tables.get(first)
        if len(parts) == 2:
            expect(last is not None and last.epoch == epoch, f"slot table at {first}: epoch {epoch} was never sent")
            assert last is not None
            return last
        count, ids, base = parts[2:]
        expect(type(count) is int and 0 <= count <= MAX_BUFFER_BYTES, "a slot table's length is not a number")
        expect(type(ids) is list and all(type(text) is str for text in ids), "an id is not a text")
        if base is None:
            expect(len(ids) == count, "a slot table has not as many ids as slots")
            self._ids[first] = ids
            table = SlotTable(first, tuple(ids), buffers.take(_INT32, count), epoch)
        else:
            expect(last is not None and last.epoch == base and len(last.ids) == count, "a slot table's base is unknown")
            assert last is not None
            changed = buffers.take(_INT32, len(ids))
            inside = not len(ids) or (changed[0] >= 0 and changed[-1] < count and bool((np.diff(changed) > 0).all()))
            expect(inside, "a slot table changes slots that it does not have")
            known, generation = self._ids[first], last.generation.copy()
            for i, text in zip(changed.tolist(), ids, strict=True):
                known[i] = text
            generation[changed] = buffers.take(_INT32, len(ids))
            table = SlotTable(first, tuple(known), generation, epoch)
        # a table outlives the message that brought it, and the memory of a message does not
        generation = table.generation.copy()
        generation.flags.writeable = False
        table = SlotTable(first, table.ids, generation, epoch)
        self._tables[first] = table
        return table


def decode(kind: type[T], item: object) -> T:
    """The dataclass (or tuple of them) `kind` that `as_plain` turned into `item`."""
    try:
        checked: T = _adapter(kind).validate_python(item)  # type: ignore[arg-type]  # types are hashable
        return checked
    except (ValueError, TypeError, RecursionError) as error:
        raise ProtocolError(f"the far end sent no valid {getattr(kind, '__name__', kind)}: {error}") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type that pydantic can check
    return TypeAdapter(kind)


def _sendable(array: object, frame: Frame, name: str, rows: int) -> Array:
    if not isinstance(array, np.ndarray):
        raise ProtocolError(f"{frame.signal}.{name} must be a numpy array, not {type(array).__name__}")
    if array.dtype.str not in DTYPES:
        raise ProtocolError(f"{frame.signal}.{name} has the type {array.dtype}, which does not travel")
    if array.shape != (rows,):
        raise ProtocolError(f"{frame.signal}.{name} has the shape {array.shape}, expected {(rows,)}")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def expect(condition: object, what: str) -> None:
    """Raise `ProtocolError` because of `what` unless `condition` holds."""
    if not condition:
        raise ProtocolError(f"the far end sent a message that breaks the protocol: {what}")


def expect_list(item: object, what: str, length: int | None = None) -> list[Any]:
    """`item`, which must be a list (of that length)."""
    if type(item) is not list or (length is not None and len(item) != length):
        raise ProtocolError(f"the far end sent a message that breaks the protocol: {what} is not a list as expected")
    return item

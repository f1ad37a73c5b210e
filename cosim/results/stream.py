"""Rows on their way to disk while the run goes on: chunks, and the thread that writes them.

The tick's thread copies rows into a preallocated chunk; a full chunk goes to the writer's thread,
which appends it to an Arrow IPC stream file without copying, and comes back empty. A large frame is
not copied: its columns stay valid until its producer's step after the next one, so the writer takes
them from where they are, and the recorder waits for that before it lets the next frame pass. A
stream owns a fixed number of chunks, so memory stays flat, and the run waits (it never drops) when
the disk is slower than the run. The files are not compressed: with lz4 a batch of 116,000 rows of
four floats takes 5 to 8 ms of processor time instead of 2 to 4.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cosim.contract.errors import RunError
from cosim.contract.frame import Array
from cosim.contract.signals import Column, Signal
from cosim.results.identity import SlotHolder, members_line

CHUNK_BYTES = 4 * 2**20
DIRECT_BYTES = 2**20  # frames of this size and more are not copied
CHUNKS = 3  # per stream: one is filled, one is written, one is between the two
SUFFIX = ".arrows"
_PATIENCE = 120.0  # s that the run waits for the disk before it reports this
_RUNS = b"runs"  # key of a batch's metadata: times and row counts


@dataclass(frozen=True, slots=True)
class Spec:
    """What a stream file holds; travels in the file's own header."""

    signal: str
    rows: str  # "node" or "event"
    adapter: str
    columns: tuple[Column, ...]

    @staticmethod
    def of(signal: Signal, adapter: str, keep: tuple[str, ...], workloads: tuple[str, ...]) -> Spec:
        """The columns `keep` of `signal` (() for all), with the names of workload codes filled in."""
        columns = []
        for column in signal.columns:
            if not keep or column.name in keep:
                codes = workloads if column.codes == "workloads" else column.codes
                filled = Column(column.name, column.dtype, column.unit, column.meaning, column.role, codes)
                columns.append(filled)
        return Spec(signal.name, signal.rows, adapter, tuple(columns))

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(text: bytes) -> Spec:
        data = json.loads(text)
        columns = tuple(Column(**{**column, "codes": tuple(column["codes"])}) for column in data["columns"])
        return Spec(data["signal"], data["rows"], data["adapter"], columns)

    def stored(self, column: Column) -> np.dtype[Any]:
        """dtype of a column in the stream: serials for slots, bytes for truth values."""
        if column.role == "slot":
            return np.dtype(np.int32)
        dtype = np.dtype(column.dtype)
        return np.dtype(np.uint8) if dtype == np.bool_ else dtype

    def schema(self) -> pa.Schema:
        fields = [pa.field("serial", pa.int32())]
        fields += [pa.field(c.name, pa.from_numpy_dtype(self.stored(c))) for c in self.columns]
        return pa.schema(fields, metadata={b"spec": self.encode()})


class Chunk:
    """Rows on their way to the file, with the times that runs of them hold for.

    Either up to `capacity` rows in columns of its own (`Chunk(spec)`), or the rows of one large
    frame, whose columns are written from where they are (`capacity` 0).
    """

    def __init__(self, spec: Spec, *, borrow: bool = False) -> None:
        width = 4 + sum(spec.stored(column).itemsize for column in spec.columns)
        self.capacity = 0 if borrow else max(1, CHUNK_BYTES // width)
        self.serial = np.empty(self.capacity, np.int32)
        self.columns: dict[str, Array] = {c.name: np.empty(self.capacity, spec.stored(c)) for c in spec.columns}
        self.clear()

    def clear(self) -> None:
        self.rows = 0
        self.times: list[float] = []  # s, one per run of rows
        self.counts: list[int] = []  # rows of that run

    def add(self, time: float, count: int) -> None:
        """`count` rows that hold for `time` have been put behind those that were there."""
        self.times.append(time)
        self.counts.append(count)
        self.rows += count

    def room(self, rows: int) -> None:
        """Make place for `rows` rows in the columns that are this chunk's own when it borrows."""
        if len(self.serial) < rows:
            self.serial = np.empty(rows, np.int32)

    def batch(self, schema: pa.Schema) -> tuple[pa.RecordBatch, dict[bytes, bytes]]:
        """The rows as a batch over the columns' own memory, and the metadata that goes with it."""
        n = self.rows
        arrays = [
            pa.Array.from_buffers(field.type, n, [None, pa.py_buffer(column[:n])])
            for field, column in zip(schema, (self.serial, *self.columns.values()), strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema), {_RUNS: pack_runs(self.times, self.counts)}


def pack_runs(times: list[float], counts: list[int]) -> bytes:
    return np.array(times, "<f8").tobytes() + np.array(counts, "<i8").tobytes()


def unpack_runs(metadata: Mapping[bytes, bytes]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The times (s) and row counts of a batch's runs."""
    data = metadata[_RUNS]
    half = len(data) // 2
    return np.frombuffer(data[:half], "<f8"), np.frombuffer(data[half:], "<i8")


class SignalStream:
    """One signal of one adapter: its chunks and its file."""

    def __init__(self, spec: Spec, path: Path) -> None:
        self.spec = spec
        self.path = path
        self.schema = spec.schema()
        self.rows = 0  # handed to the writer so far
        self.free: queue.Queue[Chunk] = queue.Queue()
        self.lent: queue.Queue[Chunk] = queue.Queue()  # holds the borrowing chunk while it is not in use
        self.lent.put(Chunk(spec, borrow=True))
        self.chunk: Chunk | None = None  # the one that is filled now
        self.opened = 0.0  # monotonic s of its first row
        self._made = 0
        self._sink: Any = None  # pyarrow has no types
        self._writer: Any = None

    def next_chunk(self, fail: Callable[[], None]) -> Chunk:
        """The chunk to fill. Waits for the writer while all are under way; `fail` raises if it died."""
        if self.chunk is None:
            if self.free.empty() and self._made < CHUNKS:
                self._made += 1
                self.chunk = Chunk(self.spec)
            else:
                self.chunk = self._wait(self.free, fail)
            self.opened = monotonic()
        return self.chunk

    def borrowing_chunk(self, fail: Callable[[], None]) -> Chunk:
        """The chunk for a large frame. Waits until the frame before it is written."""
        return self._wait(self.lent, fail)

    def settle(self, fail: Callable[[], None]) -> None:
        """Wait until no frame's own columns are being written."""
        self.lent.put(self._wait(self.lent, fail))

    def give_back(self, chunk: Chunk) -> None:
        """`chunk` is written (in the writer's thread)."""
        chunk.clear()
        (self.free if chunk.capacity else self.lent).put(chunk)

    def _wait(self, source: queue.Queue[Chunk], fail: Callable[[], None]) -> Chunk:
        limit = monotonic() + _PATIENCE
        while True:
            fail()
            try:
                return source.get(timeout=0.5)
            except queue.Empty:
                if monotonic() > limit:
                    raise RunError(
                        f"the run has waited {_PATIENCE:g} s for {self.path} to be written; the disk does not answer"
                    ) from None

    def write(self, chunk: Chunk, opener: Callable[[Path], Any]) -> None:
        """Append `chunk` to the file (in the writer's thread)."""
        if self._writer is None:
            self._sink = opener(self.path)
            self._writer = pa.ipc.new_stream(self._sink, self.schema)
        batch, metadata = chunk.batch(self.schema)
        self._writer.write_batch(batch, custom_metadata=metadata)

    def finish(self, opener: Callable[[Path], Any]) -> None:
        """End the file properly; it exists afterwards even when no row came."""
        if self._writer is None:
            self._sink = opener(self.path)
            self._writer = pa.ipc.new_stream(self._sink, self.schema)
        self._writer.close()
        self._sink.close()

    def abandon(self) -> None:
        """Let go of the file as it is."""
        with contextlib.suppress(OSError):
            if self._sink is not None:
                self._sink.close()


def open_file(path: Path) -> Any:  # noqa: ANN401 - pyarrow has no types
    return pa.OSFile(str(path), "wb")


class StreamWriter:
    """The thread that writes chunks and new members in the order in which they were handed over.

    After a failure it writes nothing more, but keeps accepting items (so that no producer waits for
    ever), and holds the error with the file in which it occurred.
    """

    def __init__(self, members: Path, opener: Callable[[Path], Any] = open_file) -> None:
        self.failure: tuple[Path, OSError] | None = None
        self._opener = opener
        self._path = members
        self._members: BinaryIO | None = None
        self._queue: queue.SimpleQueue[tuple[SignalStream, Chunk] | list[SlotHolder] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def put(self, item: tuple[SignalStream, Chunk] | list[SlotHolder]) -> None:
        self._queue.put(item)

    def stop(self, streams: list[SignalStream]) -> None:
        """Write what is left, end the files and the thread."""
        self._queue.put(None)
        self._thread.join()
        for stream in streams:
            if self.failure is None:
                self._attempt(stream.path, lambda stream=stream: stream.finish(self._opener))  # type: ignore[misc]
            else:
                stream.abandon()
        if self._members is not None:
            with contextlib.suppress(OSError):
                self._members.close()

    def end(self, patience: float) -> None:
        """Write what is left within `patience` s and leave the files as they are then."""
        self._queue.put(None)
        self._thread.join(patience)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, list):
                self._attempt(self._path, lambda item=item: self._introduce(item))  # type: ignore[misc]
                continue
            stream, chunk = item
            self._attempt(stream.path, lambda s=stream, c=chunk: s.write(c, self._opener))  # type: ignore[misc]
            stream.give_back(chunk)

    def _attempt(self, path: Path, act: Callable[[], None]) -> None:
        if self.failure is not None:
            return
        try:
            act()
        except OSError as error:
            self.failure = (path, error)
        except Exception as error:  # noqa: BLE001 - whatever it was, these rows are not on the disk
            self.failure = (path, OSError(f"{type(error).__name__}: {error}"))

    def _introduce(self, members: list[SlotHolder]) -> None:
        if self._members is None:
            self._members = self._path.open("ab", buffering=0)
        view = memoryview(members_line(members))
        while view:
            view = view[self._members.write(view) or 0 :]

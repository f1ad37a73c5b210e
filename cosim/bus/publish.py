"""Show a run to observers without ever waiting for them.

The run publishes its frames; viewers and exporters subscribe. An observer that is slower than the
run sees the newest frames only: older ones are dropped, by design and without a word. Every message
stands for itself, slot tables included, so an observer may come late, miss messages and see another
run at the same address: the scene (`cosim.bus.describe`) and the run's state travel along, so that
the address is all that an observer needs. While nobody observes, publishing costs next to nothing.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import msgpack
import numpy as np
import zmq

from cosim.bus.describe import pack_scene, unpack_scene
from cosim.bus.frame import Array, Frame, SlotTable
from cosim.bus.memory import ALIGN, layout
from cosim.bus.wire import (
    MAX_MESSAGE,
    Buffers,
    Decoder,
    Encoder,
    WireError,
    check_size,
    expect,
    expect_list,
    pack,
    seconds,
    unpack,
)
from cosim.errors import SetupError

LINGER = 200  # ms that the last message of a run is still offered after its end
WAITING = 2  # messages kept for an observer whose connection is full


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a run published at one tick."""

    tick: int
    time: float  # s, simulated
    frames: tuple[Frame, ...]
    run: bytes = b""  # tells runs at the same address from each other
    scene: Mapping[str, Any] = field(default_factory=dict)  # `describe` of its plan, {} when it said nothing
    state: Mapping[str, Any] = field(default_factory=dict)  # what the run says of itself: JSON values


class _End:
    """One end of the connection; it can be closed twice, and is when the block that it stands for ends."""

    _socket: zmq.Socket[bytes]

    def close(self) -> None:
        """Stop publishing, or observing."""
        self._socket.close(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Publisher(_End):
    """The run's side, at `address` (the system chooses the port for tcp://127.0.0.1:*).

    `scene` describes the run to observers (`cosim.bus.describe.describe`).
    """

    def __init__(self, address: str = "tcp://127.0.0.1:*", scene: Mapping[str, Any] | None = None) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.XPUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, WAITING)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self._socket.close(0)
            raise SetupError(f"cannot publish at {address}: {error}") from error
        self.address: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.describe(scene or {})
        self._run = os.urandom(8)  # tells the tables of this run from those of another one at the same address
        self._tables: dict[int, tuple[int, bytes]] = {}  # by first slot: epoch, encoded
        self._observed = False

    def close(self) -> None:
        """Stop publishing."""
        self._socket.close(LINGER)

    @property
    def observed(self) -> bool:
        """Whether there is an observer."""
        while self._socket.poll(0):
            self._observed = self._socket.recv(zmq.NOBLOCK)[:1] == b"\x01"
        return self._observed

    def describe(self, scene: Mapping[str, Any]) -> None:
        """Have `scene` travel with every message from now on; observers take the first one they see of a run."""
        self._scene = pack_scene(scene) if scene else b""

    def publish(
        self, tick: int, time: float, frames: Iterable[Frame], state: Callable[[], Mapping[str, Any]] = dict
    ) -> bool:
        """Offer `frames` to the observers; whether there are any. `state` is asked only if there are."""
        if not self.observed:
            return False
        arrays: list[Array] = []
        items, tables = [], {}
        for frame in frames:
            bare = Frame(frame.signal, frame.time, frame.slot, frame.columns)
            first = None
            if frame.table is not None:
                first = frame.table.first
                tables[first] = [first, frame.table.epoch, self._encoded(frame.table)]
            items.append([*Encoder().frames([bare], arrays), first])
        check_size(arrays)
        body = [self._run, float(time), items, list(tables.values()), self._scene, dict(state())]
        head = pack("frames", tick, body, arrays)
        self._socket.send(assemble(head, arrays), zmq.NOBLOCK, copy=False)
        return True

    def _encoded(self, table: SlotTable) -> bytes:
        known = self._tables.get(table.first)
        if known is None or known[0] != table.epoch:
            generation = np.ascontiguousarray(table.generation, np.int32).tobytes()
            known = self._tables[table.first] = (table.epoch, msgpack.packb([table.ids, generation]))
        return known[1]


class Subscriber(_End):
    """An observer's side of the publisher at `address`."""

    def __init__(self, address: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.SUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, 2 * MAX_MESSAGE)
        self._socket.setsockopt(zmq.CONFLATE, 1)  # keeps the newest message only
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self._socket.close(0)
            raise SetupError(f"cannot observe {address}: {error}") from error
        self._run = b""
        self._scene: Mapping[str, Any] = {}
        self._tables: dict[int, SlotTable] = {}

    def latest(self, timeout: float) -> Snapshot | None:
        """What was published last and not seen yet; None when nothing comes within `timeout` s."""
        if not self._socket.poll(max(int(timeout * 1e3), 0)):
            return None
        verb, tick, body, buffers = disassemble(self._socket.recv(copy=False).buffer)
        expect(verb == "frames", "it is not a publication")
        run, time, items, tables, scene, state = expect_list(body, "publication", 6)
        expect(type(run) is bytes, "a publication names no run")
        expect(type(scene) is bytes, "a publication has no scene")
        expect(type(state) is dict, "a publication has no state")
        if run != self._run:
            self._run, self._tables, self._scene = run, {}, unpack_scene(scene)
        for item in expect_list(tables, "slot tables"):
            self._learn(item)
        frames = []
        for item in expect_list(items, "frames"):
            content, first = expect_list(item, "frame", 2)
            (frame,) = Decoder().frames([content], buffers)
            expect(first is None or (type(first) is int and first in self._tables), "a slot table is missing")
            frame.table = None if first is None else self._tables[first]
            frames.append(frame)
        buffers.end()
        return Snapshot(tick, seconds(time), tuple(frames), run, self._scene, state)

    def _learn(self, item: object) -> None:
        first, epoch, data = expect_list(item, "slot table", 3)
        expect(type(first) is int and first >= 0 and type(epoch) is int, "a slot table has no first slot or epoch")
        known = self._tables.get(first)
        if known is not None and known.epoch == epoch:
            return
        expect(type(data) is bytes, "a slot table has no content")
        try:
            content = msgpack.unpackb(data)
        except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
            raise WireError(f"the far end sent a slot table that cannot be read: {error}") from error
        ids, generation = expect_list(content, "slot table", 2)
        expect(type(ids) is list and all(type(text) is str for text in ids), "an id is not a text")
        expect(type(generation) is bytes and len(generation) == 4 * len(ids), "an id has no generation")
        self._tables[first] = SlotTable(first, tuple(ids), np.frombuffer(generation, np.int32), epoch)


def assemble(head: bytes, arrays: list[Array]) -> bytes:
    """A message in one piece: length of the header, header, and the arrays at aligned places."""
    start = _start(len(head))
    pieces: list[bytes | memoryview] = [struct.pack("<I", len(head)), head, bytes(start - 4 - len(head))]
    offsets, total = layout([array.nbytes for array in arrays])
    for array, offset, following in zip(arrays, offsets, [*offsets, total][1:], strict=True):
        if array.nbytes:
            pieces += (array.data, bytes(following - offset - array.nbytes))
    return b"".join(pieces)


def disassemble(data: memoryview) -> tuple[str, int, object, Buffers]:
    """Verb, serial number, body and buffers of a message in one piece."""
    expect(len(data) >= 4, "it is too short")
    (length,) = struct.unpack_from("<I", data)
    expect(4 + length <= len(data), "it is shorter than it says")
    head = unpack(data[4 : 4 + length])
    offsets, total = layout(head.sizes)
    expect(_start(length) + total == len(data), "its length is not what its header says")
    places = [(data, _start(length) + offset) for offset in offsets]
    return head.verb, head.serial, head.body, Buffers(places, head.sizes)


def _start(length: int) -> int:
    return -(-(4 + length) // ALIGN) * ALIGN

"""Publish a run to observers without ever waiting for them.

The run publishes its frames; viewers and exporters subscribe. An observer that is slower than the
run sees only the newest frames: older ones are dropped silently, by design. Every message stands
for itself, slot tables included, so an observer may come late, miss messages and see another run
at the same address. The scene (`cosim.bus.describe`) and the run's state travel along, so an
observer needs only the address. Without observers, publishing costs next to nothing.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

import numpy as np
import zmq

from cosim.contract.errors import ProtocolError
from cosim.contract.frame import Array, Frame, SlotTable
from cosim.talk.codec import (
    MAX_BUFFER_BYTES,
    Anything,
    Data,
    Is,
    List,
    Message,
    MessageSet,
    Number,
    RowOf,
    TableOf,
    Whole,
)
from cosim.talk.columns import Buffers, Decoder, Encoder, expect
from cosim.talk.doorkeeper import Limits
from cosim.talk.keys import words_of
from cosim.talk.memory import ALIGN, layout
from cosim.talk.sockets import Closing, Door, bounded, dial

MAX_HEADER = 128 << 20  # B
MAX_SCENE = 64 << 20  # B, unpacked
_EPOCH = Whole(-(1 << 63))
PUBLICATION = MessageSet(
    "a run",
    {
        "frames": {
            "run": Data(8, least=8),  # separates this run's tables from those of another one at the same address
            "time": Number(),  # s, simulated
            "frames": Anything(),  # as of an encoder that has sent the tables
            "tables": List(RowOf((Whole(), _EPOCH, Data(MAX_HEADER))), 4096),  # first slot, epoch, packed `TABLE`
            "scene": Data(MAX_HEADER),
            "state": TableOf(Anything(), 1000),
        }
    },
    MAX_HEADER,
)
TABLE = MessageSet("a run", {"table": {"ids": List(Is(str), 1 << 24), "generation": Data(1 << 26, unit=4)}}, MAX_HEADER)
# Observers send nothing but subscriptions, and these are a few bytes.
OBSERVERS = Limits(connections=32, silent=16, greeting=8, looks=True, message=256, parts=1, total=1 << 15)
LINGER = 1000  # ms that the last message of a run is still offered after its end
AGAIN = (0.1, 0.25, 0.5)  # s after the last message that it is sent again

WAITING = 2  # messages kept for an observer whose connection is full
_PASSED = 64  # messages that a slow observer passes over at once
_LOOK = 0.2  # s between two looks at whether to end


@dataclass(frozen=True, slots=True)
class TickSnapshot:
    """What a run published at one tick."""

    tick: int
    time: float  # s, simulated
    frames: tuple[Frame, ...]
    run: bytes = b""  # distinguishes runs at the same address
    scene: Mapping[str, Any] = field(default_factory=dict)  # `describe` of its plan, {} when it gave none
    state: Mapping[str, Any] = field(default_factory=dict)  # the run's own account of itself: JSON values
    tables: Mapping[int, SlotTable] = field(default_factory=dict)  # of fleets, by first slot

    def name(self, slot: int) -> str:
        """The node at `slot`."""
        nodes = self.scene.get("nodes", ())
        if 0 <= slot < len(nodes):
            return str(nodes[slot]["id"])
        for table in self.tables.values():
            if table.first <= slot < table.first + len(table.ids):
                return table.ids[slot - table.first]
        return f"slot {slot}"

    def values(self, frame: Frame, rows: slice = slice(None)) -> dict[str, list[Any]]:
        """The columns of `frame` by name, as results have them: nodes and codes in words, None for none."""
        about = self.scene.get("signals", {}).get(frame.signal, {}).get("columns", {})
        found = {name: column[rows].tolist() for name, column in frame.columns.items()}
        for name in about.keys() & found.keys():
            codes = about[name]["codes"]
            words = self.scene["workloads"] if codes == "workloads" else codes
            if about[name]["role"] == "slot":
                found[name] = [self.name(slot) if slot >= 0 else None for slot in found[name]]
            elif words:
                found[name] = [words[code] if 0 <= code < len(words) else None for code in found[name]]
        return found


class Publisher(Closing):
    """The run's side, at `address` (the system chooses the port for tcp://127.0.0.1:*).

    `scene` describes the run to observers (`cosim.bus.describe.describe`). Those who know `token` keep their places.
    """

    def __init__(
        self, address: str = "tcp://127.0.0.1:*", scene: Mapping[str, Any] | None = None, token: str = ""
    ) -> None:
        words = words_of(token)
        self._door = Door(address, OBSERVERS.message, OBSERVERS, kind=zmq.XPUB, words=words, waiting=(16, WAITING))
        self._socket, self.address = self._door.socket, self._door.address
        self.describe(scene or {})
        self._run = os.urandom(8)  # separates this run's tables from those of another one at the same address
        self._tables: dict[int, tuple[int, bytes]] = {}  # by first slot: epoch, encoded
        self._last: tuple[float, bytes] | None = None  # when it was sent, and the message
        self._topics: set[bytes] = set()  # that have subscribers

    def close(self) -> None:
        """Stop publishing; observers whose connections were full get the last message now."""
        if self._last is not None:
            at, message = self._last
            self._last = None
            for pause in AGAIN:
                sleep(max(0.0, at + pause - monotonic()))
                if not self.observed:
                    break
                self._socket.send(message, zmq.NOBLOCK, copy=False)
        self._door.close(LINGER)

    @property
    def observed(self) -> bool:
        """Whether there is an observer."""
        while self._socket.poll(0):
            said = self._socket.recv(zmq.NOBLOCK)
            (self._topics.add if said[:1] == b"\x01" else self._topics.discard)(said[1:])
        return bool(self._topics)

    def describe(self, scene: Mapping[str, Any]) -> None:
        """Have `scene` travel with every message from now on; observers take the first one they see of a run."""
        self._scene = pack_scene(scene) if scene else b""

    def publish(
        self,
        tick: int,
        time: float,
        frames: Iterable[Frame],
        state: Callable[[], Mapping[str, Any]] = dict,
        *,
        last: bool = False,
    ) -> bool:
        """Offer `frames` to the observers; whether there are any. `state` is asked only if there are.

        The `last` message is sent again before the end, since nothing follows it for those who had no room for it.
        """
        if not self.observed:
            return False
        arrays: list[Array] = []
        items, tables = list[list[Any]](), {}
        for frame in frames:
            items += Encoder().frames([Frame(frame.signal, frame.time, frame.slot, frame.columns)], arrays)
            if frame.table is not None:
                items[-1][-1] = known = [frame.table.first, frame.table.epoch]
                tables[frame.table.first] = [*known, self._encoded(frame.table)]
        body = {
            "run": self._run, "time": float(time), "frames": items, "tables": list(tables.values()),
            "scene": self._scene, "state": dict(state()),
        }  # fmt: skip
        head = PUBLICATION.pack("frames", body, number=tick, sizes=[array.nbytes for array in arrays])
        message = assemble(head, arrays)
        self._socket.send(message, zmq.NOBLOCK, copy=False)
        self._last = (monotonic(), message) if last else None
        return True

    def _encoded(self, table: SlotTable) -> bytes:
        known = self._tables.get(table.first)
        if known is None or known[0] != table.epoch:
            generation = np.ascontiguousarray(table.generation, np.int32).tobytes()
            packed = TABLE.pack("table", {"ids": list(table.ids), "generation": generation})
            known = self._tables[table.first] = (table.epoch, packed)
        return known[1]


class Subscriber(Closing):
    """An observer's side of the publisher at `address`, which gives a place to those who know its `token`."""

    def __init__(self, address: str, token: str = "") -> None:
        self._socket = bounded(zmq.Context.instance(), zmq.SUB, 2 * MAX_BUFFER_BYTES)
        # It keeps the newest message only, and of several subscriptions on their way just one: see `latest`.
        self._socket.setsockopt(zmq.CONFLATE, not token)
        if token:
            self._socket.setsockopt(zmq.SUBSCRIBE, words_of(token))
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        dial(self._socket, address)
        self._run = b""
        self._scene: Mapping[str, Any] = {}
        self._tables: dict[int, SlotTable] = {}

    def latest(self, timeout: float) -> TickSnapshot | None:
        """What was published last and not seen yet; None when nothing comes within `timeout` s."""
        if not self._socket.poll(max(int(timeout * 1e3), 0)):
            return None
        newest = self._socket.recv(copy=False)
        with suppress(zmq.Again):
            for _ in range(_PASSED):
                newest = self._socket.recv(zmq.NOBLOCK, copy=False)
        message, buffers = disassemble(newest.buffer)
        body = message.body
        if body["run"] != self._run:
            self._run, self._tables, self._scene = body["run"], {}, unpack_scene(body["scene"])
        for first, epoch, data in body["tables"]:
            self._learn(first, epoch, data)
        frames = Decoder(self._tables).frames(body["frames"], buffers)
        buffers.end()
        time, state = float(body["time"]), body["state"]
        return TickSnapshot(message.number, time, tuple(frames), self._run, self._scene, state, self._tables)

    def until_end(self) -> Iterator[TickSnapshot]:
        """All that is seen of a run until its end."""
        snapshot = None
        while snapshot is None or not snapshot.state.get("ended"):
            snapshot = self.latest(_LOOK)
            if snapshot is not None:
                yield snapshot

    def close(self) -> None:
        """Stop observing."""
        self._socket.close(0)

    def _learn(self, first: int, epoch: int, data: bytes) -> None:
        known = self._tables.get(first)
        if known is not None and known.epoch == epoch:
            return
        body = TABLE.unpack(data).body
        ids, generation = body["ids"], body["generation"]
        expect(len(generation) == 4 * len(ids), "an id has no generation")
        table = SlotTable(first, tuple(ids), np.frombuffer(generation, np.int32), epoch)
        self._tables = {**self._tables, first: table}  # snapshots keep theirs


def pack_scene(scene: Mapping[str, Any]) -> bytes:
    """`scene` as it travels: JSON, deflated."""
    return zlib.compress(json.dumps(scene, separators=(",", ":"), ensure_ascii=False).encode())


def unpack_scene(data: bytes) -> dict[str, Any]:
    """What `pack_scene` packed; {} for nothing. Raises `ProtocolError` for what is no scene."""
    if not data:
        return {}
    inflate = zlib.decompressobj()
    try:
        found = json.loads(inflate.decompress(data, MAX_SCENE))
    except (zlib.error, ValueError, RecursionError) as error:
        raise ProtocolError(f"the far end sent a scene that cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ProtocolError("the far end sent a scene that is not a mapping")
    return found


def assemble(head: bytes, arrays: list[Array]) -> bytes:
    """A message in one piece: length of the header, header, and the arrays at aligned places."""
    start = _start(len(head))
    pieces: list[bytes | memoryview] = [len(head).to_bytes(4, "little"), head, bytes(start - 4 - len(head))]
    offsets, total = layout([array.nbytes for array in arrays])
    for array, offset, following in zip(arrays, offsets, [*offsets, total][1:], strict=True):
        if array.nbytes:
            pieces += (array.data, bytes(following - offset - array.nbytes))
    return b"".join(pieces)


def disassemble(data: memoryview) -> tuple[Message, Buffers]:
    """The message in one piece, and its buffers."""
    expect(len(data) >= 4, "it is too short")
    length = int.from_bytes(data[:4], "little")
    expect(4 + length <= len(data), "it is shorter than it says")
    message = PUBLICATION.unpack(data[4 : 4 + length])
    offsets, total = layout(message.sizes)
    expect(_start(length) + total == len(data), "its length is not what its header says")
    expect(message.placed is None, "it names shared memory")
    places = [(data, _start(length) + offset) for offset in offsets]
    return message, Buffers(places, message.sizes)


def _start(length: int) -> int:
    return -(-(4 + length) // ALIGN) * ALIGN

"""Vehicles whose autopilot lives elsewhere: one side grants time, the other flies.

The run holds the *hub*, with a row of state for every vehicle. A *member*, one per vehicle, dials it and
gets the airframe, the state and the mission. At each step the hub grants time; members fly until then and
answer with their state. The hub keeps these states: a replacement for a dead member starts from where it
was, and a member that comes back goes on from where the vehicle is now.

Rows refer to the vehicle's own mission: their `first_item` is 0.

A member first sends hello, and repeats it after every `again`. When a grant has a row, the member starts from that
instead of from where it is. A done has no items while the mission is the same. A member that has nothing else to send
sends alive once a second. Either side may send bye, and the member answers it.

With a *lock* both ends prove their keys (ZeroMQ CURVE), and a member may only be the node whose key it has.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import zmq

from cosim.contract.errors import ProtocolError
from cosim.physics.vehicles import VehicleFleet
from cosim.physics.vehicles.layout import AIRFRAME, ITEM, STATE
from cosim.physics.vehicles.terrain import MOST_CELLS, Terrain
from cosim.talk.codec import Anything, Body, Data, Is, List, Message, MessageSet, Number, RowOf, TableOf, Text, Whole
from cosim.talk.doorkeeper import Limits
from cosim.talk.keys import Key
from cosim.talk.sockets import Door, bounded, dial

LARGEST = 1 << 20  # B of a message, without the terrain
MOST_ITEMS = 4096  # of a mission
SILENCE = 5.0  # s without a word after which the other side counts as gone
ALIVE = 1.0  # s between signs of life
PATIENCE = 3.0  # s for an answer before it sends hello again
FAREWELL = 0.5  # s for the members to answer that they have heard of the end
LAYOUT = hashlib.sha256(repr((AIRFRAME.descr, STATE.descr, ITEM.descr)).encode()).hexdigest()[:16]
Flown = tuple[bytes, bytes]  # (1,) STATE, (n,) ITEM
_ROW = Data(STATE.itemsize, unit=STATE.itemsize)  # (1,) STATE, or nothing
_ITEMS = Data(MOST_ITEMS * ITEM.itemsize, unit=ITEM.itemsize)  # (n,) ITEM
_NAME, _TIME = Text(128, least=1), Number()

FROM_MEMBER = MessageSet(
    "a vehicle's program",
    {
        "hello": {"node": Text(128, free=True), "layout": Text(64)},
        "done": {
            "row": Data(STATE.itemsize, least=STATE.itemsize),
            "items": _ITEMS,
            "heard": TableOf(RowOf((_TIME,) * 8), 1024),
            "said": List(Text(200, free=True), 100),
            "unready": Is(bool),
            "news": List(RowOf((_TIME, Text(32), Text(300, free=True))), 100),
        },
        "alive": {},
        "bye": {},
    },
    LARGEST,
)
FROM_HUB = MessageSet(
    "a run",
    {
        "welcome": {
            "airframe": Data(AIRFRAME.itemsize, least=AIRFRAME.itemsize), "row": _ROW, "items": _ITEMS, "now": _TIME,
            "about": TableOf(Anything(), 32), "box": RowOf((_TIME,) * 3), "columns": Whole(0, MOST_CELLS),
            "heights": Data(8 * MOST_CELLS, unit=8),  # m, rows from the south; nothing: the ground is flat
        },
        "grant": {"until": _TIME, "wind": RowOf((_TIME,) * 3), "row": _ROW, "items": _ITEMS},
        "again": {"why": Text(300, free=True)},
        "bye": {},
    },
    LARGEST + 8 * MOST_CELLS,
)  # fmt: skip
# s of the speaker, m east north up, m/s east north up, rad clockwise from north
Heard = tuple[float, float, float, float, float, float, float, float]
News = tuple[float, str, str]  # s, what has happened to an autopilot that is not ours ("": no event), text for people


@dataclass(frozen=True, slots=True)
class Lock:
    """Admits only holders of a key of `folder`. `named` gives the name of a node's key."""

    folder: Path
    named: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class HubVehicle:
    """A vehicle of the hub."""

    airframe: bytes  # (1,) AIRFRAME
    about: Mapping[str, Any]  # persona, system id, origin: for the member's autopilot


@dataclass(frozen=True, slots=True)
class MemberStep:
    """What a member did with the time that it was granted."""

    row: bytes  # (1,) STATE
    items: bytes  # (n,) ITEM when the mission has changed, or b""
    heard: Mapping[str, Heard]  # node -> what it last heard of it over the network
    said: tuple[str, ...]  # texts of its autopilot
    unready: bool = False  # whether an autopilot that is not ours is still to be armed
    news: tuple[News, ...] = ()


@dataclass(slots=True)
class _Peer:
    identity: bytes
    since: float  # s, monotonic
    last: float
    granted: int = -1
    done: MemberStep | None = None
    has: Flown = (b"", b"")


@dataclass(slots=True)
class Hub:
    """The run's side. `entries` are the vehicles that may come, `rows` how they stand; others are turned away.

    All stand on `terrain`; None: their ground is flat.
    """

    entries: Mapping[str, HubVehicle]
    rows: Mapping[str, Flown]
    address: str = "tcp://127.0.0.1:*"
    clock: Callable[[], float] = monotonic
    losses: Counter[str] = field(default_factory=Counter)  # how often each vehicle has lost its member
    lock: Lock | None = None
    terrain: Terrain | None = None
    _peers: dict[str, _Peer] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)
    _rows: dict[str, Flown] = field(default_factory=dict)
    _now: float = 0.0
    _number: int = 0
    _over: bool = False
    _door: Door | None = None

    def open(self) -> str:
        """Listen; the address with the port that the system chose. Raises `SetupError`."""
        self._rows, self._over = dict(self.rows), False
        limits = Limits(connections=2 * len(self.entries) + 16)
        folder = self.lock.folder if self.lock is not None else None
        self._door = Door(self.address, LARGEST, limits, folder=folder, needed=len(self.entries))
        return self._door.address

    @property
    def present(self) -> frozenset[str]:
        """The vehicles that are flown by a member right now."""
        return frozenset(self._peers)

    def wait(self, names: Iterable[str], timeout: float) -> set[str]:
        """Wait for members; those of `names` that have not come within `timeout` s."""
        end, missing = self.clock() + timeout, set(names) - self.present
        while missing and self._receive(end - self.clock()):
            missing = set(names) - self.present
        return missing

    def advance(
        self, rows: Mapping[str, Flown], until: float, winds: Mapping[str, Sequence[float]], timeout: float
    ) -> dict[str, MemberStep]:
        """Let the members fly until `until` s from the states `rows`; return what they did.

        A member that has not answered within `timeout` s counts as gone until it sends hello again.
        """
        self._rows, self._number = dict(rows), self._number + 1
        for name, peer in list(self._peers.items()):
            row, items = rows[name] if rows[name] != peer.has else (b"", b"")
            peer.granted, peer.done = self._number, None
            grant = {"until": until, "wind": list(map(float, winds[name])), "row": row, "items": items}
            self._send(peer.identity, "grant", grant, number=self._number)
        end = self.clock() + timeout
        while any(peer.granted == self._number and peer.done is None for peer in self._peers.values()):
            if not self._receive(end - self.clock()):
                break
        found = {}
        for name, peer in list(self._peers.items()):
            if peer.granted == self._number and peer.done is None:
                self._drop(name)
            elif peer.done is not None:
                found[name] = peer.done
                peer.has = self._rows[name] = (peer.done.row, peer.done.items or rows[name][1])
        self._now = until
        return found

    def rest(self) -> None:
        """Take what has come without waiting."""
        while self._receive(0.0):
            pass
        for name, peer in list(self._peers.items()):
            if self.clock() - peer.last > SILENCE:
                self._drop(name)

    def close(self) -> None:
        """Send bye to the members, since the run is over; may be called twice."""
        self._over = True
        if self._door is not None:
            for peer in self._peers.values():
                self._send(peer.identity, "bye")
            end = self.clock() + FAREWELL  # to close on what has come but was not read would destroy the farewells
            while self._peers and self._receive(end - self.clock()):
                pass
            self._door.close(500)  # ms at most for the farewells
            self._door = None
        self._peers.clear()

    def _receive(self, timeout: float) -> bool:
        """Handle one message; False when none came in time."""
        if self._door is None or timeout < 0.0 or not self._door.socket.poll(math.ceil(timeout * 1e3)):
            return False
        parts = self._door.socket.recv_multipart(copy=False)
        if len(parts) == 2:
            try:
                key = str(parts[1].get("User-Id")) if self.lock is not None else ""
                self._handle(parts[0].bytes, key, FROM_MEMBER.unpack(parts[1].bytes))
            except ProtocolError as error:
                self._send(parts[0].bytes, "again", {"why": str(error)[:300]})
        return True

    def _handle(self, identity: bytes, key: str, message: Message) -> None:
        kind, name = message.kind, self._names.get(identity, "")
        if self.lock is not None and name and key != self.lock.named(name):
            raise ProtocolError(f"its key is not that of '{name}'")  # a ROUTER's peers name their identities themselves
        if kind == "hello":
            self._greet(identity, key, message.body)
        elif name not in self._peers or self._peers[name].identity != identity:
            if kind != "bye":
                self._send(identity, "again", {"why": "not known here"})
        elif kind == "bye":
            self._drop(name)
        else:
            peer = self._peers[name]
            peer.last = self.clock()
            if kind == "done" and message.number == peer.granted:
                peer.done = _done(message.body)

    def _greet(self, identity: bytes, key: str, message: Mapping[str, Any]) -> None:
        if self._over:
            raise ProtocolError("the run is over")
        name = message["node"]
        if name not in self.entries:
            raise ProtocolError(f"there is no vehicle '{name[:64]}' here")
        if self.lock is not None and key != self.lock.named(name):
            raise ProtocolError(f"its key is not that of '{name}'")
        if message["layout"] != LAYOUT:
            raise ProtocolError("it is of another version of continuum-cosim")
        if name in self._peers:
            again = self._peers[name].identity == identity  # it has forgotten us, as after a long pause of the run
            self._drop(name)
            self.losses[name] -= again
        now, entry = self.clock(), self.entries[name]
        self._names[identity] = name
        self._peers[name] = _Peer(identity, now, now, has=self._rows[name])
        row, items = self._rows[name]
        about = {**entry.about}
        welcome = {"airframe": entry.airframe, "row": row, "items": items, "now": self._now, "about": about}
        welcome |= _terrain_facts(self.terrain)
        self._send(identity, "welcome", welcome)

    def _drop(self, name: str) -> None:
        peer = self._peers.pop(name)
        self._names.pop(peer.identity, None)
        self.losses[name] += 1

    def _send(self, identity: bytes, kind: str, body: Body | None = None, number: int = 0) -> None:
        assert self._door is not None
        with suppress(zmq.ZMQError):  # it has gone
            self._door.socket.send_multipart([identity, FROM_HUB.pack(kind, body, number=number)], zmq.NOBLOCK)


class VehicleSession:
    """A vehicle's side: dials, asks again when it is not known, and forgets a hub that is silent."""

    def __init__(self, address: str, node: str, clock: Callable[[], float] = monotonic, key: Key | None = None) -> None:
        self.node, self._clock = node, clock
        self._socket = bounded(zmq.Context.instance(), zmq.DEALER, LARGEST + 8 * MOST_CELLS, key=key)
        self._socket.linger = 200
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # without a peer, messages are dropped instead of queued
        dial(self._socket, address)
        self.welcome = False
        self._heard = self._said = -math.inf

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """For pollers."""
        return self._socket

    def turn(self) -> Message | None:
        """The next message for the vehicle: welcome, grant or bye; None when there is none. Keeps in touch."""
        now = self._clock()
        while self._socket.poll(0):
            try:
                message = FROM_HUB.unpack(self._socket.recv())
            except ProtocolError:
                continue
            self._heard = now
            if message.kind == "again":
                self.welcome = False
                continue
            if message.kind in ("welcome", "bye"):
                self.welcome = message.kind == "welcome"
                if not self.welcome:
                    self._say("bye")
                return message
            if self.welcome:
                return message
        if self.welcome and now - self._heard > 4 * SILENCE:  # a paused run is silent for long; a dead one for ever
            self.welcome = False
        if now - self._said >= (ALIVE if self.welcome else PATIENCE):
            if self.welcome:
                self._say("alive")
            else:
                self._say("hello", {"node": self.node, "layout": LAYOUT})
        return None

    def done(self, number: int, what: MemberStep) -> None:
        """Answer a grant."""
        heard = {name: list(place) for name, place in what.heard.items()}
        said = [text[:200] for text in what.said[:100]]
        news = [[at, event, text[:300]] for at, event, text in what.news[:100]]
        body = {"row": what.row, "items": what.items, "heard": heard, "said": said}
        self._say("done", {**body, "unready": what.unready, "news": news}, number)

    def close(self) -> None:
        """Send bye; may be called twice."""
        if not self._socket.closed:
            self._say("bye")
            self._socket.close()

    def _say(self, kind: str, body: Body | None = None, number: int = 0) -> None:
        self._said = self._clock()
        try:
            self._socket.send(FROM_MEMBER.pack(kind, body, number=number), zmq.NOBLOCK)
        except zmq.Again:  # no peer yet
            self.welcome, self._said = False, self._clock() - PATIENCE + ALIVE / 4


def _terrain_facts(terrain: Terrain | None) -> Body:
    """The ground as it travels."""
    if terrain is None:
        return {"box": [0.0] * 3, "columns": 0, "heights": b""}
    return {"box": terrain.box.tolist(), "columns": terrain.heights.shape[1], "heights": terrain.heights.tobytes()}


def ground(welcome: Mapping[str, Any]) -> Terrain | None:
    """The terrain in a welcome; None: the ground is flat. Raises `ProtocolError`."""
    heights, columns = np.frombuffer(welcome["heights"]), welcome["columns"]
    if not len(heights):
        return None
    if not columns or len(heights) % columns or not np.isfinite(heights).all() or not welcome["box"][2] > 0.0:
        raise ProtocolError("its terrain is no grid")
    # Arrays that cannot be written to are another type, for which all of the dynamics would be compiled once more.
    return Terrain(np.array(welcome["box"], np.float64), heights.reshape(-1, columns).copy())


def _done(body: Body) -> MemberStep:
    record = np.frombuffer(body["row"], STATE)[0]
    if not all(math.isfinite(record[name]) for name in ("x", "y", "z", "vx", "vy", "vz", "charge")):
        raise ProtocolError("its state is not finite")
    places: dict[str, Heard] = {name: tuple(map(float, place)) for name, place in body["heard"].items()}  # type: ignore[misc]
    news = tuple((float(at), event, text) for at, event, text in body["news"])
    return MemberStep(body["row"], body["items"], places, tuple(body["said"]), body["unready"], news)


def flown(fleet: VehicleFleet, row: int) -> Flown:
    """The state and the mission of a vehicle as they travel: its mission begins at item 0."""
    state = fleet.state[row : row + 1].copy()
    state["first_item"] = 0
    return state.tobytes(), fleet.items(row).tobytes()


def take(fleet: VehicleFleet, row: int, state_bytes: bytes, items: bytes) -> None:
    """Make what came from the other side the state of the vehicle at `row`; no `items`: its mission is the same."""
    state = np.frombuffer(state_bytes, STATE)[0].copy()
    if items:
        fleet.replace_items(row, np.frombuffer(items, ITEM))
    state["first_item"] = fleet.state[row]["first_item"]
    state["items"] = fleet.state[row]["items"]
    last = int(state["items"]) - (0 if state["done"] else 1)
    state["item"] = min(max(int(state["item"]), 0), max(last, 0))  # compiled code looks there
    fleet.state[row] = state

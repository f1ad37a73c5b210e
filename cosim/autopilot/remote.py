"""Vehicles whose autopilot lives elsewhere: one side grants time, the other flies.

The run holds the *hub*, with a row of state for every vehicle. A *member*, one per vehicle, dials it and
gets the airframe, the state and the mission. At each step the hub grants time; members fly until then and
answer with their state. The hub keeps what they say, so that whoever flies on in the place of a member that
has died starts from where it was, and a member that comes back goes on from where the vehicle is now.

Rows refer to the vehicle's own mission: their `first_item` is 0.

Messages are msgpack maps over ZeroMQ (hub: ROUTER, member: DEALER), at most `LARGEST` bytes:

    hello   node, layout           member -> hub   first, and again whenever it was told `again`
    welcome airframe, row, items, now, about        hub -> member
    grant   n, until, wind, row, items              hub -> member   row, items: b"", or what to start from instead
    done    n, row, items, heard, said              member -> hub   items: b"" while its mission is the same
    again   why                    hub -> member   the hub does not know it (any more)
    alive                          member -> hub   once a second, while nothing else is said
    bye                            both ways, and answered by the member

With a *lock* both ends prove their keys (ZeroMQ CURVE), and a member may only be the node whose key it has.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

import msgpack
import numpy as np
import zmq

from cosim.errors import SetupError
from cosim.live.keys import Key
from cosim.vehicles import Fleet
from cosim.vehicles.layout import AIRFRAME, ITEM, STATE

LARGEST = 1 << 20  # B of a message
SILENCE = 5.0  # s without a word after which the other side counts as gone
ALIVE = 1.0  # s between signs of life
PATIENCE = 3.0  # s for an answer before it says hello again
FAREWELL = 0.5  # s for the members to answer that they have heard of the end
LAYOUT = hashlib.sha256(repr((AIRFRAME.descr, STATE.descr, ITEM.descr)).encode()).hexdigest()[:16]
Flown = tuple[bytes, bytes]  # (1,) STATE, (n,) ITEM
# s of the speaker, m east north up, m/s east north up, rad clockwise from north
Heard = tuple[float, float, float, float, float, float, float, float]


class Door(Protocol):
    """Answers ZeroMQ's questions about keys (ZAP, RFC 27) with the name of the key, or no."""

    domain: bytes
    socket: zmq.Socket[bytes]

    def answer(self) -> None:
        """Answer one question."""


@dataclass(frozen=True, slots=True)
class Lock:
    """Lets in only whoever has a key. `own` is the hub's; `named` says how the key of a node is called."""

    own: Key
    door: Callable[[zmq.Context[zmq.Socket[bytes]]], Door]
    named: Callable[[str], str]


class WrongMessage(ValueError):  # noqa: N818 - what a peer sent
    """A message that is not one of the protocol."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A vehicle of the hub."""

    airframe: bytes  # (1,) AIRFRAME
    about: Mapping[str, Any]  # persona, system id, origin: for the member's autopilot


@dataclass(frozen=True, slots=True)
class Done:
    """What a member did with the time that it was granted."""

    row: bytes  # (1,) STATE
    items: bytes  # (n,) ITEM when the mission has changed, or b""
    heard: Mapping[str, Heard]  # node -> what it last heard of it over the network
    said: tuple[str, ...]  # texts of its autopilot


@dataclass(slots=True)
class _Peer:
    identity: bytes
    since: float  # s, monotonic
    last: float
    granted: int = -1
    done: Done | None = None
    has: Flown = (b"", b"")


@dataclass(slots=True)
class Hub:
    """The run's side. `entries` are the vehicles that may come, `rows` how they stand; others are turned away."""

    entries: Mapping[str, Entry]
    rows: Mapping[str, Flown]
    address: str = "tcp://127.0.0.1:*"
    clock: Callable[[], float] = monotonic
    losses: Counter[str] = field(default_factory=Counter)  # how often each vehicle has lost its member
    lock: Lock | None = None
    _peers: dict[str, _Peer] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)
    _rows: dict[str, Flown] = field(default_factory=dict)
    _now: float = 0.0
    _number: int = 0
    _over: bool = False
    _socket: Any = None
    _door: Door | None = None
    _context: Any = None  # of its own with a lock: a context has one door
    _poller: zmq.Poller = field(default_factory=zmq.Poller)

    def open(self) -> str:
        """Listen; the address with the port that the system chose. Raises `SetupError`."""
        self._rows, self._over = dict(self.rows), False
        self._context = zmq.Context.instance() if self.lock is None else zmq.Context()
        try:
            return self._listen()
        except BaseException:
            self._shut(0)
            raise

    def _listen(self) -> str:
        self._socket = self._context.socket(zmq.ROUTER)
        self._poller.register(self._socket, zmq.POLLIN)
        if self.lock is not None:
            self._door = self.lock.door(self._context)
            self._poller.register(self._door.socket, zmq.POLLIN)
            self._socket.curve_server = True
            self._socket.curve_publickey = self.lock.own.public.encode()
            self._socket.curve_secretkey = self.lock.own.secret.encode()
            self._socket.zap_domain = self._door.domain
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        try:
            self._socket.bind(self.address)
        except zmq.ZMQError as error:
            raise SetupError(f"cannot listen for vehicles at {self.address}: {error}") from error
        return str(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))

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
    ) -> dict[str, Done]:
        """Let the members fly until `until` s from the states `rows`; what they did.

        A member that has not answered within `timeout` s counts as gone until it says hello again.
        """
        self._rows, self._number = dict(rows), self._number + 1
        for name, peer in list(self._peers.items()):
            row, items = rows[name] if rows[name] != peer.has else (b"", b"")
            peer.granted, peer.done = self._number, None
            self._send(
                peer.identity, t="grant", n=self._number, until=until, wind=list(winds[name]), row=row, items=items
            )
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
        """Tell the members that the run is over; may be called twice."""
        self._over = True
        if self._socket is not None and not self._socket.closed:
            for peer in self._peers.values():
                self._send(peer.identity, t="bye")
            end = self.clock() + FAREWELL  # to close on what has come but was not read would destroy the farewells
            while self._peers and self._receive(end - self.clock()):
                pass
            self._shut(5000 if self.lock is None else 500)  # ms at most for the farewells
        self._peers.clear()

    def _shut(self, linger: int) -> None:
        """Close the sockets; a context of its own waits for what is under way."""
        if self._socket is not None:
            self._socket.close(linger)
        if self._door is not None:
            self._door.socket.close(0)
        if self.lock is not None:
            self._context.term()

    def _receive(self, timeout: float) -> bool:
        """Handle one message; False when none came in time."""
        if timeout < 0.0 or not self._come(timeout):
            return False
        parts = self._socket.recv_multipart(copy=False)
        if len(parts) == 2:
            try:
                key = str(parts[1].get("User-Id")) if self.lock is not None else ""
                self._handle(parts[0].bytes, key, unpack(parts[1].bytes))
            except WrongMessage as error:
                self._send(parts[0].bytes, t="again", why=str(error))
        return True

    def _come(self, timeout: float) -> bool:
        """Whether a message has come within `timeout` s; meanwhile newcomers are let in, or not."""
        end = self.clock() + timeout
        while True:
            ready = dict(self._poller.poll(max(math.ceil((end - self.clock()) * 1e3), 0)))
            if self._door is not None and self._door.socket in ready:
                self._door.answer()
            if self._socket in ready:
                return True
            if not ready:
                return False

    def _handle(self, identity: bytes, key: str, message: Mapping[str, Any]) -> None:
        kind, name = message["t"], self._names.get(identity, "")
        if self.lock is not None and name and key != self.lock.named(name):
            raise WrongMessage(f"its key is not that of '{name}'")  # a ROUTER's peers name their identities themselves
        if kind == "hello":
            self._greet(identity, key, message)
        elif name not in self._peers or self._peers[name].identity != identity:
            if kind != "bye":
                self._send(identity, t="again", why="not known here")
        elif kind == "bye":
            self._drop(name)
        else:
            peer = self._peers[name]
            peer.last = self.clock()
            if kind == "done" and message.get("n") == peer.granted:
                peer.done = _done(message)

    def _greet(self, identity: bytes, key: str, message: Mapping[str, Any]) -> None:
        if self._over:
            raise WrongMessage("the run is over")
        name = message.get("node")
        if not isinstance(name, str) or name not in self.entries:
            raise WrongMessage(f"there is no vehicle '{str(name)[:64]}' here")
        if self.lock is not None and key != self.lock.named(name):
            raise WrongMessage(f"its key is not that of '{name}'")
        if message.get("layout") != LAYOUT:
            raise WrongMessage("it is of another version of continuum-cosim")
        if name in self._peers:
            again = self._peers[name].identity == identity  # it has forgotten us, as after a long pause of the run
            self._drop(name)
            self.losses[name] -= again
        now, entry = self.clock(), self.entries[name]
        self._names[identity] = name
        self._peers[name] = _Peer(identity, now, now, has=self._rows[name])
        row, items = self._rows[name]
        self._send(
            identity, t="welcome", airframe=entry.airframe, row=row, items=items, now=self._now, about=dict(entry.about)
        )

    def _drop(self, name: str) -> None:
        peer = self._peers.pop(name)
        self._names.pop(peer.identity, None)
        self.losses[name] += 1

    def _send(self, identity: bytes, **message: object) -> None:
        self._socket.send_multipart([identity, msgpack.packb(message)], zmq.NOBLOCK)


class Member:
    """A vehicle's side: dials, asks again when it is not known, and forgets a hub that is silent."""

    def __init__(self, address: str, node: str, clock: Callable[[], float] = monotonic, key: Key | None = None) -> None:
        self.node, self._clock = node, clock
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        if key is not None:
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, key.public.encode())
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, key.secret.encode())
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, key.server.encode())
        self._socket.setsockopt(zmq.LINGER, 200)
        self._socket.setsockopt(zmq.MAXMSGSIZE, LARGEST)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # what nobody hears is not said later
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self._socket.close(0)
            raise SetupError(f"cannot dial {address}: {error}") from error
        self.welcome = False
        self._heard = self._said = -math.inf

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """For pollers."""
        return self._socket

    def turn(self) -> Mapping[str, Any] | None:
        """The next message for the vehicle: welcome, grant or bye; None when there is none. Keeps in touch."""
        now = self._clock()
        while self._socket.poll(0):
            try:
                message = unpack(self._socket.recv())
            except WrongMessage:
                continue
            self._heard = now
            if message["t"] == "again":
                self.welcome = False
                continue
            if message["t"] in ("welcome", "bye"):
                self.welcome = message["t"] == "welcome"
                if not self.welcome:
                    self._say(t="bye")
                return message
            if self.welcome:
                return message
        if self.welcome and now - self._heard > 4 * SILENCE:  # a paused run is silent for long; a dead one for ever
            self.welcome = False
        if now - self._said >= (ALIVE if self.welcome else PATIENCE):
            self._say(**({"t": "alive"} if self.welcome else {"t": "hello", "node": self.node, "layout": LAYOUT}))
        return None

    def done(self, number: int, what: Done) -> None:
        """Answer a grant."""
        heard = {name: list(place) for name, place in what.heard.items()}
        self._say(t="done", n=number, row=what.row, items=what.items, heard=heard, said=list(what.said))

    def close(self) -> None:
        """Say goodbye; may be called twice."""
        if not self._socket.closed:
            self._say(t="bye")
            self._socket.close()

    def _say(self, **message: object) -> None:
        self._said = self._clock()
        try:
            self._socket.send(msgpack.packb(message), zmq.NOBLOCK)
        except zmq.Again:  # nobody there yet
            self.welcome, self._said = False, self._clock() - PATIENCE + ALIVE / 4


def unpack(data: bytes) -> dict[str, Any]:
    """A message with its kind under "t". Raises `WrongMessage`."""
    try:
        found = msgpack.unpackb(data, max_str_len=4096, max_array_len=4096, max_map_len=1024)
    except Exception as error:  # noqa: BLE001 - msgpack raises what it likes on hostile bytes
        raise WrongMessage(f"it is not msgpack: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("t"), str):
        raise WrongMessage("it has no kind")
    return found


def _done(message: Mapping[str, Any]) -> Done:
    row, heard, said = message.get("row"), message.get("heard"), message.get("said")
    if not isinstance(row, bytes) or len(row) != STATE.itemsize:
        raise WrongMessage("its state has another size")
    items = message.get("items")
    if not isinstance(items, bytes) or len(items) % ITEM.itemsize:
        raise WrongMessage("its mission has another size")
    record = np.frombuffer(row, STATE)[0]
    if not all(math.isfinite(record[name]) for name in ("x", "y", "z", "vx", "vy", "vz", "charge")):
        raise WrongMessage("its state is not finite")
    if not isinstance(heard, dict) or not isinstance(said, list):
        raise WrongMessage("what it heard or said is missing")
    places: dict[str, Heard] = {}
    for name, place in heard.items():
        if not (isinstance(place, list) and len(place) == 8 and all(type(v) in (int, float) for v in place)):
            raise WrongMessage("what it heard is no place")
        places[str(name)] = tuple(map(float, place))  # type: ignore[assignment]
    return Done(row, items, places, tuple(str(text)[:200] for text in said[:100]))


def flown(fleet: Fleet, row: int) -> Flown:
    """The state and the mission of a vehicle as they travel: its mission begins at item 0."""
    state = fleet.state[row : row + 1].copy()
    state["first_item"] = 0
    return state.tobytes(), fleet.items(row).tobytes()


def take(fleet: Fleet, row: int, state_bytes: bytes, items: bytes) -> None:
    """Make what came from the other side the state of the vehicle at `row`; no `items`: its mission is the same."""
    state = np.frombuffer(state_bytes, STATE)[0].copy()
    if items:
        fleet.replace_items(row, np.frombuffer(items, ITEM))
    state["first_item"] = fleet.state[row]["first_item"]
    state["items"] = fleet.state[row]["items"]
    last = int(state["items"]) - (0 if state["done"] else 1)
    state["item"] = min(max(int(state["item"]), 0), max(last, 0))  # compiled code looks there
    fleet.state[row] = state

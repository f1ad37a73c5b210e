"""Probes between nodes of a running experiment: the network service orders them, sidecars make them inside.

The far node is sent `answer` and replies with `answering`, then the near node `ask` and replies with `found`, then the
far node `end`; either may reply with `failed`.

One pair is probed at a time, so that probes do not disturb each other. No right is needed beyond those of a sidecar.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosim.contract.errors import CosimError, RunError
from cosim.talk.codec import Message
from cosim.testbed.emulation import probe
from cosim.testbed.emulation.orders import FROM_SIDECAR, SendTo

ECHOES, PAUSE = 40, 0.01  # at most, and s between them at least
COUNTED, GAP = 400, 0.002  # datagrams whose losses are counted, and s between them at least
SHARE = 0.25  # of the link's rate that echoes and counted datagrams take, at most
BUDGET = 1.5  # s for each of the two
SIZE = 64  # B of payload of both
FRAME = (SIZE + probe.OVERHEAD) * 8  # bit of one of them
RATES = (5e5, 5e7)  # bit/s that are worth measuring, and that a probe can offer
OFFERED = 1.25  # of the link's rate
LASTING = 0.4  # s of that
LIMIT = 25.0  # s for a probe
WAITING = 256  # probes that may wait
SPARE = 20_000.0  # B/s of others on an interface from which its links are in use: their rate is not measured then
DEVICES = Path("/proc/self/net/dev")  # counters of the interfaces in this network namespace

Key = tuple[str, str, str]  # sender, receiver, interface


@dataclass(frozen=True, slots=True)
class Probe:
    """What a probe has found of a link, one way; NaN: not measured."""

    session: bytes  # of who asked, and the number of the message
    number: int
    delay: float = math.nan  # s
    deviation: float = math.nan  # s, standard deviation of the delay
    sent: int = 0  # datagrams whose losses were counted
    received: int = 0
    rate: float = math.nan  # bit/s of whole frames, received while more than the link's rate was offered
    error: str = ""  # why there is nothing


@dataclass(slots=True)
class _Order:
    key: Key
    rate: float
    session: bytes
    number: int
    until: float = 0.0  # s, monotonic


class ProbeOrders:
    """The service's part. `send_to` sends a message to a node's sidecar, and returns whether there is one."""

    def __init__(self, send_to: SendTo) -> None:
        self._send_to = send_to
        self._waiting: deque[_Order] = deque()
        self._current: _Order | None = None
        self._ids = itertools.count(1)
        self._id = 0
        self.found: OrderedDict[Key, Probe] = OrderedDict()  # of each link the last

    def ask(self, key: Key, rate: float, session: bytes, number: int) -> None:
        """Probe the link `key`, with a nominal rate of `rate` bit/s (inf: not limited), when its turn has come."""
        order = _Order(key, rate, session, number)
        if len(self._waiting) >= WAITING:
            self._keep(order, error=f"more than {WAITING} probes wait")
        else:
            self._waiting.append(order)

    def serve(self) -> None:
        """Begin the next probe; give up one that takes too long."""
        if self._current is not None and time.monotonic() > self._current.until:
            self._end(error=f"nothing comes through, or a sidecar does not answer, within {LIMIT:g} s")
        while self._current is None and self._waiting:
            order = self._current = self._waiting.popleft()
            self._id, order.until = next(self._ids), time.monotonic() + LIMIT
            _, far, interface = order.key
            if not self._send_to(far, "answer", {"probe": self._id, "interface": interface}):
                self._end(error=f"{far} has no sidecar")

    def heard(self, node: str, message: Message) -> None:
        """Handle a sidecar's message; messages of no order, or of another node, are ignored."""
        order, body = self._current, message.body
        if order is None or body.get("probe") != self._id:
            return
        near, far, _ = order.key
        if message.kind == "failed":
            self._end(error=f"{node}: {body['error']}"[:200])
        elif node == far and message.kind == "answering":
            asked = {"to": body["address"], "port": body["port"], "rate": _limited(order.rate)}
            if not self._send_to(near, "ask", {"probe": self._id, **asked}):
                self._end(error=f"{near} has no sidecar")
        elif node == near and message.kind == "found":
            delay, deviation, sent, received, rate = body["figures"]
            self._end(delay=delay, deviation=deviation, sent=sent, received=received, rate=rate)

    def _end(self, **found: Any) -> None:  # noqa: ANN401 - the fields of Probe
        order, self._current = self._current, None
        if order is not None:
            self._send_to(order.key[1], "end", {"probe": self._id})
            self._keep(order, **found)

    def _keep(self, order: _Order, **found: Any) -> None:  # noqa: ANN401 - the fields of Probe
        self.found[order.key] = Probe(order.session, order.number, **found)
        self.found.move_to_end(order.key)
        if len(self.found) > WAITING:
            self.found.popitem(last=False)


class Inside:
    """A sidecar's part: `addresses` are the IPv4 of its interfaces, `link` leads to the service."""

    def __init__(self, link: socket.socket, addresses: Mapping[str, str]) -> None:
        self._link, self._addresses = link, dict(addresses)
        self._ended = threading.Event()  # of the thread that answers now

    def take(self, order: Message) -> None:
        """Carry out the service's order; everything that takes time runs in a thread. Other messages are ignored."""
        body, number = order.body, order.body.get("probe", 0)
        try:
            if order.kind == "answer":
                self._answer(number, self._addresses[body["interface"]])
            elif order.kind == "ask":
                asked = (number, (body["to"], body["port"]), body["rate"])
                threading.Thread(target=self._ask, args=asked, daemon=True).start()
            elif order.kind == "end":
                self._ended.set()
        except (CosimError, KeyError) as error:
            self._say("failed", number, error=f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Answer no more."""
        self._ended.set()

    def _answer(self, number: int, address: str) -> None:
        self._ended.set()
        ended = self._ended = threading.Event()
        opened, until = probe.opened(address), time.monotonic() + 2 * LIMIT

        def answer() -> None:
            with opened:
                probe.answer(opened, lambda: ended.is_set() or time.monotonic() > until)

        threading.Thread(target=answer, name="probe", daemon=True).start()
        self._say("answering", number, address=address, port=opened.getsockname()[1])

    def _ask(self, number: int, to: tuple[str, int], rate: float) -> None:
        try:
            with probe.opened() as asking:
                self._say("found", number, figures=measure(asking, to, rate, lambda: carried(self._addresses)))
        except (CosimError, OSError) as error:
            self._say("failed", number, error=str(error)[:200])

    def _say(self, kind: str, number: int, **what: object) -> None:
        with contextlib.suppress(OSError):  # the service is gone, and with it who wanted to know
            self._link.send(FROM_SIDECAR.pack(kind, {"probe": number, **what}))


def carried(interfaces: Collection[str], table: Path = DEVICES) -> int:
    """B that these interfaces have received and sent so far."""
    total = 0
    for line in table.read_text(encoding="ascii").splitlines()[2:]:
        name, _, counters = line.partition(":")
        if name.strip() in interfaces:
            fields = counters.split()
            total += int(fields[0]) + int(fields[8])
    return total


def measure(
    asking: socket.socket, to: tuple[str, int], rate: float, traffic: Callable[[], int] = lambda: 0
) -> list[float]:
    """Delay and its deviation (s), datagrams sent and received, rate (bit/s); NaN: not measured.

    `rate` is the link's nominal rate, bit/s, 0: unknown or not limited; the probe takes a part of it, except for the
    short time in which it measures the rate itself. It skips that when others use the interface: `traffic` returns the
    B that the interface has carried. RunError when no answer comes.
    """
    slowest = FRAME / (SHARE * rate) if rate > 0 else 0.0  # s between frames
    pause, gap = max(PAUSE, slowest), max(GAP, slowest)
    echoes = probe.delay(asking, to, count=_within(ECHOES, pause), pause=pause, size=SIZE)
    begun, before = time.monotonic(), traffic()
    losses = probe.loss(asking, to, count=_within(COUNTED, gap), pause=gap, size=SIZE)
    found = math.nan
    own = 2 * (losses.sent + 2) * FRAME / 8  # with whatever is answered
    used = (traffic() - before - own) / (time.monotonic() - begun) > SPARE
    if not used and RATES[0] <= rate <= RATES[1]:
        most = (probe.PAYLOAD + probe.OVERHEAD) * 8 * 30 / rate  # s of thirty frames
        found = probe.rate(asking, to, OFFERED * rate, max(LASTING, most)).received
    if not echoes.received and not losses.received:
        raise RunError("nothing has come through")
    return [echoes.there, echoes.there_deviation, losses.sent, losses.received, found]


def _within(count: int, pause: float) -> int:
    """How many of at most `count` have time."""
    return max(10, min(count, int(BUDGET / pause)))


def _limited(rate: float) -> float:
    return rate if math.isfinite(rate) else 0.0

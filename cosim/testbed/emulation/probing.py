"""Probes between nodes of a running experiment: the network service orders them, sidecars make them inside.

The connection is the one by which a sidecar has handed over its interfaces. The service sends, one JSON object a
packet,

    {"probe": n, "do": "answer", "interface": "wlan0"}       to the far node, which answers
    {"probe": n, "address": "10.9.0.2", "port": 41234}       or {"probe": n, "error": "why"}
    {"probe": n, "do": "ask", "to": "10.9.0.2", "port": 41234, "rate": 5e6}      to the near node, which answers
    {"probe": n, "found": [delay, deviation, sent, received, rate]}              or {"probe": n, "error": "why"}
    {"probe": n, "do": "end"}                                to the far node

One pair is probed at a time, so that probes do not disturb each other. No right is needed beyond those of a sidecar.
This module needs the standard library only, as sidecars do.
"""

from __future__ import annotations

import contextlib
import itertools
import json
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
from cosim.testbed.emulation import probe

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
WORD = 4096  # B of a packet
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


class Orders:
    """The service's part. `tell(node, word)` sends to a node's sidecar, and returns whether there is one."""

    def __init__(self, tell: Callable[[str, Mapping[str, Any]], bool]) -> None:
        self._tell = tell
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
            if not self._tell(far, {"probe": self._id, "do": "answer", "interface": interface}):
                self._end(error=f"{far} has no sidecar")

    def heard(self, node: str, word: Mapping[str, Any]) -> None:
        """Handle a sidecar's message; messages of no order, or of another node, are ignored."""
        order = self._current
        if order is None or word.get("probe") != self._id:
            return
        near, far, _ = order.key
        if "error" in word:
            self._end(error=f"{node}: {word['error']}"[:200])
        elif node == far and "port" in word:
            asked = {"to": word.get("address"), "port": word["port"], "rate": _limited(order.rate)}
            if not self._tell(near, {"probe": self._id, "do": "ask", **asked}):
                self._end(error=f"{near} has no sidecar")
        elif node == near and "found" in word:
            try:
                delay, deviation, sent, received, rate = word["found"]
                fine = {"delay": float(delay), "deviation": float(deviation), "rate": float(rate)}
                self._end(**fine, sent=int(sent), received=int(received))
            except (TypeError, ValueError):
                self._end(error=f"{node} does not say what it has found")

    def _end(self, **found: Any) -> None:  # noqa: ANN401 - the fields of Probe
        order, self._current = self._current, None
        if order is not None:
            self._tell(order.key[1], {"probe": self._id, "do": "end"})
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

    def take(self, data: bytes) -> None:
        """Carry out the service's order; everything that takes time runs in a thread."""
        try:
            word = json.loads(data)
            number, what = int(word["probe"]), word["do"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        try:
            if what == "answer":
                self._answer(number, self._addresses[word["interface"]])
            elif what == "ask":
                to = (str(word["to"]), int(word["port"]))
                threading.Thread(target=self._ask, args=(number, to, float(word["rate"])), daemon=True).start()
            elif what == "end":
                self._ended.set()
        except (CosimError, KeyError, TypeError, ValueError) as error:
            self._say(number, error=f"{type(error).__name__}: {error}")

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
        self._say(number, address=address, port=opened.getsockname()[1])

    def _ask(self, number: int, to: tuple[str, int], rate: float) -> None:
        try:
            with probe.opened() as asking:
                self._say(number, found=measure(asking, to, rate, lambda: carried(self._addresses)))
        except (CosimError, OSError) as error:
            self._say(number, error=str(error)[:200])

    def _say(self, number: int, **what: object) -> None:
        with contextlib.suppress(OSError):  # the service is gone, and with it who wanted to know
            self._link.send(json.dumps({"probe": number, **what}).encode())


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

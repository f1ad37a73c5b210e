"""Messages between the network service and the bus's side.

To the service (any number of clients; the latest state wins): states of links, positions of nodes, links to be
measured with their rates, new and withdrawn routes of nodes, and hello. A client numbers its messages from 1. The
service answers each message, but does not apply one whose number is not above the last one of its session. A service
that has another id than before has restarted and knows nothing of the past.

From the service to all, each second: a report (`EmulationReport`). Tables of many rows travel as raw columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cosim.contract.errors import ProtocolError
from cosim.talk.codec import Data, Is, List, Maybe, Message, MessageSet, Number, Row, Text, Whole
from cosim.testbed.emulation.probing import Probe
from cosim.testbed.emulation.protocol import PairCount, check
from cosim.testbed.emulation.routing import Hop, Table, checked
from cosim.testbed.emulation.state import Health, LinkState, Position

MAX_MESSAGE = 1 << 26  # B: all pairs of a thousand nodes
MAX_NAMES = 4096
MAX_ROWS = 1 << 20
MAX_TEXT = 128  # characters of a name
SESSION = 8  # B, of a client's and a service's id
NAME = Text(MAX_TEXT, least=1, free=True, pattern=r"[^\x00-\x1f\x7f]+")
_KEYS = Data(12 * MAX_ROWS, unit=12)  # (links, 3) int32: sender, receiver, interface, as places in `names`
_KEY = (NAME, NAME, NAME)
_COUNT = Whole()
_TEXT = Text(500, free=True)

FROM_CLIENT = MessageSet(
    "a client",
    {
        "hello": {},
        # (links, 7) float64, as LinkState
        "links": {"names": List(NAME, MAX_NAMES), "keys": _KEYS, "rows": Data(56 * MAX_ROWS, unit=56)},
        "move": {"names": List(NAME, MAX_NAMES), "rows": Data(24 * MAX_ROWS, unit=24)},  # (nodes, 3) float64, m
        # (links, 1) float64, bit/s
        "probe": {"names": List(NAME, MAX_NAMES), "keys": _KEYS, "rows": Data(8 * MAX_ROWS, unit=8)},
        # node, destination, interface and neighbour, or None to withdraw the route
        "routes": {"routes": List(Row((NAME, Text(40), Maybe(Text(15)), Maybe(Text(15)))), MAX_ROWS)},
    },
    MAX_MESSAGE,
)
FROM_SERVICE = MessageSet(
    "the network service",
    {
        "answer": {"service": Data(SESSION, least=SESSION), "error": _TEXT},
        "report": {
            "service": Data(SESSION, least=SESSION),
            "backend": NAME,
            "restarts": _COUNT,
            "ports": List(Row((NAME, NAME)), MAX_ROWS),
            "health": Row(
                (
                    Is(bool),
                    Number(unknown=True),
                    Number(unknown=True),
                    _COUNT,
                    _COUNT,
                    _COUNT,
                    Number(),
                    Number(unknown=True),
                    _COUNT,
                    _COUNT,
                    Number(unknown=True),
                    Number(unknown=True),
                )
            ),
            "counts": List(Row((*_KEY, _COUNT, _COUNT, _COUNT, _COUNT)), MAX_ROWS),
            "probes": List(
                Row(
                    (
                        *_KEY,
                        Data(SESSION),
                        _COUNT,
                        Number(unknown=True),
                        Number(unknown=True),
                        _COUNT,
                        _COUNT,
                        Number(unknown=True),
                        _TEXT,
                    )
                ),
                MAX_ROWS,
            ),
        },
    },
    MAX_MESSAGE,
)

LinkKey = tuple[str, str, str]  # sender, receiver, interface
Links = dict[LinkKey, LinkState]


@dataclass(frozen=True, slots=True)
class Command:
    """A message to the service."""

    verb: str
    session: bytes
    number: int
    links: Mapping[LinkKey, LinkState] = field(default_factory=dict)
    positions: Mapping[str, Position] = field(default_factory=dict)
    probes: Mapping[LinkKey, float] = field(default_factory=dict)  # bit/s that links should have, inf: not limited
    routes: Mapping[str, Table] = field(default_factory=dict)  # of nodes


@dataclass(frozen=True, slots=True)
class Answer:
    """The service's answer to a command."""

    service: bytes
    number: int
    error: str


@dataclass(frozen=True, slots=True)
class EmulationReport:
    """How the service fares; counts are totals since its start, of the pairs that changed since the last report."""

    service: bytes
    backend: str  # in words
    restarts: int  # of the engine
    ports: frozenset[tuple[str, str]]  # node, interface: those that are attached
    health: Health  # since the last report
    counts: Mapping[LinkKey, PairCount]
    probes: Mapping[LinkKey, Probe]  # of each link that was probed the last


def links(session: bytes, number: int, states: Mapping[LinkKey, LinkState]) -> bytes:
    """A message with states of links."""
    return _packed("links", session, number, **_table(states, list(states.values())))


def move(session: bytes, number: int, positions: Mapping[str, Position]) -> bytes:
    """A message with positions of nodes, m."""
    rows = np.asarray(list(positions.values()), "<f8").tobytes()
    return _packed("move", session, number, names=list(positions), rows=rows)


def probes(session: bytes, number: int, rates: Mapping[LinkKey, float]) -> bytes:
    """A message that asks for links to be measured; `rates` are those that they should have, bit/s."""
    return _packed("probe", session, number, **_table(rates, list(rates.values())))


def routes(session: bytes, number: int, tables: Mapping[str, Table]) -> bytes:
    """A message with routes of nodes."""
    rows = [[node, to, *(hop or (None, None))] for node, table in tables.items() for to, hop in table.items()]
    return _packed("routes", session, number, routes=rows)


def hello(session: bytes, number: int) -> bytes:
    """A message that only wants to be answered."""
    return _packed("hello", session, number)


def command(data: bytes) -> Command:
    """Read a message to the service; ProtocolError with the reason when it is invalid."""
    kind, body, session, number, *_ = FROM_CLIENT.unpack(data)
    if len(session) != SESSION or not number:
        raise ProtocolError("a message without session and number")
    made = Command(kind, session, number)
    if kind == "links":
        return replace(made, links=_links(body))
    if kind == "move":
        return replace(made, positions=_positions(body))
    if kind == "probe":
        return replace(made, probes=_probes(body))
    if kind == "routes":
        return replace(made, routes=_routes(body))
    return made


def answer(service: bytes, number: int, error: str = "") -> bytes:
    """A message to a client."""
    return FROM_SERVICE.pack("answer", {"service": service, "error": error[:500]}, number=number)


def read_answer(data: bytes) -> Answer:
    """Read the answer of a service; ProtocolError when it is none."""
    message = _of("answer", data)
    return Answer(message.body["service"], message.number, message.body["error"])


def report(said: EmulationReport) -> bytes:
    """A message to all."""
    return FROM_SERVICE.pack(
        "report",
        {
            "service": said.service,
            "backend": said.backend,
            "restarts": said.restarts,
            "ports": sorted(map(list, said.ports)),
            "health": [getattr(said.health, name) for name in Health.__slots__],
            "counts": [[*key, *count] for key, count in said.counts.items()],
            "probes": [[*key, *(getattr(one, name) for name in Probe.__slots__)] for key, one in said.probes.items()],
        },
    )


def read_report(data: bytes) -> EmulationReport:
    """Read a report; ProtocolError when it is none."""
    body = _of("report", data).body
    counts = {(row[0], row[1], row[2]): PairCount(*row[3:]) for row in body["counts"]}
    found = {(row[0], row[1], row[2]): Probe(*row[3:]) for row in body["probes"]}
    ports = frozenset((node, interface) for node, interface in body["ports"])
    return EmulationReport(
        body["service"], body["backend"], body["restarts"], ports, Health(*body["health"]), counts, found
    )  # fmt: skip


class _Names(dict[str, int]):
    """Numbers names in the order in which they are asked for."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def _packed(kind: str, session: bytes, number: int, **body: object) -> bytes:
    return FROM_CLIENT.pack(kind, body, session=session, number=number)


def _of(kind: str, data: bytes) -> Message:
    message = FROM_SERVICE.unpack(data)
    if message.kind != kind:
        raise ProtocolError(f"a '{message.kind}' where a '{kind}' was expected")
    return message


def _table(keys: Mapping[LinkKey, object], rows: object) -> dict[str, object]:
    """A table with a row for each link."""
    names = _Names()
    places = [(names[sender], names[receiver], names[interface]) for sender, receiver, interface in keys]
    return {
        "names": list(names), "keys": np.asarray(places, "<i4").tobytes(), "rows": np.asarray(rows, "<f8").tobytes(),
    }  # fmt: skip


def _links(body: Mapping[str, Any]) -> Links:
    made: Links = {}
    for key, values in zip(*_keyed(body, 7), strict=True):
        state = LinkState(*values)
        check(state)
        made[key] = state
    return made


def _probes(body: Mapping[str, Any]) -> dict[LinkKey, float]:
    keys, rates = _keyed(body, 1)
    if not all(rate >= 0 for (rate,) in rates):
        raise ProtocolError("the rate of a link is negative or none")
    return dict(zip(keys, (rate for (rate,) in rates), strict=True))


def _routes(body: Mapping[str, Any]) -> dict[str, dict[str, Hop | None]]:
    tables: dict[str, dict[str, Hop | None]] = {}
    for node, destination, interface, via in body["routes"]:
        network, hop = checked(destination, interface, via)
        tables.setdefault(node, {})[network] = hop
    return tables


def _keyed(body: Mapping[str, Any], width: int) -> tuple[list[LinkKey], list[Any]]:
    """The links of a message, and their rows."""
    names, keys, rows = body["names"], _columns(body["keys"], "<i4", 3), _columns(body["rows"], "<f8", width)
    if len(keys) != len(rows):
        raise ProtocolError(f"{len(keys)} links, but {len(rows)} rows")
    if keys.size and not (keys.min() >= 0 and keys.max() < len(names)):
        raise ProtocolError("a link has a name that is not listed")
    made: list[LinkKey] = []
    for sender, receiver, interface in keys.tolist():
        if sender == receiver:
            raise ProtocolError(f"a link of '{names[sender]}' to itself")
        made.append((names[sender], names[receiver], names[interface]))
    return made, rows.tolist()


def _positions(body: Mapping[str, Any]) -> dict[str, Position]:
    names, places = body["names"], _columns(body["rows"], "<f8", 3)
    if len(names) != len(places):
        raise ProtocolError(f"{len(names)} names, but {len(places)} positions")
    if not np.isfinite(places).all():
        raise ProtocolError("a position is not finite")
    return {name: (x, y, z) for name, (x, y, z) in zip(names, places.tolist(), strict=True)}


def _columns(data: bytes, kind: str, width: int) -> Any:  # noqa: ANN401 - an array of a kind
    return np.frombuffer(data, kind).reshape(-1, width)

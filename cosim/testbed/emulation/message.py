"""Messages between the network service and the bus's side.

To the service (any number of clients; the latest state wins): states of links, positions of nodes, links to be
measured with their rates, new and withdrawn routes of nodes, and hello. A client numbers its messages from 1. The
service answers each message, but does not apply one whose number is not above the last one of its session. A service
that has another id than before has restarted and knows nothing of the past.

From the service to all, each second: a report (`EmulationReport`). Tables of many rows travel as raw columns.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import ProtocolError
from cosim.contract.link import BOUNDS, LinkState
from cosim.talk.codec import Data, Is, List, Message, MessageSet, Number, RowOf, Text, Whole
from cosim.testbed.emulation import orders
from cosim.testbed.emulation.orders import KEYS, LINKS, MAX_NAMES, MAX_ROWS, NAME, ROUTE, LinkKey
from cosim.testbed.emulation.probing import Probe
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.emulation.routing import Hop, Table, checked
from cosim.testbed.emulation.state import Health, Position

MAX_MESSAGE = 1 << 26  # B: all pairs of a thousand nodes
SESSION = 8  # B, of a client's and a service's id
_LEAST, _MOST = np.array([bounds[1:] for bounds in BOUNDS]).T  # of a link's row
_KEY = (NAME, NAME, NAME)
_RATE = struct.Struct("<d")
_COUNT = Whole()
_TEXT = Text(500, free=True)
_FIGURE = Number(unknown=True)

FROM_CLIENT = MessageSet(
    "a client",
    {
        "hello": {},
        # (links, fields of LinkState) float64
        "links": LINKS,
        "move": {"names": List(NAME, MAX_NAMES), "rows": Data(24 * MAX_ROWS, unit=24)},  # (nodes, 3) float64, m
        # (links, 1) float64, bit/s
        "probe": {"names": List(NAME, MAX_NAMES), "keys": KEYS, "rows": Data(8 * MAX_ROWS, unit=8)},
        # node, destination, interface and neighbour, or None to withdraw the route
        "routes": {"routes": List(RowOf((NAME, *ROUTE)), MAX_ROWS)},
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
            "ports": List(RowOf((NAME, NAME)), MAX_ROWS),
            # as the fields of Health, PairCount and Probe
            "health": RowOf(
                (Is(bool), _FIGURE, _FIGURE, *[_COUNT] * 3, Number(), _FIGURE, *[_COUNT] * 2, *[_FIGURE] * 2)
            ),
            "counts": List(RowOf((*_KEY, *[_COUNT] * 4)), MAX_ROWS),
            "probes": List(
                RowOf((*_KEY, Data(SESSION), _COUNT, _FIGURE, _FIGURE, _COUNT, _COUNT, _FIGURE, _TEXT)), MAX_ROWS
            ),
        },
    },
    MAX_MESSAGE,
)

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
class ServiceAnswer:
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
    return _packed("links", session, number, **orders.links(states))


def move(session: bytes, number: int, positions: Mapping[str, Position]) -> bytes:
    """A message with positions of nodes, m."""
    rows = np.asarray(list(positions.values()), "<f8").tobytes()
    return _packed("move", session, number, names=list(positions), rows=rows)


def probes(session: bytes, number: int, rates: Mapping[LinkKey, float]) -> bytes:
    """A message that asks for links to be measured; `rates` are those that they should have, bit/s."""
    return _packed("probe", session, number, **orders.table(rates, [_RATE.pack(rate) for rate in rates.values()]))


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


def read_answer(data: bytes) -> ServiceAnswer:
    """Read the answer of a service; ProtocolError when it is none."""
    message = _of("answer", data)
    return ServiceAnswer(message.body["service"], message.number, message.body["error"])


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


def _packed(kind: str, session: bytes, number: int, **body: object) -> bytes:
    return FROM_CLIENT.pack(kind, body, session=session, number=number)


def _of(kind: str, data: bytes) -> Message:
    message = FROM_SERVICE.unpack(data)
    if message.kind != kind:
        raise ProtocolError(f"a '{message.kind}' where a '{kind}' was expected")
    return message


def _links(body: Mapping[str, Any]) -> Links:
    keys, rows = _keyed(body, len(LinkState._fields))
    for row in rows[~((rows == 0.0) | ((rows >= _LEAST) & (rows <= _MOST))).all(axis=1)].tolist():
        LinkState._make(row).check()
    return dict(zip(keys, map(LinkState._make, rows.tolist()), strict=True))


def _probes(body: Mapping[str, Any]) -> dict[LinkKey, float]:
    keys, rates = _keyed(body, 1)
    if not (rates >= 0.0).all():
        raise ProtocolError("the rate of a link is negative or none")
    return dict(zip(keys, rates[:, 0].tolist(), strict=True))


def _routes(body: Mapping[str, Any]) -> dict[str, dict[str, Hop | None]]:
    tables: dict[str, dict[str, Hop | None]] = {}
    for node, destination, interface, via in body["routes"]:
        network, hop = checked(destination, interface, via)
        tables.setdefault(node, {})[network] = hop
    return tables


def _keyed(body: Mapping[str, Any], width: int) -> tuple[list[LinkKey], NDArray[np.float64]]:
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
    return made, rows


def _positions(body: Mapping[str, Any]) -> dict[str, Position]:
    names, places = body["names"], _columns(body["rows"], "<f8", 3)
    if len(names) != len(places):
        raise ProtocolError(f"{len(names)} names, but {len(places)} positions")
    if not np.isfinite(places).all():
        raise ProtocolError("a position is not finite")
    return {name: (x, y, z) for name, (x, y, z) in zip(names, places.tolist(), strict=True)}


def _columns(data: bytes, kind: str, width: int) -> Any:  # noqa: ANN401 - an array of a kind
    return np.frombuffer(data, kind).reshape(-1, width)

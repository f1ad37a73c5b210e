"""What the network service and the bus's side say to each other: msgpack maps, bounded and checked.

To the service (any number of clients; the latest state wins):

    {"protocol": 1, "verb": "links", "session": id, "number": n, ...}   states of links, by columns
    {"protocol": 1, "verb": "move", "session": id, "number": n, ...}    positions of nodes, by columns
    {"protocol": 1, "verb": "probe", "session": id, "number": n, ...}   links to be measured, with their rates
    {"protocol": 1, "verb": "routes", "session": id, "number": n, ...}  routes of nodes, new and withdrawn
    {"protocol": 1, "verb": "hello", "session": id, "number": n}        answered like the others

A client numbers its messages from 1. Each is answered by {"protocol": 1, "service": id, "number": n, "error": ""}; what
has a number that is not above the last one of its session is answered, but not applied again. A service that has
another id than before has started anew and knows nothing of the past.

From the service to all, each second: a report (`Report`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np

from cosim.emulation.probing import Probe
from cosim.emulation.protocol import PairCount, ProtocolError, check
from cosim.emulation.routing import Hop, Table, checked
from cosim.emulation.state import Health, LinkState, Position

PROTOCOL = 1
MAX_MESSAGE = 1 << 26  # B: all pairs of a thousand nodes
MAX_NAMES = 4096
MAX_ROWS = 1 << 20
MAX_TEXT = 128  # characters of a name
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_ID = re.compile(r"[0-9a-f]{16}")

LinkKey = tuple[str, str, str]  # sender, receiver, interface
Links = dict[LinkKey, LinkState]


@dataclass(frozen=True, slots=True)
class Command:
    """A message to the service."""

    verb: str
    session: str
    number: int
    links: Mapping[LinkKey, LinkState] = field(default_factory=dict)
    positions: Mapping[str, Position] = field(default_factory=dict)
    probes: Mapping[LinkKey, float] = field(default_factory=dict)  # bit/s that links should have, inf: not limited
    routes: Mapping[str, Table] = field(default_factory=dict)  # of nodes


@dataclass(frozen=True, slots=True)
class Answer:
    """What the service says to a command."""

    service: str
    number: int
    error: str


@dataclass(frozen=True, slots=True)
class Report:
    """How the service fares; counts are totals since its start, of the pairs that changed since the last report."""

    service: str
    backend: str  # in words
    restarts: int  # of the engine
    ports: frozenset[tuple[str, str]]  # node, interface: those that are attached
    health: Health  # since the last report
    counts: Mapping[LinkKey, PairCount]
    probes: Mapping[LinkKey, Probe]  # of each link that was probed the last


def links(session: str, number: int, states: Mapping[LinkKey, LinkState]) -> bytes:
    """A message with states of links."""
    names = _Names()
    rows = [(names[sender], names[receiver], names[interface]) for sender, receiver, interface in states]
    return _packed(
        {
            **_head("links", session, number),
            "names": list(names),
            "keys": np.asarray(rows, "<i4").tobytes(),  # shape (links, 3): sender, receiver, interface
            "states": np.asarray(list(states.values()), "<f8").tobytes(),  # shape (links, 5), as LinkState
        }
    )


def move(session: str, number: int, positions: Mapping[str, Position]) -> bytes:
    """A message with positions of nodes, m."""
    places = np.asarray(list(positions.values()), "<f8").tobytes()  # shape (nodes, 3)
    return _packed({**_head("move", session, number), "names": list(positions), "places": places})


def probes(session: str, number: int, rates: Mapping[LinkKey, float]) -> bytes:
    """A message that asks for links to be measured; `rates` are those that they should have, bit/s."""
    names = _Names()
    rows = [(names[sender], names[receiver], names[interface]) for sender, receiver, interface in rates]
    keys, wanted = np.asarray(rows, "<i4").tobytes(), np.asarray(list(rates.values()), "<f8").tobytes()
    return _packed({**_head("probe", session, number), "names": list(names), "keys": keys, "rates": wanted})


def routes(session: str, number: int, tables: Mapping[str, Table]) -> bytes:
    """A message with routes of nodes."""
    rows = [[node, to, *(hop or (None, None))] for node, table in tables.items() for to, hop in table.items()]
    return _packed({**_head("routes", session, number), "routes": rows})


def hello(session: str, number: int) -> bytes:
    """A message that only wants to be answered."""
    return _packed(_head("hello", session, number))


def command(data: bytes) -> Command:
    """Read a message to the service; ProtocolError, which says what is wrong."""
    found = _unpacked(data)
    verb, session, number = found.get("verb"), found.get("session"), found.get("number")
    if not isinstance(session, str) or not _ID.fullmatch(session):
        raise ProtocolError(f"session is no id: {session!r}")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**63:
        raise ProtocolError(f"number is none: {number!r}")
    if verb == "links":
        return Command("links", session, number, links=_links(found))
    if verb == "move":
        return Command("move", session, number, positions=_positions(found))
    if verb == "probe":
        return Command("probe", session, number, probes=_probes(found))
    if verb == "routes":
        return Command("routes", session, number, routes=_routes(found))
    if verb == "hello":
        return Command("hello", session, number)
    raise ProtocolError(f"verb is none of links, move, probe, routes, hello: {verb!r}")


def answer(service: str, number: int, error: str = "") -> bytes:
    """A message to a client."""
    return _packed({"protocol": PROTOCOL, "service": service, "number": number, "error": error})


def read_answer(data: bytes) -> Answer:
    """Read the answer of a service; ProtocolError when it is none."""
    found = _unpacked(data)
    service, number, error = found.get("service"), found.get("number"), found.get("error")
    if not isinstance(service, str) or not isinstance(number, int) or not isinstance(error, str):
        raise ProtocolError("not an answer of the network service")
    return Answer(service, number, error)


def report(said: Report) -> bytes:
    """A message to all."""
    health = said.health
    return _packed(
        {
            "protocol": PROTOCOL,
            "service": said.service,
            "backend": said.backend,
            "restarts": said.restarts,
            "ports": sorted(said.ports),
            "health": [getattr(health, name) for name in Health.__slots__],
            "counts": [[*key, *count] for key, count in said.counts.items()],
            "probes": [[*key, *(getattr(one, name) for name in Probe.__slots__)] for key, one in said.probes.items()],
        }
    )


def read_report(data: bytes) -> Report:
    """Read a report; ProtocolError when it is none."""
    found = _unpacked(data)
    try:
        ports = frozenset((_name(node), _name(interface)) for node, interface in found["ports"])
        counts = {
            (_name(row[0]), _name(row[1]), _name(row[2])): PairCount(*map(_whole, row[3:])) for row in found["counts"]
        }
        alive, lag_mean, lag_max, received, delivered, dropped, cpu, memory = found["health"]
        health = Health(
            bool(alive), float(lag_mean), float(lag_max), _whole(received), _whole(delivered), _whole(dropped),
            float(cpu), float(memory),
        )  # fmt: skip
        probes = {(_name(row[0]), _name(row[1]), _name(row[2])): _probe(*row[3:]) for row in found["probes"]}
        restarts = _whole(found["restarts"])
        return Report(_name(found["service"]), _name(found["backend"]), restarts, ports, health, counts, probes)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ProtocolError(f"not a report of the network service: {error}") from error


class _Names(dict[str, int]):
    """Numbers names in the order in which they are asked for."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def _head(verb: str, session: str, number: int) -> dict[str, Any]:
    return {"protocol": PROTOCOL, "verb": verb, "session": session, "number": number}


def _packed(content: Mapping[str, Any]) -> bytes:
    data: bytes = msgpack.packb(content)
    if len(data) > MAX_MESSAGE:
        raise ProtocolError(f"a message of {len(data)} B; at most {MAX_MESSAGE} B can be sent")
    return data


def _unpacked(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_MESSAGE:
        raise ProtocolError(f"a message of {len(data)} B; at most {MAX_MESSAGE} B are taken")
    try:
        found = msgpack.unpackb(data, strict_map_key=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise ProtocolError(f"not msgpack: {type(error).__name__} {error}") from error
    if not isinstance(found, dict):
        raise ProtocolError("not a msgpack map")
    if found.get("protocol") != PROTOCOL:
        raise ProtocolError(
            f"protocol {found.get('protocol')!r}, but this is {PROTOCOL}; the two ends differ in version"
        )
    return found


def _probe(
    session: str, number: int, delay: float, deviation: float, sent: int, received: int, rate: float, error: str
) -> Probe:
    times = (float(delay), float(deviation))
    return Probe(str(session), _whole(number), *times, _whole(sent), _whole(received), float(rate), str(error))


def _links(found: Mapping[str, Any]) -> Links:
    names = _listed(found)
    made: Links = {}
    for key, values in zip(*_keyed(found, names, "states", 5), strict=True):
        state = LinkState(*values)
        check(state)
        made[key] = state
    return made


def _probes(found: Mapping[str, Any]) -> dict[LinkKey, float]:
    keys, rates = _keyed(found, _listed(found), "rates", 1)
    if not all(rate >= 0 for (rate,) in rates):
        raise ProtocolError("the rate of a link is negative or none")
    return dict(zip(keys, (rate for (rate,) in rates), strict=True))


def _routes(found: Mapping[str, Any]) -> dict[str, dict[str, Hop | None]]:
    rows = found.get("routes")
    if not isinstance(rows, list) or len(rows) > MAX_ROWS:
        raise ProtocolError(f"routes is no list of at most {MAX_ROWS}")
    tables: dict[str, dict[str, Hop | None]] = {}
    for row in rows:
        try:
            node, destination, interface, via = row
            name = _name(node)
        except (ValueError, TypeError) as error:
            raise ProtocolError(f"not a node's route: {row!r}"[:200]) from error
        network, hop = checked(destination, interface, via)
        tables.setdefault(name, {})[network] = hop
    return tables


def _keyed(found: Mapping[str, Any], names: list[str], name: str, width: int) -> tuple[list[LinkKey], list[Any]]:
    """The links of a message, and the rows of its table `name`."""
    keys, rows = _columns(found, "keys", "<i4", 3), _columns(found, name, "<f8", width)
    if len(keys) != len(rows):
        raise ProtocolError(f"{len(keys)} links, but {len(rows)} {name}")
    if keys.size and not (keys.min() >= 0 and keys.max() < len(names)):
        raise ProtocolError("a link has a name that is not listed")
    made: list[LinkKey] = []
    for sender, receiver, interface in keys.tolist():
        if sender == receiver:
            raise ProtocolError(f"a link of '{names[sender]}' to itself")
        made.append((names[sender], names[receiver], names[interface]))
    return made, rows.tolist()


def _positions(found: Mapping[str, Any]) -> dict[str, Position]:
    names, places = _listed(found), _columns(found, "places", "<f8", 3)
    if len(names) != len(places):
        raise ProtocolError(f"{len(names)} names, but {len(places)} positions")
    if not np.isfinite(places).all():
        raise ProtocolError("a position is not finite")
    return {name: (x, y, z) for name, (x, y, z) in zip(names, places.tolist(), strict=True)}


def _listed(found: Mapping[str, Any]) -> list[str]:
    names = found.get("names")
    if not isinstance(names, list) or len(names) > MAX_NAMES:
        raise ProtocolError(f"names is no list of at most {MAX_NAMES}")
    try:
        return [_name(name) for name in names]
    except ValueError as error:
        raise ProtocolError(str(error)) from error


def _columns(found: Mapping[str, Any], name: str, kind: str, width: int) -> Any:  # noqa: ANN401 - an array of a kind
    data = found.get(name)
    size = width * np.dtype(kind).itemsize
    if not isinstance(data, bytes) or len(data) % size or len(data) // size > MAX_ROWS:
        raise ProtocolError(f"{name} is no table of {width} columns {kind} and at most {MAX_ROWS} rows")
    return np.frombuffer(data, kind).reshape(-1, width)


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(f"not a name of 1 to 128 printable characters: {value!r}"[:200])
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"not a count: {value!r}"[:200])
    return value

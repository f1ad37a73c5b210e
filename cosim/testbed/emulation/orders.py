"""Messages between the network service and sidecars, over the socket by which descriptors are handed over.

Links are the message that the bus's side sends (`cosim.testbed.emulation.message`), of a node's own links, with the
MAC of the far end in place of its name. Needs only Python and msgpack: a sidecar has little memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cosim.contract.errors import ProtocolError
from cosim.contract.link import LinkState
from cosim.talk.codec import Data, Field, List, Maybe, MessageSet, Number, RowOf, Text, Whole

PACKET = 4096  # B
PART = 20  # rows of a packet
MAX_NAMES = 4096
MAX_ROWS = 1 << 20
MAX_TEXT = 128  # characters of a name
NAME = Text(MAX_TEXT, least=1, free=True, pattern=r"[^\x00-\x1f\x7f]+")
ROW = struct.Struct(f"<{len(LinkState._fields)}d")  # a link's state
KEYS = Data(12 * MAX_ROWS, unit=12)  # (links, 3) int32: sender, receiver, interface, as places in `names`
LINKS: Mapping[str, Field] = {
    "names": List(NAME, MAX_NAMES),
    "keys": KEYS,
    "rows": Data(ROW.size * MAX_ROWS, unit=ROW.size),
}
ROUTE = (Text(40), Maybe(Text(15)), Maybe(Text(15)))  # destination, interface, neighbour; None: withdrawn

_KEY = struct.Struct("<3i")
_INTERFACE, _MAC, _ADDRESS = Text(15, pattern=r"[A-Za-z0-9_.-]+"), Text(17), Text(15)
_COUNT, _PORT, _TEXT = Whole(), Whole(1, 65535), Text(1000, free=True)

TO_SIDECAR = MessageSet(
    "the network service",
    {
        "taken": {},  # answers to an announcement
        "refused": {"error": _TEXT},
        "links": LINKS,  # to be imposed here
        "peers": {"peers": List(RowOf((_INTERFACE, _MAC, _ADDRESS)), PART)},  # where tunnels end
        "routes": {"routes": List(RowOf(ROUTE), 32)},
        "answer": {"probe": _COUNT, "interface": _INTERFACE},  # to the far node of a probe
        "ask": {"probe": _COUNT, "to": _ADDRESS, "port": _PORT, "rate": Number(0.0)},  # to the near node
        "end": {"probe": _COUNT},  # to the far node
    },
    PACKET,
)
FROM_SIDECAR = MessageSet(
    "a sidecar",
    {
        # at: address of its tunnel where it shapes the interface itself, "" without one; None: a descriptor comes along
        "announce": {
            "node": NAME, "interface": _INTERFACE, "mac": _MAC, "at": Maybe(_ADDRESS), "remark": Text(200, free=True)
        },
        "listening": {},  # requests all routes and links of its node
        "unread": {"frames": _COUNT},  # that the kernel dropped at TAPs
        # sent, dropped, s of processor time; interface, MAC, frames, bytes, dropped
        "shaped": {
            "health": RowOf((_COUNT, _COUNT, Number(0.0))),
            "counts": List(RowOf((_INTERFACE, _MAC, _COUNT, _COUNT, _COUNT)), PART),
        },
        "unshaped": {"error": _TEXT},  # links that it cannot impose
        "answering": {"probe": _COUNT, "address": _ADDRESS, "port": _PORT},
        # delay and its deviation, s; datagrams sent and received; rate, bit/s
        "found": {
            "probe": _COUNT,
            "figures": RowOf((Number(unknown=True), Number(unknown=True), _COUNT, _COUNT, Number(unknown=True))),
        },
        "failed": {"probe": _COUNT, "error": _TEXT},
    },
    PACKET,
)  # fmt: skip

LinkKey = tuple[str, str, str]  # sender, receiver, interface
SendTo = Callable[[str, str, Mapping[str, Any]], bool]  # node, kind, body: whether a sidecar was reached


class _Names(dict[str, int]):
    """Numbers names in the order in which they are asked for."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def table(keys: Iterable[LinkKey], rows: Iterable[bytes]) -> dict[str, object]:
    """The body of a message with a row for each link."""
    names = _Names()
    places = b"".join([_KEY.pack(names[sender], names[receiver], names[i]) for sender, receiver, i in keys])
    return {"names": list(names), "keys": places, "rows": b"".join(rows)}


def links(states: Mapping[LinkKey, LinkState]) -> dict[str, object]:
    """The body of a message with states of links."""
    return table(states, [ROW.pack(*state) for state in states.values()])


def states_of(body: Mapping[str, Any]) -> Iterator[tuple[LinkKey, LinkState]]:
    """The states of a message with few links, which are not checked. Raises `ProtocolError` for a name that is none."""
    names = body["names"]
    for places, row in zip(_KEY.iter_unpack(body["keys"]), ROW.iter_unpack(body["rows"]), strict=False):
        if not all(0 <= place < len(names) for place in places):
            raise ProtocolError("a link has a name that is not listed")
        sender, receiver, interface = (names[place] for place in places)
        yield (sender, receiver, interface), LinkState._make(row)

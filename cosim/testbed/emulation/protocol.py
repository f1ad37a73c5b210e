"""The words between a backend and an engine: the child process that carries the nodes' frames.

An engine is a program that is called `ENGINE [options] --control=FD`. It ends with exit code 0 at `Q`
and when its standard input ends, and dies with its parent. Both linkd and the ns-3 engine speak this:

Standard input, one record a command, as `engine_command` of native/link_state.h has it; ports are numbers from 0. A
record that is wrong is counted, nothing else:

    kind  port  other     what follows
    P     port            x, y, z: position, m (engines without a radio ignore it)
    C     port  channel   ports of a channel share its air; -1: none
    B     port  0 or 1    1: a base station; all links from it share one transmitter, all links to it another
    L     from  to        queue, s at the link's rate; the link's row, as it is in the messages to the service
    Q                     end

A link's queue holds ten full frames at least: what waits to be sent, not what is on its way. A link that was never set
is down, as is one without a rate or with a loss of 1. An engine imposes a row as the integers that the marks of
`cosim.contract.link.LinkState` name.

The control socket (SOCK_SEQPACKET, the descriptor FD) opens and closes ports, in the order of its packets:

    attach: port as uint32 and the 6 bytes of the MAC, with the TAP's descriptor by SCM_RIGHTS
    detach: port as uint32 alone; the engine closes the descriptor

(both little-endian). An attached port is replaced. Attaching and detaching share one ordered socket because
a detach that is overtaken by a later attach of the same port would close the wrong descriptor.

Standard output, a JSON object a line, the first when the engine is ready and then one each second:

    {"lag_avg_ms": 0.1, "lag_max_ms": 0.4,    how late frames or events were since the last line
     "in": 9, "out": 9,                       frames read from the ports, frames written to them
     "lost": 0,                               frames lost on purpose (loss, links that are down)
     "in_drop": 0, "out_drop": 0,             frames refused, by full queues too, frames that a port did not take
     "over": 0,                               those refused since there was no memory for them (may be absent)
     "lag_at": 71.2,                          s of the monotonic clock, when the largest lag was seen (may be absent)
     "bad": 0,                                commands and packets that were wrong
     "cpu": 0.02, "rss_mb": 11.5,             s of processor time, MiB of memory
     "pairs": [[from, to, frames, bytes, lost, dropped], ...]}

Counts are totals since the engine's start; `pairs` (may be absent) has those that changed since the last line.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from cosim.contract.errors import ProtocolError
from cosim.contract.link import INTEGERS, LinkState
from cosim.contract.quantity import quantities
from cosim.testbed.emulation.state import Position

K = TypeVar("K")

MAX_PORTS = 1024
MAX_LINE = 1 << 24  # B of one line of statistics
MAX_LIMIT = 1 << 30  # B
LEAST_QUEUE = 16_000  # B, ten full frames
ATTACH = struct.Struct("<I6s")
DETACH = struct.Struct("<I")
COMMAND = struct.Struct(f"=IIi4xd{len(INTEGERS)}d")  # `engine_command` of native/link_state.h
_POSITION, _CHANNEL, _CELL, _LINK, _END = b"PCBLQ"
_NONE = (0.0,) * len(INTEGERS)
END = COMMAND.pack(_END, 0, 0, 0.0, *_NONE)


class PairCount(NamedTuple):
    """What became of the frames of an ordered pair of ports."""

    frames: int  # delivered
    bytes: int  # delivered
    lost: int  # frames lost on purpose
    dropped: int  # frames refused by a full queue or by the receiver's port


@dataclass(frozen=True, slots=True)
class Statistics:
    """One line of an engine's output; counts since its start."""

    lag_mean: float = 0.0  # s
    lag_max: float = 0.0  # s
    lag_at: float = math.nan  # s of the monotonic clock, when the largest lag was seen; NaN: not known
    memory: float = math.nan  # B, NaN: not known
    received: int = 0  # frames
    delivered: int = 0  # frames
    lost: int = 0  # frames
    refused: int = 0  # frames
    undelivered: int = 0  # frames
    overflowed: int = 0  # frames, of those refused: for want of memory, not of queue
    bad: int = 0  # commands and packets
    cpu: float = 0.0  # s
    pairs: Mapping[tuple[int, int], PairCount] = field(default_factory=dict)  # those that changed

    def after(self, earlier: Statistics) -> Statistics:
        """Totals with those of an engine before this one; the rest as now, without pairs."""
        names = ("received", "delivered", "lost", "refused", "undelivered", "overflowed", "bad", "cpu")
        return replace(self, pairs={}, **{name: getattr(earlier, name) + getattr(self, name) for name in names})


def added(first: Mapping[K, PairCount], second: Mapping[K, PairCount]) -> dict[K, PairCount]:
    """The counts of both together."""
    total = dict(first)
    for key, count in second.items():
        earlier = total.get(key)
        total[key] = PairCount(*map(sum, zip(count, earlier, strict=True))) if earlier else count
    return total


def statistics(line: bytes) -> Statistics:
    """Read a line of statistics; ProtocolError when it is none. Names that are not known are passed over."""
    try:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise TypeError("not an object")
        pairs = {(_port(row[0]), _port(row[1])): PairCount(*map(_count, row[2:])) for row in found.get("pairs", ())}
        return Statistics(
            lag_mean=float(found.get("lag_avg_ms", 0.0)) / 1e3,
            lag_max=float(found.get("lag_max_ms", 0.0)) / 1e3,
            received=_count(found["in"]),
            delivered=_count(found["out"]),
            lost=_count(found.get("lost", 0)),
            refused=_count(found.get("in_drop", 0)),
            undelivered=_count(found.get("out_drop", 0)),
            bad=_count(found.get("bad", 0)),
            cpu=float(found.get("cpu", 0.0)),
            memory=float(found.get("rss_mb", math.nan)) * 2**20,
            overflowed=_count(found.get("over", 0)),
            lag_at=float(found.get("lag_at", math.nan)),
            pairs=pairs,
        )
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise ProtocolError(f"not a line of statistics ({error}): {line[:80]!r}") from error


def position_command(port: int, position: Position) -> bytes:
    """`P`: where a port is."""
    return COMMAND.pack(_POSITION, port, 0, 0.0, *position, *_NONE[3:])


def channel_command(port: int, channel: int) -> bytes:
    """`C`: whose air a port shares."""
    return COMMAND.pack(_CHANNEL, port, channel, 0.0, *_NONE)


def cell_command(port: int, cell: bool) -> bytes:
    """`B`: whether a port is that of a base station."""
    return COMMAND.pack(_CELL, port, cell, 0.0, *_NONE)


def link_command(sender: int, receiver: int, state: LinkState, queue: float) -> bytes:
    """`L`: what the link is like; its queue holds `queue` s at the link's rate."""
    return COMMAND.pack(_LINK, sender, receiver, queue, *state)


def header() -> str:
    """The text of native/link_state.h: commands, a link's state as integers, and how each comes from a row's value."""
    forms = []
    for name, form in INTEGERS.items():
        least = quantities(LinkState)[name].least
        forms.append(f"{{{form.scale:.1f}, {least:.1f}, {form.most:.1f}, {int(form.unlimited)}}}")
    names = ", ".join(INTEGERS)
    return (
        "/* Made by `header` in ../protocol.py from cosim/contract/link.py. */\n#include <stdint.h>\n\n"
        f"#define LINK_FIELDS {len(INTEGERS)}\n"
        "/* integers per unit, least and most, and whether more is sent as 0: not limited */\n"
        f"#define LINK_FORMS {{{', '.join(forms)}}}\n"
        f"#define MAX_LIMIT UINT64_C({MAX_LIMIT}) /* B */\n#define LEAST_QUEUE UINT64_C({LEAST_QUEUE}) /* B */\n\n"
        f"typedef struct {{\n    uint64_t {names};\n}} link_state;\n\n"
        "typedef struct {\n    uint32_t kind, port;\n    int32_t other, unused;\n    double queue;\n"
        f"    union {{\n        struct {{\n            double {names};\n        }} row;\n"
        "        double values[LINK_FIELDS];\n    };\n} engine_command;\n"
    )


def send_attach(control: socket.socket, port: int, descriptor: int, mac: str) -> None:
    """Open a port of the engine; the caller still has its own copy of `descriptor`."""
    socket.send_fds(control, [ATTACH.pack(port, mac_bytes(mac))], [descriptor])


def send_detach(control: socket.socket, port: int) -> None:
    """Close a port of the engine."""
    control.send(DETACH.pack(port))


def mac_bytes(mac: str) -> bytes:
    """ "02:00:00:00:00:01" as 6 bytes; ProtocolError when it is not the address of one device."""
    parts = mac.split(":")
    try:
        address = bytes(int(part, 16) for part in parts if len(part) == 2)
    except ValueError:
        address = b""
    if len(parts) != 6 or len(address) != 6 or address[0] & 1:
        raise ProtocolError(f"not the MAC address of a device: {mac!r} (like 02:00:00:00:00:01)")
    return address


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _port(value: object) -> int:
    if _count(value) >= MAX_PORTS:
        raise ValueError(f"{value!r} is no port")
    return int(str(value))

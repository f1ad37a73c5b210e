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

Standard output, an `engine_report` with the `engine_pair`s that it announces, the first when the engine is ready and
then one each second: the fields of `Statistics` and `PairCount`. Counts are totals since the engine's start; pairs are
those that changed since the last report. What an engine does not know is NaN, or 0 for a count.
"""

from __future__ import annotations

import math
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple, TypeVar, get_type_hints

from cosim.contract.errors import ProtocolError
from cosim.contract.link import INTEGERS, LinkState
from cosim.contract.quantity import quantities
from cosim.testbed.emulation.state import Position

K = TypeVar("K")

MAX_PORTS = 1024
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
    """A report of an engine; counts since its start."""

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


_REPORTED = [one.name for one in fields(Statistics) if one.name != "pairs"]
_TYPES = get_type_hints(Statistics)
REPORT = struct.Struct("=4sI" + "".join("d" if _TYPES[name] is float else "Q" for name in _REPORTED))
PAIR = struct.Struct(f"=II{len(PairCount._fields)}Q")
_MARK = b"link"  # begins a report


def report(found: Statistics) -> bytes:
    """A report as an engine writes it."""
    head = REPORT.pack(_MARK, len(found.pairs), *(getattr(found, name) for name in _REPORTED))
    return head + b"".join(PAIR.pack(*pair, *count) for pair, count in found.pairs.items())


def reports(data: bytearray) -> Iterator[Statistics]:
    """Take the whole reports out of `data`; ProtocolError where it begins with something else."""
    while data:
        if not _MARK.startswith(bytes(data[: len(_MARK)])):
            raise ProtocolError(f"not a report: {bytes(data[:80])!r}")
        if len(data) < REPORT.size:
            return
        _, count, *values = REPORT.unpack_from(data)
        size = REPORT.size + count * PAIR.size
        if count > MAX_PORTS**2:
            raise ProtocolError(f"a report of {count} pairs")
        if len(data) < size:
            return
        pairs = {(a, b): PairCount(*counts) for a, b, *counts in PAIR.iter_unpack(bytes(data[REPORT.size : size]))}
        if any(max(pair) >= MAX_PORTS for pair in pairs):
            raise ProtocolError(f"a report of ports beyond {MAX_PORTS}")
        del data[:size]
        yield Statistics(**dict(zip(_REPORTED, values, strict=True)), pairs=pairs)


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
    """The text of native/link_state.h: commands, reports, a link's state as integers, and how each comes from a row."""
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
        "        double values[LINK_FIELDS];\n    };\n} engine_command;\n\n"
        "typedef struct {\n    char mark[4];\n    uint32_t pairs;\n"
        + "".join(f"    {'double' if _TYPES[name] is float else 'uint64_t'} {name};\n" for name in _REPORTED)
        + "} engine_report;\n\n"
        f"typedef struct {{\n    uint32_t sender, receiver;\n    uint64_t {', '.join(PairCount._fields)};\n"
        "} engine_pair;\n\n"
        f'#define REPORT_MARK "{_MARK.decode()}"\n'
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

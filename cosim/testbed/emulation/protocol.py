"""The words between a backend and an engine: the child process that carries the nodes' frames.

An engine is a program that is called `ENGINE [options] --control=FD`. It ends with exit code 0 at `Q`
and when its standard input ends, and dies with its parent. Both linkd and the ns-3 engine speak this:

Standard input, one command a line; ports are numbers from 0; a line that is wrong is counted, nothing else:

    P port x y z                                                  position, m (engines without a radio ignore it)
    C port channel                                                ports of a channel share its air; -1: none
    B port 0|1                                                    1: a base station; all links from it share one
                                                                  transmitter, all links to it another
    L from to delay_us jitter_us loss_ppm rate_bps limit          state of a link; rate 0: not limited
      burst_thousandths reorder_ppm                               behind it, or neither: frames lost in a row on
                                                                  average, 0: independently; reordered frames
    Q                                                             end

`limit` is the size of the link's queue in bytes: what waits to be sent, not what is on its way. A link that
was never set is down, as is one with a loss of 1000000 ppm.

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
     "bad": 0,                                lines and packets that were wrong
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
from dataclasses import dataclass
from typing import NamedTuple

from cosim.contract.errors import ProtocolError
from cosim.testbed.emulation.state import LinkState, Position

MAX_PORTS = 1024
MAX_LINE = 1 << 24  # B of one line of statistics
MAX_DELAY = 60.0  # s, delay and jitter alike
MAX_RATE = 10**12  # bit/s
MAX_LIMIT = 1 << 30  # B
MAX_BURST = 1e6  # frames
ALL_LOST = 1_000_000  # ppm
LEAST_QUEUE = 16_000  # B, ten full frames
ATTACH = struct.Struct("<I6s")
DETACH = struct.Struct("<I")


class PairCount(NamedTuple):
    """What became of the frames of an ordered pair of ports."""

    frames: int  # delivered
    bytes: int  # delivered
    lost: int  # frames lost on purpose
    dropped: int  # frames refused by a full queue or by the receiver's port


@dataclass(frozen=True, slots=True)
class Statistics:
    """One line of an engine's output; counts since its start."""

    lag_mean: float  # s
    lag_max: float  # s
    received: int  # frames
    delivered: int  # frames
    lost: int  # frames
    refused: int  # frames
    undelivered: int  # frames
    bad: int  # lines and packets
    cpu: float  # s
    memory: float  # B, NaN: not known
    overflowed: int  # frames, of those refused: for want of memory, not of queue
    lag_at: float  # s of the monotonic clock, when the largest lag was seen; NaN: not known
    pairs: Mapping[tuple[int, int], PairCount]  # those that changed


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


def position_line(port: int, position: Position) -> bytes:
    """`P`: where a port is."""
    return b"P %d %.3f %.3f %.3f\n" % (port, *position)


def channel_line(port: int, channel: int) -> bytes:
    """`C`: whose air a port shares."""
    return b"C %d %d\n" % (port, channel)


def cell_line(port: int, cell: bool) -> bytes:
    """`B`: whether a port is that of a base station."""
    return b"B %d %d\n" % (port, cell)


def link_line(sender: int, receiver: int, state: LinkState, queue: float) -> bytes:
    """`L`: what the link is like; its queue holds `queue` s at the link's rate, ten full frames at least."""
    rate, delay, jitter, loss, _, burst, reorder = state
    if rate <= 0.0 or loss >= 1.0:
        return b"L %d %d 0 0 %d 0 0\n" % (sender, receiver, ALL_LOST)
    # Below 1 bit/s would become 0, which stands for "not limited".
    bits = 0 if rate > MAX_RATE else max(1, int(rate))
    limit = min(MAX_LIMIT, max(LEAST_QUEUE, int(bits * queue / 8)))
    line = b"L %d %d %d %d %d %d %d" % (
        sender,
        receiver,
        int(min(delay, MAX_DELAY) * 1e6 + 0.5),
        int(min(jitter, MAX_DELAY) * 1e6 + 0.5),
        int(loss * 1e6 + 0.5),
        bits,
        limit,
    )
    if burst or reorder:
        line += b" %d %d" % (int(min(burst, MAX_BURST) * 1e3 + 0.5), int(reorder * 1e6 + 0.5))
    return line + b"\n"


def check(state: LinkState) -> None:
    """Raise ProtocolError for a state that no link can have."""
    rate, delay, jitter, loss, _, burst, reorder = state
    positive = rate >= 0.0 and 0.0 <= delay < math.inf and 0.0 <= jitter < math.inf
    if not (positive and 0.0 <= loss <= 1.0 and 0.0 <= reorder <= 1.0 and (burst == 0.0 or 1.0 <= burst < math.inf)):
        raise ProtocolError(
            f"no such link: {state}; rate, delay and jitter are 0 or more, loss and reorder are between 0 and 1, "
            "burst is 0, or 1 or more, none is NaN"
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

"""What a link does to packets, measured by packets: to be set against what was asked of it.

    python -m cosim.testbed.emulation.probe answer [--address 0.0.0.0] [--port 9009]       in the far node
    python -m cosim.testbed.emulation.probe ask --to 10.9.0.2 [--port 9009] [--rate 5e6]   in the near node; one JSON
    object

UDP only, so no right is needed. Delays are between handing a datagram to the kernel and the kernel's own time stamp
of its arrival: how busy the receiving program is does not count. The delay of one way compares two
clocks, so it holds between nodes of one machine only; the round trip holds everywhere. Rates count the whole
Ethernet frame, as links do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import secrets
import socket
import struct
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from cosim.contract.errors import RunError, SetupError

PORT = 9009
OVERHEAD = 42  # B of Ethernet, IPv4 and UDP headers before the payload
PAYLOAD = 1200  # B
RUNS = 64  # that an answering probe remembers
ECHO, COUNT, REPORT = 1, 2, 3
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the number of its control message as well
PATIENCE = 1.0  # s for an answer
LOOK = 0.2  # s between looks at whether to end
Z = 3.290526731491926  # standard normal quantile: an interval with it misses once in a thousand times

_ASK = struct.Struct("!4sBQq")  # magic, kind, run, when it left (ns)
_ECHOED = struct.Struct("!4sBQqqq")  # the same, when it came and when the answer left, ns
_REPORTED = struct.Struct("!4sBQqQQqq")  # the same, datagrams and bytes of the run, first and last arrival, ns
_MAGIC = b"CoLP"
_SPEC = struct.Struct("@qq")

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Delay:
    """Of echoes; s. Means and the deviation of single times (as ping's mdev)."""

    sent: int
    received: int
    there: float  # mean of one way, between nodes of one machine
    back: float
    there_deviation: float
    round_trip: float
    round_trip_deviation: float
    least: float  # round trip
    most: float


@dataclass(frozen=True, slots=True)
class Loss:
    """Of one way; the share lies between `low` and `high` but for one time in a thousand."""

    sent: int
    received: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Of one way, bit/s of whole frames."""

    offered: float
    received: float
    lost: float  # share of the datagrams


def together(loss: float, burst: float) -> float:
    """How many losses in a row count as one observation: the variance of a share over that of independent losses.

    (1 + r) / (1 - r) with r = 1 - 1 / burst - loss / (burst (1 - loss)), the correlation of one frame's loss with
    the next one's in Gilbert's two states; 1 without bursts.
    """
    if burst == 0.0 or not 0.0 < loss < 1.0:
        return 1.0
    change = min(2.0, 1.0 / (burst * (1.0 - loss)))  # 1 - r
    return (2.0 - change) / change


def interval(successes: int, trials: int, z: float = Z, *, together: float = 1.0) -> tuple[float, float]:
    """The Wilson score interval of a binomial share (Wilson 1927, JASA 22, 209-212); trials at least 1.

    Where trials depend on one another, there are as many as `trials / together` independent ones.
    """
    share = successes / trials
    apart = max(1.0, trials / together)
    centre = share + z * z / (2 * apart)
    half = z * math.sqrt(share * (1 - share) / apart + z * z / (4 * apart * apart))
    whole = 1 + z * z / apart
    return max(0.0, (centre - half) / whole), min(1.0, (centre + half) / whole)


def opened(address: str = "0.0.0.0", port: int = 0) -> socket.socket:
    """A socket for `answer` or the measurements; it belongs to the network namespace in which this is called."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        made.bind((address, port))
    except OSError as error:
        made.close()
        raise SetupError(f"cannot use UDP port {port} of {address}: {error.strerror}") from error
    return made


def answer(asked: socket.socket, ended: Callable[[], bool] = lambda: False) -> None:
    """Echo and count until `ended` returns True; it is called several times a second."""
    runs: OrderedDict[int, list[int]] = OrderedDict()  # run -> datagrams, bytes, first and last time in ns
    asked.settimeout(LOOK)
    while not ended():
        try:
            data, came, sender = _receive(asked)
        except TimeoutError:
            continue
        if len(data) < _ASK.size or data[:4] != _MAGIC:
            continue
        head, (_, kind, run, _) = data[: _ASK.size], _ASK.unpack_from(data)
        reply = b""
        if kind == ECHO:
            reply = (head + struct.pack("!qq", came, time.time_ns())).ljust(len(data), b"\0")
        elif kind == REPORT:
            reply = head + struct.pack("!QQqq", *runs.get(run, (0, 0, 0, 0)))
        elif kind == COUNT:
            counted = runs.setdefault(run, [0, 0, came, came])
            counted[0] += 1
            counted[1] += len(data) + OVERHEAD
            counted[3] = came
            if len(runs) > RUNS:
                runs.popitem(last=False)
        if reply:
            with contextlib.suppress(OSError):  # the way back is down
                asked.sendto(reply, sender)


def delay(asking: socket.socket, to: Address, count: int = 200, pause: float = 0.005, size: int = 64) -> Delay:
    """Send `count` echoes, one each `pause` s, of `size` B of payload."""
    run = secrets.randbits(64)
    there: list[float] = []
    back: list[float] = []
    for number in range(count):
        asking.sendto(_ASK.pack(_MAGIC, ECHO, run, time.time_ns()).ljust(size, b"\0"), to)
        until = time.monotonic() + (pause if number < count - 1 else PATIENCE)
        while len(there) < count and (data := _answer(asking, run, _ECHOED.size, until)):
            *_, left, came, replied = _ECHOED.unpack_from(data[0])
            there.append((came - left) / 1e9)
            back.append((data[1] - replied) / 1e9)
        time.sleep(max(0.0, until - time.monotonic()) if number < count - 1 else 0.0)
    trips = [a + b for a, b in zip(there, back, strict=True)]
    if not trips:
        return Delay(count, 0, *(math.nan,) * 7)
    there_mean, there_deviation = _spread(there)
    trip_mean, trip_deviation = _spread(trips)
    return Delay(
        count,
        len(trips),
        there_mean,
        _spread(back)[0],
        there_deviation,
        trip_mean,
        trip_deviation,
        min(trips),
        max(trips),
    )


def loss(asking: socket.socket, to: Address, count: int = 3000, pause: float = 0.0005, size: int = 64) -> Loss:
    """Send `count` datagrams one way, one each `pause` s."""
    run = secrets.randbits(64)
    _pace(asking, to, run, count, pause, size)
    received, *_ = _counts_of(asking, to, run)
    low, high = interval(count - received, count)
    return Loss(count, received, 1 - received / count, low, high)


def rate(asking: socket.socket, to: Address, offered: float, duration: float = 2.0) -> Rate:
    """Send `offered` bit/s one way for `duration` s. What arrives is counted from the first frame's end to the last's.

    Offer more than the link's rate to measure the rate of the link.
    """
    run, whole = secrets.randbits(64), (PAYLOAD + OVERHEAD) * 8
    count = max(2, round(offered * duration / whole))
    took = _pace(asking, to, run, count, whole / offered, PAYLOAD)
    received, size, first, last = _counts_of(asking, to, run)
    found = (size * 8 - whole) / (last - first) * 1e9 if received > 1 and last > first else 0.0
    return Rate(count * whole / took, found, 1 - received / count)


def _pace(asking: socket.socket, to: Address, run: int, count: int, pause: float, size: int) -> float:
    """Send `count` datagrams to be counted, some at a time if the pause is short; how long it took, s."""
    data = _ASK.pack(_MAGIC, COUNT, run, 0).ljust(size, b"\0")
    begun = time.monotonic()
    for number in range(count):
        while (early := begun + number * pause - time.monotonic()) > 0:
            time.sleep(early)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            asking.sendto(data, to)
    return max(time.monotonic() - begun, count * pause)


def _counts_of(asking: socket.socket, to: Address, run: int) -> tuple[int, int, int, int]:
    """What has arrived of a run once no more does: datagrams, bytes, first and last time in ns.

    RunError when no answer comes back.
    """
    end = time.monotonic() + 30 * PATIENCE
    before = None
    while time.monotonic() < end:
        with contextlib.suppress(ConnectionError):
            asking.sendto(_ASK.pack(_MAGIC, REPORT, run, time.time_ns()), to)
            found = _answer(asking, run, _REPORTED.size, time.monotonic() + PATIENCE)
            if found:
                *_, received, size, first, last = _REPORTED.unpack_from(found[0])
                if before == received:
                    return received, size, first, last
                before = received
                time.sleep(PATIENCE / 4)
    raise RunError(f"no answer from {to[0]}:{to[1]}; is a probe answering there, and the way back up?")


def _answer(asking: socket.socket, run: int, size: int, until: float) -> tuple[bytes, int] | None:
    """The next answer of a run and when it came, ns; None when none comes until then."""
    while (left := until - time.monotonic()) > 0:
        asking.settimeout(left)
        try:
            data, came, _ = _receive(asking)
        except (TimeoutError, ConnectionError):
            return None
        if len(data) >= size and data[:4] == _MAGIC and _ASK.unpack_from(data)[2] == run:
            return data, came
    return None


def _receive(asked: socket.socket) -> tuple[bytes, int, Address]:
    """A datagram, when it came (ns of the wall clock, by the kernel) and from where."""
    data, ancillary, _, sender = asked.recvmsg(65536, socket.CMSG_SPACE(_SPEC.size))
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(value) >= _SPEC.size:
            seconds, nanoseconds = _SPEC.unpack_from(value)
            return data, seconds * 1_000_000_000 + nanoseconds, sender
    return data, time.time_ns(), sender


def _spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation."""
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def main() -> int:
    """Answer, or ask and print what was found."""
    parser = argparse.ArgumentParser(prog="probe", description="measure a link by UDP datagrams")
    verbs = parser.add_subparsers(dest="verb", required=True)
    answering = verbs.add_parser("answer", help="echo and count, until ended")
    answering.add_argument("--address", default="0.0.0.0")
    answering.add_argument("--port", type=int, default=PORT)
    asking = verbs.add_parser("ask", help="measure delay and loss, and the rate if it is given what to offer")
    asking.add_argument("--to", required=True)
    asking.add_argument("--port", type=int, default=PORT)
    asking.add_argument("--rate", type=float, default=0.0, help="bit/s to offer; more than the link's")
    options = parser.parse_args()
    try:
        if options.verb == "answer":
            with opened(options.address, options.port) as socket_, contextlib.suppress(KeyboardInterrupt):
                answer(socket_)
            return 0
        to = (options.to, options.port)
        with opened() as socket_:
            found: dict[str, object] = {
                "delay": asdict(delay(socket_, to)),
                "loss": asdict(loss(socket_, to)),
            }
            if options.rate > 0:
                found["rate"] = asdict(rate(socket_, to, options.rate))
    except RunError as error:
        sys.stderr.write(f"probe: {error}\n")
        return error.exit_code
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

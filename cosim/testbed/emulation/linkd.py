"""linkd in Python: an engine that imposes delay, loss and rate on the frames of TAPs, without a compiler.

    python -m cosim.testbed.emulation.linkd --control=FD [--seed=N] [--wait=US]

It speaks `cosim.testbed.emulation.protocol` and follows the rules of `cosim.testbed.emulation.switch`.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import json
import os
import re
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path

from cosim.testbed.emulation import protocol
from cosim.testbed.emulation.switch import SECOND, Switch

FRAME = 1 << 16  # B, more than a TAP can have
BATCH = 32  # frames of a port before the next port's turn
LINE = 256  # B of a command
COMMANDS = 1 << 16  # B of commands before frames have their turn
PULSE = 10_000_000  # ns between looks at the clock: a longer gap is a standstill
NICE = -10  # other programs of a busy machine would add delays of milliseconds
PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29

_LINK = re.compile(
    rb"L (\d{1,4}) (\d{1,4}) (\d{1,8}) (\d{1,8}) (\d{1,7}) (\d{1,13}) (\d{1,10})(?: (\d{1,10}) (\d{1,7}))?"
)
_CHANNEL = re.compile(rb"C (\d{1,4}) (-1|\d{1,4})")
_CELL = re.compile(rb"B (\d{1,4}) ([01])")


class Commands:
    """Applies lines of commands to a switch; they may come in pieces."""

    def __init__(self, switch: Switch) -> None:
        self._switch, self._rest = switch, b""
        self.bad = 0
        self.ended = False

    def feed(self, data: bytes) -> None:
        """Take the next piece of what was written to us."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if len(line) > LINE or not self._apply(line):
                self.bad += 1
        if len(self._rest) > LINE:
            self._rest = self._rest[: LINE + 1]  # bad already; its end is not known yet

    def _apply(self, line: bytes) -> bool:
        found = _LINK.fullmatch(line)
        if found:
            sender, receiver, delay, jitter, loss, rate, limit, burst, reorder = map(int, found.groups(b"0"))
            sound = (
                max(sender, receiver) < protocol.MAX_PORTS
                and sender != receiver
                and max(delay, jitter) <= protocol.MAX_DELAY * 1e6
                and loss <= protocol.ALL_LOST
                and rate <= protocol.MAX_RATE
                and limit <= protocol.MAX_LIMIT
                and (burst == 0 or 1000 <= burst <= protocol.MAX_BURST * 1000)
                and reorder <= protocol.ALL_LOST
            )
            if sound:
                self._switch.link(sender, receiver, delay * 1000, jitter * 1000, loss, rate, limit, burst, reorder)
            return sound
        found = _CHANNEL.fullmatch(line)
        if found:
            port, channel = map(int, found.groups())
            sound = port < protocol.MAX_PORTS and channel < protocol.MAX_PORTS
            if sound:
                self._switch.channel(port, channel)
            return sound
        found = _CELL.fullmatch(line)
        if found:
            port, cell = map(int, found.groups())
            sound = port < protocol.MAX_PORTS
            if sound:
                self._switch.cell(port, bool(cell))
            return sound
        if line == b"Q":
            self.ended = True
            return True
        return line.startswith(b"P ")  # positions are for engines with a radio of their own


class Loop:
    """Moves frames between descriptors until it is stopped."""

    def __init__(self, control: socket.socket, seed: int, wait: int) -> None:
        self._control = control
        self._descriptors: dict[int, int] = {}  # port -> descriptor
        self._port_of: dict[int, int] = {}  # and back
        self._switch = Switch(self._write, seed, wait)
        self._commands = Commands(self._switch)
        self._epoll = select.epoll()
        self._output = b""  # what of the last line could not be written yet
        for descriptor in (0, control.fileno()):
            os.set_blocking(descriptor, False)
            self._epoll.register(descriptor, select.EPOLLIN)
        os.set_blocking(1, False)

    def run(self) -> None:
        """Until `Q`, or the end of the commands or of the control socket."""
        epoll, now, switch = self._epoll, time.monotonic_ns, self._switch
        self._tell()
        woke = now()
        telling = woke + SECOND
        while not self._commands.ended:
            due = switch.next()
            slept, received = now(), switch.received
            until = min(telling, (slept // PULSE + 1) * PULSE, telling if due is None else due)
            # Python's epoll waits whole milliseconds; select waits microseconds, on the one descriptor of epoll.
            select.select([epoll], [], [], max(0, until - now()) * 1e-9)
            # How long frames may have waited for us: since we had looked last, without the sleep that was due.
            stood, woke = slept - woke, now()
            stood += max(0, woke - until)
            switch.deliver(woke)
            for descriptor, _ in epoll.poll(0):
                if descriptor in self._port_of:
                    self._read(descriptor)
                elif descriptor == 0:
                    self._take_commands()
                elif descriptor == self._control.fileno():
                    self._take_ports()
            switch.deliver(now())
            stood, woke = stood + now() - woke, now()  # wherever in between we stood still
            if switch.received != received and stood > switch.lag_max:
                switch.lag_max, switch.lag_at = stood, woke
            if woke >= telling:
                self._tell()
                telling = max(telling + SECOND, now())

    def _read(self, descriptor: int) -> None:
        port, now, offer = self._port_of[descriptor], time.monotonic_ns, self._switch.offer
        for _ in range(BATCH):
            try:
                frame = os.read(descriptor, FRAME)
            except BlockingIOError:
                return
            except OSError:
                frame = b""
            if not frame:  # the device is gone
                self._detach(port)
                return
            offer(now(), port, frame)

    def _write(self, port: int, frame: bytes) -> bool:
        try:
            os.write(self._descriptors[port], frame)
        except OSError:  # the interface is down or gone
            return False
        return True

    def _take_commands(self) -> None:
        data = os.read(0, COMMANDS)
        if data:
            self._commands.feed(data)
        else:
            self._commands.ended = True

    def _take_ports(self) -> None:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._control, 64, 4)
            except BlockingIOError:
                return
            if not data and not descriptors:
                self._commands.ended = True
                return
            port = int.from_bytes(data[:4], "little")
            known = port < protocol.MAX_PORTS
            if known and len(data) == protocol.ATTACH.size and len(descriptors) == 1:
                self._attach(port, descriptors.pop(), data[4:])
            elif known and len(data) == protocol.DETACH.size and not descriptors:
                self._detach(port)
            else:
                self._commands.bad += 1
            for descriptor in descriptors:
                os.close(descriptor)

    def _attach(self, port: int, descriptor: int, mac: bytes) -> None:
        self._detach(port)
        os.set_blocking(descriptor, False)
        self._descriptors[port] = descriptor
        self._port_of[descriptor] = port
        self._switch.attach(port, mac)
        self._epoll.register(descriptor, select.EPOLLIN)

    def _detach(self, port: int) -> None:
        self._switch.detach(port)
        descriptor = self._descriptors.pop(port, None)
        if descriptor is not None:
            del self._port_of[descriptor]
            self._epoll.unregister(descriptor)  # closing does not: there may be copies
            os.close(descriptor)

    def _tell(self) -> None:
        """Write a line of statistics; none if the last one was not read."""
        if not self._output:
            self._output = self._line()
        with contextlib.suppress(BlockingIOError):
            while self._output:
                self._output = self._output[os.write(1, self._output) :]

    def _line(self) -> bytes:
        switch = self._switch
        usage = resource.getrusage(resource.RUSAGE_SELF)
        line = {
            "lag_avg_ms": round(switch.lag_sum / max(1, switch.lag_count) / 1e6, 4),
            "lag_max_ms": round(switch.lag_max / 1e6, 4),
            "in": switch.received,
            "out": switch.delivered,
            "lost": switch.lost,
            "in_drop": switch.refused,
            "out_drop": switch.undelivered,
            "bad": self._commands.bad,
            "over": switch.overflowed,
            "lag_at": round(switch.lag_at / 1e9, 3),
            "cpu": round(usage.ru_utime + usage.ru_stime, 3),
            "rss_mb": round(usage.ru_maxrss / 1024, 1),
            "pairs": [[*pair, *count] for pair, count in switch.changed().items()],
        }
        switch.lag_sum = switch.lag_max = switch.lag_count = 0
        return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def main(arguments: list[str] | None = None) -> int:
    """Run as an engine; exit code 0."""
    parser = argparse.ArgumentParser(prog="linkd", description=__doc__.split("\n")[0])
    parser.add_argument("--control", type=int, required=True, help="descriptor of the control socket")
    parser.add_argument("--seed", type=int, default=0, help="of loss and jitter")
    parser.add_argument("--wait", type=int, default=1_000_000, help="longest wait for transmission, us")
    options = parser.parse_args(arguments)
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)  # ns: the default of 50 us is an unwanted delay
    _prioritise()
    try:
        control = socket.socket(fileno=options.control)
    except OSError as error:
        reason = errno.errorcode.get(error.errno or 0, str(error))
        parser.error(f"--control={options.control} is no socket ({reason}); linkd is started by a backend")
    with control:
        Loop(control, options.seed, options.wait * 1000).run()
    return 0


def _prioritise() -> None:
    """Raise the priority, which needs CAP_SYS_NICE; without it the lag shows how late frames are."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
        # Where the scheduler groups processes by session, that holds within a session only.
        if os.getsid(0) == os.getpid():
            Path("/proc/self/autogroup").write_text(str(NICE), encoding="ascii")


if __name__ == "__main__":
    sys.exit(main())

"""What strangers can do to a run's sockets: `python -m benchmarks.doors [--json] [--connects 10000] [--seconds 300]`.

A process with 1,024 open files at most has a gateway for live machines, a publication and a control socket, writes a
file ten times a second as a run does, and is visited, without any key, before a machine attaches, while it is there and
when another one comes at the end. All of it on the loopback, bounded in number and time.

Figures: s until a machine with a key is attached (before, during, at the end), files that could not be written, open
files and memory at most, threads that have died.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import zmq

from benchmarks.measure import Table, parser, print_result
from cosim.contract.frame import Frame
from cosim.talk import keys
from cosim.talk.control import ControlSocket, command
from cosim.talk.publish import Publisher, Subscriber
from cosim.testbed.live.agent import Agent, Options
from cosim.testbed.live.gateway import Gateway
from cosim.testbed.live.lease import NodeSlot

FILES = 1024
GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\3\0" + b"CURVE".ljust(20, b"\0") + bytes(32)
PLAIN = b"\xff\0\0\0\0\0\0\0\1\x7f\3\0" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = {"publisher": b"\4\x19\5READY\x0bSocket-Type\0\0\0\3SUB"}
READY |= dict.fromkeys(("control", "gateway"), b"\4\x1c\5READY\x0bSocket-Type\0\0\0\6DEALER")


# -- the house, in a process of its own ---------------------------------------------------------


def house(folder: Path) -> None:
    """Serve until the input ends; addresses go out in one line, figures in another."""
    thread_died: list[str] = []
    threading.excepthook = lambda args: thread_died.append(f"{args.thread}: {args.exc_value}")
    slots = [NodeSlot(k, f"node-{k}", f"node-{k}", 3.0, 0.2, False, False) for k in range(3)]
    frame = Frame("load", 0.0, np.arange(10, dtype=np.int32), {"x": np.arange(10.0)})
    gateway = Gateway(slots, [(folder / "keys", "tcp://127.0.0.1:*")])
    with (
        Publisher() as publisher,
        ControlSocket(lambda verb, _: {"verb": verb}, "s3cret", verbs=("state",)) as control,
    ):
        names = {"gateway": gateway.addresses[0], "publisher": publisher.address, "control": control.address}
        print(json.dumps(names), flush=True)
        threads, begun = threading.active_count(), _memory()
        found = {"written": 0, "failed": 0, "files": 0, "memory": 0}
        ended = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
        while not ended.wait(0.1):
            try:
                (folder / "rows").write_text("row")
                found["written"] += 1
                found["files"] = max(found["files"], len(os.listdir("/proc/self/fd")))  # noqa: PTH208
            except OSError:
                found["failed"] += 1
            publisher.publish(found["written"], 0.1 * found["written"], [frame])
            found["memory"] = max(found["memory"], _memory() - begun)
        gateway.check()
        print(json.dumps({**found, "died": thread_died, "threads": threads - threading.active_count() + 1}), flush=True)
    gateway.close()


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class House:
    """The process; `close` gives its figures."""

    def __init__(self, folder: Path) -> None:
        server = keys.server_key(folder / "keys")
        for k in range(3):
            _, public = keys.write(keys.make(f"node-{k}", server.public), folder)
            public.rename(folder / "keys" / public.name)
        self.folder = folder
        program = (
            f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES})); "
            f"from pathlib import Path; from benchmarks.doors import house; house(Path({str(folder)!r}))"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.addresses: dict[str, str] = json.loads(self._process.stdout.readline())

    def attach(self, k: int, patience: float = 60.0) -> float:
        """s until the machine `k` is attached; infinite if it is not within `patience` s."""
        agent = Agent(Options(self.folder / f"node-{k}.key", self.addresses["gateway"], tasks=False))
        thread = threading.Thread(target=agent.run, daemon=True)
        begun = time.monotonic()
        thread.start()
        while agent._member.state != "attached" and time.monotonic() - begun < patience:
            time.sleep(0.01)
        took = time.monotonic() - begun if agent._member.state == "attached" else float("inf")
        agent.stop("measured")
        thread.join(10.0)
        return took

    def answers(self) -> bool:
        """Whether the one with the token is answered, and an observer sees frames."""
        with Subscriber(self.addresses["publisher"]) as subscriber:
            seen = subscriber.latest(20.0) is not None
        return seen and command(self.addresses["control"], "s3cret", "state", timeout=20.0)["verb"] == "state"

    def close(self) -> dict[str, Any]:
        """End it; its figures."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            found: dict[str, Any] = json.loads(self._process.stdout.readline())
            self._process.wait(30.0)
            return {**found, "exit": self._process.returncode}
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()


# -- the strangers ------------------------------------------------------------------------------


class Strangers:
    """Connect to `address` in a thread until the block ends: `most` at a time, each left open until its turn comes.

    `says` are the first bytes of every other one, of which the last are kept back as in a slow handshake.
    """

    def __init__(self, address: str, most: int, says: bytes = GREETING, rate: float = 2000.0) -> None:
        self.connects = 0
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._to, self._most, self._says, self._pause = (host, int(port)), most, says, 1.0 / rate
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._visit, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10.0)

    def _visit(self) -> None:
        here: list[socket.socket] = []
        while not self._ended.wait(self._pause):
            if len(here) >= self._most:
                here.pop(0).close()
            one = socket.socket()
            here.append(one)
            one.setblocking(False)
            try:
                one.connect(self._to)
            except BlockingIOError:
                self.connects += 1
            except OSError:
                continue
            if len(here) > 8 and self.connects % 2:
                try:
                    here[-8].send(self._says[:-8])
                except OSError:
                    continue
        for one in here:
            one.close()


def rude(addresses: dict[str, str]) -> None:
    """What single clients without a key have done to runs: huge subscriptions, many parts, endless messages."""
    topic = bytes(1 << 20)
    command = b"\x09SUBSCRIBE" + topic
    subscribe = struct.pack(">BQ", 6, len(command)) + command
    message = struct.pack(">BQ", 2, len(topic) + 1) + b"\1" + topic
    many = b"".join(struct.pack(">BB", 0, 4) + b"\1" + struct.pack(">I", k)[1:] for k in range(20_000))
    part = struct.pack(">BQ", 3, 1000) + bytes(1000)
    for name in ("publisher", "control", "gateway"):
        for data, times in ((subscribe, 100), (message, 100), (many, 20), (part * 1000, 300)):
            _pour(addresses[name], READY[name], data, times)
    with zmq.Context() as context:
        for kind, parts in ((zmq.DEALER, [b"", b"a", b"b"]), (zmq.REQ, [b"a", b"b"]), (zmq.DEALER, [b"x" * 100_000])):
            with context.socket(kind) as client:
                client.linger = 0
                client.connect(addresses["control"])
                client.send_multipart(parts)
                client.poll(200)


def _pour(address: str, ready: bytes, data: bytes, times: int) -> None:
    """Talk ZeroMQ without a key and send `data` again and again, as far as it is taken."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), 5.0) as one:
        one.settimeout(1.0)
        try:
            one.sendall(PLAIN + ready)
            for _ in range(times):
                one.sendall(data)
        except OSError:
            return


def measure(connects: int, seconds: float, say: Callable[[str], object] = lambda _: None) -> dict[str, Any]:
    """All of it; the figures."""
    with tempfile.TemporaryDirectory() as text:
        one = House(Path(text))
        found: dict[str, Any] = {}
        try:
            rate = max(connects / seconds, 50.0)
            found["attach_alone_s"] = one.attach(0)
            begun = time.monotonic()
            with Strangers(one.addresses["gateway"], 900, rate=rate) as strangers, Strangers(
                one.addresses["publisher"], 200, PLAIN, rate=50.0
            ), Strangers(one.addresses["control"], 200, PLAIN, rate=50.0):  # fmt: skip
                time.sleep(min(seconds / 4, 10.0))
                say("strangers are there")
                found["attach_before_s"] = one.attach(0)
                rude(one.addresses)
                time.sleep(seconds / 3)
                found["attach_during_s"] = one.attach(1)
                end = begun + seconds
                while (left := end - time.monotonic()) > 0 or (strangers.connects < connects and left > -seconds):
                    time.sleep(0.1)
                found["attach_at_end_s"] = one.attach(2)
                found["connects"] = strangers.connects
            found["answers"] = one.answers()
        finally:
            found |= one.close()
    return found


def main() -> int:
    """Measure and print."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--connects", type=int, default=10_000)
    arguments.add_argument("--seconds", type=float, default=300.0)
    given = arguments.parse_args()
    found = measure(min(given.connects, 100_000), min(given.seconds, 600.0))
    table = Table("Strangers at the sockets of a run", ["figure", "value"])
    for name, value in found.items():
        table.add([name, f"{value:.3g}" if isinstance(value, float) else str(value)])
    print_result("doors", found, [table], as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())

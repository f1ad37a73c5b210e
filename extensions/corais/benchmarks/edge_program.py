"""What runs inside each of the five edges where their links are emulated: `python edge_program.py NODE REPLICAS PEERS`.

PEERS is a JSON object of all edges' addresses by number, NODE the number of this one. It needs Python alone, since it
starts inside of containers. Lines of JSON come on standard input: `[at, [[request, edge, side, target, input, output],
...]]` are the requests that come in here at the time `at` of the monotonic clock, with the edge that was chosen, the
side of the picture, the edge where the result is wanted, and B of input and output. Inputs go to the chosen edges, each
way by a connection of its own. There the edge's service computes them in the order in which they arrive, as many at
once as it has replicas, and one more waits in the service. Results go on to the targets. A request without a side is
not computed. A line `[request, time]` on standard output says when a result was at its target.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from typing import Any, BinaryIO, TypeVar

T = TypeVar("T")
Request = list[int]  # as on standard input
PORT, SERVICE, KERNEL = 8600, 8500, "histogram"
PATIENCE = 600.0  # s for one answer
READY = 90.0  # s until the service, or the program of another edge, takes connections


def ended(failed: Any) -> None:
    """End the program with a thread of it that fails: who waits for an answer learns so that none comes."""
    traceback.print_exception(failed.exc_value)
    os._exit(1)


def patiently(connect: Callable[[], T]) -> T:
    """What `connect` makes once the other side has started. Raises its `OSError` after `READY`."""
    until = time.monotonic() + READY
    while True:
        try:
            return connect()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


class Edge:
    """The program of one edge."""

    def __init__(self, number: int, replicas: int, peers: Mapping[int, str]) -> None:
        self.number, self.peers = number, peers
        self.lines: dict[tuple[str, int], queue.Queue[tuple[str, Request, int]]] = {
            (kind, q): queue.Queue() for kind in ("input", "output") for q in peers
        }  # fmt: skip
        self.work: queue.Queue[Request] = queue.Queue()
        self.lock = threading.Lock()
        threading.excepthook = ended
        listener = socket.create_server(("0.0.0.0", PORT), backlog=64)
        self.start(self.listen, listener)
        for (_, q), line in self.lines.items():
            if q != number:
                self.start(self.send, peers[q], line)
        for _ in range(replicas + 1):
            self.start(self.compute)

    @staticmethod
    def start(call: Callable[..., None], *values: Any) -> None:
        threading.Thread(target=call, args=values, daemon=True).start()

    def listen(self, listener: socket.socket) -> None:
        while True:
            self.start(self.receive, listener.accept()[0].makefile("rb"))

    def receive(self, stream: BinaryIO) -> None:
        """Messages of another edge: a line with the request and the length, and so many bytes."""
        for line in stream:
            kind, request, length = json.loads(line)
            stream.read(length)
            self.take(kind, request)

    def send(self, address: str, line: queue.Queue[tuple[str, Request, int]]) -> None:
        other = None
        while True:
            kind, request, length = line.get()
            if other is None:
                other = patiently(lambda: socket.create_connection((address, PORT), PATIENCE))
                other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            other.sendall(json.dumps([kind, request, length]).encode() + b"\n" + bytes(length))

    def take(self, kind: str, request: Request) -> None:
        if kind == "input":
            self.work.put(request)
        else:
            with self.lock:
                print(json.dumps([request[0], time.monotonic()]), flush=True)

    def to(self, kind: str, q: int, request: Request, length: int) -> None:
        if q == self.number:
            self.take(kind, request)
        else:
            self.lines[kind, q].put((kind, request, length))

    def compute(self) -> None:
        connection = HTTPConnection("127.0.0.1", SERVICE, timeout=PATIENCE)
        patiently(connection.connect)
        while True:
            request = self.work.get()
            _, _, side, target, size, output = request
            if side:
                connection.request("POST", f"/run/{KERNEL}?size={side}", body=bytes(size))
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise SystemExit(f"the service answered {answer.status}")
            self.to("output", target, request, output)

    def serve(self) -> None:
        """Bring in what is asked for, until standard input ends."""
        for line in sys.stdin:
            at, requests = json.loads(line)
            time.sleep(max(0.0, at - time.monotonic()))
            for request in requests:
                self.to("input", request[1], request, request[4])


if __name__ == "__main__":
    Edge(int(sys.argv[1]), int(sys.argv[2]), {int(q): a for q, a in json.loads(sys.argv[3]).items()}).serve()

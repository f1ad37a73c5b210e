"""ZeroMQ sockets that carry messages to and from workers that run elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import zmq

from cosim.bus.frame import Array
from cosim.bus.wire import MAX_MESSAGE, Buffers, Head, WireError, check_size, pack, unpack

BEAT = 2_000  # ms between two heartbeats of a connection to another host
BEAT_LOST = 30_000  # ms without one after which the connection counts as lost


class Channel:
    """One end of a connection.

    Columns are handed to the socket without a copy: they must not change before the far end has answered.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.socket = socket
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        socket.setsockopt(zmq.RECONNECT_IVL, 10)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1_000)
        # answered by ZeroMQ's own thread, so an adapter that holds the interpreter lock does not count as lost
        socket.setsockopt(zmq.HEARTBEAT_IVL, BEAT)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, BEAT_LOST)

    def send(
        self, verb: str, serial: int, body: object, arrays: Sequence[Array] = (), to: Sequence[bytes] = ()
    ) -> None:
        """Send a message; `to` is the address of the far end on a socket that has several."""
        check_size(arrays)
        head = pack(verb, serial, body, arrays)
        if arrays:
            self.socket.send_multipart([*to, head, *[array.data for array in arrays]], zmq.NOBLOCK, copy=False)
        else:
            self.socket.send_multipart([*to, head], zmq.NOBLOCK)

    def receive(self, parts: Sequence[zmq.Frame]) -> tuple[Head, Buffers]:
        """The message in `parts`, without the address of its sender."""
        if not parts:
            raise WireError("the far end sent an empty message")
        head = unpack(parts[0].buffer)
        if head.placed is not None:
            raise WireError("the far end named shared memory on a connection that has none")
        return head, Buffers.of([part.buffer for part in parts[1:]], head.sizes)

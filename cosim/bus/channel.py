"""ZeroMQ sockets that carry messages to and from workers that run elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import zmq

from cosim.contract.errors import ProtocolError
from cosim.contract.frame import Array
from cosim.talk import keys
from cosim.talk.codec import MAX_BUFFER_BYTES, Body, Message, MessageSet
from cosim.talk.columns import Buffers
from cosim.talk.sockets import Context, bounded

BEAT = 2_000  # ms between two heartbeats of a connection to another host
BEAT_LOST = 30_000  # ms without one after which the connection counts as lost


class Channel:
    """One end of a connection: sends messages of `says`, receives those of `hears`.

    Its `socket` is yet to be bound or dialled. Columns are handed to the socket without a copy: they must
    not change before the far end has answered.
    """

    def __init__(
        self, context: Context, kind: int, says: MessageSet, hears: MessageSet, key: keys.Key | None = None
    ) -> None:
        self.socket = socket = bounded(context, kind, MAX_BUFFER_BYTES, waiting=(4, 16), key=key)
        self._says, self._hears = says, hears
        socket.setsockopt(zmq.RECONNECT_IVL, 10)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1_000)
        # answered by ZeroMQ's own thread, so an adapter that holds the interpreter lock does not count as lost
        socket.setsockopt(zmq.HEARTBEAT_IVL, BEAT)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, BEAT_LOST)

    def send(self, kind: str, number: int, body: Body, arrays: Sequence[Array] = (), to: Sequence[bytes] = ()) -> None:
        """Send a message; `to` is the address of the far end on a socket that has several."""
        head = self._says.pack(kind, body, number=number, sizes=[array.nbytes for array in arrays])
        if arrays:
            self.socket.send_multipart([*to, head, *[array.data for array in arrays]], zmq.NOBLOCK, copy=False)
        else:
            self.socket.send_multipart([*to, head], zmq.NOBLOCK)

    def receive(self, parts: Sequence[zmq.Frame]) -> tuple[Message, Buffers]:
        """The message in `parts`, without the address of its sender."""
        if not parts:
            raise ProtocolError("the far end sent an empty message")
        message = self._hears.unpack(parts[0].buffer)
        if message.placed is not None:
            raise ProtocolError("the far end named shared memory on a connection that has none")
        return message, Buffers.of([part.buffer for part in parts[1:]], message.sizes)

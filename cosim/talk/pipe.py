"""Messages between a run and a worker that it started: a pair of sockets, columns in shared memory.

Headers are preceded by their length. A message that arrives takes one waking-up of one thread; a
message queue with a thread of its own takes four, which for small messages is most of what they cost.
"""

from __future__ import annotations

import socket
from array import array
from collections import deque
from collections.abc import Sequence

from cosim.contract.errors import ProtocolError
from cosim.contract.frame import Array
from cosim.talk.codec import Body, Message, MessageSet, check_sizes
from cosim.talk.columns import Buffers
from cosim.talk.memory import Reader, Writer, close_all

CHUNK = 1 << 16  # B read at once
PREFIX = 8  # B, the length of a header
_SPACE = socket.CMSG_SPACE(253 * array("i").itemsize)


class LostError(Exception):
    """The far end has closed the connection."""


class Pipe:
    """One end. Sending and receiving do not wait when the socket does not.

    `says` declares the outgoing messages, `hears` the incoming ones. With `forward`, arrays in the far ends' memory may
    be passed on by reference.
    """

    def __init__(self, end: socket.socket, says: MessageSet, hears: MessageSet, *, forward: bool = False) -> None:
        self.socket = end
        self._says, self._hears = says, hears
        self._forward = forward
        self._writer, self._reader = Writer(forward=forward), Reader()
        self._in = bytearray()
        self._files: deque[int] = deque()  # arrived and not taken yet
        self._out: deque[tuple[memoryview, list[int]]] = deque()  # not sent yet

    @property
    def sending(self) -> bool:
        """Whether something is still to be sent with `flush`."""
        return bool(self._out)

    def send(self, kind: str, number: int, body: Body, arrays: Sequence[Array] = ()) -> None:
        """Send a message, or what fits; the rest leaves with `flush`."""
        sizes = [array.nbytes for array in arrays]
        check_sizes(sizes)  # before anything is copied
        placed, files = self._writer.write(arrays) if arrays else (None, [])
        try:
            head = self._says.pack(kind, body, number=number, sizes=sizes, placed=placed)
        except ProtocolError:
            self._writer = Writer(forward=self._forward)  # the far end never learns what this one has announced
            raise
        self._out.append((memoryview(len(head).to_bytes(PREFIX, "little") + head), files))
        self.flush()

    def flush(self) -> None:
        """Send what is left as far as the far end takes it. Raises `LostError`."""
        while self._out:
            data, files = self._out[0]
            try:
                if files:
                    sent = socket.send_fds(self.socket, [data], files, socket.MSG_NOSIGNAL)
                else:
                    sent = self.socket.send(data, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError as error:
                raise LostError(str(error)) from error
            if sent == len(data):
                self._out.popleft()
            else:
                self._out[0] = (data[sent:], [])

    def receive(self) -> tuple[Message, Buffers] | None:
        """The next message; None when there is none yet on a socket that does not wait.

        Raises `LostError` when the far end is gone and `ProtocolError` for what is no message.
        """
        while True:
            message = self.arrived()
            if message is not None:
                return message
            try:
                data, ancillary, _, _ = self.socket.recvmsg(CHUNK, _SPACE, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return None
            except OSError as error:
                raise LostError(str(error)) from error
            if not data:
                raise LostError("the connection was closed")
            self._in += data
            for level, kind, content in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    files = array("i")
                    files.frombytes(content[: len(content) - len(content) % files.itemsize])
                    self._files.extend(files)

    def arrived(self) -> tuple[Message, Buffers] | None:
        """The next message if all of it has been read before, together with the one before it."""
        if len(self._in) < PREFIX:
            return None
        end = PREFIX + int.from_bytes(self._in[:PREFIX], "little")
        if end > PREFIX + self._hears.most:
            raise ProtocolError(f"the far end sent a header of {end - PREFIX} bytes; the limit is {self._hears.most}")
        if len(self._in) < end:
            return None
        data = bytes(self._in[PREFIX:end])
        del self._in[:end]
        head = self._hears.unpack(data)
        if head.placed is None:
            return head, Buffers.of((), head.sizes)
        files = [self._files.popleft() for _ in range(min(len(head.placed.announced), len(self._files)))]
        return head, self._reader.read(head.placed, head.sizes, files)

    def close(self) -> None:
        """Close the socket and the open files that no one took."""
        self.socket.close()
        close_all(self._files)
        self._files.clear()

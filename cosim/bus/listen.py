"""Where a worker that runs elsewhere listens: one run after another, by ZeroMQ.

Off loopback, the run proves a key (CURVE) that is in the worker's folder of keys. The columns of a step are large, so
that they go to ZeroMQ straight and not by a doorkeeper: what may come in is bounded by keys, the limit of open files
is raised as far as it may be, and a handshake has no longer than at other doors.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path

import zmq

from cosim.bus.channel import Channel
from cosim.bus.messages import FROM_RUN, FROM_WORKER
from cosim.bus.service import AdapterService
from cosim.contract.errors import SetupError
from cosim.talk.doorkeeper import PATIENCE, raise_descriptors
from cosim.talk.keys import allowed, server_key
from cosim.talk.sockets import Guard, event, lock

FAREWELL = 1_000  # ms for the last answer to leave


class Listener:
    """Listens at `address`, which is `bind` with the port that the system chose.

    With `folder`, runs prove one of its keys; without, `bind` must be an address of this machine alone. Raises
    `SetupError` when it is not, or cannot be had.
    """

    def __init__(self, bind: str, folder: Path | None = None) -> None:
        if folder is None and not own_machine(bind):
            raise SetupError(
                f"{bind} can be reached from other machines, and any client there can use it: give it a "
                "folder of keys by --keys (cosim live-key makes keys)"
            )
        raise_descriptors()
        own = server_key(folder) if folder is not None else None
        self._zmq: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._channel = Channel(self._zmq, zmq.ROUTER, FROM_WORKER, FROM_RUN)
        self._socket = self._channel.socket
        self._socket.handshake_ivl = round(1e3 * PATIENCE)
        if folder is not None and own is not None:
            Guard(self._zmq, lambda: allowed(folder))
            lock(self._socket, own)
        self._lost: zmq.Socket[bytes] = self._socket.get_monitor_socket(int(zmq.EVENT_DISCONNECTED))
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._lost, zmq.POLLIN)
        self._fd = -1  # of the session's connection
        try:
            self._socket.bind(bind)
        except zmq.ZMQError as error:
            self.close()
            raise SetupError(f"cannot listen on {bind}: {error}") from error
        self.address: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def serve(
        self, service: AdapterService, *, once: bool = False, leaving: Callable[[], bool] = lambda: False
    ) -> None:
        """Answer until asked to end; with `once`, until the first run has closed its adapter or is gone.

        `leaving` reports an exit that was requested and then swallowed, for example by an import in
        progress; it is called at least once a second.
        """
        while not leaving():
            ready = dict(self._poller.poll(1_000))
            if self._lost in ready and self._disconnected(service) and once:
                return
            if self._socket in ready and self._answer(service) and once:
                return

    def close(self) -> None:
        """Stop listening, once the last answer has left."""
        self._socket.disable_monitor()
        self._lost.close(0)
        self._socket.close(FAREWELL)
        self._zmq.term()  # waits for the last answer to leave

    def _answer(self, service: AdapterService) -> bool:
        peer, *parts = self._socket.recv_multipart(copy=False)
        to = (peer.bytes,)
        greeted = service.session is None
        ended = service.answer(
            peer.bytes,
            lambda: self._channel.receive(parts),
            lambda kind, number, body, arrays: self._channel.send(kind, number, body, arrays, to),
        )
        if greeted and service.session is not None:
            self._fd = int(peer.get(zmq.SRCFD))
        return ended

    def _disconnected(self, service: AdapterService) -> bool:
        """Take note of a lost connection; whether it was that of the session."""
        _, value = event(self._lost)
        if service.session is None or value != self._fd:
            return False
        service.lost()
        return True


def own_machine(address: str) -> bool:
    """Whether nothing but this machine can reach `address`."""
    scheme, _, rest = address.partition("://")
    if scheme in ("ipc", "inproc"):
        return True
    host = rest.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, an interface, or all of them
        return False

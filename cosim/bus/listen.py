"""Where a worker that runs elsewhere listens: one run after another, by ZeroMQ."""

from __future__ import annotations

from collections.abc import Callable

import zmq
from zmq.utils.monitor import recv_monitor_message

from cosim.bus.channel import Channel
from cosim.bus.service import Service
from cosim.errors import SetupError

FAREWELL = 1_000  # ms for the last answer to leave


class Listener:
    """Listens at `address`, which is `bind` with the port that the system chose."""

    def __init__(self, bind: str) -> None:
        self._zmq: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._zmq.socket(zmq.ROUTER)
        self._channel = Channel(self._socket)
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

    def serve(self, service: Service, *, once: bool = False, leaving: Callable[[], bool] = lambda: False) -> None:
        """Answer until told to end; with `once`, until the first run has closed its adapter or is gone.

        `leaving` tells of an exit that was asked for and then swallowed, for example by an import that
        was going on; it is asked at least once a second.
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

    def _answer(self, service: Service) -> bool:
        peer, *parts = self._socket.recv_multipart(copy=False)
        to = (peer.bytes,)
        greeted = service.session is None
        ended = service.answer(
            peer.bytes,
            lambda: self._channel.receive(parts),
            lambda verb, serial, body, arrays: self._channel.send(verb, serial, body, arrays, to),
        )
        if greeted and service.session is not None:
            self._fd = int(peer.get(zmq.SRCFD))
        return ended

    def _disconnected(self, service: Service) -> bool:
        """Take note of a lost connection; whether it was that of the session."""
        event = recv_monitor_message(self._lost)
        if service.session is None or int(event["value"]) != self._fd:
            return False
        service.lost()
        return True

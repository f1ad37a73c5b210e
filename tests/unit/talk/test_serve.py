"""Metrics on the network: who fills the door, leaves it."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing

from cosim.talk.telemetry import serve
from cosim.talk.telemetry.serve import Endpoints


def test_many_guests_of_one_address_do_not_show_out_another(monkeypatch):
    monkeypatch.setattr(serve, "PATIENCE", 30.0)
    with (
        closing(Endpoints("127.0.0.1", {"n": 0}, lambda node: f"up {node}\n".encode())) as served,
        ExitStack() as stack,
    ):
        owner = stack.enter_context(socket.create_connection(served.addresses["n"], 10.0, ("127.0.0.2", 0)))
        guests = [
            stack.enter_context(socket.create_connection(served.addresses["n"], 10.0))
            for _ in range(3 * serve._CONNECTIONS)
        ]
        gone = 0
        while gone < 2 * serve._CONNECTIONS:  # all have been looked at
            gone = 0
            for guest in guests:
                guest.setblocking(False)
                try:
                    gone += not guest.recv(1)
                except BlockingIOError:
                    pass
                except ConnectionError:
                    gone += 1
        owner.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        heard = b""
        while part := owner.recv(4096):
            heard += part
    assert heard.endswith(b"up n\n")

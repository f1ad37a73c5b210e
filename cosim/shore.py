"""Whether the program of a container still has a network."""

from __future__ import annotations

import socket
from time import monotonic

STRANDED = 3.0  # s without a network interface after which a program should give up


class Shore:
    """Whether the program still has a network.

    A container joins the network namespace of its sidecar when it starts. When the sidecar's container dies, it
    comes back with a new one, and whoever does not start again as well stays in the old one, without any interface.
    """

    def __init__(self, server: str) -> None:
        """`server` is the address at which the run is."""
        self._wanted = server.startswith("tcp://")  # with Unix sockets a namespace lives on without its sidecar
        self._seen = self._looked = monotonic()

    def lost(self) -> bool:
        """Whether there has been no interface but the loopback for `STRANDED` s."""
        now = monotonic()
        if self._wanted and now - self._looked >= 1.0:
            self._looked = now
            if any(name != "lo" for _, name in socket.if_nameindex()):
                self._seen = now
        return self._wanted and now - self._seen > STRANDED + 1.0

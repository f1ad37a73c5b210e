"""Ports for what is to listen at a known one."""

from __future__ import annotations

import os
import socket
from itertools import cycle
from pathlib import Path

# Ports that the system gives to whoever asks for any begin here.
_ANY = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
_STEP, _EACH = 50, 2_000
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_first = max(_ANY - _EACH * (1 + _worker % 8), 1_024)
_all = range(_first, min(_first + _EACH, _ANY), _STEP)
_begin = os.getpid() % len(_all)  # another run of tests begins elsewhere
_ports = cycle([*_all[_begin:], *_all[:_begin]])


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    """A port of 127.0.0.1 that nobody has, and that no other process of tests and no connection will get.

    The ports after it, to the next one that is given out, are for those who need several.
    """
    for port in _ports:
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("unreachable")

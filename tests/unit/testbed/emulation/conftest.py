"""Engines on socket pairs instead of TAPs: no privilege is needed."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pytest

from cosim.testbed.emulation import compiled
from cosim.testbed.emulation.engine import EngineBackend


def mac(number):
    return f"02:00:00:00:00:{number:02x}"


def frame(to, number=0, length=60):
    """A frame to node `to`, to all if None, that says its number."""
    head = bytes.fromhex(mac(to).replace(":", "")) if to is not None else b"\xff" * 6
    return (head + b"\2\0\0\0\0\0\x88\xb5" + number.to_bytes(4, "big")).ljust(length, b"\0")


def until(true, limit=60.0):
    """Wait until something holds; fail after `limit` s."""
    end = time.monotonic() + limit
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


class Card:
    """A node's network card: what the node's software would see of a TAP."""

    def __init__(self):
        self.socket, self._far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(30.0)

    def give(self):
        """The descriptor to hand over."""
        return self._far.detach()

    def send(self, data):
        self.socket.send(data)

    def receive(self):
        return self.socket.recv(65536)

    def silent(self, wait=0.1):
        self.socket.settimeout(wait)
        try:
            return not self.socket.recv(65536)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(30.0)

    def cut(self):
        """Whether nobody holds the other end any more."""
        self.socket.setblocking(False)
        try:
            return self.socket.recv(1) == b""
        except BlockingIOError:
            return False
        finally:
            self.socket.settimeout(30.0)


@pytest.fixture(params=[pytest.param("linkd", marks=pytest.mark.needs("cc"))])
def command(request):
    return [str(compiled.linkd()), "--seed=3"]


@pytest.fixture
def cards():
    made = []

    def make():
        made.append(Card())
        return made[-1]

    yield make
    for card in made:
        card.socket.close()
        card._far.close()


def pipes():
    """The pipes that this process has open."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the folder's own descriptor is closed by now
            found.add(str(entry.readlink()))
    return {name for name in found if name.startswith("pipe")}


@pytest.fixture
def backend(command):
    before = pipes()
    made = EngineBackend(command)
    yield made
    made.close()
    made.close()
    assert pipes() <= before, "descriptors were left open"

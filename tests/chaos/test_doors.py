"""Strangers at the sockets of a run that may open 1,024 files: the short form of `benchmarks.doors`."""

from __future__ import annotations

import contextlib
import math
import socket
import time

import pytest
import zmq

from benchmarks.doors import GREETING, PLAIN, READY, Strangers, measure
from cosim.contract.errors import SetupError
from cosim.talk import doorkeeper
from cosim.talk.doorkeeper import Doorkeeper, Frames, Limits, affordable

pytestmark = pytest.mark.chaos


def test_strangers_take_neither_files_nor_memory_nor_threads_of_a_run():
    found = measure(connects=600, seconds=4.0)
    assert found["exit"] == 0
    assert found["died"] == []
    assert found["threads"] >= 1
    assert found["failed"] == 0
    assert found["written"] > 10
    assert found["memory"] < 64 << 20
    assert found["files"] < 800
    assert all(math.isfinite(found[f"attach_{when}_s"]) for when in ("before", "during", "at_end"))
    assert found["answers"]


class Echo:
    """A ZeroMQ socket without keys behind a doorkeeper."""

    def __init__(self, **limits):
        self.keeper = Doorkeeper("tcp://127.0.0.1:*", Limits(**limits))
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(self.keeper.inner)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.context.term()
        self.keeper.close()

    def talk(self, data, limit=10_000):
        """What comes back to a client that sends `data`, None if nothing does."""
        with zmq.Context() as context, context.socket(zmq.DEALER) as client:
            client.linger = 0
            client.connect(self.keeper.address)
            client.send(data)
            if not self.socket.poll(limit):
                return None
            self.socket.send_multipart(self.socket.recv_multipart())
            return client.recv() if client.poll(limit) else None


def until(condition):
    end = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_large_messages_pass_whole_and_others_end_their_connection():
    with Echo(looks=True, message=20_000_000, parts=1) as echo:
        data = bytes(range(256)) * 50_000
        assert echo.talk(data) == data
        assert echo.talk(bytes(20_000_001), 300) is None
        assert echo.keeper.turned_away["against the rules"] >= 1


def test_who_says_nothing_or_does_not_finish_is_shown_out_and_others_come_in():
    with Echo(silent=4, greeting=4, connections=2, patience=0.3, handshake=0.3) as echo:
        host, _, port = echo.keeper.address.removeprefix("tcp://").rpartition(":")
        for says in (b"", GREETING[:20]):
            held = [socket.create_connection((host, int(port))) for _ in range(12)]
            for one in held if says else ():
                try:
                    one.send(says)
                except OSError:
                    continue
            assert echo.talk(b"hello") == b"hello"
            until(lambda: not echo.keeper._silent and not echo.keeper._greeting)
            for one in held:
                one.close()
        assert echo.keeper.turned_away.total() >= 16


def test_no_more_are_admitted_than_may_be():
    with Echo(connections=2) as echo:
        host, _, port = echo.keeper.address.removeprefix("tcp://").rpartition(":")
        held = [socket.create_connection((host, int(port))) for _ in range(5)]
        for one in held:
            one.sendall(PLAIN + READY["control"])
        until(lambda: echo.keeper.turned_away.total() == 3)
        assert echo.keeper.admitted == 2
        for one in held:
            one.close()
        until(lambda: echo.keeper.admitted == 0)
        assert echo.talk(b"hello") == b"hello"


def test_what_is_not_zeromq_is_shown_out_at_once():
    with Echo() as echo:
        host, _, port = echo.keeper.address.removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port))) as one:
            one.settimeout(10.0)
            one.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(100) == b""
        assert echo.keeper.turned_away == {"does not talk ZeroMQ": 1}


def test_frames_are_followed_however_they_are_cut():
    limits = Limits(looks=True, message=300, parts=2, total=5_000)
    good = GREETING + READY["control"] + b"\1\3abc\0\2de" + b"\2" + (300).to_bytes(8, "big") + bytes(300)
    for size in (1, 7, len(good)):
        frames = Frames(limits)
        assert all(not frames.take(memoryview(good[k : k + size])) for k in range(0, len(good), size))
    for bad, said in (
        (b"\1\1a\1\1b\0\1c", "part 3"), (b"\2" + (301).to_bytes(8, "big"), "of 301 B"),
        (b"\6" + (1 << 20).to_bytes(8, "big"), "a command"), (bytes(6_000), "in all"),
    ):  # fmt: skip
        assert said in Frames(limits).take(memoryview(GREETING + bad))


def test_connections_are_counted_against_the_files_that_may_be_open(monkeypatch):
    monkeypatch.setattr(doorkeeper, "raise_descriptors", lambda: 700)
    assert 1 <= affordable(Limits(connections=500)).connections < 100
    with pytest.raises(SetupError, match=r"200 connections are expected.*ulimit -n"):
        affordable(Limits(connections=500), 200)


def test_an_address_that_is_taken_or_none_is_said():
    with Echo() as echo:
        with pytest.raises(SetupError, match="cannot listen at tcp"):
            Doorkeeper(echo.keeper.address, Limits())
        with pytest.raises(SetupError, match="an address is"):
            Doorkeeper("udp://127.0.0.1:5", Limits())
        with Strangers(echo.keeper.address, 5, rate=500.0) as strangers:
            until(lambda: strangers.connects > 20)

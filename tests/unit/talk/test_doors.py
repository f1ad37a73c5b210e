"""Guests that come and ask nothing do not keep out those who have the token."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np
import pytest
import zmq

from cosim.contract.frame import Frame
from cosim.talk import control, doorkeeper, keys
from cosim.talk.control import ControlError, ControlSocket, command
from cosim.talk.doorkeeper import SMALL, Frames
from cosim.talk.publish import OBSERVERS, Publisher, Subscriber

TOKEN = "s3cret"
PLAIN = b"\xff\0\0\0\0\0\0\0\1\x7f\3\1" + b"NULL".ljust(20, b"\0") + bytes(32)
CURVE = PLAIN[:12] + b"CURVE".ljust(20, b"\0") + bytes(32)
READY = b"\4\x19\5READY\x0bSocket-Type\0\0\0\3SUB"
FRAME = Frame("load", 0.0, np.arange(3, dtype=np.int32), {"x": np.arange(3.0)})


@contextmanager
def crowd(address, count, *says):
    """So many guests of `address` that stay, each of whom has said this much."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(socket.create_connection((host, int(port)), 5.0))
            for data in says:
                one.sendall(data)
        yield


@pytest.mark.parametrize(
    "says", [(), (PLAIN[:1],), (PLAIN, READY), (PLAIN[:12] + b"CURVE".ljust(20, b"\0") + bytes(32),)]
)
def test_a_run_answers_its_token_however_many_idle_guests_there_are(says):
    with (
        ControlSocket(lambda verb, _: {"verb": verb}, TOKEN, verbs=("state",)) as door,
        crowd(door.address, 60, *says),
    ):
        for _ in range(3):
            assert command(door.address, TOKEN, "state") == {"verb": "state"}


def seen(publisher, subscriber, first):
    for tick in range(first, first + 200):
        publisher.publish(tick, 0.1 * tick, [FRAME])
        if (found := subscriber.latest(0.05)) is not None and found.tick >= first:
            return True
    return False


def test_an_observer_gets_the_place_of_one_that_asks_nothing():
    with Publisher() as publisher, crowd(publisher.address, 60, PLAIN, READY), Subscriber(publisher.address) as watch:
        assert seen(publisher, watch, 1)


def test_an_observer_with_the_token_keeps_its_place_among_many_that_subscribe(monkeypatch):
    monkeypatch.setattr("cosim.talk.publish.OBSERVERS", replace(OBSERVERS, connections=4))
    asks = b"\0\2\1x"  # a subscription to "x"
    with (
        Publisher(token=TOKEN) as publisher,
        crowd(publisher.address, 30, PLAIN, READY, asks),
        Subscriber(publisher.address, TOKEN) as watch,
    ):
        assert seen(publisher, watch, 1)
        with crowd(publisher.address, 30, PLAIN, READY, asks):
            keeper = publisher._door._keeper
            assert all(seen(publisher, watch, 1000 * k) for k in range(1, 20))
            assert sum(keeper.turned_away.values()) > 8
            assert any(guest.frames.known for guest in keeper._in())


def test_an_admitted_guest_that_asks_nothing_goes_after_its_patience(monkeypatch):
    limits = replace(OBSERVERS, patience=0.0)
    monkeypatch.setattr("cosim.talk.publish.OBSERVERS", limits)
    with Publisher() as publisher:
        host, _, port = publisher.address.removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port)), 5.0) as one:
            one.settimeout(10.0)
            one.sendall(PLAIN + READY)
            while one.recv(4096):
                pass
        assert publisher._door._keeper.turned_away["asked nothing"] == 1


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("request_", "asked", "known"),
    [
        (b"", False, False),
        (b"\4\6\4PINGx", False, False),
        (b"\0\7\1wordsx", True, False),
        (b"\0\6\1words", True, True),
        (b"\4\x0f\x09SUBSCRIBEwords", True, True),
        (b"\0\2\1x\0\6\1words", True, True),
        (8 * b"\0\2\1x" + b"\0\6\1words", True, False),
        (b"\2\0\0\0\0\0\0\2\0" + bytes(512), True, False),
    ],
)
def test_the_first_request_shows_who_the_owner_is(request_, asked, known, size):
    frames = Frames(replace(SMALL, message=1 << 12), b"words")
    data = PLAIN + READY + request_
    for at in range(0, len(data), size):
        assert frames.take(memoryview(data[at : at + size])) == ""
    assert (frames.asked, frames.known) == (asked, known)


def test_the_token_goes_to_nobody_who_has_not_got_it():
    """A program at the address that a publication names sees neither token nor command."""
    got = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as fake:

        def listen():
            while True:
                try:
                    one, _ = fake.accept()
                except OSError:
                    return
                with one:
                    one.settimeout(0.3)
                    try:
                        one.sendall(CURVE)
                        while data := one.recv(4096):
                            got.extend(data)
                    except OSError:
                        continue

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        with pytest.raises(ControlError, match=r"does not answer|is not that of the run"):
            command(f"tcp://127.0.0.1:{fake.getsockname()[1]}", TOKEN, "stop", timeout=1.0)
        fake.shutdown(socket.SHUT_RDWR)
    thread.join(5.0)
    assert got
    assert TOKEN.encode() not in got
    assert b"stop" not in got


def test_a_plain_client_with_the_right_token_is_not_answered():
    with ControlSocket(lambda verb, _: {"verb": verb}, TOKEN, verbs=("state",)) as door, zmq.Context() as context:
        with context.socket(zmq.DEALER) as plain:
            plain.linger = 0
            plain.connect(door.address)
            plain.send(control.REQUESTS.pack("request", {"token": TOKEN, "do": "state", "with": {}}))
            assert not plain.poll(200)
        assert command(door.address, TOKEN, "state") == {"verb": "state"}


def test_keys_of_a_token_are_its_own():
    (server, client), (other, _) = keys.of_token(TOKEN), keys.of_token(TOKEN + " ")
    assert client.server == server.public != other.public
    assert len({server.secret, client.secret, other.secret}) == 3
    assert zmq.curve_public(client.secret.encode()).decode() == client.public
    assert keys.words_of(TOKEN) != keys.words_of("x")
    assert TOKEN.encode() not in keys.words_of(TOKEN)
    assert keys.words_of("") == b""
    assert len(keys.words_of(TOKEN)) < doorkeeper._LONGEST_WORDS

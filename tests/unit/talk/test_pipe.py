"""A pair of sockets: messages arrive whole and in order, whatever their size; anything else is refused."""

import os
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.errors import ProtocolError
from cosim.talk.memory import LANES
from cosim.talk.pipe import PREFIX, LostError, Pipe
from tests.unit.talk.words import WORDS, pack


@pytest.fixture
def ends():
    here, there = socket.socketpair()
    here.setblocking(False)
    there.setblocking(False)
    pipes = Pipe(here, WORDS, WORDS), Pipe(there, WORDS, WORDS, forward=True)
    yield pipes
    for pipe in pipes:
        pipe.close()


def all_of(sender: Pipe, receiver: Pipe, count: int) -> list[tuple[str, object, list[list[float]]]]:
    found = []
    while len(found) < count:
        sender.flush()
        message = receiver.receive()
        if message is not None:
            head, buffers = message
            arrays = [buffers.take("<f8", size // 8).tolist() for size in head.sizes]
            found.append((head.kind, head.body["body"], arrays))
    assert receiver.receive() is None
    return found


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.text(max_size=20), st.sampled_from(["x" * 70_000, "y" * 2_000_000])),
            st.lists(st.lists(st.floats(allow_nan=False), max_size=5), max_size=3),
        ),
        min_size=1,
        max_size=LANES,  # what lies in memory is valid that long
    )
)
def test_messages_arrive_whole_and_in_order(messages):
    here, there = socket.socketpair()
    here.setblocking(False)
    there.setblocking(False)
    a, b = Pipe(here, WORDS, WORDS), Pipe(there, WORDS, WORDS)
    try:
        for serial, (body, arrays) in enumerate(messages):
            a.send("step", serial, {"body": body}, [np.array(values, np.float64) for values in arrays])
        assert all_of(a, b, len(messages)) == [("step", body, arrays) for body, arrays in messages]
    finally:
        a.close()
        b.close()


def test_sending_does_not_wait_for_a_far_end_that_does_not_read(ends):
    a, b = ends
    a.send("start", 1, {"body": "x" * 10_000_000})
    assert a.sending
    a.send("step", 2, {"body": None}, [np.arange(3.0)])  # its memory is announced when its turn comes
    assert all_of(a, b, 2)[1] == ("step", None, [[0.0, 1.0, 2.0]])
    assert not a.sending


def test_a_message_that_cannot_be_encoded_takes_nothing_away_from_the_next(ends):
    a, b = ends
    with pytest.raises(ProtocolError, match="cannot be encoded"):
        a.send("step", 1, {"body": object()}, [np.zeros(3)])
    a.send("step", 2, {"body": None}, [np.ones(3)])
    assert all_of(a, b, 1) == [("step", None, [[1.0] * 3])]


def test_the_last_words_of_a_far_end_that_is_gone_are_heard(ends):
    a, b = ends
    a.send("done", 1, {"body": None})
    a.close()
    message = b.receive()
    assert message is not None
    assert message[0].kind == "done"
    with pytest.raises(LostError):
        b.receive()
    with pytest.raises(LostError):
        b.send("step", 2, {"body": None})


def framed(head: bytes) -> bytes:
    return len(head).to_bytes(PREFIX, "little") + head


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ((WORDS.most + 1).to_bytes(PREFIX, "little"), "the limit is"),
        (framed(b"\xc1"), "no message"),
        (framed(pack("step", 1, None, [np.zeros(2)])), "not the lengths that its header names"),
    ],
)
def test_what_is_no_message_is_refused(ends, data, why):
    ends[0].socket.send(data)
    with pytest.raises(ProtocolError, match=why):
        ends[1].receive()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.booleans(), st.integers(0, 3))
def test_noise_raises_nothing_but_a_wire_error_and_leaves_no_file_open(noise, frame, files):
    before = len(list(Path("/proc/self/fd").iterdir()))
    here, there = socket.socketpair()
    there.setblocking(False)
    pipe = Pipe(there, WORDS, WORDS)
    extra = [os.memfd_create("noise") for _ in range(files)]
    data = framed(noise) if frame else noise
    if data:
        socket.send_fds(here, [data], extra) if files else here.send(data)
    for fd in extra:
        os.close(fd)
    here.close()
    try:
        while True:
            pipe.receive()
    except (ProtocolError, LostError):
        pass
    pipe.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before

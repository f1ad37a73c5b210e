"""Publishing to observers: newest wins, nobody is waited for, every message stands for itself."""

import contextlib
import threading
import time

import numpy as np
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ProtocolError, SetupError
from cosim.contract.frame import Frame, SlotTable
from cosim.talk.publish import PUBLICATION, Publisher, Subscriber, assemble, disassemble

LIMIT = 60.0


def frame(tick: int, rows: int = 3, table: SlotTable | None = None) -> Frame:
    columns = {"x": np.arange(rows) + float(tick), "on": np.arange(rows) % 2 == 0}
    return Frame("mobility", tick * 0.5, np.arange(rows, dtype=np.int32), columns, table)


def fleet(epoch: int, first: int = 0) -> SlotTable:
    return SlotTable(first, ("a", "b", f"c{epoch}"), np.array([1, 1, epoch], np.int32), epoch)


def wait_for_observer(publisher: Publisher, subscriber: Subscriber) -> None:
    deadline = time.monotonic() + LIMIT
    while not publisher.observed:
        assert time.monotonic() < deadline
        subscriber.latest(0.005)  # ZeroMQ subscribes again after a reconnection when the observer looks


@pytest.fixture
def publisher():
    with Publisher() as publisher:
        yield publisher


@pytest.fixture
def subscriber(publisher):
    with Subscriber(publisher.address) as subscriber:
        wait_for_observer(publisher, subscriber)
        yield subscriber


def test_frames_arrive(publisher, subscriber):
    sent = [frame(4, table=fleet(1)), frame(4, rows=0), frame(4)]
    assert publisher.publish(4, 2.0, sent)
    seen = subscriber.latest(LIMIT)
    assert (seen.tick, seen.time) == (4, 2.0)
    assert all(a.same_as(b) for a, b in zip(seen.frames, sent, strict=True))
    assert seen.frames[0].table.ids == ("a", "b", "c1")
    assert seen.frames[0].table.generation.tolist() == [1, 1, 1]
    assert seen.frames[1].table is seen.frames[2].table is None
    assert subscriber.latest(0.0) is None


def test_nobody_is_needed(publisher):
    assert not publisher.publish(0, 0.0, [frame(0)])
    assert publisher.address.startswith("tcp://127.0.0.1:")


def test_a_slow_observer_sees_the_newest_frames_only(publisher, subscriber):
    rows = 50_000
    for tick in range(200):
        publisher.publish(tick, tick * 0.5, [frame(tick, rows)])
    time.sleep(0.5)  # what is under way arrives; the observer still has not looked
    seen = [subscriber.latest(LIMIT)]
    while (more := subscriber.latest(0.5)) is not None:  # a busy machine takes longer
        seen.append(more)
    assert seen[0].tick > 0
    assert all(one.frames[0]["x"][0] == one.tick for one in seen)
    assert len(seen) < 20  # nothing was queued


def test_an_observer_that_never_reads_does_not_hold_up_the_run(publisher, subscriber):
    start = time.monotonic()
    for tick in range(50):
        publisher.publish(tick, tick * 0.5, [frame(tick, 100_000)])
    assert time.monotonic() - start < LIMIT


@pytest.mark.parametrize("reads", [True, False])
def test_the_last_message_reaches_readers_whose_connections_were_full(reads):
    """A reader that keeps what it gets and is late; one that never reads does not hold up the end for long."""
    publisher = Publisher()
    with zmq.Context() as context, context.socket(zmq.SUB) as slow:
        slow.setsockopt(zmq.RCVHWM, 1)
        slow.setsockopt(zmq.LINGER, 0)
        slow.setsockopt(zmq.SUBSCRIBE, b"")
        slow.connect(publisher.address)
        deadline = time.monotonic() + LIMIT
        while not publisher.observed:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        for tick in range(200):  # 100 MB, more than the buffers on the way hold
            publisher.publish(tick, 0.0, [frame(tick, rows=1 << 16)])
        publisher.publish(1000, 0.0, [frame(1000)], last=True)
        closing = threading.Thread(target=publisher.close)
        closing.start()
        seen: list[int] = []
        while reads and slow.poll(int(LIMIT * 1e3)):
            seen.append(disassemble(slow.recv(copy=False).buffer)[0].number)
            if seen[-1] == 1000:
                break
        closing.join()
        assert not reads or seen[-1] == 1000
        assert len(seen) < 200  # others were dropped


def test_tables_are_known_to_late_observers_and_change_with_the_epoch(publisher, subscriber):
    same = []
    for tick, epoch in enumerate([1, 1, 2]):
        publisher.publish(tick, 0.0, [frame(tick, table=fleet(epoch)), frame(tick, table=fleet(7, first=3))])
        seen = subscriber.latest(LIMIT)
        same.append(seen.frames[0].table)
        assert seen.frames[0].table.ids[2] == f"c{epoch}"
        assert seen.frames[1].table.first == 3
    assert same[0] is same[1] is not same[2]
    with Subscriber(publisher.address) as late:
        deadline = time.monotonic() + LIMIT
        while (seen := late.latest(0.05)) is None:
            publisher.publish(3, 0.0, [frame(3, table=fleet(2))])
            assert time.monotonic() < deadline
        assert seen.frames[0].table.ids == ("a", "b", "c2")


def publisher_at(address: str) -> Publisher:
    """A publisher where another one has just been closed: ZeroMQ gives the port back a little later."""
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            return Publisher(address)
        except SetupError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_another_run_at_the_same_address_brings_its_own_tables():
    address = "tcp://127.0.0.1:*"
    with contextlib.ExitStack() as open_ones:
        subscriber = None
        for name in ("first", "second"):
            with publisher_at(address) as publisher:
                address = publisher.address
                subscriber = subscriber or open_ones.enter_context(Subscriber(address))
                wait_for_observer(publisher, subscriber)
                publisher.publish(0, 0.0, [frame(0, table=SlotTable(0, (name,), np.ones(1, np.int32), 1))])
                assert subscriber.latest(LIMIT).frames[0].table.ids == (name,)


def test_observers_come_and_go(publisher):
    with Subscriber(publisher.address) as subscriber:
        wait_for_observer(publisher, subscriber)
    deadline = time.monotonic() + LIMIT
    while publisher.observed:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_wrong_addresses(publisher):
    with pytest.raises(SetupError, match="cannot listen at"):
        Publisher(publisher.address)
    with pytest.raises(SetupError, match="cannot connect to"):
        Subscriber("nowhere")


def packed(arrays, filler=0):
    body = {"run": bytes(8), "time": 1.0, "frames": [], "tables": [], "scene": bytes(filler), "state": {}}
    return PUBLICATION.pack("frames", body, number=5, sizes=[array.nbytes for array in arrays])


@given(st.lists(st.integers(0, 200), max_size=4), st.integers(0, 300))
def test_messages_in_one_piece(sizes, filler):
    arrays = [np.arange(size, dtype=np.int16) for size in sizes]
    data = assemble(packed(arrays, filler), arrays)
    message, buffers = disassemble(memoryview(data))
    assert (message.kind, message.number, message.body["scene"]) == ("frames", 5, bytes(filler))
    for array in arrays:
        assert buffers.take("<i2", len(array)).tolist() == array.tolist()
    buffers.end()


@given(st.data())
def test_damaged_messages_raise_protocol_errors_only(data):
    arrays = [np.arange(5.0)]
    message = bytearray(assemble(packed(arrays), arrays))
    place = data.draw(st.integers(0, len(message) - 1))
    if data.draw(st.booleans()):
        message[place] = data.draw(st.integers(0, 255))
    else:
        del message[place:]
    with contextlib.suppress(ProtocolError):
        disassemble(memoryview(bytes(message)))

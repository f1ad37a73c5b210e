"""Shared memory: two slots in turn, growing, never shrinking, checked on reading."""

import os

import numpy as np
import pytest

from cosim.bus.memory import ALIGN, Reader, Writer, create, layout
from cosim.bus.wire import WireError


@pytest.fixture
def fds():
    found = create()
    yield found
    for fd in found:
        os.close(fd)


def take(reader, lane, arrays):
    buffers = reader.read(lane, [array.nbytes for array in arrays])
    taken = [buffers.take(array.dtype.str, len(array)) for array in arrays]
    buffers.end()
    return taken


def test_what_is_written_is_read(fds):
    writer, reader = Writer(fds), Reader(fds)
    arrays = [np.arange(7, dtype=np.int8), np.array([], np.float64), np.arange(9.0), np.array([True, False])]
    taken = take(reader, writer.write(arrays), arrays)
    for a, b in zip(taken, arrays, strict=True):
        assert a.dtype == b.dtype
        assert a.tolist() == b.tolist()
        assert a.flags.aligned
        assert not a.flags.writeable


def test_a_message_stays_valid_while_the_next_one_is_written_even_if_that_is_larger(fds):
    writer, reader = Writer(fds), Reader(fds)
    first = take(reader, writer.write([np.full(10, 1.0)]), [np.empty(10)])[0]
    second = take(reader, writer.write([np.full(100_000, 2.0)]), [np.empty(100_000)])[0]
    assert first.tolist() == [1.0] * 10
    third = take(reader, writer.write([np.full(1_000_000, 3.0)]), [np.empty(1_000_000)])[0]
    assert (second == 2.0).all()
    assert (third == 3.0).all()


def test_slots_take_turns(fds):
    writer = Writer(fds)
    assert [writer.write([np.zeros(1)]) for _ in range(4)] == [0, 1, 0, 1]


def test_reading_beyond_the_memory_is_refused(fds):
    reader = Reader(fds)
    with pytest.raises(WireError, match=r"named 64 bytes in a shared slot of 0"):
        reader.read(0, [8])
    Writer(fds).write([np.zeros(1)])
    with pytest.raises(WireError, match="in a shared slot of"):
        reader.read(0, [10**9])


def test_memory_cannot_be_taken_away_from_a_reader(fds):
    Writer(fds).write([np.zeros(1000)])
    with pytest.raises(PermissionError):
        os.ftruncate(fds[0], 0)


def test_layout_keeps_arrays_aligned():
    assert layout([1, 0, ALIGN, ALIGN + 1]) == ([0, ALIGN, ALIGN, 2 * ALIGN], 4 * ALIGN)
    assert layout([]) == ([], 0)

"""Shared memory: lanes in turn, larger ones in the place of small ones, forwarding, checks on reading."""

import os
from pathlib import Path

import numpy as np
import pytest

from cosim.contract.errors import ProtocolError
from cosim.talk.codec import BufferPlace
from cosim.talk.memory import ALIGN, LANES, Reader, Segment, Writer, layout


def files_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Way:
    """A writer and its reader; the open files travel as they would through a socket."""

    def __init__(self, *, forward: bool = False) -> None:
        self.writer, self.reader = Writer(forward=forward), Reader()
        self.placed = BufferPlace(())

    def take(self, *arrays: np.ndarray) -> list[np.ndarray]:
        self.placed, files = self.writer.write(arrays)
        buffers = self.reader.read(self.placed, [array.nbytes for array in arrays], [os.dup(fd) for fd in files])
        taken = [buffers.take(array.dtype.str, len(array)) for array in arrays]
        buffers.end()
        return taken


def test_what_is_written_is_read():
    arrays = [np.arange(7, dtype=np.int8), np.array([], np.float64), np.arange(9.0), np.array([True, False])]
    for a, b in zip(Way().take(*arrays), arrays, strict=True):
        assert a.dtype == b.dtype
        assert a.tolist() == b.tolist()
        assert a.flags.aligned
        assert not a.flags.writeable


def test_messages_stay_valid_while_the_next_ones_are_written_even_if_those_are_larger():
    way = Way()
    kept = [(way.take(np.full(10**k, float(k)))[0], k) for k in range(LANES)]
    for k in range(LANES, 7):
        for array, value in kept[-LANES:]:
            assert (array == value).all()
        kept.append((way.take(np.full(10**k, float(k)))[0], k))


def test_lanes_take_turns_and_are_announced_once():
    way = Way()
    seen = []
    for _ in range(2 * LANES):
        way.take(np.zeros(1))
        seen.append((way.placed.places[0], list(way.placed.announced)))
    assert seen == [(k, [k]) for k in range(LANES)] + [(k, []) for k in range(LANES)]


def test_what_arrived_is_forwarded_and_not_copied():
    first, second = Way(), Way(forward=True)
    for k in range(2 * LANES):
        (middle,) = first.take(np.arange(1000.0) + k)
        mixed = np.full(3, float(k))
        whole, part, own = second.take(middle, middle[10:20], mixed)
        assert whole.tolist() == middle.tolist()
        assert part.tolist() == middle[10:20].tolist()
        assert own.tolist() == mixed.tolist()
        number = LANES + k % LANES
        assert second.placed.places[::2] == [number, number, k % LANES]
        assert list(second.placed.announced) == ([number, k] if k < LANES else [])
    middle_base, whole_base = middle.base.obj, whole.base.obj
    assert os.fstat(middle_base.fd).st_ino == os.fstat(whole_base.fd).st_ino


def test_forwarding_follows_a_lane_that_has_grown():
    first, second = Way(), Way(forward=True)
    for rows in (10, 10, 10, 100_000, 200_000, 10, 300_000):
        (middle,) = first.take(np.arange(float(rows)))
        (end,) = second.take(middle)
        assert end.tolist() == middle.tolist()
        assert second.placed.places[0] in range(LANES, 2 * LANES)


def test_a_writer_that_does_not_forward_copies():
    first, second = Way(), Way()
    (middle,) = first.take(np.arange(5.0))
    (end,) = second.take(middle)
    assert os.fstat(middle.base.obj.fd).st_ino != os.fstat(end.base.obj.fd).st_ino


def test_nothing_stays_open():
    before = files_open()
    way = Way()
    for k in range(6):
        way.take(np.zeros(10**k))
    assert files_open() > before
    del way
    assert files_open() == before


@pytest.mark.parametrize(
    ("placed", "files", "why"),
    [
        (BufferPlace([0, 0]), 0, "never announced"),
        (BufferPlace([0, 0], [0]), 0, "announced 1 segments and sent 0"),
        (BufferPlace([0, 0]), 1, "announced 0 segments and sent 1"),
        (BufferPlace([0, 4090], [0]), 1, "of segment 0, of 4096"),
        (BufferPlace([0, 2**62], [0]), 1, "of segment 0, of 4096"),
        (BufferPlace([1, 0], [0]), 1, "never announced"),
    ],
)
def test_places_that_do_not_exist_are_refused(placed, files, why):
    before = files_open()
    segment = Segment.create(4096)
    with pytest.raises(ProtocolError, match=why):
        Reader().read(placed, [8], [os.dup(segment.fd) for _ in range(files)])
    del segment
    assert files_open() == before


def test_memory_that_may_shrink_is_refused(tmp_path):
    before = files_open()
    unsealed = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, 4096)
    (tmp_path / "file").write_bytes(bytes(4096))
    for fd in (unsealed, os.open(tmp_path / "file", os.O_RDWR)):
        with pytest.raises(ProtocolError, match="cannot be used"):
            Reader().read(BufferPlace([0, 0], [0]), [8], [fd])
    assert files_open() == before


def test_memory_cannot_be_taken_away_from_a_reader():
    segment = Segment.create(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(segment.fd, 0)


def test_layout_keeps_arrays_aligned():
    assert layout([1, 0, ALIGN, ALIGN + 1]) == ([0, ALIGN, ALIGN, 2 * ALIGN], 4 * ALIGN)
    assert layout([]) == ([], 0)

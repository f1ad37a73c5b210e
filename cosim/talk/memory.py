"""Columns in memory that the processes of one machine share.

A segment is anonymous memory (`memfd`) whose open file is sent to its reader, so nothing has to be
unlinked and nothing is left behind, however the processes end. A segment never shrinks and never
grows: a larger one replaces it, and the old one lives as long as a process uses it.

The run forwards what a worker wrote to the next worker by reference: the column is not copied
again, and the reader gets the segment itself. That is safe for two reasons. A worker reads its inputs
within a tick. And a worker may be one step ahead of the tick, so three lanes written in turn keep a
frame until the tick in which its producer's step after the next one is due, as the ownership rule of
`cosim.contract.frame` requires.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterable, Sequence

import numpy as np

from cosim.contract.errors import ProtocolError
from cosim.contract.frame import Array
from cosim.talk.codec import MAX_SEGMENTS, BufferPlace
from cosim.talk.columns import Buffers

ALIGN = 64  # B, a cache line
LANES = 3  # segments that a sender writes in turn
MAX_FILES = 200  # that travel with one message; the kernel's limit is 253


class Segment(mmap.mmap):
    """Shared memory of a fixed size, mapped here; `lane` identifies the sender and which of its lanes this is."""

    fd: int
    lane: object
    address: int

    @classmethod
    def create(cls, size: int) -> Segment:
        """New memory to write to."""
        fd = os.memfd_create("cosim-frames", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return cls._map(fd, size, mmap.ACCESS_WRITE, None)

    @classmethod
    def open(cls, fd: int, lane: object) -> Segment:
        """The memory of an open file that arrived, to read from; takes the file over."""
        try:
            if not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
                raise OSError("it may shrink")
            return cls._map(fd, os.fstat(fd).st_size, mmap.ACCESS_READ, lane)
        except (OSError, ValueError) as error:
            os.close(fd)
            raise ProtocolError(f"the far end sent shared memory that cannot be used: {error}") from error

    @classmethod
    def _map(cls, fd: int, size: int, access: int, lane: object) -> Segment:
        segment = cls(fd, size, access=access)
        segment.fd, segment.lane = fd, lane
        segment.address = np.frombuffer(segment, np.uint8).__array_interface__["data"][0]
        return segment

    def __del__(self) -> None:
        fd: int | None = self.__dict__.pop("fd", None)
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)


class Writer:
    """The sending side: places arrays in the lane whose turn it is.

    With `forward`, arrays that lie in segments that arrived here are not copied but named.
    """

    def __init__(self, *, forward: bool = False) -> None:
        self._forward = forward
        self._lanes: list[Segment | None] = [None] * LANES
        self._turn = 0
        self._known: dict[object, tuple[int, Segment]] = {}  # forwarded ones by lane: number and what was announced

    def write(self, arrays: Sequence[Array]) -> tuple[BufferPlace, list[int]]:
        """Where the far end finds `arrays`, and the open files that it must be sent."""
        places = [0] * (2 * len(arrays))
        announced: dict[int, int] = {}  # number and open file of segments that are new to the far end
        own: Sequence[int] = range(len(arrays))
        if self._forward:
            own = [i for i, array in enumerate(arrays) if not self._name(array, i, places, announced)]
        if own:
            self._copy(arrays, own, places, announced)
        return BufferPlace(places, list(announced)), list(announced.values())

    def _copy(self, arrays: Sequence[Array], own: Sequence[int], places: list[int], announced: dict[int, int]) -> None:
        lane, self._turn = self._turn, (self._turn + 1) % LANES
        offsets, total = layout([arrays[i].nbytes for i in own])
        segment = self._lanes[lane]
        if segment is None or len(segment) < total:
            size = -(-max(total + total // 2, mmap.PAGESIZE) // mmap.PAGESIZE) * mmap.PAGESIZE
            segment = self._lanes[lane] = Segment.create(size)
            announced[lane] = segment.fd
        for i, offset in zip(own, offsets, strict=True):
            array = arrays[i]
            np.ndarray(array.shape, array.dtype, segment, offset)[...] = array
            places[2 * i : 2 * i + 2] = lane, offset

    def _name(self, array: Array, i: int, places: list[int], announced: dict[int, int]) -> bool:
        """Whether `array` lies in a segment that the far end knows or learns of now."""
        base: object = array
        while isinstance(base, np.ndarray):
            base = base.base
        segment = base.obj if isinstance(base, memoryview) else None
        if not isinstance(segment, Segment):
            return False
        number, known = self._known.get(segment.lane, (LANES + len(self._known), None))
        if known is not segment:
            if number >= MAX_SEGMENTS or len(announced) >= MAX_FILES:
                return False
            self._known[segment.lane] = (number, segment)
            announced[number] = segment.fd
        places[2 * i : 2 * i + 2] = number, array.__array_interface__["data"][0] - segment.address
        return True


class Reader:
    """The receiving side: read-only views of what the far end names."""

    def __init__(self) -> None:
        self._segments: dict[int, Segment] = {}
        self._sender = object()  # what its lanes are known by

    def read(self, placed: BufferPlace, sizes: Sequence[int], files: Iterable[int]) -> Buffers:
        """The buffers of `sizes`; `files` are the open files that came with the message, taken over."""
        files = list(files)
        if len(files) != len(placed.announced):
            close_all(files)
            raise ProtocolError(f"the far end announced {len(placed.announced)} segments and sent {len(files)}")
        while files:
            number = placed.announced[-len(files)]
            try:
                self._segments[number] = Segment.open(files.pop(0), (self._sender, number))
            except ProtocolError:
                close_all(files)
                raise
        parts = []
        for number, offset, size in zip(placed.places[::2], placed.places[1::2], sizes, strict=True):
            segment = self._segments.get(number)
            if segment is None or offset + size > len(segment):
                has = "which it never announced" if segment is None else f"of {len(segment)}"
                raise ProtocolError(f"the far end named bytes {offset}..{offset + size} of segment {number}, {has}")
            parts.append((segment, offset))
        return Buffers(parts, sizes)


def close_all(files: Iterable[int]) -> None:
    """Close open files that no one took over."""
    for fd in files:
        os.close(fd)


def layout(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where buffers of `sizes` lie in a lane, and how many bytes they need in all."""
    offsets, total = [], 0
    for size in sizes:
        offsets.append(total)
        total += -(-size // ALIGN) * ALIGN
    return offsets, total

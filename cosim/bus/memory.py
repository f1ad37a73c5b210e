"""Columns in memory that two processes of one machine share.

Nameless memory (`memfd`) is handed from parent to child as an open file, so nothing has to be
unlinked and nothing is left behind, however the processes end. Two slots are written in turn, which
is what the ownership rule of `cosim.bus.frame` asks for: the arrays of a message stay valid until
the message after the next one is written. Each slot is a file of its own, so that one can grow while
the other is still being read.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence

import numpy as np

from cosim.bus.frame import Array
from cosim.bus.wire import Buffers, WireError

ALIGN = 64  # B, a cache line


class Writer:
    """The sending side: copies arrays into the slot whose turn it is."""

    def __init__(self, fds: tuple[int, int]) -> None:
        self._fds = fds
        self._maps: list[mmap.mmap | None] = [None, None]
        self._turn = 0

    def write(self, arrays: Sequence[Array]) -> int:
        """The number of the slot that now holds `arrays`."""
        lane, self._turn = self._turn, 1 - self._turn
        offsets, total = layout([array.nbytes for array in arrays])
        memory = self._maps[lane]
        if memory is None or len(memory) < total:
            size = -(-max(total + total // 2, mmap.PAGESIZE) // mmap.PAGESIZE) * mmap.PAGESIZE
            os.ftruncate(self._fds[lane], size)
            memory = self._maps[lane] = mmap.mmap(self._fds[lane], size)
        for array, offset in zip(arrays, offsets, strict=True):
            np.ndarray(array.shape, array.dtype, memory, offset)[...] = array
        return lane


class Reader:
    """The receiving side: read-only views of what the far end wrote."""

    def __init__(self, fds: tuple[int, int]) -> None:
        self._fds = fds
        self._maps: list[mmap.mmap | None] = [None, None]

    def read(self, lane: int, sizes: Sequence[int]) -> Buffers:
        """The buffers of `sizes` in slot `lane`."""
        offsets, total = layout(sizes)
        memory = self._maps[lane]
        if memory is None or len(memory) < total:
            size = os.fstat(self._fds[lane]).st_size
            if size < max(total, 1):
                raise WireError(f"the far end named {total} bytes in a shared slot of {size}")
            memory = self._maps[lane] = mmap.mmap(self._fds[lane], size, access=mmap.ACCESS_READ)
        return Buffers([(memory, offset) for offset in offsets], sizes)


def layout(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where buffers of `sizes` lie in a slot, and how many bytes they need in all."""
    offsets, total = [], 0
    for size in sizes:
        offsets.append(total)
        total += -(-size // ALIGN) * ALIGN
    return offsets, total


def create() -> tuple[int, int]:
    """The open files of two new slots. They can grow only: a reader's view never loses its memory."""
    return _memory(), _memory()


def _memory() -> int:
    fd = os.memfd_create("cosim-frames", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return fd

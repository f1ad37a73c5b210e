"""Weeds in a tile: green things beside the crop rows.

Plants are where the excess green index 2g - r - b of the chromatic coordinates is high (Woebbecke et al. 1995). Crop
stands in straight rows, so the direction in which the green of a tile gathers most into lines is theirs, and what is
green beside the lines is a weed. It is no trained detector: weeds within a row are missed, those that touch count as
one, and in a tile without crop everything green is a weed.
"""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Flags, Ints

Floats = NDArray[np.float32]
Places = list[tuple[float, float]]

_HEAD = re.compile(rb"P6\s+(\d{1,5})\s+(\d{1,5})\s+255\s")
_GREEN = 0.09  # of the index
_LEAST = 4  # pixels of a plant
_ANGLES = np.radians(np.arange(0.0, 180.0, 4.0))
_FINE = np.radians(np.arange(-2.0, 2.5, 0.5))
_BIN = 4  # pixels across of which a line is made
_COVERED = 0.15  # of a line that is part of a crop row, with green
_LONG = 0.2  # of the picture's side: shorter lines, in the corners, are no evidence


def picture(data: bytes) -> Floats:
    """(lines, columns, 3) in 0..1 of a portable pixmap (P6, 8 bit), whatever follows it. Raises `ValueError`."""
    head = _HEAD.match(data[:32])
    if head is None:
        raise ValueError("the input is no portable pixmap (P6) of 8 bit")
    columns, lines = int(head[1]), int(head[2])
    if not columns * lines or len(data) < head.end() + 3 * columns * lines:
        raise ValueError(
            f"a pixmap of {columns} x {lines} has {3 * columns * lines} bytes, not {len(data) - head.end()}"
        )
    raw = np.frombuffer(data, np.uint8, 3 * columns * lines, head.end())
    return raw.reshape(lines, columns, 3).astype(np.float32) / np.float32(255.0)


def weeds(shown: Floats) -> Places:
    """Column and line of every weed in a picture (lines, columns, 3)."""
    green = _smooth(_excess_green(shown)) > _GREEN
    labels, count = components(green)
    if not count:
        return []
    line, column = np.nonzero(green)
    of = labels[line, column] - 1
    size = np.bincount(of, minlength=count)
    places = np.column_stack([np.bincount(of, column + 0.5, count), np.bincount(of, line + 0.5, count)]) / size[:, None]
    crop = _rows(column, line, green.shape)
    in_row = np.bincount(of, crop, count) > 0.5 * size
    return [(float(x), float(y)) for x, y in places[(size >= _LEAST) & ~in_row]]


def _excess_green(shown: Floats) -> Floats:
    total = np.maximum(shown.sum(axis=2), np.float32(1e-6))
    return np.asarray(3.0 * shown[:, :, 1] / total - 1.0, np.float32)  # 2g - r - b, as r + g + b = 1


def _smooth(index: Floats) -> Floats:
    """The mean of 3 x 3, against the noise of the sensor."""
    for axis in (0, 1):
        padded = np.pad(index, [(1, 1) if k == axis else (0, 0) for k in range(2)], mode="edge")
        parts = [np.take(padded, range(k, k + index.shape[axis]), axis) for k in range(3)]
        index = np.asarray((parts[0] + parts[1] + parts[2]) / np.float32(3.0))
    return index


def _rows(column: Ints, line: Ints, shape: tuple[int, ...]) -> Flags:
    """Which green pixels lie in lines of which much is green, in the direction where green gathers most."""
    reach = int(math.hypot(*shape)) // _BIN + 2
    every = max(1, len(column) // 4000)
    x, y = column[::every], line[::every]
    ground_y, ground_x = (part.ravel() for part in np.mgrid[: shape[0] : _BIN, : shape[1] : _BIN])

    def across(of_x: Ints, of_y: Ints, angle: float) -> Ints:
        return np.asarray((of_x * np.cos(angle) + of_y * np.sin(angle)) / _BIN + reach, np.int64)

    def gathered(angle: float) -> float:
        counts = np.bincount(across(x, y, angle), minlength=2 * reach).astype(np.float64)
        length = np.bincount(across(ground_x, ground_y, angle), minlength=2 * reach)
        return float((counts**2 / np.maximum(length, _LONG * shape[0] / _BIN)).sum())

    best = max(_ANGLES.tolist(), key=gathered)
    best = max((best + _FINE).tolist(), key=gathered)
    own = across(column, line, best)
    counts = np.bincount(own, minlength=2 * reach) / _BIN**2
    length = np.bincount(across(ground_x, ground_y, best), minlength=2 * reach)
    rows = (counts > _COVERED * length) & (length > _LONG * shape[0] / _BIN)
    wide = rows.copy()
    wide[1:] |= rows[:-1]
    wide[:-1] |= rows[1:]
    return np.asarray(wide[own])


def components(flags: Flags) -> tuple[Ints, int]:
    """Labels (as `flags`, 0: none) of what hangs together by sides or corners, and how many there are.

    Runs of each line are joined with those that they touch in the line before (Rosenfeld and Pfaltz 1966).
    """
    lines, columns = flags.shape
    edges = np.diff(np.pad(flags.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    starts, ends = np.nonzero(edges == 1), np.nonzero(edges == -1)
    first, last, of_line = starts[1], ends[1] - 1, starts[0]
    parent = list(range(len(first)))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    begin = np.searchsorted(of_line, np.arange(lines + 1)).tolist()
    left, right = first.tolist(), last.tolist()
    for line in range(1, lines):
        above, here = begin[line - 1], begin[line]
        while above < begin[line] and here < begin[line + 1]:
            if left[here] <= right[above] + 1 and left[above] <= right[here] + 1:
                parent[root(here)] = root(above)
            if right[above] < right[here]:
                above += 1
            else:
                here += 1
    roots, numbers = np.unique([root(k) for k in range(len(first))], return_inverse=True)
    labels = np.zeros((lines, columns + 1), np.int64)
    np.add.at(labels, (of_line, first), numbers + 1)
    np.subtract.at(labels, (of_line, last + 1), numbers + 1)
    return np.cumsum(labels, axis=1)[:, :columns], len(roots)

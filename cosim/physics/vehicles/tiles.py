"""Pictures of a field as a camera takes them: soil, crop rows and weeds from straight above, rendered tile by tile.

A tile is a square part of a picture. What it shows depends on the field, the camera's ground sample distance and the
light alone: the same ground looks the same in every picture. Shadows, residue and motion blur are left out.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry
from cosim.contract.records import Floats, Ints
from cosim.physics.vehicles.weeds import Plants

Picture = NDArray[np.uint8]  # (lines, columns, 3)

# Reflectance in red, green and blue; of dry soil and of young leaves, as in libraries of spectra by order of magnitude.
_SOIL = np.array([0.21, 0.16, 0.11])
_CROP = np.array([0.07, 0.15, 0.05])
_WEED = np.array([0.09, 0.17, 0.05])
_LEAFY = 0.72**2 + 0.28**2 / 2.0  # of the circle around a plant, mean of its lobes
_FINEST = 0.005  # m, to which coarser pixels are divided before they are averaged
# Electrons per lx and reflectance: a shutter of 1 ms (the drone moves), f/2.8, pixels of 2.4 um. The image has
# E T / (4 N^2) = 0.029 E; 1 lx s of daylight is 1e4 photons/um^2, of which 40 % count, in one of three colours: 7,700.
_PER_LUX = 0.22
_FULL = 10_000.0  # electrons, at most: from 45 klx on a white sheet needs a shorter shutter
_WHITE = 0.3  # reflectance that comes out as white
_READ = 6.0  # electrons of read noise


@dataclass(frozen=True, slots=True)
class Shot:
    """Where a picture was taken: its middle on the ground, turned by `heading`, straight from above."""

    x: float  # m
    y: float
    heading: float  # rad clockwise from north; up in the picture
    pixel: float  # m, ground sample distance
    columns: int
    lines: int
    light: float = 1e4  # lx

    def tiles(self, size: int) -> int:
        """How many whole tiles of `size` pixels it has, 1 at least."""
        return max(self.columns // size, 1) * max(self.lines // size, 1)

    def tile(self, number: int, size: int) -> Shot:
        """Tile `number` (modulo their count) as a picture of its own, `size` pixels square; the front row first."""
        wide, high = max(self.columns // size, 1), max(self.lines // size, 1)
        row, column = divmod(number % (wide * high), wide)
        right = (column - 0.5 * (wide - 1)) * size * self.pixel
        ahead = (0.5 * (high - 1) - row) * size * self.pixel
        sine, cosine = math.sin(self.heading), math.cos(self.heading)
        x, y = self.x + ahead * sine + right * cosine, self.y + ahead * cosine - right * sine
        return Shot(x, y, self.heading, self.pixel, size, size, self.light)

    def seen(self, plants: Plants) -> tuple[Ints, Floats]:
        """The plants whose middles are in it, and where: column and line (k, 2) in pixels."""
        reach = 0.5 * self.pixel * math.hypot(self.columns, self.lines)
        near = plants.near(self.x, self.y, reach)
        places = self.places(plants.x[near], plants.y[near])
        within = ((places >= 0.0) & (places < (self.columns, self.lines))).all(axis=1)
        return near[within], places[within]

    def places(self, x: Floats, y: Floats) -> Floats:
        """Column and line (k, 2) of places on the ground."""
        sine, cosine = math.sin(self.heading), math.cos(self.heading)
        east, north = x - self.x, y - self.y
        right, ahead = east * cosine - north * sine, east * sine + north * cosine
        return np.column_stack([right / self.pixel + 0.5 * self.columns, 0.5 * self.lines - ahead / self.pixel])


def render(plants: Plants, view: Shot, seed: int = 0, finest: float = _FINEST) -> Picture:
    """The picture of `view`; `seed` is that of the sensor's noise.

    Pixels coarser than `finest` m are divided, at most by 20, and averaged.
    """
    parts = min(max(1, math.ceil(view.pixel / finest - 1e-9)), 20)
    fine = Shot(view.x, view.y, view.heading, view.pixel / parts, view.columns * parts, view.lines * parts, view.light)
    column, line = np.arange(fine.columns) + 0.5, np.arange(fine.lines) + 0.5
    right = (column - 0.5 * fine.columns)[None, :] * fine.pixel
    ahead = (0.5 * fine.lines - line)[:, None] * fine.pixel
    sine, cosine = math.sin(fine.heading), math.cos(fine.heading)
    x, y = fine.x + ahead * sine + right * cosine, fine.y + ahead * cosine - right * sine
    near = plants.near(fine.x, fine.y, 0.5 * fine.pixel * math.hypot(fine.columns, fine.lines) + 0.2)
    places, size = fine.places(plants.x[near], plants.y[near]), np.full(len(near), 1.0 / fine.pixel)
    shown = ground(x, y, np.full(x.shape, fine.pixel), plants, near, places, size)
    if parts > 1:
        shown = shown.reshape(view.lines, parts, view.columns, parts, 3).mean(axis=(1, 3))
    return exposed(shown, view.light, seed)


def ground(x: Floats, y: Floats, wide: Floats, plants: Plants, near: Ints, places: Floats, size: Floats) -> Floats:
    """Reflectance (lines, columns, 3) of the ground at `x`, `y` m in pixels `wide` m; all (lines, columns).

    Soil has clods of 4 and 16 cm, which stay where they are; a wide pixel shows their mean. The plants `near` (k,) are
    at `places` (k, 2: column, line), where 1 m across the view is `size` (k,) pixels.
    """
    shade = np.ones(x.shape)
    for part, clod in ((0.25, 0.04), (0.35, 0.16)):
        shade += part * (_clods(x, y, clod) - 0.5) * np.minimum(clod / wide, 1.0)
    shown: Floats = shade[:, :, None] * _SOIL
    weed = near < plants.weeds
    chance = _clods(plants.x[near], plants.y[near], 1e-3)  # of its own
    leaves = np.where(weed, 3.0 + np.floor(4.0 * chance), 5.0)
    each = np.column_stack([plants.x[near], plants.y[near], plants.radius[near], leaves, chance])
    colours = np.where(weed[:, None], _WEED, _CROP) * (0.85 + 0.3 * chance[:, None])
    order = slice(None, None, -1)  # weeds over crop
    drawn = (np.ascontiguousarray(of[order]) for of in (places, plants.radius[near] * size, each, colours))
    _grow(shown, x, y, wide, *drawn)
    return shown


def _clods(x: Floats, y: Floats, size: float) -> Floats:
    """A number in 0..1 for each place, the same within squares of `size` m: a hash of the square."""
    column = np.floor(x / size).astype(np.int64).astype(np.uint32)
    row = np.floor(y / size).astype(np.int64).astype(np.uint32)
    mixed = column * np.uint32(0x9E3779B1) ^ row * np.uint32(0x85EBCA77)
    mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(0x2C1B3C6D)
    return np.asarray((mixed ^ (mixed >> np.uint32(13))) / 2.0**32, np.float64)


@entry()
def _grow(
    shown: Floats, x: Floats, y: Floats, wide: Floats, places: Floats, reach: Floats, each: Floats, colours: Floats
) -> None:
    """Paint the plants: lobed leaves around their middle, edges by the part of the pixel that they cover.

    Of `each` (k, 5: x, y, radius in m, leaves, a number of its own in 0..1). One smaller than its pixel takes its area.
    """
    lines, columns = x.shape
    for n in range(len(places)):
        column, line, radius = places[n, 0], places[n, 1], each[n, 2]
        for k in range(max(int(line - reach[n]), 0), min(int(line + reach[n]) + 2, lines)):
            for m in range(max(int(column - reach[n]), 0), min(int(column + reach[n]) + 2, columns)):
                side = wide[k, m]
                if radius < 0.5 * side:
                    if k != int(line) or m != int(column):
                        continue
                    cover = math.pi * radius * radius * _LEAFY / (side * side)
                else:
                    east, north = x[k, m] - each[n, 0], y[k, m] - each[n, 1]
                    far = math.sqrt(east * east + north * north)
                    if far > radius + 0.5 * side:
                        continue
                    edge = radius * (0.72 + 0.28 * math.cos(each[n, 3] * math.atan2(-north, east) + 6.0 * each[n, 4]))
                    cover = min(max((edge - far) / side + 0.5, 0.0), 1.0)
                for c in range(3):
                    shown[k, m, c] += cover * (colours[n, c] - shown[k, m, c])


def _blurred(shown: Floats) -> Floats:
    """By the lens: weights 1, 2, 1 in both directions."""
    for axis in (0, 1):
        padded = np.moveaxis(np.pad(shown, [(int(k == axis),) * 2 for k in range(3)], mode="edge"), axis, 0)
        shown = np.moveaxis(0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:], 0, axis)
    return shown


def exposed(reflected: Floats, light: float, seed: int) -> Picture:
    """8 bit of a sensor behind a lens: electrons by the light, their Poisson noise, read noise, gain, gamma of sRGB.

    Where the light does not do, the gain goes up and the noise with it.
    """
    white = _WHITE * min(_PER_LUX * light, _FULL / _WHITE)
    level = _blurred(reflected) * (white / _WHITE)  # electrons; the rest is in place, which halves the time
    level += np.random.default_rng(seed).standard_normal(level.shape) * np.sqrt(level + _READ**2)
    level /= white
    np.clip(level, 0.0, 1.0, out=level)
    level **= 1.0 / 2.2
    level *= 255.0
    return np.rint(level, out=level).astype(np.uint8)


def ppm(picture: Picture) -> bytes:
    """The picture as a portable pixmap (P6), which every tool reads and none needs a library for."""
    lines, columns, _ = picture.shape
    return b"P6\n%d %d\n255\n" % (columns, lines) + picture.tobytes()


def png(picture: Picture) -> bytes:
    """The picture as PNG (RFC 2083: eight bits of red, green and blue, no filter), which browsers show."""
    lines, columns, _ = picture.shape
    raw = np.zeros((lines, 1 + 3 * columns), np.uint8)
    raw[:, 1:] = picture.reshape(lines, -1)
    head = struct.pack(">IIBBBBB", columns, lines, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(raw.tobytes(), 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def judged(view: Shot, plants: Plants, found: Sequence[tuple[float, float]]) -> tuple[int, int, int]:
    """Weeds in the picture, those of them among `found` (column, line), and what was found besides.

    A find is a weed when it lies on one that no nearer find has taken: within its leaves and a pixel and a half.
    """
    numbers, places = view.seen(plants)
    weeds = numbers < plants.weeds
    places, reach = places[weeds], plants.radius[numbers[weeds]] / view.pixel + 1.5
    if not len(places) or not len(found):
        return len(places), 0, len(found)
    apart = np.hypot(*(np.array(found)[:, None, :] - places[None, :, :]).transpose(2, 0, 1))
    pairs = np.argwhere(apart <= reach)
    find_taken, weed_taken = set[int](), set[int]()
    for find, weed in pairs[np.argsort(apart[pairs[:, 0], pairs[:, 1]], kind="stable")].tolist():
        if find not in find_taken and weed not in weed_taken:
            find_taken.add(find)
            weed_taken.add(weed)
    return len(places), len(find_taken), len(found) - len(find_taken)

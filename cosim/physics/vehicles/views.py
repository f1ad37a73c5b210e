"""Pictures in perspective: ground, plants, sky and other vehicles, as a pinhole camera sees them from where it is."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.physics.vehicles.camera import Camera
from cosim.physics.vehicles.terrain import FLAT, Terrain
from cosim.physics.vehicles.tiles import Picture, exposed, ground
from cosim.physics.vehicles.weeds import Plants, WeedField

Pose = Sequence[float] | Floats  # m east, north and up; rad of heading, pitch and roll

FILE = "field.npz"  # in the folder of who keeps it
_SKY = np.array([0.20, 0.25, 0.32])  # as bright as a sheet of this reflectance; a clear sky's order of magnitude
_FAR = 5_000.0  # m beyond which there is sky
_LOOKS = np.geomspace(0.2, _FAR, 340)[:, None, None]  # m from the camera at which rays are compared with a terrain
_EVERY = 16  # pixels, about, from one such ray to the next
# What a body looks like, True: a copter. Boxes: middle (forward, right, up) and half the sides in units of its radius,
# turn in rad, reflectance. A choice; what collides is a disc.
_BOXES = {
    True: [((0.0, 0.0, 0.3), (0.3, 0.2, 0.12), 0.0, 0.3), ((0.0, 0.0, 0.35), (0.95, 0.05, 0.04), 0.785, 0.04),
           ((0.0, 0.0, 0.35), (0.95, 0.05, 0.04), -0.785, 0.04)],
    False: [((0.2, 0.0, 0.45), (0.7, 0.3, 0.2), 0.0, 0.12), ((-0.35, 0.0, 0.75), (0.35, 0.35, 0.4), 0.0, 0.28),
            ((-0.4, 0.0, 0.25), (0.3, 0.5, 0.25), 0.0, 0.02), ((0.6, 0.0, 0.15), (0.2, 0.45, 0.15), 0.0, 0.02)],
}  # fmt: skip
_SHADES = np.array([0.75, 0.55, 1.0])  # of faces to the front or back, to a side, up or down


@dataclass(frozen=True, eq=False)
class Scenery:
    """A field, and by number of their nodes the cameras over it and the bodies in it; without `land` it is level."""

    field: WeedField
    seed: np.random.SeedSequence  # of what grows on it
    cameras: dict[int, Camera]
    bodies: dict[int, tuple[bool, float, float]]  # whether a copter, m of its radius, m of the ground at its home
    land: Terrain | None = None

    @cached_property
    def plants(self) -> Plants:
        """What grows there. Raises `ValueError` for what is too much."""
        return Plants.of(self.field, self.seed)

    @cached_property
    def _feet(self) -> Floats:
        return (self.land or FLAT).height(self.plants.x, self.plants.y)

    def picture(self, node: int, poses: Mapping[int, Pose], light: float, most: int, seed: int = 0) -> Picture:
        """What the camera of `node` sees in `light` lx, of at most `most` pixels a side, when all have these `poses`.

        `seed` is that of the sensor's noise. What has no pose is not there.
        """
        camera, (east, north, up, *attitude) = self.cameras[node].smaller(most), poses[node]
        level, axes = self.bodies[node][2] if node in self.bodies else 0.0, camera.axes(*attitude)
        eye = np.array([north, east, -up - camera.mount])  # all in m north, east and down
        lines, columns = (np.arange(count, dtype=np.float64) + 0.5 for count in (camera.lines, camera.columns))
        rays = camera.rays(lines, columns) @ axes.T
        nearness = rays[:, :, 2] / max(-level - eye[2], 0.01)  # one over how often a ray leads to the ground
        if self.land is not None:
            knots = [np.linspace(0.5, at[-1], len(at) // _EVERY + 2).astype(np.float64) for at in (lines, columns)]
            down, right = (
                np.maximum(1.0 - np.abs(at[:, None] - of) / (of[1] - of[0]), 0.0)
                for at, of in zip((lines, columns), knots, strict=True)
            )
            known = _nearness(self.land, eye, camera.rays(knots[0], knots[1]) @ axes.T)
            nearness = np.einsum("kb,mb->km", np.einsum("ka,ab->kb", down, known), right)  # see below
        sky, front_right = nearness < 1.0 / _FAR, np.prod(camera.slopes())
        times = 1.0 / np.where(sky, 1.0 / _FAR, nearness)
        wide = times * np.sqrt(4.0 * front_right / nearness.size / np.maximum(rays[:, :, 2], 0.01))  # on level ground
        plants, (x, y) = self.plants, (eye[1 - axis] + times * rays[:, :, 1 - axis] for axis in (0, 1))
        feet = np.full(len(plants.x), level) if self.land is None else self._feet
        offsets = np.stack([plants.y, plants.x, -feet]) - eye[:, None]
        points = np.einsum("kn,ka->na", offsets, axes)  # `@` wakes threads that spin, at ten times the cost
        near = np.flatnonzero(points[:, 2] > 0.0)
        places, size = camera.places(points[near])
        aside, above = np.abs(places.T - [[camera.columns / 2], [camera.lines / 2]])
        within = (aside < camera.columns) & (above < camera.lines)
        shown = ground(x, y, wide, plants, near[within], places[within], size[within])
        shown[sky], times[sky] = _SKY, np.inf
        for body, (copter, radius, _) in self.bodies.items():
            if body == node or body not in poses:
                continue
            middle = np.array(poses[body])[[1, 0, 2]] * (1.0, 1.0, -1.0) - eye
            ahead = middle @ axes
            window = slice(None), slice(None)
            if ahead[2] > 2.0 * radius:
                (at,), (of,) = camera.places(ahead[None, :])
                low, high = (np.maximum(at + sign * 2.0 * radius * of, 0.0).astype(int) for sign in (-1, 1))
                window = slice(low[1], high[1] + 1), slice(low[0], high[0] + 1)
            if ahead[2] > -2.0 * radius:
                _stand(shown[window], times[window], rays[window], middle, poses[body][3], radius, _BOXES[copter])
        return exposed(shown, light, seed)

    def save(self, path: Path) -> None:
        """Write what `read_scenery` reads."""
        of, seed = self.field, [self.seed.entropy, self.seed.spawn_key]
        cameras = {node: asdict(camera) for node, camera in self.cameras.items()}
        land = self.land or FLAT
        more = np.array(json.dumps([seed, [of.west, of.south, of.cell], cameras, self.bodies]))
        arrays = {"density": of.density, "crop": of.crop, "box": land.box, "heights": land.heights}
        np.savez_compressed(path, allow_pickle=False, more=more, **arrays)


def read_scenery(path: Path) -> Scenery:
    """That of a file of `Scenery.save`. Raises `ValueError` and `OSError`."""
    with np.load(path, allow_pickle=False) as file:
        try:
            (entropy, spawned), (west, south, cell), cameras, bodies = json.loads(str(file["more"]))
            field = WeedField(west, south, cell, file["density"], file["crop"])
            land = Terrain(file["box"], file["heights"]) if file["heights"].size else None
            eyes = {int(node): Camera(**camera) for node, camera in cameras.items()}
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is no field") from error
    seed = np.random.SeedSequence(entropy, spawn_key=tuple(spawned))
    return Scenery(field, seed, eyes, {int(node): tuple(body) for node, body in bodies.items()}, land)


def _nearness(land: Terrain, eye: Floats, rays: Floats) -> Floats:
    """One over how often each of the `rays` (k, m, 3: north, east, down) leads from `eye` to the ground; < 0: never.

    Over a plane that is linear in the place in the picture, and so it may be interpolated. For a ray that misses it is
    minus the tangent by which it clears the ground, per m above it, which on a plane goes on as before.
    """
    length = np.linalg.norm(rays, axis=-1)
    north, east, down = eye[:, None, None, None] + _LOOKS * np.moveaxis(rays / length[..., None], -1, 0)[:, None]
    gaps = -down - land.height(east, north)
    hit = (gaps <= 0.0).any(axis=0)
    after = np.maximum(np.argmax(gaps <= 0.0, axis=0), 1)
    begin, end = _LOOKS[after - 1, 0, 0], _LOOKS[after, 0, 0]
    before, below = (np.take_along_axis(gaps, k[None], 0)[0] for k in (after - 1, after))
    found = begin + (end - begin) * np.where(hit, before, 0.0) / np.where(hit, before - below, 1.0)
    above = max(-eye[2] - float(land.height(eye[1], eye[0])), 0.01)
    return np.asarray(length * np.where(hit, 1.0 / np.maximum(found, 0.1), -(gaps / _LOOKS).min(axis=0) / above))


def _stand(
    shown: Floats, times: Floats, rays: Floats, middle: Floats, heading: float, radius: float, boxes: Sequence[Any]
) -> None:
    """Paint a body whose feet are at `middle` (m north, east, down of the camera) where nothing stands before it."""

    def turned(angle: float) -> Floats:
        sine, cosine = math.sin(angle), math.cos(angle)
        return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, -1.0]])  # from forward, right, up

    for place, half, turn, reflectance in boxes:
        axes = turned(heading + turn)
        at, side = (middle + turned(heading) @ np.array(place) * radius) @ axes, radius * np.array(half)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.stack([at - side, at + side])[:, None, None] / (rays @ axes)
        first, last = ends.min(axis=0), ends.max(axis=0).min(axis=-1)
        face, first = first.argmax(axis=-1), first.max(axis=-1)
        hit = (first <= last) & (first > 0.0) & (first < times)
        shown[hit] = reflectance * _SHADES[face[hit], None]
        times[hit] = first[hit]

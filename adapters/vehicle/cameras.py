"""Pictures that vehicles and masts take of a field with weeds, and what is found in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cosim.adapters.vehicle.config import CameraPart, VehicleConfig
from cosim.adapters.vehicle.field import frame_of, light_of
from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.contract.adapter import Context
from cosim.contract.frame import Array, Frame
from cosim.physics.vehicles.camera import area
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.layout import COPTER
from cosim.physics.vehicles.views import FILE, Scenery
from cosim.physics.vehicles.weeds import growth, read_weeds

_SOON = 1e-9  # s
_REPORTED = ("taken", "x", "y", "heading", "pixel", "area", "light", "found", "density")
_TRUE = ("weeds", "hits", "false_alarms")


class Cameras:
    """The latest picture of each of the n cameras, and how many there were."""

    def __init__(self, config: VehicleConfig, context: Context, roster: VehicleRoster, fleet: VehicleFleet) -> None:
        self._fleet = fleet
        self._names = sorted(config.cameras, key=lambda name: roster.nodes[name])
        self._rows = [roster.row.get(name, -1) for name in self._names]  # -1: a mast
        self._places = [context.scene.nodes[roster.nodes[name]].position for name in self._names]
        self._parts: list[CameraPart] = [config.cameras[name] for name in self._names]
        self._cameras = [part.camera() for part in self._parts]
        self._detectors = [part.detector() for part in self._parts]
        self._slots = np.array([roster.nodes[name] for name in self._names], np.int32)
        _, *draws = np.random.SeedSequence([*context.seed, 7]).spawn(1 + len(self._parts))  # the first is `growth`
        self._draws = [np.random.default_rng(draw) for draw in draws]
        self._due = np.zeros(len(self._parts))
        self.pictures = np.zeros(len(self._parts), np.int64)
        self._reported = {name: np.full(len(self._parts), np.nan) for name in _REPORTED}
        self._true = {name: np.full(len(self._parts), np.nan) for name in _TRUE}
        self.totals = {name: np.zeros(len(self._parts)) for name in _TRUE}
        self._works = np.full(len(self._parts), np.nan)  # cycles of a task about the latest picture
        names = [load.name for load in context.scene.workloads]
        self._workloads = np.array([names.index(p.work.workload) if p.work else -1 for p in self._parts], np.int32)
        self._light = light_of(config, context.scene)
        if self._parts:
            grows = growth(context.seed)
            self._field = read_weeds(context.path(str(config.weeds)), frame_of(context.scene))
            self._weeds = self._field.grown(grows)
            if context.scratch:
                kinds, discs, grounds = (fleet.frames[name].tolist() for name in ("kind", "body", "ground"))
                bodies = {
                    roster.nodes[name]: (bool(kinds[row] == COPTER), discs[row], grounds[row])
                    for name, row in roster.row.items()
                }
                eyes = dict(zip(self._slots.tolist(), self._cameras, strict=True))
                Scenery(self._field, grows, eyes, bodies, fleet.terrain).save(Path(context.scratch) / FILE)

    def look(self) -> None:
        """Take the pictures that are due at the fleet's time: of copters those in the air."""
        now = self._fleet.now
        for k in np.flatnonzero(self._due <= now + _SOON):
            self._due[k] = now + self._parts[k].every
            self._take(int(k), now)

    def _take(self, k: int, now: float) -> None:
        camera, pose = self._cameras[k], self._pose(k)
        if pose is None:
            return
        corners, heading = camera.footprint(*pose, self._fleet.terrain), pose[3] + camera.turn
        if corners is None:
            return
        size = area(corners)
        pixel = camera.pixel(size)
        rows, columns, within = self._field.inside(corners)
        weeds = int(self._weeds[rows, columns][within].sum())
        light = self._light(now)
        hits, wrong = self._detectors[k].found(weeds, pixel, self._draws[k], light)
        middle, degrees = corners.mean(axis=0), math.degrees(heading) % 360.0
        shown = (now, middle[0], middle[1], degrees, pixel, size, light, hits + wrong, (hits + wrong) / size)
        for name, value in zip(_REPORTED, shown, strict=True):
            self._reported[name][k] = value
        for name, value in zip(_TRUE, (weeds, hits, wrong), strict=True):
            self._true[name][k] = value
            self.totals[name][k] += value
        self.pictures[k] += 1
        work = self._parts[k].work
        if work is not None:
            pixels = camera.columns * camera.lines
            self._works[k] = work.base + work.pixel * pixels + work.find * (hits + wrong)

    def _pose(self, k: int) -> tuple[float, float, float, float, float, float] | None:
        """m east, north and above the ground, rad of heading, pitch and roll; None: a copter that is not in the air."""
        s, row, mount, place = self._fleet.state, self._rows[k], self._cameras[k].mount, self._places[k]
        if row < 0:
            assert place is not None, "the roster has seen to it"
            land = self._fleet.terrain
            ground = 0.0 if land is None else float(land.height(*place[:2]))
            return place[0], place[1], place[2] + mount - ground, 0.0, 0.0, 0.0
        if self._fleet.frames["kind"][row] == COPTER and s["landed"][row] != 0:
            return None
        above = float(self._fleet.above_ground()[row]) + mount
        x, y, heading, pitch, roll = (float(s[name][row]) for name in ("x", "y", "heading", "pitch", "roll"))
        return x, y, above, heading, pitch, roll

    def frames(self, time: float) -> list[Frame]:
        """The reports on the latest pictures, and the truth about them."""
        shown: dict[str, Array] = {name: values.copy() for name, values in self._reported.items()}
        true: dict[str, Array] = {name: values.copy() for name, values in self._true.items()}
        count = {"pictures": self.pictures.astype(np.int32)}
        asks = self._workloads >= 0
        wanted: dict[str, Array] = {"workload": self._workloads[asks], "work": self._works[asks]}
        return [
            Frame("picture", time, self._slots.copy(), {**count, **shown}),
            Frame("picture_truth", time, self._slots.copy(), true),
            *([Frame("demand", time, self._slots[asks], wanted)] if asks.any() else []),
        ]

    def summary(self) -> Mapping[str, Mapping[str, object]]:
        """Per camera: pictures, and sums over them."""
        found: dict[str, Mapping[str, object]] = {}
        for k, name in enumerate(self._names):
            sums = {key: int(values[k]) for key, values in self.totals.items()}
            hits, wrong, weeds = sums["hits"], sums["false_alarms"], sums["weeds"]
            found[name] = {
                "pictures": int(self.pictures[k]),
                **sums,
                "recall": hits / weeds if weeds else None,
                "precision": hits / (hits + wrong) if hits + wrong else None,
            }
        return found

"""How near vehicles come to obstacles, and whether they hit them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.contract.frame import Array, Frame
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.layout import COPTER
from cosim.physics.vehicles.obstacles import Obstacles

log = logging.getLogger(__name__)


class ObstacleWatch:
    """Looks at n vehicles in flight or under way and k obstacles; parked ones may stand beside a wall.

    An approach begins when a vehicle is nearer than `separation` m to an obstacle, below its top, and ends when it no
    longer is; it counts as a near-miss, or as a collision if the way leads into the obstacle. Nothing stops at a wall.
    """

    def __init__(self, obstacles: Obstacles, separation: float, roster: VehicleRoster, fleet: VehicleFleet) -> None:
        self._obstacles, self._separation, self._fleet = obstacles, separation, fleet
        self._ids, self._slots = roster.ids, roster.slots
        shape = len(roster.ids), len(obstacles.names)
        self._state = np.zeros(shape, np.int8)  # of the approach: 0 none, 1 near, 2 it has hit
        self._counts = np.zeros((2, len(roster.ids)), np.int64)  # near-misses, collisions
        self._nearest = np.full(len(roster.ids), np.inf)  # m
        self._events: list[tuple[int, int, int, float, float]] = []  # vehicle, obstacle, kind, s, m
        self._seen = self._places()

    def _places(self) -> NDArray[np.float64]:
        s = self._fleet.state
        return np.column_stack([s["x"], s["y"], s["z"]])

    def look(self) -> None:
        """See where they have come since the last look."""
        s, here = self._fleet.state, self._places()
        moves = (s["armed"] != 0) & ((s["landed"] == 0) | (self._fleet.frames["kind"] != COPTER))
        far = self._obstacles.distances(self._seen, here, self._separation)
        self._seen = here
        near = moves[:, None] & (far < self._separation)
        state = np.where(near, np.where(far <= 0.0, 2, np.maximum(self._state, 1)), 0).astype(np.int8)
        for vehicle, obstacle in np.argwhere(state > self._state):
            hit = int(state[vehicle, obstacle]) == 2
            self._counts[int(hit), vehicle] += 1
            if hit and self._state[vehicle, obstacle] == 1:
                self._counts[0, vehicle] -= 1  # the same approach
            if hit:
                name = self._obstacles.names[obstacle]
                log.warning("%s has hit '%s' at %.1f s", self._ids[vehicle], name, self._fleet.now)
            distance = float(far[vehicle, obstacle])
            self._events.append((int(vehicle), int(obstacle), int(hit), self._fleet.now, distance))
        self._state = state
        self._nearest = np.minimum(self._nearest, np.where(near, far, np.inf).min(axis=1))

    def frame(self, time: float) -> Frame:
        """What has begun since the last frame."""
        vehicle, obstacle, kind, at, distance = zip(*self._events, strict=True) if self._events else ((),) * 5
        self._events = []
        columns: dict[str, Array] = {
            "obstacle": np.array(obstacle, np.int32),
            "kind": np.array(kind, np.int8),
            "at": np.array(at, np.float64),
            "distance": np.array(distance, np.float64),
        }
        return Frame("proximity", time, self._slots[np.array(vehicle, np.int64)], columns)

    def summary(self) -> Mapping[str, object]:
        """Counts of the run; by vehicle also the least distance in m, null: never nearer than the separation."""
        missed, hit = self._counts
        return {
            "separation": self._separation,
            "obstacles": list(self._obstacles.names),
            "near_misses": int(missed.sum()),
            "collisions": int(hit.sum()),
            "by_vehicle": {
                name: {
                    "near_misses": int(missed[k]),
                    "collisions": int(hit[k]),
                    "nearest": float(self._nearest[k]) if np.isfinite(self._nearest[k]) else None,
                }
                for k, name in enumerate(self._ids)
            },
        }

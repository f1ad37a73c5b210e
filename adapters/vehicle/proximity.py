"""What vehicles run into, and how near they come to obstacles."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.adapters.vehicle.signals import IMPACT, PROXIMITY
from cosim.contract.frame import Array, Frame
from cosim.contract.signals import Signal
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.layout import COPTER, OBSTACLE, VEHICLE
from cosim.physics.vehicles.obstacles import Obstacles

log = logging.getLogger(__name__)


def _frame(signal: Signal, time: float, slots: NDArray[np.int32], events: Sequence[tuple[float, ...]]) -> Frame:
    """Events as (row of the vehicle, value of each column)."""
    columns: dict[str, Array] = {
        c.name: np.array([e[k] for e in events], c.dtype) for k, c in enumerate(signal.columns, 1)
    }
    return Frame(signal.name, time, slots[np.array([e[0] for e in events], np.int64)], columns)


class ImpactLog:
    """Notes what n vehicles run into; the dynamics stop and break them."""

    def __init__(self, roster: VehicleRoster, fleet: VehicleFleet) -> None:
        self._roster, self._fleet = roster, fleet
        self._hits = fleet.state["hits"].copy()
        self._events: list[tuple[int, int, int, int, float, bool, float]] = []
        self.crashes = 0

    def look(self) -> list[tuple[int, int]]:
        """See what has happened since the last look: row and number of the obstacle of those that hit one."""
        s, found = self._fleet.state, list[tuple[int, int]]()
        for row in np.flatnonzero(s["hits"] > self._hits):
            what, other, speed, at = (s[name][row].item() for name in ("hit_what", "hit_other", "hit_speed", "hit_at"))
            broken, name = bool(s["crashed"][row]), "the ground"
            if what == OBSTACLE and self._roster.obstacles is not None:
                name = f"'{self._roster.obstacles.names[other]}'"
                found.append((int(row), other))
            elif what == VEHICLE:
                name = self._roster.ids[other]
            self.crashes += broken
            state = ", and is broken" if broken else ""
            log.warning("%s has hit %s at %.1f s with %.1f m/s%s", self._roster.ids[row], name, at, speed, state)
            slot = int(self._roster.slots[other]) if what == VEHICLE else -1
            self._events.append((int(row), what, other if what == OBSTACLE else -1, slot, speed, broken, at))
        self._hits = s["hits"].copy()
        return found

    def frame(self, time: float) -> Frame:
        """What has happened since the last frame."""
        events, self._events = self._events, []
        return _frame(IMPACT, time, self._roster.slots, events)


class ObstacleWatch:
    """Looks at n vehicles in flight or under way and k obstacles; parked ones may stand beside a wall.

    An approach begins when a vehicle is nearer than `separation` m to an obstacle, below its top, and ends when it no
    longer is; it counts as a near-miss, or as a collision if the vehicle hits the obstacle.
    """

    def __init__(self, obstacles: Obstacles, separation: float, roster: VehicleRoster, fleet: VehicleFleet) -> None:
        self._obstacles, self._separation, self._fleet = obstacles, separation, fleet
        self._ids, self._slots = roster.ids, roster.slots
        shape = len(roster.ids), len(obstacles.names)
        self._state = np.zeros(shape, np.int8)  # of the approach: 0 none, 1 near, 2 it has hit
        self._counts = np.zeros((2, len(roster.ids)), np.int64)  # near-misses, collisions
        self._nearest = np.full(len(roster.ids), np.inf)  # m
        self._events: list[tuple[int, int, int, float, float]] = []  # vehicle, obstacle, kind, s, m
        self._seen = self._fleet.places()

    def look(self, hits: list[tuple[int, int]]) -> None:
        """See where they have come since the last look; `hits`: which vehicle has hit which obstacle."""
        s, here = self._fleet.state, self._fleet.places()
        moves = (s["armed"] != 0) & ((s["landed"] == 0) | (self._fleet.frames["kind"] != COPTER))
        far = self._obstacles.distances(self._seen, here, self._separation)
        self._seen = here
        near = moves[:, None] & (far < self._separation)
        for vehicle, obstacle in hits:
            near[vehicle, obstacle], far[vehicle, obstacle] = True, 0.0
        state = np.where(near, np.where(far <= 0.0, 2, np.maximum(self._state, 1)), 0).astype(np.int8)
        for vehicle, obstacle in np.argwhere(state > self._state):
            hit = int(state[vehicle, obstacle]) == 2
            self._counts[int(hit), vehicle] += 1
            if hit and self._state[vehicle, obstacle] == 1:
                self._counts[0, vehicle] -= 1  # the same approach
            distance = float(far[vehicle, obstacle])
            self._events.append((int(vehicle), int(obstacle), int(hit), self._fleet.now, distance))
        self._state = state
        self._nearest = np.minimum(self._nearest, np.where(near, far, np.inf).min(axis=1))

    def frame(self, time: float) -> Frame:
        """What has begun since the last frame."""
        events, self._events = self._events, []
        return _frame(PROXIMITY, time, self._slots, events)

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

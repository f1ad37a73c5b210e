"""Vehicles that go through a mission of their own, such as a tractor over its rows: start, pauses, what they do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Flags, Ints
from cosim.physics.vehicles import phases as ph
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.layout import COPTER, LOW, MISSION, NONE

_SOON = 1e-9  # s


class MissionRunner:
    """n vehicles, rows of `fleet` with a mission; they start at `starts` (n,) s.

    `row_of` (n, w) is for each waypoint the row of a field that is worked on the way to it, -1: none.
    `pauses` are (vehicle, begin, end) in s. States: parked, working, turning, waiting, done.
    """

    def __init__(
        self, fleet: VehicleFleet, vehicles: ArrayLike, starts: ArrayLike, row_of: Ints,
        pauses: Sequence[tuple[int, float, float]] = (),
    ) -> None:  # fmt: skip
        self.fleet = fleet
        self.vehicles = np.atleast_1d(np.asarray(vehicles, np.int64))
        count = len(self.vehicles)
        self._starts = np.broadcast_to(np.asarray(starts, np.float64), count).copy()
        self._row_of = row_of
        self._moments = sorted([(begin, k, True) for k, begin, _ in pauses] + [(end, k, False) for k, _, end in pauses])
        self._paused = np.zeros(count, np.int64)  # pauses that hold now
        self._failed = np.zeros(count, bool)
        self._started = np.zeros(count, bool)
        self.state = np.full(count, ph.PARKED, np.int64)

    def tick(self) -> None:
        """Start, pause and resume the missions that are due at the fleet's time, and update all states."""
        now = self.fleet.now
        due = np.flatnonzero(~self._started & ~self._failed & (self._starts <= now + _SOON))
        if len(due):
            self.fleet.arm(self.vehicles[due])
            self._started[due] = True
            self._resume(due)
        while self._moments and self._moments[0][0] <= now + _SOON:
            _, k, begins = self._moments.pop(0)
            self.pause([k], begins)
        self._look(now)

    def begin(self, which: ArrayLike) -> None:
        """Start now instead of at the time that was set; those under way already go on as they are."""
        w = np.atleast_1d(np.asarray(which, np.int64))
        self._starts[w] = np.minimum(self._starts[w], self.fleet.now)

    def pause(self, which: ArrayLike, paused: bool = True) -> None:
        """Stop for a while or, when nothing else keeps them, go on."""
        w = np.atleast_1d(np.asarray(which, np.int64))
        self._paused[w] += 1 if paused else -1
        if paused:
            self.fleet.hold(self.vehicles[w[self._going(w)]])
        else:
            self._resume(w)

    def fail(self, which: ArrayLike, failed: bool = True) -> None:
        """Rovers that fail stop and go on when they have recovered; copters land and stay."""
        w = np.atleast_1d(np.asarray(which, np.int64))
        self._failed[w] = failed
        if failed:
            flies = self.fleet.frames["kind"][self.vehicles[w]] == COPTER
            self.fleet.land(self.vehicles[w[flies]])
            self.fleet.hold(self.vehicles[w[~flies & self._going(w)]])
        else:
            self._resume(w)

    @property
    def done(self) -> Flags:
        """(n,) whether they have finished."""
        return np.asarray(self.state == ph.DONE)

    def row(self) -> Ints:
        """(n,) the row being worked, -1: none."""
        s = self.fleet.state
        item = np.minimum(s["item"][self.vehicles], self._row_of.shape[1] - 1)
        return np.where(self.state == ph.WORKING, self._row_of[np.arange(len(item)), item], -1)

    def _going(self, w: Ints) -> Flags:
        return np.asarray(self._started[w] & (self.fleet.state["done"][self.vehicles[w]] == 0))

    def _resume(self, w: Ints) -> None:
        failsafe, action = self.fleet.state["failsafe"][self.vehicles], self.fleet.frames["low_action"][self.vehicles]
        calm = (failsafe == NONE) | ((failsafe == LOW) & (action < 0))  # a fail-safe that acts goes before the mission
        free = w[(self._paused[w] == 0) & ~self._failed[w] & self._going(w) & calm[w]]
        self.fleet.start_mission(self.vehicles[free])

    def _look(self, now: float) -> None:
        s, v = self.fleet.state, self.vehicles
        item = np.minimum(s["item"][v], self._row_of.shape[1] - 1)
        working = self._row_of[np.arange(len(item)), item] >= 0
        moving = (s["mode"][v] == MISSION) & (s["armed"][v] != 0) & ~(s["hold_until"][v] > now + _SOON)
        doing = np.where(moving, np.where(working, ph.WORKING, ph.TURNING), ph.WAITING)
        self.state = np.where(s["done"][v] != 0, ph.DONE, np.where(self._started, doing, ph.PARKED))

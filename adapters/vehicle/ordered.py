"""Copters that fly to where another adapter or an event sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.vehicle.config import MissionPart
from cosim.adapters.vehicle.roster import HEIGHT, VehicleRoster
from cosim.contract.entities import SlotRange
from cosim.contract.frame import Frame
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.layout import LAND, NONE, RETURN, TAKE_OFF

_CLEAR = 3.0  # m above home from which on a copter leaves its place


class OrderedCopters:
    """Vehicles of `missions` that are ordered: they take off, hover where they are sent, and return when they are not.

    The last order holds: the event `go`, or a change of what the signal `destination` says of a copter. A battery
    that is low, or a fence, goes before an order; a copter that has failed lands and is sent again when it has
    recovered.
    """

    def __init__(self, missions: Mapping[str, MissionPart], roster: VehicleRoster, fleet: VehicleFleet) -> None:
        self._fleet = fleet
        parts = {roster.row[name]: part for name, part in missions.items() if part.ordered}
        self.rows = np.array(sorted(parts), np.int64)
        self._row_of = {int(roster.slots[row]): k for k, row in enumerate(self.rows.tolist())}
        self._goal = np.full((len(self.rows), 3), np.nan)  # m, NaN: home
        self._signalled = self._goal.copy()  # as the signal has it
        self._failed = np.zeros(len(self.rows), bool)
        for row, part in parts.items():
            if part.speed is not None:
                fleet.set_speed([row], part.speed)

    def take(self, frames: Sequence[Frame]) -> None:
        """Take in the signal `destination`; who is not in it goes home."""
        if not frames or not len(self.rows):
            return
        goal = np.full_like(self._goal, np.nan)
        for frame in frames:
            for place, slot in enumerate(frame.slot.tolist()):
                if slot in self._row_of:
                    goal[self._row_of[slot]] = [frame[axis][place] for axis in "xyz"]
        new = ~((goal == self._signalled) | np.isnan(goal) & np.isnan(self._signalled)).all(axis=1)
        self._goal[new], self._signalled = goal[new], goal

    def send(self, nodes: Sequence[SlotRange], to: Sequence[float] | None) -> None:
        """Those of `nodes` fly to a place [x, y, z] in m, without z 15 m above home; None: home."""
        for slot, k in self._row_of.items():
            if any(where.first <= slot < where.first + where.count for where in nodes):
                high = self._fleet.state["home_z"][self.rows[k]] + HEIGHT
                self._goal[k] = np.nan if to is None else [*to, high][:3]

    def fail(self, rows: NDArray[np.int64], failed: bool) -> None:
        """Those of `rows` land where they are, or obey again."""
        hit = np.isin(self.rows, rows)
        self._failed[hit] = failed
        if failed:
            self._fleet.land(self.rows[hit])

    def tick(self) -> None:
        """Whatever is due at the fleet's time."""
        state = self._fleet.state
        for k, row in enumerate(self.rows.tolist()):
            s, goal = state[row], self._goal[k]
            if self._failed[k] or s["failsafe"] != NONE:
                continue
            if not np.isfinite(goal).all():
                if not s["landed"] and s["mode"] not in (RETURN, LAND):
                    self._fleet.go_home([row])
            elif s["landed"]:
                if s["mode"] != TAKE_OFF and self._fleet.arm([row])[0]:
                    self._fleet.take_off([row], max(float(goal[2] - s["home_z"]), 2.0 * _CLEAR))
            elif s["mode"] != TAKE_OFF or s["z"] - s["home_z"] >= _CLEAR:
                self._fleet.go([row], goal[None, :])

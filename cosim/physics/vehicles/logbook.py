"""What is written down about engagements while they happen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cosim.contract.records import Flags, Floats, Ints, Records
from cosim.physics.vehicles import phases as ph
from cosim.physics.vehicles.coverage import FieldCoverage
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.follow import stand_off
from cosim.physics.vehicles.phases import RECORD
from cosim.physics.vehicles.reports import PairLinks

_BIN = 0.05  # m, resolution of the follow error's quantile
_BINS = 800
_PURSE = np.array([-1, 0, 1, 2, 3, 4, 5, 4, 4])  # index into ENERGIES by phase
_MEANS = ("rssi", "delay", "loss")


class Logbook:
    """One open record per pair, and one for an order that is not carried out yet."""

    def __init__(
        self,
        fleet: VehicleFleet,
        drones: Ints,
        targets: Ints,
        rule: Mapping[str, Floats],
        coverage: FieldCoverage | None,
    ) -> None:
        self._fleet, self._drones, self._targets, self._rule = fleet, drones, targets, rule
        self.coverage = coverage
        count = len(drones)
        self._row = np.arange(count)
        self._open, self._next = _blank(count), _blank(count)
        self._is_open = np.zeros(count, bool)
        self._ordered = np.zeros(count, bool)
        self._heard_at = np.full(count, np.nan)
        self._number = np.zeros(count, np.int64)
        self._closed: list[Records] = []
        self._energy = fleet.state["energy"][drones].copy()
        self._then = fleet.now
        self._fresh(self._row)

    def _fresh(self, which: Ints) -> None:
        """Begin the sums anew."""
        if not hasattr(self, "_spent"):
            count = len(self._row)
            self._spent = np.zeros((count, len(ph.ENERGIES)))  # J
            self._errors = np.zeros((count, _BINS), np.int32)
            self._sums = np.zeros((count, 3))  # follow errors: number, sum, greatest
            self._link = np.zeros((count, 4))  # number, rssi, delay, loss
            self._age = np.zeros((count, 2))
            self._near = np.full(count, np.inf)
            self._time = np.zeros(count)
            self._seen = np.zeros(count)
            self._looked_at = np.full(count, -np.inf)
        for array in (self._spent, self._errors, self._sums, self._link, self._age, self._time, self._seen):
            array[which] = 0
        self._near[which], self._looked_at[which] = np.inf, -np.inf

    # -- orders ------------------------------------------------------------------------------------

    def order(self, which: Ints) -> None:
        """The controller orders to engage, now."""
        s, now = self._fleet.state, self._fleet.now
        d, t = self._drones[which], self._targets[which]
        self.never(which[self._ordered[which]], ph.DISENGAGED)  # an order that was overtaken
        self._number[which] += 1
        new = _blank(len(which))
        new["pair"], new["number"], new["t_command"] = which, self._number[which], now
        new["home_x"], new["home_y"] = s["home_x"][d], s["home_y"][d]
        new["target_x"], new["target_y"] = s["x"][t], s["y"][t]
        new["target_vx"], new["target_vy"] = s["vx"][t], s["vy"][t]
        new["distance_command"] = np.hypot(s["x"][t] - s["home_x"][d], s["y"][t] - s["home_y"][d])
        self._next[which], self._ordered[which] = new, True

    def heard(self, which: Ints) -> None:
        """The order has reached the drone."""
        self._heard_at[which] = self._fleet.now
        self._next["latency"][which] = self._fleet.now - self._next["t_command"][which]

    def never(self, which: Ints, reason: int) -> None:
        """The order comes to nothing."""
        which = which[self._ordered[which]]
        if not len(which):
            return
        lost = self._next[which]
        lost["reason"] = reason
        lost["outcome"] = ph.ABORTED if reason == ph.DISENGAGED else ph.FAILED
        self._closed.append(lost)
        self._ordered[which] = False

    def forget(self, which: Ints) -> None:
        """The order changed nothing."""
        self._ordered[which] = False

    def begin(self, which: Ints, again: bool = False) -> None:
        """The order is carried out from now on; `again`: by a drone that was on its way home, in the air."""
        if not len(which):
            return
        if again:
            self._finish(which[self._is_open[which]])
        self._open[which] = self._next[which]
        self._open["wait"][which] = self._fleet.now - self._heard_at[which]
        if again:
            self._open["t_arm"][which] = self._open["t_takeoff"][which] = 0.0
        self._ordered[which], self._is_open[which] = False, True
        self._fresh(which)

    # -- the flight --------------------------------------------------------------------------------

    def note(self, name: str, which: Ints, value: Floats) -> None:
        self._open[name][which] = value

    def reason(self, which: Ints, reason: int) -> None:
        """Why it ends; a crash overrides what was known before, else the first reason stands."""
        first = self._open["reason"][which] == ph.NOTHING
        which = which if reason == ph.CRASHED else which[first]
        self._open["reason"][which] = reason

    def contact(self, which: Ints, at: Floats, approach: Floats) -> None:
        """The stand-off point was reached at `at` (m,) s, `approach` (m,) s after the approach began."""
        s, d, t = self._fleet.state, self._drones[which], self._targets[which]
        self._open["t_approach"][which] = approach
        self._open["t_engage"][which] = at - self._open["t_command"][which]
        self._open["distance_contact"][which] = np.hypot(
            s["x"][t] - self._open["home_x"][which], s["y"][t] - self._open["home_y"][which]
        )
        self._open["charge_contact"][which] = s["charge"][d] / self._fleet.frames["capacity"][d]

    def close(self, which: Ints, landing: Flags, lasted: Floats) -> None:
        """Disarmed on the ground; `lasted` (m,) s in the last phase, which was `landing` (m,)."""
        known = self._is_open[which]
        which, landing, lasted = which[known], landing[known], lasted[known]
        d = self._drones[which]
        self._open["t_land"][which] = np.where(landing, lasted, np.nan)
        self._open["charge_landing"][which] = self._fleet.state["charge"][d] / self._fleet.frames["capacity"][d]
        self._finish(which)

    def _finish(self, which: Ints) -> None:
        if not len(which):
            return
        self._sum_up(which)
        row = self._open[which]
        met = np.isfinite(row["t_engage"])
        broken = (row["reason"] == ph.CRASHED) | (row["reason"] == ph.NODE_FAILED)
        called = (row["reason"] == ph.DISENGAGED) | (row["reason"] == ph.TARGET_DONE)
        row["outcome"] = np.where(met & ~broken, ph.COMPLETED, np.where(called & ~broken, ph.ABORTED, ph.FAILED))
        self._closed.append(row)
        self._is_open[which] = False

    def _sum_up(self, which: Ints) -> None:
        row = self._open
        for k, name in enumerate(ph.ENERGIES):
            row[f"energy_{name}"][which] = self._spent[which, k]
        row["t_follow"][which], row["coverage"][which] = self._time[which], self._seen[which]
        if self.coverage is None:
            row["coverage"][which] = np.nan
        number, total, most = self._sums[which].T
        some = number > 0
        row["error_mean"][which] = np.divide(total, number, out=np.full(len(which), np.nan), where=some)
        row["error_max"][which] = np.where(some, most, np.nan)
        heap = np.cumsum(self._errors[which], axis=1)
        at = (heap < 0.95 * number[:, None]).sum(axis=1)
        row["error_p95"][which] = np.where(some, np.minimum((at + 1) * _BIN, most), np.nan)
        row["separation"][which] = np.where(np.isfinite(self._near[which]), self._near[which], np.nan)
        samples = self._link[which, 0]
        for k, name in enumerate(_MEANS, 1):
            row[name][which] = np.divide(
                self._link[which, k], samples, out=np.full(len(which), np.nan), where=samples > 0
            )
        aged = self._age[which]
        row["age"][which] = np.divide(aged[:, 1], aged[:, 0], out=np.full(len(which), np.nan), where=aged[:, 0] > 0)

    # -- every tick --------------------------------------------------------------------------------

    def book(self, phase: Ints) -> None:
        """The energy and the time since the last tick belong to the phase that was."""
        energy = self._fleet.state["energy"][self._drones]
        purse = _PURSE[phase]
        busy = np.flatnonzero(purse >= 0)
        self._spent[busy, purse[busy]] += energy[busy] - self._energy[busy]
        self._energy = energy
        passed, self._then = self._fleet.now - self._then, self._fleet.now
        self._time[phase == ph.FOLLOW] += passed

    def errors(self, which: Ints) -> tuple[Floats, Floats]:
        """m from the true stand-off point of `which` (m,): on the map, and in height."""
        s, d, t = self._fleet.state, self._drones[which], self._targets[which]
        rule = self._rule
        place = np.column_stack([s["x"][t], s["y"][t], s["z"][t]])
        offset = (rule["behind"][which], rule["aside"][which], rule["height"][which])
        point = stand_off(place, s["heading"][t], *offset)
        return np.hypot(s["x"][d] - point[:, 0], s["y"][d] - point[:, 1]), s["z"][d] - point[:, 2]

    def measure(self, phase: Ints, links: PairLinks, sent: Floats) -> None:
        """Distances, errors, links and views of the drones in the air."""
        up = np.flatnonzero((phase >= ph.TAKEOFF) & (phase <= ph.FAILSAFE))
        if not len(up):
            return
        s, now = self._fleet.state, self._fleet.now
        d, t = self._drones[up], self._targets[up]
        apart = np.sqrt(sum((s[axis][d] - s[axis][t]) ** 2 for axis in "xyz"))
        self._near[up] = np.minimum(self._near[up], apart)
        heard = up[links.loss[up] < 1.0]
        self._link[heard] += np.column_stack(
            [np.ones(len(heard)), links.rssi[heard], links.delay[heard], links.loss[heard]]
        )
        led = up[((phase[up] == ph.APPROACH) | (phase[up] == ph.FOLLOW)) & np.isfinite(sent[up])]
        self._age[led, 0] += 1.0
        self._age[led, 1] += now - sent[led]
        on = np.flatnonzero(phase == ph.FOLLOW)
        if len(on):
            error, _ = self.errors(on)
            self._sums[on, 0] += 1.0
            self._sums[on, 1] += error
            self._sums[on, 2] = np.maximum(self._sums[on, 2], error)
            self._errors[on, np.minimum((error / _BIN).astype(np.int64), _BINS - 1)] += 1
            self._look(on)

    def _look(self, on: Ints) -> None:
        """Once a second is enough for what a camera sees from a slow follower."""
        on = on[self._fleet.now - self._looked_at[on] >= 1.0 - 1e-9]
        if self.coverage is None or not len(on):
            return
        self._looked_at[on] = self._fleet.now
        s, d, t = self._fleet.state, self._drones[on], self._targets[on]
        high = np.maximum(s["z"][d] - s["z"][t], 0.0)
        across = high * np.tan(0.5 * self._rule["view_across"][on])
        along = high * np.tan(0.5 * self._rule["view_along"][on])
        looks = np.column_stack([s["x"][d], s["y"][d], s["heading"][d], across, along])
        self._seen[on] += self.coverage.look(on, looks, self._number[on])

    def records(self) -> Records:
        """All records, those of orders and flights under way with what is known of them."""
        under_way = np.flatnonzero(self._is_open)
        self._sum_up(under_way)
        rows = [*self._closed, self._open[under_way], self._next[self._ordered]]
        made = np.concatenate(rows)
        return made[np.lexsort((made["pair"], made["t_command"]))]

    def take(self) -> Records:
        """The records that were closed and not taken yet; they are no longer in `records`."""
        taken = np.concatenate(self._closed) if self._closed else _blank(0)
        self._closed = []
        return taken


def _blank(count: int) -> Records:
    made: Records = np.zeros(count, RECORD)
    for name in ph.METRICS:
        made[name] = np.nan
    return made

"""Responses of devices to alarms: they stay away from cells for a while, or follow a policy of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.config import RadioConfig, Response
from cosim.adapters.radio.scenery import Stations
from cosim.adapters.radio.state import RadioRows, Traffic
from cosim.contract.adapter import Context
from cosim.contract.frame import Frame
from cosim.contract.records import Flags, Floats
from cosim.schedulers import scheduler
from cosim.schedulers.alarms import ANY, CELL, DEVICE, OFF, RadioState, ordered

Ints = NDArray[np.int32]
Hidden = tuple[Ints, Floats]  # rows, and the powers that were hidden from them
_ROUNDS = 10  # of dividing alarms among relays; they settle in a few


class AlarmResponse(Protocol):
    """What the radio asks about alarms; arrays are those of `Responses`."""

    taken: int  # responses that began

    def take(self, frames: Sequence[Frame], rows: Ints, serving: Ints, new: Flags, time: float) -> None: ...

    def decide(
        self, rows: Ints, place: Floats, state: RadioRows, traffic: Traffic, failed: Flags, time: float
    ) -> None: ...

    def asleep(self, time: float) -> Flags: ...

    def leaving(self, rows: Ints, time: float) -> Flags: ...

    def hidden(self, rows: Ints, state: RadioRows, time: float) -> Hidden: ...

    def destinations(self, time: float) -> Frame: ...


def responses(config: RadioConfig, stations: Stations, context: Context) -> AlarmResponse:
    """Those of the radio, or a policy of the user's own. Raises `SchedulerError` for one that there is not."""
    response = config.response
    if response is not None and response.own:
        return OwnResponses(response, stations, context, config.background)
    return Responses(response, stations, context.scene.capacity)


class Responses:
    """Which device avoids which cell until when; arrays over the slots of the scene and the m cells."""

    def __init__(self, response: Response | None, stations: Stations, capacity: int) -> None:
        self._response, self._carrier = response, stations.carrier
        size = capacity if response is not None else 0
        self._until = np.full(size, -np.inf)  # s
        self._since = np.full(size, -np.inf)  # s, of the last response
        self._avoided = np.full(size, -1, np.int32)  # cell that it had at the alarm
        spare = response.spare if response is not None else ()
        self._spare = np.array([name in spare for name in stations.ids], bool)  # (m,)
        self._awake = -np.inf  # s until which the spare cells send
        self._relays = Relays(stations, self._spare)
        self._on = np.zeros(size, bool)  # an alarm is on
        self.taken = 0  # responses that began

    def take(self, frames: Sequence[Frame], rows: Ints, serving: Ints, new: Flags, time: float) -> None:
        """Take in the alarms about `rows` (n,) at `serving` (n,); `new` ones have none yet."""
        if self._response is None:
            return
        self._until[rows[new]] = -np.inf
        self._on[:] = False
        for frame in frames:
            on = np.zeros(len(self._until), bool)
            on[frame.slot] = frame["on"]
            self._on |= on
            if on.any():
                self._awake = time + self._response.hold
            alarmed = on[rows] & (serving >= 0) & ~new
            settled = time - self._since[rows] >= self._response.settle
            moved = self._avoided[rows] != serving  # an alarm there is about that cell, once the windows are over
            fresh = alarmed & ((self._until[rows] <= time) | (moved & settled))
            self.taken += int(fresh.sum())
            self._avoided[rows[fresh]] = serving[fresh]
            self._since[rows[fresh]] = time
            self._until[rows[on[rows]]] = time + self._response.hold

    def decide(self, rows: Ints, place: Floats, state: RadioRows, traffic: Traffic, failed: Flags, time: float) -> None:
        """Send relays to the alarms about `rows` (n,), who are at `place` (n, 3) m."""
        if self._response is None or self._response.to != "alarms":
            return
        if time >= self._awake:
            self._relays.goal[:] = np.nan
        else:
            self._relays.follow(place[self._on[rows]], self._response.height)

    def destinations(self, time: float) -> Frame:
        """The signal `destination`: where each spare cell is sent."""
        return self._relays.frame(time)

    def asleep(self, time: float) -> Flags:
        """Which cells (m,) are spare ones that send nothing at `time`."""
        return self._spare & (time >= self._awake)

    def leaving(self, rows: Ints, time: float) -> Flags:
        """Which of `rows` (n,) leave the air."""
        if self._response is None or self._response.do != "disconnect":
            return np.zeros(len(rows), bool)
        return np.asarray(self._until[rows] > time)

    def hidden(self, rows: Ints, state: RadioRows, time: float) -> Hidden:
        """Hide avoided cells from those that choose, if there is another one; what to put back with `restore`."""
        if self._response is None or self._response.do == "disconnect":
            return rows[:0], np.empty((0, 0))
        mine = rows[(self._until[rows] > time) & (self._avoided[rows] >= 0)]
        avoided = self._avoided[mine]
        if self._response.do == "other-carrier":
            hide = self._carrier == self._carrier[avoided][:, None]
        else:
            hide = np.arange(len(self._carrier)) == avoided[:, None]
        return _hide(mine, hide, state)


class OwnResponses:
    """Asks a policy of the user's own at every step; arrays over the slots of the scene and the m cells."""

    def __init__(self, response: Response, stations: Stations, context: Context, background: float) -> None:
        self._policy = scheduler(response.do).policy("radio")
        self._stations, self._interval = stations, context.period
        self._spare = np.array([name in response.spare for name in stations.ids], bool)  # (m,)
        self._flies = self._spare & flying(stations, context)
        self._relays = Relays(stations, self._flies)
        self._background = background
        self._awake = np.zeros(len(stations), bool)
        self._alarm = np.zeros(context.scene.capacity, DEVICE)  # the columns that the detector writes
        self._cell = np.full(context.scene.capacity, ANY, np.int64)
        self._carrier = np.zeros(context.scene.capacity)  # Hz
        self.taken = 0

    def take(self, frames: Sequence[Frame], rows: Ints, serving: Ints, new: Flags, time: float) -> None:
        """Take in the alarms about `rows` (n,); of several detectors the highest score, and the cause of that one."""
        alarm = self._alarm
        alarm["alarm"] = alarm["cause"] = alarm["raised"] = 0.0
        alarm["score"] = np.nan
        for frame in frames:
            slot = frame.slot
            higher = ~(frame["score"] <= alarm["score"][slot])
            alarm["score"][slot] = np.where(higher, frame["score"], alarm["score"][slot])
            if "cause" in frame.columns:
                alarm["cause"][slot] = np.where(higher, frame["cause"], alarm["cause"][slot])
            alarm["alarm"][slot] = np.maximum(alarm["alarm"][slot], frame["on"])
            alarm["raised"][slot] += frame["raised"]
        for name in ("alarm", "cause", "raised"):
            alarm[name][rows[new]] = 0.0
        self._cell[rows[new]], self._carrier[rows[new]] = ANY, 0.0

    def decide(self, rows: Ints, place: Floats, state: RadioRows, traffic: Traffic, failed: Flags, time: float) -> None:
        """Ask the policy about the devices `rows` (n,) at `place` (n, 3) m; `failed` (m,) cells are down."""
        devices, cells = self._alarm[rows], np.zeros(len(self._stations), CELL)
        devices["slot"], devices["cell"] = rows, state.serving[rows]
        devices["uplink"], devices["downlink"] = state.alone[rows].T
        devices["uploads"], devices["downloads"] = traffic.uploads, traffic.downloads
        devices["x"], devices["y"], devices["z"] = place.T
        stations, served = self._stations, state.serving[rows]
        cells["slot"], cells["carrier"], cells["bandwidth"] = stations.slots, stations.carrier_hz, stations.bandwidth
        cells["load"] = self._background + (1.0 - self._background) * np.maximum(traffic.up, traffic.down)
        cells["attached"] = np.bincount(served[served >= 0], minlength=len(stations))
        cells["up"], cells["spare"], cells["awake"] = ~failed, self._spare, ~self._spare | self._awake
        cells["flies"] = self._flies
        cells["x"], cells["y"], cells["z"] = stations.base.T
        seen = RadioState(time, self._interval, devices, cells, state.power[rows], tuple(stations.ids))
        found = ordered(self._policy, seen)
        before = (self._cell[rows] != ANY) | (self._carrier[rows] != 0.0)
        now = (found.cell != ANY) | (found.carrier != 0.0)
        awake, sent = found.awake & self._spare, np.isfinite(found.send[:, 0])
        self.taken += int((now & ~before).sum() + (awake & ~self._awake).sum())
        self.taken += int((sent & np.isnan(self._relays.goal[:, 0])).sum())
        self._cell[rows], self._carrier[rows] = found.cell, found.carrier
        self._awake, self._relays.goal = awake, found.send

    def asleep(self, time: float) -> Flags:
        """Which cells (m,) are spare ones that send nothing at `time`."""
        return self._spare & ~self._awake

    def leaving(self, rows: Ints, time: float) -> Flags:
        """Which of `rows` (n,) leave the air."""
        return np.asarray(self._cell[rows] == OFF)

    def hidden(self, rows: Ints, state: RadioRows, time: float) -> Hidden:
        """Hide from each device the cells that it may not use, if it hears one that it may."""
        mine = rows[(self._cell[rows] >= 0) | ((self._carrier[rows] != 0.0) & (self._cell[rows] != OFF))]
        cell, carrier = self._cell[mine][:, None], self._carrier[mine][:, None]
        hide = (cell >= 0) & (np.arange(len(self._stations)) != cell)
        hide |= (carrier != 0.0) & (self._stations.carrier_hz != carrier)
        return _hide(mine, hide, state)

    def destinations(self, time: float) -> Frame:
        """The signal `destination`: where each relay is sent."""
        return self._relays.frame(time)


class Relays:
    """Base stations on drones, and where they are sent."""

    def __init__(self, stations: Stations, which: Flags) -> None:
        self._stations, self._which = stations, np.flatnonzero(which)
        self.goal = np.full((len(stations), 3), np.nan)  # m, NaN: home

    def follow(self, alarms: Floats, height: float) -> None:
        """Send relays to the middle of the `alarms` (k, 3) m that are theirs; without any all stay where they are sent.

        Alarms are divided by Lloyd's rounds among as many relays as are of use, which begin far apart, and the
        middles are dealt out, the nearest pair first, so that relays do not change places.
        """
        if not len(alarms):
            return
        places = alarms[:, :2]
        middles = [places.mean(axis=0)]
        for _ in range(1, min(len(self._which), len(np.unique(places, axis=0)))):
            away = np.min([np.hypot(*(places - middle).T) for middle in middles], axis=0)
            middles.append(places[int(away.argmax())])
        points = np.array(middles)
        for _ in range(_ROUNDS):
            mine = np.hypot(*(places[:, None] - points).transpose(2, 0, 1)).argmin(axis=1)
            points = np.array(
                [places[mine == k].mean(axis=0) if (mine == k).any() else p for k, p in enumerate(points)]
            )
        known = np.isfinite(self.goal[self._which, :1])
        at = np.where(known, self.goal[self._which, :2], self._stations.base[self._which, :2])
        apart = np.hypot(*(at[:, None] - points).transpose(2, 0, 1))  # (relays, points)
        self.goal[:] = np.nan
        for _ in points:
            relay, point = np.unravel_index(int(apart.argmin()), apart.shape)
            self.goal[self._which[relay]] = *points[point], height
            apart[relay], apart[:, point] = np.inf, np.inf

    def frame(self, time: float) -> Frame:
        """A row for each relay."""
        which = self._which[np.argsort(self._stations.slots[self._which])]
        goal = self.goal[which]
        columns = {axis: np.ascontiguousarray(goal[:, k]) for k, axis in enumerate("xyz")}
        return Frame("destination", time, self._stations.slots[which], columns)


def flying(stations: Stations, context: Context) -> Flags:
    """Which cells (m,) are vehicles."""
    nodes = context.scene.nodes
    return np.array(["vehicle" in dict(nodes[slot].keys) for slot in stations.slots.tolist()], bool)


def _hide(rows: Ints, hide: Flags, state: RadioRows) -> Hidden:
    """Set the power of cells `hide` (k, m) to 0 for those of `rows` (k,) that hear another one; what was there."""
    kept = state.power[rows].copy()
    left = np.where(hide, 0.0, kept)
    some = left.max(axis=1, initial=0.0) > 0.0
    state.power[rows[some]] = left[some]
    return rows, kept


def restore(hidden: Hidden, state: RadioRows) -> None:
    """Put back what `hidden` hid."""
    rows, power = hidden
    if len(rows):
        state.power[rows] = power

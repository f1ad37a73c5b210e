"""What machines report, as frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cosim.contract.entities import Node, Scene
from cosim.contract.frame import Frame
from cosim.contract.geo import LocalFrame
from cosim.contract.presence import Presence
from cosim.contract.signals import MOBILITY, NODE_METERS, RESOURCES, STARVED
from cosim.testbed.live.lease import SlotStanding

_NAN = float("nan")
_SHOWN = 100  # starved seconds in a summary
_ABSENT: Mapping[str, Any] = {
    "present": False, "cpu": _NAN, "memory": _NAN, "temperature": _NAN, "power": _NAN,
    "meter": NODE_METERS.index("none"), **dict.fromkeys(STARVED, _NAN), "round_trip": _NAN, "clock_offset": _NAN,
}  # fmt: skip


class _Counter:
    """A machine's counter that goes on growing when the machine starts anew."""

    def __init__(self) -> None:
        self.total, self._last = 0.0, 0.0

    def take(self, value: float | None) -> float:
        if value is not None:
            self.total += value - self._last if value >= self._last else value
            self._last = value
        return self.total


class LiveReadings:
    """Frames of `resources` (one row per live node that is there) and `mobility` (those that report positions).

    A vehicle's position comes from its autopilot, that of a fleet's member from the fleet's owner; a position that
    a machine on it reports would be a second one. `presence` holds which members of fleets are there.
    """

    def __init__(self, scene: Scene, nodes: Mapping[int, Node], presence: Presence) -> None:
        self._presence = presence
        geo = scene.geo
        self._frame = None if geo is None else LocalFrame(geo.latitude, geo.longitude, geo.height)
        self._driven = {slot for slot, node in nodes.items() if node.says("vehicle") or slot >= len(scene.nodes)}
        self._slots = np.array(list(nodes), np.int32)
        self._names = [node.id for node in nodes.values()]
        self._received = {name: _Counter() for name in self._names}
        self._sent = {name: _Counter() for name in self._names}
        self._last: dict[int, tuple[float, float, float, float, float, float]] = {}  # s, m, m, m, m/s, deg
        self._account = {name: {"present": 0, "reports": 0, "steps": 0} for name in self._names}
        # s, by what was waited for
        self._starved: dict[str, dict[str, list[float]]] = {name: {} for name in self._names}
        self._seen: dict[str, float] = {}

    def none_attached(self, time: float) -> tuple[Frame, Frame]:
        """Frames of a run that no machine can attach to: nothing is measured."""
        columns = {column.name: np.zeros(0, column.dtype) for column in RESOURCES.columns}
        return Frame("resources", time, np.zeros(0, np.int32), columns), self._mobility(time, {})

    def frames(self, time: float, standings: Sequence[SlotStanding]) -> tuple[Frame, Frame]:
        """What holds at `time` (s). `standings` are in the order of the live nodes."""
        rows, places = [], dict[int, tuple[float, ...]]()
        for slot, standing in zip(self._slots.tolist(), standings, strict=True):
            name, lease, report = standing.slot.node, standing.lease, standing.report
            account = self._account[name]
            account["steps"] += 1
            account["present"] += lease is not None
            row = dict(_ABSENT)
            if lease is not None:
                row |= {"present": True, "round_trip": lease.clock.round_trip, "clock_offset": lease.wall.offset}
            if report is not None:
                for key in ("cpu", "memory", "temperature", "power", *STARVED):
                    row[key] = _NAN if report[key] is None else report[key]
                row["meter"] = NODE_METERS.index(report["meter"])
                if report["position"] is not None and self._frame is not None and slot not in self._driven:
                    places[slot] = self._moved(slot, standing.reported, report["position"])
                if self._seen.get(name) != standing.reported:
                    self._seen[name] = standing.reported
                    account["reports"] += 1
                    for key, most in STARVED.items():
                        if row[key] > most:
                            self._starved[name].setdefault(key, []).append(round(time, 3))
            row["received"] = self._received[name].take(report["received"] if report else None)
            row["sent"] = self._sent[name].take(report["sent"] if report else None)
            rows.append(row)
        return self._resources(time, rows), self._mobility(time, places)

    def account(self, name: str) -> dict[str, Any]:
        """Of node `name`: the share of the steps at which its machine was there, its reports, those starved."""
        account = self._account[name]
        steps = max(1, account["steps"])
        starved = {
            key.removesuffix("_wait"): {"reports": len(times), "at": times[:_SHOWN]}
            for key, times in self._starved[name].items()
        }
        return {"present": account["present"] / steps, "reports": account["reports"], "starved": starved}

    def _moved(self, slot: int, at: float, place: Sequence[float]) -> tuple[float, ...]:
        """x, y, z (m), speed (m/s) and heading (deg); the last two by the way since the report before."""
        assert self._frame is not None
        arrays = self._frame.to_local(*(np.array([value], np.float64) for value in place))
        x, y, z = (float(array[0]) for array in arrays)
        last = self._last.get(slot)
        speed = heading = 0.0
        if last is not None:
            seconds = at - last[0]
            if seconds <= 0.0:
                return last[1:]
            east, north = x - last[1], y - last[2]
            speed = float(np.hypot(east, north)) / seconds
            heading = float(np.degrees(np.arctan2(east, north)) % 360.0) if speed > 0.0 else last[5]
        self._last[slot] = (at, x, y, z, speed, heading)
        return x, y, z, speed, heading

    def _resources(self, time: float, rows: Sequence[Mapping[str, Any]]) -> Frame:
        here = self._presence.here[self._slots]
        columns = {
            column.name: np.array([row[column.name] for row in rows], column.dtype)[here]
            for column in RESOURCES.columns
        }
        return Frame("resources", time, self._slots[here], columns)

    def _mobility(self, time: float, places: Mapping[int, Sequence[float]]) -> Frame:
        columns = {
            column.name: np.array([place[k] for place in places.values()], np.float64)
            for k, column in enumerate(MOBILITY.columns)
        }
        return Frame("mobility", time, np.array(list(places), np.int32), columns)

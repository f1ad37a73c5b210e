"""The geofence: a ceiling and a circle around home from parameters, circles and polygons from uploaded items."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cosim.autopilot.flight import MissionItem, finite
from cosim.autopilot.geodesy import Place, Vector
from cosim.autopilot.parameters import Parameters
from cosim.autopilot.personas import FENCED
from cosim.physics.vehicles.motion import approach

if TYPE_CHECKING:
    from cosim.autopilot.pilot import Pilot

RETURN_POINT, POLYGON_IN, POLYGON_OUT, CIRCLE_IN, CIRCLE_OUT = 5000, 5001, 5002, 5003, 5004  # MAV_CMD_NAV_FENCE_*
NONE, MAX_ALT, BOUNDARY = 0, 2, 3  # FENCE_BREACH
Point = tuple[float, float]  # deg, deg


def inside(point: Point, polygon: list[Point]) -> bool:
    """Whether a point lies in a polygon: the number of edges that a ray crosses is odd."""
    x, y = point
    odd = False
    for (ax, ay), (bx, by) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        if (ay > y) != (by > y) and x < ax + (y - ay) * (bx - ax) / (by - ay):
            odd = not odd
    return odd


class Fence:
    """The fence of one vehicle, and its breaches."""

    def __init__(self) -> None:
        self.breached = NONE
        self.breaches = 0
        self.last = 0.0  # s, when last breached
        self._polygons: list[tuple[bool, list[Point]]] = []  # whether to stay in, corners
        self._circles: list[tuple[bool, Point, float]] = []  # whether to stay in, centre, radius in m

    def load(self, items: list[MissionItem]) -> str | None:
        """Take uploaded items; the reason if they are no fence."""
        polygons: list[tuple[bool, list[Point]]] = []
        circles: list[tuple[bool, Point, float]] = []
        k = 0
        while k < len(items):
            item = items[k]
            if item.command in (POLYGON_IN, POLYGON_OUT):
                count = int(finite(item.param1))
                corners = items[k : k + count]
                if count < 3 or len(corners) < count or any(c.command != item.command for c in corners):
                    return "a polygon needs 3 corners or more, all in a row"
                polygons.append((item.command == POLYGON_IN, [(c.x / 1e7, c.y / 1e7) for c in corners]))
                k += count
                continue
            if item.command in (CIRCLE_IN, CIRCLE_OUT):
                if not 0.0 < item.param1 < math.inf:
                    return "a circle needs a radius"
                circles.append((item.command == CIRCLE_IN, (item.x / 1e7, item.y / 1e7), item.param1))
            elif item.command != RETURN_POINT:
                return "not an item of a fence"
            k += 1
        self._polygons, self._circles = polygons, circles
        return None

    def on(self, parameters: Parameters, px4: bool) -> bool:
        """Whether it holds."""
        if px4:
            limits = parameters["GF_MAX_HOR_DIST"] > 0.0 or parameters["GF_MAX_VER_DIST"] > 0.0
            return parameters["GF_ACTION"] > 0 and bool(limits or self._polygons or self._circles)
        return parameters["FENCE_ENABLE"] != 0

    def forbids(self, pilot: Pilot, point: Vector) -> bool:
        """Whether a point (m, local) lies outside."""
        return self.breach(pilot, point) != NONE

    def breach(self, pilot: Pilot, point: Vector | None = None) -> int:
        """FENCE_BREACH of the vehicle where it is, or would be at `point` (m, local)."""
        p, v, px4 = pilot.parameters, pilot.view, pilot.persona.px4
        if point is not None:
            v = v._replace(x=point[0], y=point[1], z=point[2])
        kinds = 7 if px4 else int(p["FENCE_TYPE"])
        top = p.get("GF_MAX_VER_DIST") if px4 else p.get("FENCE_ALT_MAX") * (kinds & 1)
        radius = p["GF_MAX_HOR_DIST"] if px4 else p["FENCE_RADIUS"] * (kinds >> 1 & 1)
        if top > 0.0 and v.z - pilot.home[2] > top:
            return MAX_ALT
        if radius > 0.0 and math.hypot(v.x - pilot.home[0], v.y - pilot.home[1]) > radius:
            return BOUNDARY
        if not kinds & 4 or not (self._polygons or self._circles):
            return NONE
        place = pilot.ground.place(v.x, v.y, v.z)
        here = (place.latitude, place.longitude)
        if any(inside(here, corners) != keep for keep, corners in self._polygons):
            return BOUNDARY
        for keep, (latitude, longitude), size in self._circles:
            x, y, _ = pilot.ground.local(place._replace(latitude=latitude, longitude=longitude))
            if (math.hypot(x - v.x, y - v.y) <= size) != keep:
                return BOUNDARY
        return NONE

    def slow(self, pilot: Pilot, velocity: Vector) -> Vector:
        """`velocity` (m/s, local) without what it has towards the fence beyond the speed at which it can still brake.

        ArduCopter's AC_Avoid: the square-root law up to FENCE_MARGIN before each part of the fence.
        """
        p, v, (vx, vy, vz) = pilot.parameters, pilot.look(), velocity
        if pilot.persona.px4 or pilot.persona.frame == "rover" or not self.on(p, False):
            return velocity
        frame, margin, kinds = pilot.fleet.frames[pilot.row], p.get("FENCE_MARGIN", 2.0), int(p["FENCE_TYPE"])
        top = p.get("FENCE_ALT_MAX") * (kinds & 1)
        if top > 0.0:
            left = max(top - margin - (v.z - pilot.home[2]), 0.0)
            vz = min(vz, approach(left, 1.0, float(frame["climb_accel"]), math.inf))
        for away, east, north in self._walls(pilot, v, kinds):
            fast = approach(max(away - margin, 0.0), float(frame["gain"]), float(frame["accel"]), math.inf)
            over = max(vx * east + vy * north - fast, 0.0)
            vx, vy = vx - over * east, vy - over * north
        return vx, vy, vz

    def _walls(self, pilot: Pilot, v: Any, kinds: int) -> Iterator[tuple[float, float, float]]:  # noqa: ANN401
        """Each boundary's distance (m) and the direction to it (east, north)."""
        rings = [(True, pilot.home[:2], pilot.parameters["FENCE_RADIUS"])] if kinds & 2 else []
        local = pilot.ground.local
        if kinds & 4:
            rings += [(keep, local(Place(*at, 0.0))[:2], size) for keep, at, size in self._circles]
        for keep, (x, y), size in rings:
            far = max(math.hypot(x - v.x, y - v.y), 1e-9)
            sign = -1.0 if keep else 1.0
            yield sign * (far - size), sign * (x - v.x) / far, sign * (y - v.y) / far
        for _, corners in self._polygons if kinds & 4 else ():
            points = [local(Place(*corner, 0.0))[:2] for corner in corners]
            for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1], strict=True):
                square = max((bx - ax) ** 2 + (by - ay) ** 2, 1e-9)
                along = min(max(((v.x - ax) * (bx - ax) + (v.y - ay) * (by - ay)) / square, 0.0), 1.0)
                x, y = ax + along * (bx - ax) - v.x, ay + along * (by - ay) - v.y
                far = max(math.hypot(x, y), 1e-9)
                yield far, x / far, y / far

    def watch(self, pilot: Pilot) -> None:
        """Act on a breach once."""
        now = self.breach(pilot)
        if now and not self.breached:
            self.breaches += 1
            self.last = pilot.fleet.now - pilot.boot
            pilot.say(2, "Fence breached" if not pilot.persona.px4 else "Geofence violation")
            action = int(pilot.parameters["GF_ACTION" if pilot.persona.px4 else "FENCE_ACTION"])
            if pilot.persona.px4:
                if action >= 2:
                    pilot.set_mode({2: "HOLD", 5: "LAND"}.get(action, "RTL"))
            elif action and pilot.behaviour not in ("return", "land"):
                pilot.set_mode("RTL", FENCED)
        elif self.breached and not now and not pilot.persona.px4:
            pilot.say(6, "Fence breach cleared")
        self.breached = now

"""Warnings about straight legs of missions that lead into the ground or through an obstacle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from cosim.adapters.vehicle.roster import VehicleMission, VehicleRoster
from cosim.contract.errors import Problem
from cosim.physics.vehicles import Copter

_Point = tuple[float, float, float]


def warnings_of(roster: VehicleRoster, at: str) -> Iterator[Problem]:
    """By legs of missions; `at`: where the adapter's block is in the scenario."""
    yield from _unreached(roster, at)
    land, obstacles = roster.terrain, roster.obstacles
    if land is None and obstacles is None:
        return
    for mission in roster.missions:
        name, path = roster.ids[mission.vehicle], f"{at}.missions.{roster.ids[mission.vehicle]}"
        flies = isinstance(roster.airframes[mission.vehicle], Copter)
        for text, begin, end in _legs(mission, roster):
            if land is not None and flies:
                above, (x, y) = land.lowest(begin, end)
                if above <= 0.0:
                    where = f"{-above:.1f} m below the ground at {x:.0f} m east, {y:.0f} m north"
                    hint = "heights of missions count from the scenario's origin, not from the ground"
                    yield Problem(f"{text} of '{name}' is {where}", path, hint=hint, fatal=False)
            if obstacles is None:
                continue
            for k in obstacles.hit(begin, end):
                message = f"{text} of '{name}' leads through '{obstacles.names[k]}'"
                hint = f"its top is at {obstacles.tops[k]:.1f} m; fly higher or round it"
                yield Problem(message, path, hint=hint, fatal=False)


def _unreached(roster: VehicleRoster, at: str) -> Iterator[Problem]:
    """First places that the run is too short for, and places of copters that are below flat ground."""
    for mission in roster.missions:
        k = mission.vehicle
        airframe, path = roster.airframes[k], f"{at}.missions.{roster.ids[k]}"
        places = [point for point in mission.course if point.what == "fly"]
        x, y, z = (float(value) for value in roster.homes[k])
        away = math.hypot(places[0].x - x, places[0].y - y)
        left, rows = roster.duration - mission.part.start, mission.part.rows
        asked = [*([mission.part.speed] if mission.part.speed else []), *(rows.speeds if rows is not None else [])]
        top = max([airframe.speed, *asked])
        if top > airframe.speed:
            text = f"'{roster.ids[k]}' is ordered to do {top:g} m/s, and is made for {airframe.speed:g} m/s at most"
            yield Problem(text, path, hint="lower the mission's speed, or raise the vehicle's", fatal=False)
        if left > 0.0 and away > top * left:
            text = (
                f"the first place of '{roster.ids[k]}' is {away:,.0f} m away, and it has {left:g} s until the run ends"
            )
            hint = f"it does {top:g} m/s at most; is the unit right?"
            yield Problem(text, path, hint=hint, fatal=False)
        low = min(point.z for point in places)
        if roster.terrain is None and isinstance(airframe, Copter) and low < z:
            text = f"a place of '{roster.ids[k]}' is {z - low:g} m below the ground, which is as high as its home"
            yield Problem(text, path, hint="heights of missions count from the scenario's origin", fatal=False)


def _legs(mission: VehicleMission, roster: VehicleRoster) -> Iterator[tuple[str, _Point, _Point]]:
    """Straight legs from home to the places of a mission, as 'the leg to place 2' with begin and end in m, and back.

    Of a rover they lie on the ground: at its height at their ends.
    """
    airframe = roster.airframes[mission.vehicle]
    places = [(point.x, point.y, point.z) for point in mission.course if point.what == "fly"]
    climb = [(point.x, point.y, point.z) for point in mission.course if point.what == "take-off"]
    x, y, z = (float(value) for value in roster.homes[mission.vehicle])
    if not climb and roster.terrain is not None:
        places = [(east, north, float(roster.terrain.height(east, north))) for east, north, _ in places]
    for number, (begin, end) in enumerate(pairwise([*(climb or [(x, y, z)]), *places]), 1):
        yield f"the leg to place {number}", begin, end
    if isinstance(airframe, Copter) and places:
        up = max(places[-1][2], z + airframe.return_height)
        yield "the way home", (*places[-1][:2], up), (x, y, up)

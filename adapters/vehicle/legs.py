"""Warnings about legs that lead into the ground or through an obstacle, and about places that two vehicles take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, islice, pairwise

import numpy as np

from cosim.adapters.vehicle.config import EngagePart
from cosim.adapters.vehicle.roster import VehicleMission, VehicleRoster
from cosim.contract.errors import Problem
from cosim.physics.vehicles import Copter
from cosim.physics.vehicles.airframe import GRAVITY

_Point = tuple[float, float, float]


def warnings_of(roster: VehicleRoster, wind: Sequence[float], at: str) -> Iterator[Problem]:
    """By legs of missions; `wind`: m/s east, north and up; `at`: where the adapter's block is in the scenario."""
    yield from _unreached(roster, at)
    yield from _blown(roster, math.hypot(*wind[:2]), at)
    yield from _crowded(roster)
    yield from _shared(roster, at)
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


def _blown(roster: VehicleRoster, wind: float, at: str) -> Iterator[Problem]:
    """Copters with orders that the mean wind (m/s) carries away, however far they tilt against it."""
    for name in sorted(roster.commanded | roster.swarming):
        frame = roster.airframes[roster.row[name]]
        if isinstance(frame, Copter) and (frame.drag + frame.drag2 * wind) * wind > GRAVITY * math.tan(frame.tilt):
            text = f"a wind of {wind:g} m/s carries '{name}' away: its drag is more than the thrust at full tilt"
            yield Problem(text, f"{at}.wind", hint="is the unit right?", fatal=False)


def _crowded(roster: VehicleRoster) -> Iterator[Problem]:
    """Homes of copters that are nearer than their bodies allow, and vehicles that are parked where one is to land."""
    bodies = [float(airframe.row()["body"][0]) for airframe in roster.airframes]
    flies = [isinstance(airframe, Copter) for airframe in roster.airframes]
    orders = roster.commanded | roster.swarming
    parked = [(k, home) for k, home in enumerate(roster.homes) if not flies[k] and roster.ids[k] not in orders]
    parked += [
        (mission.vehicle, np.array([mission.course[-1].x, mission.course[-1].y, roster.homes[mission.vehicle][2]]))
        for mission in roster.missions
        if not flies[mission.vehicle]
    ]
    homes = [(k, home) for k, home in enumerate(roster.homes) if flies[k]]
    places = sorted([*homes, *parked], key=lambda one: float(one[1][0]))
    reach = 2.0 * max(bodies, default=0.0)
    for number, (k, here) in enumerate(places):
        for other, there in islice(places, number + 1, None):
            if there[0] - here[0] > reach:
                break
            away = math.dist(here, there)
            if away >= bodies[k] + bodies[other] or not (flies[k] or flies[other]):
                continue
            copter, neighbour = (k, other) if flies[k] else (other, k)
            first, second = roster.ids[copter], roster.ids[neighbour]
            room = f"{away:.2g} m apart, and both need {bodies[k] + bodies[other]:.2g} m"
            if flies[neighbour]:
                text = f"the homes of '{first}' and '{second}' are {room}: neither can land beside the other"
            else:
                begins = "is parked" if second not in orders else "ends its mission"
                text = f"'{second}' {begins} where '{first}' is to land: {room}"
            hint = "vehicles are solid; move one of them"
            yield Problem(text, f"nodes.{first}.at", hint=hint, fatal=False)


def _shared(roster: VehicleRoster, at: str) -> Iterator[Problem]:
    """Stand-off points of one target that are nearer than the bodies of two drones that may be there together."""
    targets: dict[str, list[tuple[int, EngagePart, _Point, float]]] = {}
    for number, part in enumerate(roster.engagements):
        rule, body = part.rule(), float(roster.airframes[roster.row[part.drone]].row()["body"][0])
        targets.setdefault(part.target, []).append((number, part, (rule.behind, rule.aside, rule.height), body))
    pairs = (pair for parts in targets.values() for pair in combinations(parts, 2))
    for (_, one, here, body), (second, other, there, room) in pairs:
        away, need = math.dist(here, there), body + room
        if one.drone != other.drone and away < need and _together(one, other):
            text = f"'{one.drone}' and '{other.drone}' follow '{one.target}' {away:.2g} m apart, and need {need:.2g} m"
            hint = "vehicles are solid; give them other values of 'behind', 'aside' or 'height'"
            yield Problem(text, f"{at}.engage.{second}", hint=hint, fatal=False)


def _together(one: EngagePart, other: EngagePart) -> bool:
    """Whether orders may be given for one time; those of conditions and events come at any time."""
    spans = [[(order.at, order.at + (order.span or math.inf)) for order in part.commands] for part in (one, other)]
    return not all(spans) or any(a[0] < b[1] and b[0] < a[1] for a in spans[0] for b in spans[1])


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

"""For what the replay refuses a scene."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cosim.adapters.replay.backend import BYTES_PER_SAMPLE
from cosim.adapters.replay.config import ReplayConfig
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, ScenarioError

if TYPE_CHECKING:
    from cosim.adapters.replay.trajectories import Trajectories


DEEP = 20.0  # m below the origin, where there is more amiss than a slope
FAR = 50e3  # m from the origin, as of the nets of SUMO


def problems(config: ReplayConfig, context: Context) -> list[Problem]:
    """A scene without exactly one fleet, a file that cannot be replayed; warnings of members that are far off."""
    from cosim.adapters.replay.reading import trajectories  # needs numpy

    try:
        found = trajectories(config, context)
    except ScenarioError as error:
        return [*fleets(context), *error.problems]
    took = Problem(
        f"'{config.file}' {found.summary}", f"adapters.{context.name}", fatal=False, note=True,
        memory=BYTES_PER_SAMPLE * len(found), members=len(found.ids),
    )  # fmt: skip
    return [*fleets(context), took, *_room(config, context, found), *_off(config, context, found)]


def _room(config: ReplayConfig, context: Context, found: Trajectories) -> Iterator[Problem]:
    """A file with more members at a time than the fleet has slots."""
    from cosim.adapters.replay.reading import moment

    fleet = next((fleet for fleet in context.scene.fleets if fleet.adapter == context.name), None)
    if fleet is None or len(found.ids) <= fleet.capacity:
        return
    gap, steps = None if config.gap is None else round(config.gap * 1e9), round(context.duration / context.period)
    times = (moment(config, found, step * context.period)[0] for step in range(steps + 1))
    most = max(len(found.at(time, interpolate=False, gap=gap)[0]) for time in times)
    if most > fleet.capacity:
        text = f"'{config.file}' has {most} members at the same time, the capacity of the fleet is {fleet.capacity}"
        yield Problem(text, f"nodes.{fleet.name}.capacity", hint=f"write  capacity: {most}")


def _off(config: ReplayConfig, context: Context, found: Trajectories) -> Iterator[Problem]:
    """Warnings of members that are never there during the run, and of those far from the scenario's origin."""
    from cosim.adapters.replay.reading import moment
    from cosim.contract.geo import LocalFrame

    block, (first, last) = f"adapters.{context.name}", found.span
    if moment(config, found, context.duration)[0] < first or moment(config, found, 0.0)[0] > last:
        text = (
            f"'{config.file}' has positions from {first * 1e-9:g} s to {last * 1e-9:g} s, and none while the run lasts"
        )
        yield Problem(text, f"{block}.offset", hint=f"write  offset: {first * 1e-9:g} s", fatal=False)
    for doubt in found.doubts:
        yield Problem(f"'{config.file}': {doubt}", block, fatal=False)
    if found.gaps and config.gap is None:
        yield Problem(f"'{config.file}' has {found.gaps}", block, hint="with 'gap: 10 s' it is absent", fatal=False)
    geo, (_, places) = context.scene.geo, found.at(first, interpolate=False, gap=None)
    x, y, z = (float(places[axis][0]) for axis in "xyz")
    if geo is not None and found.heights[1] < -DEEP and math.hypot(x, y) < FAR:
        low, high = (round(height + geo.height) for height in found.heights)
        text = f"'{config.file}' has heights of {low} to {high} m, and the origin is at {geo.height:.0f} m"
        hint = "if one is above the ground, the sea or the ellipsoid and the other is not, write both alike"
        yield Problem(text, block, hint=hint, fatal=False)
    if geo is not None and math.hypot(x, y, z) > FAR:
        text = f"'{config.file}' begins {math.hypot(x, y, z) / 1e3:,.0f} km from the scenario's origin"
        place = LocalFrame(geo.latitude, geo.longitude, geo.height).to_wgs84(x, y, z)
        latitude, longitude, height = (float(value) for value in place)
        hint = f"it is there with geo: {{origin: [{latitude:.4f}, {longitude:.4f}, {height:.0f} m]}}"
        yield Problem(text, block, hint=hint, fatal=False)


def fleets(context: Context) -> list[Problem]:
    """There is one fleet for the members."""
    count = sum(fleet.adapter == context.name for fleet in context.scene.fleets)
    if count == 1:
        return []
    text = f"'{context.name}' needs exactly one fleet, the scenario has {count}"
    return [Problem(text, path="nodes", hint=f"write one node with  fleet: {context.name}")]

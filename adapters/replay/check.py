"""For what the replay refuses a scene."""

from __future__ import annotations

from adapters.replay.config import ReplayConfig
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, ScenarioError, refusals


def problems(config: ReplayConfig, context: Context) -> list[Problem]:
    """A scene without exactly one fleet for the members, and a file that cannot be replayed."""
    return [*fleets(context), *refusals(lambda: _room(config, context))]


def _room(config: ReplayConfig, context: Context) -> None:
    """Refuse a file that cannot be replayed, and one with more members at a time than the fleet has slots."""
    from adapters.replay.reading import moment, trajectories  # needs numpy

    found = trajectories(config, context)
    fleet = next((fleet for fleet in context.scene.fleets if fleet.adapter == context.name), None)
    if fleet is None or len(found.ids) <= fleet.capacity:
        return
    gap, steps = None if config.gap is None else round(config.gap * 1e9), round(context.duration / context.period)
    times = (moment(config, found, step * context.period)[0] for step in range(steps + 1))
    most = max(len(found.at(time, interpolate=False, gap=gap)[0]) for time in times)
    if most > fleet.capacity:
        text = f"'{config.file}' has {most} members at the same time, the capacity of the fleet is {fleet.capacity}"
        raise ScenarioError(Problem(text, f"nodes.{fleet.name}.capacity", hint=f"write  capacity: {most}"))


def fleets(context: Context) -> list[Problem]:
    """There is one fleet for the members."""
    count = sum(fleet.adapter == context.name for fleet in context.scene.fleets)
    if count == 1:
        return []
    text = f"'{context.name}' needs exactly one fleet, the scenario has {count}"
    return [Problem(text, path="nodes", hint=f"write one node with  fleet: {context.name}")]

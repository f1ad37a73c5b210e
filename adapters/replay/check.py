"""For what the replay refuses a scene."""

from __future__ import annotations

from adapters.replay.config import ReplayConfig
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, refusals


def problems(config: ReplayConfig, context: Context) -> list[Problem]:
    """A scene without exactly one fleet for the members, and a file that cannot be replayed."""
    from adapters.replay.reading import trajectories  # needs numpy

    return [*fleets(context), *refusals(lambda: trajectories(config, context))]


def fleets(context: Context) -> list[Problem]:
    """There is one fleet for the members."""
    count = sum(fleet.adapter == context.name for fleet in context.scene.fleets)
    if count == 1:
        return []
    text = f"'{context.name}' needs exactly one fleet, the scenario has {count}"
    return [Problem(text, path="nodes", hint=f"write one node with  fleet: {context.name}")]

"""For what the datacentre model refuses a scene."""

from __future__ import annotations

from functools import partial

from adapters.datacentre.config import DatacentreConfig
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, refusals


def problems(config: DatacentreConfig, context: Context) -> list[Problem]:
    """Hosts, places, machines, files and policies that cannot be."""
    from adapters.datacentre import world  # needs the engine

    path = f"adapters.{context.name}"
    found = refusals(lambda: world.hosts_of(config, context.scene, path))
    if found:
        return found
    nodes, _ = world.hosts_of(config, context.scene, path)
    found += refusals(lambda: world.quirks_of(config, path))
    found += refusals(lambda: world.places_of(config, nodes, path))
    found += refusals(lambda: world.utilisation_of(config, context, path))
    found += refusals(lambda: world.policies_of(config, path))
    for name, block in config.places.items():
        found += refusals(partial(world.cap_of, context, block, f"{path}.places.{name}"))
        found += refusals(partial(world.tariff_of, context, block, f"{path}.places.{name}"))
    return found or refusals(lambda: world.build(config, context))

"""For what the adapter refuses a scene."""

from __future__ import annotations

from cosim.contract.adapter import Context
from cosim.contract.errors import Problem
from cosim.contract.hints import did_you_mean
from cosim.extensions.corais.adapter.config import CoraisConfig
from cosim.extensions.corais.territory import members


def problems(config: CoraisConfig, context: Context) -> list[Problem]:
    """Regions without an edge or that share one, and schedulers at no host."""
    where, nodes = f"adapters.{context.name}", context.scene.nodes
    found, owner = [], dict[int, str]()
    for name, slots in members(config.regions, context.scene).items():
        if not slots:
            text = "no edge with a cpu is in the region"
            found.append(Problem(text, f"{where}.regions.{name}", hint="name nodes of tier edge that have a 'cpu'"))
        for slot in slots:
            if slot in owner:
                text = f"'{nodes[slot].id}' is in region '{owner[slot]}' as well"
                found.append(Problem(text, f"{where}.regions.{name}", hint="an edge has one scheduler"))
            owner[slot] = name
    hosts = [node.id for node in nodes if node.tier != "device" and node.cores > 0]
    for name, host in config.central.items():
        at = f"{where}.central.{name}"
        if name not in config.regions:
            found.append(Problem(f"there is no region '{name}'", at, hint=did_you_mean(name, config.regions)))
        if host not in hosts:
            found.append(Problem(f"there is no edge or cloud '{host}' with a cpu", at, hint=did_you_mean(host, hosts)))
    return found

"""For what the emulated network refuses a scene: what its nodes and its backend cannot carry."""

from __future__ import annotations

from adapters.network.config import NetworkConfig
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, refusals


def problems(config: NetworkConfig, context: Context) -> list[Problem]:
    """Real nodes without an interface, and a radio that the backend does not have. Nothing while no node is real."""
    if not context.scene.real:
        return []
    from cosim.launch.programs import programs

    found = refusals(lambda: programs(context.scene))
    if config.radio and config.backend != "ns3":
        found.append(Problem(f"backend {config.backend} has no radio of its own", f"adapters.{context.name}.radio"))
    return found

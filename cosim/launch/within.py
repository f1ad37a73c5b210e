"""Whether this is the run inside a compose project, for runs whose nodes are its containers."""

from __future__ import annotations

from collections.abc import Mapping

from cosim.errors import Problem, ScenarioError, SetupError
from cosim.launch.programs import programs
from cosim.plan.plan import Plan

ADDRESSES = ("COSIM_NETWORK", "COSIM_VEHICLES", "COSIM_GATEWAY")  # set by the compose file


def require_containers(plan: Plan, environment: Mapping[str, str]) -> None:
    """Refuse `run.nodes: containers` where nothing says how containers are reached: outside a compose project.

    Raises `SetupError`, or `ScenarioError` when no node could be a container anyhow.
    """
    given = any(adapter.use == "network" and adapter.config.get("commands") for adapter in plan.adapters)
    if given or any(environment.get(name) for name in ADDRESSES):
        return
    if not programs(plan.scene):
        raise ScenarioError(Problem("no node has 'runs', so none can be real", "nodes"))
    raise SetupError(
        "run.nodes is 'containers', which is for the run inside a compose file: `cosim render SCENARIO` writes it, "
        "`docker compose -f SCENARIO/compose.yaml up` starts all; without an engine: --nodes netns"
    )

"""Whether a run whose nodes are containers is inside their compose project, or has to start one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from cosim.contract.errors import Problem, ScenarioError, SetupError, refusals
from cosim.scenario.plan.plan import Plan
from cosim.testbed.launch.programs import programs, unnamed

ADDRESSES = ("COSIM_NETWORK", "COSIM_VEHICLES", "COSIM_GATEWAY")  # set by the compose file


def has_containers(plan: Plan, environment: Mapping[str, str]) -> bool:
    """Whether there is a way to the containers of the nodes: a compose project around this run gives one."""
    given = any(adapter.use == "network" and adapter.config.get("commands") for adapter in plan.adapters)
    return given or any(environment.get(name) for name in ADDRESSES)


def require_containers(plan: Plan, environment: Mapping[str, str]) -> None:
    """Refuse `run.nodes: containers` where there is no way to the containers: outside a compose project.

    Raises `SetupError`, or `ScenarioError` when no node could be a container anyhow.
    """
    if has_containers(plan, environment):
        return
    if not programs(plan.scene):
        raise ScenarioError(Problem("no node has 'runs', so none can be real", "nodes"))
    raise SetupError(
        "run.nodes is 'containers', and this is not the run inside a compose project: `cosim run SCENARIO --nodes "
        "containers` starts one, `cosim render SCENARIO` writes its file; without an engine: --nodes netns"
    )


def unlaunchable(plan: Plan) -> list[Problem]:
    """What keeps the real nodes of `plan` from being started, wherever that is tried."""
    from cosim.testbed.launch.carrier import unfit  # these need much more than the run in a container does
    from cosim.testbed.launch.netns import unfit_for_namespaces

    where: Literal["netns", "containers"] = "netns" if plan.scene.real == "netns" else "containers"
    found = refusals(lambda: programs(plan.scene))
    if found:
        return found
    if not programs(plan.scene):
        return [Problem("no node has 'runs', so none can be real", "nodes")]
    wrong = unfit_for_namespaces(plan.scene) if where == "netns" else unnamed(programs(plan.scene))
    return [*wrong, *unfit(plan, where)]

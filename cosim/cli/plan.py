"""`cosim plan`: what a run would do, decided but not started."""

from __future__ import annotations

from cosim.cli.arguments import Overrides, ScenarioPath, Untrusted
from cosim.cli.console import Json, emit, errors
from cosim.contract.trust import distrust


def plan(
    scenario: ScenarioPath, overrides: Overrides = None, untrusted: Untrusted = False, as_json: Json = False
) -> None:
    """Print the plan of a scenario: adapters, order, wiring, periods, seeds, nodes, hash."""
    from cosim.scenario.plan.compile import plan_of
    from cosim.scenario.plan.show import describe

    with errors(as_json):
        distrust(untrusted)
        made = plan_of(scenario, overrides or (), force=True)
        emit({**made.as_dict(), "hash": made.hash}, as_json, lambda: describe(made))

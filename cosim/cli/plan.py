"""`cosim plan`: what a run would do, decided but not started."""

from __future__ import annotations

from cosim.cli.arguments import Overrides, ScenarioPath
from cosim.cli.console import Json, emit, errors


def plan(scenario: ScenarioPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Print the plan of a scenario: adapters, order, wiring, periods, seeds, nodes, hash."""
    from cosim.plan.compile import compile_plan
    from cosim.plan.show import describe
    from cosim.scenario.load import load

    with errors(as_json):
        made = compile_plan(load(scenario, overrides or ()))
        emit({**made.as_dict(), "hash": made.hash}, as_json, lambda: describe(made))

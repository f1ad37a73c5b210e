"""`cosim check`: is the scenario right? Every problem at once, nothing is started."""

from __future__ import annotations

from cosim.cli.arguments import Overrides, ScenarioPath
from cosim.cli.console import Json, count, emit, errors
from cosim.errors import ScenarioError


def check(scenario: ScenarioPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Check a scenario and report every problem with file, line and column."""
    from cosim.plan.compile import compile_plan
    from cosim.scenario.load import load

    with errors(as_json):
        loaded = load(scenario, overrides or ())
        plan = compile_plan(loaded)
        block = loaded.scenario.calibrate
        if block is not None and block.job is not None:
            from cosim.scenario.wording import did_you_mean
            from cosim.twin.jobs import JOBS

            if block.job not in JOBS:
                hint = did_you_mean(block.job, JOBS)
                raise ScenarioError(loaded.problem("calibrate.job", f"there is no job '{block.job}'", hint))
        summary = {
            "scenario": plan.name,
            "ok": True,
            "hash": plan.hash,
            "nodes": len(plan.scene.nodes),
            "fleets": len(plan.scene.fleets),
            "adapters": [adapter.name for adapter in plan.adapters],
            "ticks": plan.ticks,
            "warnings": list(plan.warnings),
        }
        emit(
            summary,
            as_json,
            f"{plan.name}: ok - {count(len(plan.scene.nodes), 'node')}, {count(len(plan.scene.fleets), 'fleet')}, "
            f"{count(len(plan.scene.workloads), 'workload')}, {count(plan.ticks, 'tick')} of {plan.step:g} s, "
            f"adapters {', '.join(adapter.name for adapter in plan.adapters)}"
            + "".join(f"\nwarning: {warning}" for warning in plan.warnings),
        )

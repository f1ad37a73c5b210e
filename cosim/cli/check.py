"""`cosim check`: is the scenario right? Every problem at once, nothing is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.cli.arguments import Force, Overrides, ScenarioPath, Untrusted
from cosim.cli.console import Json, count, emit, errors
from cosim.contract.errors import Problem, refuse
from cosim.contract.trust import distrust

if TYPE_CHECKING:
    from cosim.scenario.load import Loaded
    from cosim.scenario.plan.plan import Plan


def check(
    scenario: ScenarioPath,
    overrides: Overrides = None,
    untrusted: Untrusted = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Check a scenario and report every problem with file, line and column."""
    from cosim.compiled.compiling import defer

    defer()
    from cosim.scenario.plan.compile import checked
    from cosim.scenario.plan.estimate import estimate
    from cosim.scenario.plan.variants import looked_at
    from cosim.scenario.sweep import size

    with errors(as_json):
        distrust(untrusted)
        loaded, plan = checked(scenario, overrides or (), force=force)
        wrong, common = looked_at(loaded)
        refuse([*wrong, *_missing(plan), *_job(loaded), *_unlaunchable(plan)])
        # What is not in `common`, some run of the sweep does not have.
        warned = [one for one in plan.warnings if common is None or one in common]
        cost, runs = estimate(plan), size(loaded)
        summary = {
            "scenario": plan.name,
            "ok": True,
            "hash": plan.hash,
            "nodes": len(plan.scene.nodes),
            "fleets": len(plan.scene.fleets),
            "adapters": [adapter.name for adapter in plan.adapters],
            "ticks": plan.ticks,
            "estimate": cost.as_dict(),
            "runs": runs,
            "taken": plan.taken,
            "warnings": warned,
        }
        emit(
            summary,
            as_json,
            f"{plan.name}: ok - {count(len(plan.scene.nodes), 'node')}, {count(len(plan.scene.fleets), 'fleet')}, "
            f"{count(len(plan.scene.workloads), 'workload')}, {count(plan.ticks, 'tick')} of {plan.step:g} s, "
            f"adapters {', '.join(adapter.name for adapter in plan.adapters)}\n"
            f"one run: {cost}"
            + (f"; cosim sweep makes {runs:,}" if runs > 1 else "")
            + "".join(f"\n{text}" for text in plan.taken)
            + "".join(f"\nwarning: {_placed(loaded, warning)}" for warning in warned),
        )


def _placed(loaded: Loaded, warning: str) -> str:
    """`warning` with file, line and column, if it begins with a path of the scenario."""
    path, colon, rest = warning.partition(": ")
    return str(loaded.problem(path, rest)) if colon and " " not in path else warning


def _missing(plan: Plan) -> list[Problem]:
    """What adapters need and this machine does not have."""
    from cosim.contract.registry import adapter_kind

    return [
        Problem(reason, f"adapters.{adapter.name}")
        for adapter in plan.adapters
        if not adapter.connect
        for requirement in adapter_kind(adapter.use).requires
        if (reason := requirement.missing())
    ]


def _job(loaded: Loaded) -> list[Problem]:
    """A job of `calibrate` that there is none of."""
    block = loaded.scenario.calibrate
    if block is None or block.job is None:
        return []
    from cosim.contract.errors import SetupError
    from cosim.contract.hints import did_you_mean
    from cosim.contract.plugins import installed, load

    known = installed("jobs")
    if block.job not in known:
        return [loaded.problem("calibrate.job", f"there is no job '{block.job}'", did_you_mean(block.job, known))]
    try:
        load("jobs", block.job)
    except SetupError as error:
        return [loaded.problem("calibrate.job", str(error))]
    return []


def _unlaunchable(plan: Plan) -> list[Problem]:
    """What keeps the nodes of a run with real ones from being started anywhere."""
    if not plan.scene.real:
        return []
    from cosim.testbed.launch.require import unlaunchable

    return unlaunchable(plan)

"""One run of a sweep, from its task to its outcome."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import CosimError
from cosim.results.executor import RunTask

if TYPE_CHECKING:
    from cosim.scenario.plan.plan import Plan


def carry_out(task: RunTask) -> dict[str, Any]:
    """Make the run of `task` in this process; its status, folder (relative to the base), error and figures."""
    from cosim.results.session import run_plan
    from cosim.scenario.load import load
    from cosim.scenario.plan.compile import compile_plan
    from cosim.testbed.launch.require import has_containers

    base = Path(task.base)
    try:
        plan = compile_plan(load(Path(task.scenario), task.overrides), force=True)
        if plan.scene.real == "containers" and not has_containers(plan, os.environ):
            return _in_containers(plan, task)
        outcome = run_plan(plan, base / "runs", driver=task.driver)
    except CosimError as error:
        return {"status": "failed", "run": "", "error": str(error), "figures": {}}
    return {
        "status": outcome.status,
        "run": os.path.relpath(outcome.folder, base),
        "error": str(outcome.error) if outcome.error else "",
        "figures": dict(outcome.figures),
    }


def _in_containers(plan: Plan, task: RunTask) -> dict[str, Any]:
    """The run of a task inside containers, for which the images are there already."""
    from cosim.testbed.launch.contained import ended_by_signals, outcome
    from cosim.testbed.launch.deployment import Deployment

    base, code = Path(task.base), None
    values = [value for value in task.overrides if not value.startswith("run.nodes=")]
    words = ("--driver", task.driver, "--no-report")
    with ended_by_signals():
        deployment = Deployment(plan, Path(task.scenario), runs=base / "runs", values=values, options=words, say=print)
        with suppress(KeyboardInterrupt), deployment:
            code = deployment.wait()
    found = outcome(deployment, code)
    return {
        "status": found["status"],
        "run": os.path.relpath(found["folder"], base),
        "error": found["error"] or "",
        "figures": found["figures"],
    }

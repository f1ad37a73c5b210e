"""One run of a sweep, from its task to its outcome."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cosim.contract.errors import CosimError
from cosim.results.executor import Task


def carry_out(task: Task) -> dict[str, Any]:
    """Make the run of `task` in this process; its status, folder (relative to the base), error and figures."""
    from cosim.plan.compile import compile_plan
    from cosim.results.session import run_plan
    from cosim.scenario.load import load

    base = Path(task.base)
    try:
        plan = compile_plan(load(Path(task.scenario), task.overrides), force=True)
        outcome = run_plan(plan, base / "runs", driver=task.driver)
    except CosimError as error:
        return {"status": "failed", "run": "", "error": str(error), "figures": {}}
    return {
        "status": outcome.status,
        "run": os.path.relpath(outcome.folder, base),
        "error": str(outcome.error) if outcome.error else "",
        "figures": dict(outcome.figures),
    }

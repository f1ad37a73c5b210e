"""One run of a sweep, in a process of its own: `python -m cosim.results.single TASK ANSWER`.

TASK is a `Task` as JSON. ANSWER is the file that the outcome is written to; when it is missing
afterwards, the process died and the sweep says so.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from cosim.errors import CosimError
from cosim.results.executor import Task


def carry_out(task: Task) -> dict[str, Any]:
    """Make the run of `task`; its status, folder, error text and figures."""
    from cosim.plan.compile import compile_plan
    from cosim.results.session import run_plan
    from cosim.scenario.load import load

    base = Path(task.base)
    try:
        plan = compile_plan(load(Path(task.scenario), task.overrides))
        outcome = run_plan(plan, base, driver=task.driver)
    except CosimError as error:
        return {"status": "failed", "folder": "", "error": str(error), "figures": {}}
    return {
        "status": outcome.status,
        "folder": os.path.relpath(outcome.folder, base),
        "error": str(outcome.error) if outcome.error else "",
        "figures": outcome.figures,
    }


def main() -> None:
    data = json.loads(sys.argv[1])
    answer = Path(sys.argv[2])
    outcome = carry_out(Task(**{**data, "overrides": tuple(data["overrides"])}))
    unfinished = answer.with_suffix(".part")
    unfinished.write_text(json.dumps(outcome), encoding="utf-8")
    unfinished.rename(answer)


if __name__ == "__main__":
    main()

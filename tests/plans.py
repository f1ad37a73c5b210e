"""Plans as they are kept beside a run."""

from __future__ import annotations

import json
from pathlib import Path

from cosim.scenario.plan.plan import Plan
from cosim.scenario.plan.store import plan_from_dict


def through_text(plan: Plan, root: Path) -> Plan:
    """The plan that is read from the JSON of `plan`; infinity is written as Python's json module writes it."""
    return plan_from_dict(json.loads(json.dumps(plan.as_dict())), root)

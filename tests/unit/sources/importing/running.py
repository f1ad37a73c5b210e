"""Run an imported scenario of the task engine in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cosim.adapters.continuum import ADAPTER
from cosim.contract.adapter import Context, Inputs
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan


def ended(file: Path) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any], list[str]]:
    """The tasks that ended, by column; the books; and the names of the nodes."""
    plan = compile_plan(load(file))
    adapter = ADAPTER.build(ADAPTER.load_config()(**plan.adapters[0].config))
    root = str(file.parent)
    adapter.start(Context("continuum", plan.scene, plan.step, plan.duration, (1, 2), root, root))
    frames = [adapter.step(plan.time(tick), Inputs())[0] for tick in range(plan.ticks + 1)]
    rows = {name: np.concatenate([frame[name] for frame in frames]) for name in frames[0].columns}
    return rows, adapter.finish(), [node.id for node in plan.scene.nodes]

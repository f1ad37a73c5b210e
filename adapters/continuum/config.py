"""The adapter's block in a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cosim.bus.adapter import AdapterConfig
from cosim.units import Duration


class ContinuumConfig(AdapterConfig):
    """Who runs what, and what happens to tasks that wait."""

    scheduler: str = Field(
        "least-loaded",
        description="nearest, least-loaded, cloud, local, random, round-robin, hybrid, or module:function",
    )
    threshold: Annotated[float, Field(gt=0.0)] = Field(
        2.0, description="hybrid: tasks per core from which the nearest host is left for the cloud"
    )
    discipline: Literal["sharing", "fcfs"] = Field(
        "sharing", description="processors: all tasks share the cores, or one core per task and a queue"
    )
    patience: Duration = Field(2.0, description="how long a task waits for coverage")
    drop_late: bool = Field(False, description="drop tasks at their deadline instead of completing them late")

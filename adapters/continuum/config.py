"""The adapter's block in a scenario."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from adapters.continuum.network import NetworkConfig
from cosim.bus.adapter import AdapterConfig
from cosim.schedulers import scheduler_names
from cosim.units import Duration


def _known(name: str) -> str:
    """Functions of the user's own are imported when the run starts, not when the scenario is read."""
    names = scheduler_names()
    if ":" not in name and name not in names:
        close = get_close_matches(name, names, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise ValueError(f"there is no scheduler '{name}'{hint} known: {', '.join(names)}, or module:function")
    return name


def _once(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise ValueError("names a signal twice")
    return names


class ContinuumConfig(AdapterConfig):
    """Who runs what, and what happens to tasks that wait."""

    scheduler: Annotated[str, AfterValidator(_known)] = Field(
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
    signals: Annotated[list[Literal["battery", "machine", "accelerator"]], AfterValidator(_once)] = Field(
        [], description="written besides task, host and traffic: battery, machine, accelerator"
    )
    drop_late: bool = Field(False, description="drop tasks at their deadline instead of completing them late")
    network: NetworkConfig | None = Field(
        None, description="access network of its own, in runs where no adapter writes link"
    )

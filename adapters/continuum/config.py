"""The adapter's block in a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from cosim.adapters.continuum.mlsysops import MlsysopsConfig
from cosim.adapters.continuum.network import NetworkConfig
from cosim.contract.adapter import AdapterConfig
from cosim.contract.block import Block, OnlyWith
from cosim.contract.hints import known_or_own
from cosim.contract.plugins import installed
from cosim.contract.signals import NODE_EVENTS, TASK_EVENTS
from cosim.contract.trust import NoCode, Words
from cosim.contract.units import Duration, Period
from cosim.schedulers import BUILTIN, scheduler_names


def _known(name: str) -> str:
    return name if name in BUILTIN else known_or_own(name, (*scheduler_names(), *installed("agents")), "scheduler")


def _once(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise ValueError("names a signal twice")
    return names


EventName = Literal[
    "created", "assigned", "uploaded", "started", "computed", "ended",
    "fail", "recover", "battery-empty", "appear", "vanish", "sleep", "wake", "boot", "ready",
]  # fmt: skip


class TraceConfig(Block):
    """Which tasks and nodes are followed while it happens, see the signals `task_event` and `node_event`."""

    workloads: Literal["all"] | list[Words] = Field("all", description="all, or names; [] for none")
    nodes: Words | list[Words] = Field("all", description="all, or nodes whose own events are reported; [] for none")
    events: Literal["all"] | list[EventName] = Field("all", description="all, or names of events of tasks and nodes")

    def wanted(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The events among `names` that are reported."""
        return tuple(name for name in names if self.events == "all" or name in self.events)

    def signals(self) -> tuple[str, ...]:
        """The signals that are written."""
        tasks = self.workloads != [] and self.wanted(TASK_EVENTS)
        nodes = self.nodes != [] and self.wanted(NODE_EVENTS)
        return (*(("task_event",) if tasks else ()), *(("node_event",) if nodes else ()))


Discipline = Literal["sharing", "fcfs", "priority", "edf"]


class QuotaConfig(Block):
    """CPU time for all tasks on a node together, as the kernel's CFS bandwidth control gives it to a group."""

    period: Period = Field(0.1, description="after which the quota is given again (cpu.cfs_period_us; default 100 ms)")
    quota: Period = Field(description="CPU time of all cores together in a period (cpu.cfs_quota_us)")
    burst: Duration = Field(0.0, description="CPU time left over that is kept at most (cpu.cfs_burst_us)")


class DecidingConfig(Block):
    """A node that works on each decision before it is made."""

    on: Words = Field(description="node whose cores do it, beside the tasks that it computes")
    takes: Literal["measured"] | Period = Field(
        alias="as",
        description="time that a core takes for one at its full clock; or measured: the CPU time that the policy took "
        "for the one before",
    )


class AutoscaleConfig(Block):
    """Hosts of a kind that start and stop, one at a time; those that are off cost nothing to own."""

    least: int = Field(1, ge=1, description="hosts that always run; the first ones of the file do at the start")
    start: float = Field(description="tasks per core of the running and booting hosts above which one is started", gt=0)
    stop: float = Field(
        description="tasks per core below which one takes no more tasks, and goes off without any", ge=0
    )
    every: Period = Field(10.0, description="time between two looks (default 10 s)")

    @model_validator(mode="after")
    def _apart(self) -> AutoscaleConfig:
        if self.stop >= self.start:
            raise ValueError(f"'stop' is {self.stop:g}, not below 'start', {self.start:g}")
        return self


class FailureConfig(Block):
    """Failures that come by themselves, with exponential times up and down."""

    mtbf: Period = Field(description="mean time up, from a repair to the next failure")
    repair: Period = Field(description="mean time to repair")


class ContinuumConfig(AdapterConfig):
    """Who runs what, and what happens to tasks that wait."""

    scheduler: Annotated[str, AfterValidator(_known), NoCode()] = Field(
        "least-loaded",
        description="a name that `cosim schedulers` lists for continuum, or module:function",
    )
    decide: Period | None = Field(
        None,
        description="time between two decisions of a policy that decides per interval, for which tasks wait; "
        "default: it decides when a task is made",
    )
    deciding: DecidingConfig | None = Field(None, description="decisions take time; default: none")
    threshold: Annotated[float, Field(gt=0.0), OnlyWith("scheduler", "hybrid")] = Field(
        2.0, description="hybrid: tasks per core from which the nearest host is left for the cloud"
    )
    discipline: Discipline | dict[Words, Discipline] = Field(
        "sharing",
        description="processors: sharing the cores among all tasks; or one core per task and a queue, served fcfs, "
        "by priority, or edf (earliest deadline first); one for all, or by kind of node",
    )
    preemption: Annotated[bool, OnlyWith("discipline", "priority", "edf")] = Field(
        False,
        description="priority and edf: a task that comes takes the core of a less urgent one",
    )
    priorities: Annotated[dict[Words, int], OnlyWith("discipline", "priority")] = Field(
        {}, description="class of each workload's tasks, the lowest first; 0 if not named"
    )
    quotas: dict[Words, QuotaConfig] = Field({}, description="CPU quota of every node of a kind")
    autoscale: dict[Words, AutoscaleConfig] = Field({}, description="hosts of a kind that start and stop by their load")
    failures: dict[Words, FailureConfig] = Field(
        {}, description="nodes of a kind that fail by themselves; `links` for the fixed links"
    )
    mlsysops: MlsysopsConfig | None = Field(
        None, description="scheduler `mlsysops`: policy files of the MLSysOps framework"
    )
    patience: Duration = Field(2.0, description="how long a task waits for coverage")
    signals: Annotated[list[Literal["battery", "machine", "accelerator"]], AfterValidator(_once)] = Field(
        [], description="written besides task, host and traffic: battery, machine, accelerator"
    )
    trace: TraceConfig | None = Field(None, description="events of tasks and nodes as they happen")
    leave: list[Words] = Field(
        [], description="workloads whose share that live nodes get is never made here where they can attach"
    )
    threads: int = Field(
        1,
        ge=1,
        le=256,
        description="threads for parts of a large system that do not meet within a step; how many changes no result",
    )
    drop_late: bool = Field(False, description="drop tasks at their deadline instead of completing them late")
    network: NetworkConfig | None = Field(
        None, description="access network of its own, in runs where no adapter writes link"
    )

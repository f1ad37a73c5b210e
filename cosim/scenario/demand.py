"""What tasks are made of and what is agreed about them: stages of a graph, agreements, tariffs of energy."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from cosim.contract.block import Block, Name, Selector
from cosim.contract.declared import keys_of
from cosim.contract.entities import AgreementQuantities, GreenWindow, TariffQuantities, TariffWindow
from cosim.contract.laws import Law
from cosim.contract.quantity import carried
from cosim.contract.trust import FileName, NoCode
from cosim.contract.units import Duration, Period
from cosim.scenario.hardware import AcceleratorName, LawOfOperations
from cosim.scenario.text import LawOfBytes, LawOfWork

Rule = Annotated[str, Field(pattern=r"^(violation|excess|period|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$"), NoCode()]


class StageBlock(Block):
    """A stage of a workload's graph: a task that starts when the outputs of all stages before it are there."""

    work: LawOfWork = Field(description="processor cycles")
    output: LawOfBytes = Field(
        Law(law="fixed", a=0.0), description="sent to each stage that follows, and to the device when none follows"
    )
    after: list[Name] = Field([], description="the stages whose outputs it needs; none: it gets the job's input")
    accelerator: dict[AcceleratorName, LawOfOperations] | None = Field(
        None, min_length=1, max_length=1, description="kind -> operations on it, after the processor's work"
    )
    where: Literal["any", "device"] = Field("any", description="device: it runs where the job was made")


def ordered(graph: dict[str, StageBlock]) -> list[str]:
    """The names of the stages, each behind those that it comes after. Raises `ValueError` when that cannot be."""
    for name, stage in graph.items():
        for before in stage.after:
            if before not in graph:
                known = ", ".join(graph)
                raise ValueError(f"stage '{name}' comes after '{before}', which is no stage; there are {known}")
        if len(set(stage.after)) < len(stage.after):
            raise ValueError(f"stage '{name}' names a stage twice in 'after'")
    left, order = dict(graph), list[str]()
    while left:
        ready = [name for name, stage in left.items() if not any(before in left for before in stage.after)]
        if not ready:
            raise ValueError(f"the stages {', '.join(left)} wait for each other")
        order.append(ready[0])
        del left[ready[0]]
    return order


class AffinityBlock(Block):
    """Nodes and workloads that tasks are bound to, or kept away from; as required affinity in Kubernetes."""

    hosts: Selector | None = Field(None, description="names with * and ?, kind:NAME, tier:NAME, or lists of these")
    workloads: list[Name] = Field([], description="those that have tasks on the host when a task is given to it")

    @model_validator(mode="after")
    def _names_something(self) -> AffinityBlock:
        if self.hosts is None and not self.workloads:
            raise ValueError("give 'hosts' or 'workloads'")
        return self


@keys_of(AgreementQuantities)
class SlaBlock(Block):
    """A service-level agreement about the tasks of a workload."""

    per: Rule = Field(
        "violation",
        description="violation, excess (per second over the response), period (below target), or module:function",
    )

    @model_validator(mode="after")
    def _has_period(self) -> SlaBlock:
        if self.per == "period" and not AgreementQuantities(**carried(self, AgreementQuantities)).period:
            raise ValueError("'per: period' needs 'period'")
        return self


class SpanBlock(Block):
    """A part of the time, which may come again."""

    model_config = ConfigDict(populate_by_name=True)
    begin: Duration = Field(alias="from", description="since the start, or since the last repetition")
    end: Period = Field(alias="to", description="end of the window")

    @model_validator(mode="after")
    def _is_one(self) -> SpanBlock:
        if self.end <= self.begin:
            raise ValueError("'to' is not after 'from'")
        return self


@keys_of(TariffWindow)
class WindowBlock(SpanBlock):
    """A time in which energy has another price."""


@keys_of(GreenWindow)
class GreenBlock(SpanBlock):
    """A time in which energy is green, or a part of it, for example while there is sun."""


@keys_of(TariffQuantities)
class TariffBlock(Block):
    """What energy costs and emits over time; nodes name it in `cost: {tariff: ...}`."""

    windows: list[WindowBlock] = Field([], description="times with other values; they must not overlap")
    prices: FileName | None = Field(
        None, description="file of prices per kWh, one a line, or lines of: time in s, price"
    )
    carbons: FileName | None = Field(None, description="file of g/kWh, in the same form")
    green: list[GreenBlock] = Field([], description="times with green energy; they must not overlap")

    @model_validator(mode="after")
    def _one_source(self) -> TariffBlock:
        if self.windows and (self.prices is not None or self.carbons is not None):
            raise ValueError("give 'windows' or files, not both")
        for name, spans in (("the windows", self.windows), ("the windows of 'green'", self.green)):
            ends = sorted((span.begin, span.end) for span in spans)
            if any(second[0] < first[1] for first, second in pairwise(ends)):
                raise ValueError(f"{name} overlap")
            if ends and ends[-1][1] > carried(self, TariffQuantities).get("repeat", inf):
                raise ValueError("a window ends after 'repeat'")
        return self

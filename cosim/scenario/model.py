"""The scenario as its author writes it, as pydantic models.

One class per block of the YAML file. Field names are the YAML keys; every quantity is text with a
unit (`cosim.contract.units`) and is held in SI. `docs/schema/scenario.v1.json` is generated from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, create_model, model_validator

from cosim.contract import units
from cosim.contract.block import Block, EventKey, Name, NodeKey, OnlyWith, Selector
from cosim.contract.declared import keys_of
from cosim.contract.entities import EventQuantities, HostQuantities, WorkloadQuantities
from cosim.contract.laws import Law
from cosim.contract.link import LinkQuantities
from cosim.contract.node_keys import Battery, Cell, LinkKeys, Live, Radio, RadioEnergy, Software, Uplink, Wifi
from cosim.contract.quantity import carried
from cosim.contract.trust import Trusted, Values, Words
from cosim.contract.units import Duration, Fraction, Period, Power, Speed
from cosim.scenario.calibrate import CalibrateBlock
from cosim.scenario.calibrated import CalibratedBlock
from cosim.scenario.demand import AffinityBlock, SlaBlock, StageBlock, TariffBlock, ordered
from cosim.scenario.hardware import (
    AcceleratorBlock,
    AcceleratorName,
    BootBlock,
    Cost,
    LawOfOperations,
    ScalingBlock,
    SleepBlock,
    WorkClass,
)
from cosim.scenario.placement import Place
from cosim.scenario.text import ArrivalLaw, Arrivals, Cpu, CpuText, LawOfBytes, LawOfWork, Origin, Pacing, PacingText

Tier = Literal["device", "edge", "cloud"]


class LagBlock(Block):
    """What to do when a paced run cannot keep up with the wall clock."""

    policy: Literal["wait", "report", "strict"] | None = Field(
        None,
        description="wait: shift the deadlines; report: catch up and record the lag; strict: fail the run. Default: "
        "wait where a node says 'missing: wait', whose tasks would come in a burst otherwise; report elsewhere",
    )
    warn: Period = Field(0.1, description="a tick later than this is counted as late")
    fail: Annotated[Period, OnlyWith("policy", "strict")] = Field(
        2.0, description="under the policy strict, the lag that ends the run"
    )


class RunBlock(Block):
    """How long, how fine, with which seed, how fast."""

    duration: Period = Field(description="simulated time; a whole number of steps")
    step: Period = Field(1.0, description="time between two ticks of the bus")
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = Field(1, description="root of all random streams")
    nodes: Annotated[Literal["process", "netns", "containers"], Trusted("starts programs")] = Field(
        "process",
        description="where nodes with `runs` are: simulated in this process, in network namespaces, or in containers",
    )
    pacing: PacingText = Field(Pacing(factor=0.0), description="as-fast-as-possible, real-time, or a factor: 10 x")
    lag: LagBlock = Field(LagBlock.si(), description="what to do when a paced run falls behind")
    timeout: Annotated[float, units.Unit("time", gt=0.0)] = Field(
        60.0, description="limit of every wait for an adapter in another process"
    )


class GeoBlock(Block):
    """WGS84 <-> local east-north-up: `origin: [latitude, longitude, height]`."""

    origin: Annotated[tuple[float, float, float], Origin()] = Field(description="latitude, longitude, height")


class PowerBlock(Block):
    """Electrical power: a law between idle and max, or a table of equal steps from 0 to 100 % load."""

    idle: Annotated[Power, OnlyWith("table", None)] = Field(0.0, description="at no load")
    max: Annotated[Power, OnlyWith("table", None)] = Field(0.0, description="at full load")
    law: Annotated[Literal["linear", "cubic"], OnlyWith("table", None)] = Field(
        "linear", description="of the load, between idle and max"
    )
    table: list[Power] | None = Field(
        None, min_length=2, max_length=101, description="from no load to full load in equal steps; instead of idle, max"
    )
    source: Words = Field("", description="where the figures come from")


@keys_of(HostQuantities)
class KindBlock(Block):
    """What nodes of one kind have in common; a node, its groups and `defaults` use the same keys."""

    kind: Name | None = Field(None, description="the kind whose keys this one starts from")
    tier: Tier | None = Field(None, description="device: makes tasks; edge and cloud: run them")
    at: Place | None = Field(
        None, description="east, north[, up] of the origin; for a range of nodes also a law, a grid or a file of points"
    )
    cpu: CpuText | None = Field(None, description="cores x clock; without it the node runs nothing")
    accelerators: dict[AcceleratorName, AcceleratorBlock] | None = Field(
        None, description="kind -> units x speed, for the tasks that ask for one"
    )
    power: PowerBlock | None = Field(None, description="electrical power over load")
    scaling: ScalingBlock | None = Field(None, description="frequency and voltage scaling of the processor")
    sleep: SleepBlock | None = Field(None, description="a host without tasks falls asleep")
    boot: BootBlock | None = Field(None, description="a host that has recovered boots first")
    battery: Battery | None = Field(None, description="what the node lives on")
    radio: Radio | None = Field(None, description="radio of a device")
    cell: Cell | None = Field(None, description="radio cell of a base station")
    cost: Cost | None = Field(None, description="prices of using the node")
    radio_energy: dict[Name, RadioEnergy] | None = Field(
        None, description="by the technology of the cell; other cells: radio_energy_sent, radio_energy_received"
    )
    wifi: Wifi | None = Field(None, description="a Wi-Fi interface, for the wifi adapter")
    runs: Software | None = Field(None, description="its software when nodes are containers or namespaces")
    live: Live | None = Field(None, description="a real machine takes this node's place")
    uplink: Annotated[Uplink | None, Trusted("lets programs of a node reach the host's network")] = Field(
        None, description="its software reaches the host's network by an emulated link; default: it does not"
    )
    missing: Literal["fail", "model", "wait"] = Field(
        "model", description="while its container or machine is absent: end the run, simulate the node, or wait"
    )
    color: Annotated[Words, Field(pattern=r"^#[0-9a-fA-F]{6}$")] | None = Field(None, description="on maps: #rrggbb")


class NodeBlock(KindBlock):
    """A node, a numbered range of nodes (`uav-[1..3]`), or a fleet (`fleet: sumo`)."""

    fleet: Name | None = Field(None, description="the adapter whose moving objects are the members")
    capacity: Annotated[int, Field(ge=1, le=2_000_000, strict=True)] = Field(
        10_000, description="most members at the same time"
    )


class GroupBlock(KindBlock):
    """Keys shared by several nodes, whatever their kind."""

    members: list[Words] | Words = Field(description="names of nodes, with * and ?")


@keys_of(LinkQuantities)
class LinkBlock(LinkKeys):
    """A link between two selections of nodes."""

    between: Annotated[list[Selector], Field(min_length=2, max_length=2)] = Field(
        description="two selections: names with * and ?, kind:NAME, tier:NAME, or lists of these"
    )


@keys_of(WorkloadQuantities)
class WorkloadBlock(Block):
    """A stream of tasks that the selected nodes make."""

    model_config = ConfigDict(populate_by_name=True)
    source: Selector = Field(alias="from", description="the nodes that make the tasks")
    arrivals: ArrivalLaw = Field(description="of each node: poisson 2 Hz, every 500 ms, a bag of tasks, or a trace")
    input: LawOfBytes = Field(Law(law="fixed", a=0.0), description="sent to the host")
    output: LawOfBytes = Field(Law(law="fixed", a=0.0), description="sent back")
    work: LawOfWork | None = Field(None, description="processor cycles of a task without a graph")
    graph: dict[Name, StageBlock] = Field({}, description="stages of a job, instead of work: name -> its keys")
    accelerator: dict[AcceleratorName, LawOfOperations] | None = Field(
        None, min_length=1, max_length=1, description="kind -> operations on it, after the processor's work"
    )
    work_class: Annotated[WorkClass, OnlyWith("sensitivity", None)] = Field(
        "compute", alias="class", description="by what a slower clock makes the work longer: all of it, or a part"
    )
    sensitivity: Fraction | None = Field(
        None, description="c in 1 + c (f_max / f - 1), how much longer work takes at clock f; default: by the class"
    )
    sla: SlaBlock | None = Field(None, description="what is agreed about response times, and what violations cost")
    affinity: AffinityBlock | None = Field(
        None, description="its tasks run on these hosts alone, and only where these workloads have tasks"
    )
    anti_affinity: AffinityBlock | None = Field(
        None, description="its tasks never run on these hosts, nor where these workloads have tasks, and vice versa"
    )

    @model_validator(mode="after")
    def _both_phases(self) -> WorkloadBlock:
        written = self.quantities
        if bool(written.active) != bool(written.idle):
            raise ValueError("'active' and 'idle' go together: give both or neither")
        if written.stop <= written.start:
            raise ValueError("'stop' is not after 'start'")
        if written.active and self.arrivals.law in ("bag", "trace"):
            raise ValueError(f"'active' and 'idle' do not go with '{self.arrivals.law}' arrivals")
        return self

    @property
    def quantities(self) -> WorkloadQuantities:
        """Its plain numbers, with the defaults of those that are left out."""
        return WorkloadQuantities(**carried(self, WorkloadQuantities))

    @model_validator(mode="after")
    def _is_task_or_graph(self) -> WorkloadBlock:
        if (self.work is None) == (not self.graph):
            raise ValueError("give 'work' or 'graph'" + (", not both" if self.graph else ""))
        if self.graph:
            ordered(self.graph)
            if self.output != Law(law="fixed", a=0.0):
                raise ValueError("a graph has no 'output' of its own: its last stages have")
            if self.accelerator is not None:
                raise ValueError("a graph has no 'accelerator' of its own: its stages have")
        return self


@keys_of(EventQuantities)
class EventBlock(Block):
    """Something that happens at a time: a node fails, a link degrades."""

    at: Duration = Field(description="when")
    do: Literal["fail", "recover", "degrade", "restore"] = Field(description="fail, recover: nodes; others: links")
    node: Selector | None = Field(None, description="the nodes that fail or recover")
    link: Words | None = Field(None, description="two selectors joined by a slash: uav-2/edge-1")
    duration: Period | None = Field(None, alias="for", description="after which it is undone")

    @model_validator(mode="after")
    def _has_target(self) -> EventBlock:
        if BUILT_IN_EVENTS[self.do].target == "node":
            if self.node is None or self.link is not None:
                raise ValueError(f"'do: {self.do}' needs 'node'; a link fails by 'do: degrade' with 'loss: 100 %'")
        elif self.link is None or self.node is not None or self.link.count("/") != 1:
            raise ValueError(f"'do: {self.do}' needs 'link: a/b' and no 'node'")
        return self


@dataclass(frozen=True)
class BuiltInEvent:
    """An event of every scenario: what it happens to, the event that ends it ("": it has no end), and its meaning."""

    target: Literal["node", "link"]
    undo: str
    meaning: str


BUILT_IN_EVENTS: Mapping[str, BuiltInEvent] = {
    "degrade": BuiltInEvent("link", "restore", "A link becomes slower, loses more, or takes longer."),
    "fail": BuiltInEvent("node", "recover", "A node stops working."),
    "recover": BuiltInEvent("node", "", "A failed node works again."),
    "restore": BuiltInEvent("link", "", "A degraded link is as it was."),
}


class RecordBlock(Block):
    """What of a signal is kept: every how many seconds, which columns, which nodes."""

    every: Period | None = Field(None, description="time between kept rows; default: every step of the adapter")
    columns: list[Words] | None = Field(None, description="the columns kept; default: all")
    nodes: Selector | None = Field(None, description="the nodes kept; default: all")
    keep: bool = Field(True, description="false: nothing of this signal")
    summary: Period | None = Field(None, description="keep statistics over so long instead of rows: counts, quantiles")
    by: list[Words] | None = Field(
        None, description="columns by which statistics are grouped: codes and nodes; default: all codes"
    )


class Scenario(Block):
    """A whole scenario file after includes, overrides and unit conversion."""

    apiVersion: Literal["cosim/v1"] = Field(description="version of this format")  # noqa: N815 - the field's usual key
    kind: Literal["Scenario"] = Field(description="what the file describes")
    name: Annotated[Words, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] = Field(
        description="small letters, digits and '-'; names the folder of its runs"
    )
    title: Words = Field("", description="one line, for people")
    description: Words = Field("", description="what the scenario is about")
    run: RunBlock
    parameters: dict[Name, Words | int | float | bool] = Field(
        {}, description="name -> value; used as ${NAME} in any text, and in ranges of nodes: edge-[1..NAME]"
    )
    geo: GeoBlock | None = Field(None, description="where on earth the local frame lies")
    adapters: dict[Name, dict[Words, Values]] = Field(min_length=1, description="adapter name -> its own keys")
    defaults: KindBlock = Field(KindBlock.si(), description="keys of all nodes")
    kinds: dict[Name, KindBlock] = Field({}, description="kinds of nodes, beyond those built in")
    groups: dict[Name, GroupBlock] = Field({}, description="keys shared by named sets of nodes")
    nodes: dict[Words, NodeBlock] = Field(min_length=1, description="name, or name-[1..n] -> its keys")
    links: list[LinkBlock] = Field([], description="wired links; radio links come from the radio adapter")
    workloads: dict[Name, WorkloadBlock] = Field({}, description="streams of tasks")
    tariffs: dict[Name, TariffBlock] = Field({}, description="prices and carbon intensities of energy over time")
    events: list[EventBlock] = Field([], description="failures and degradations, and their ends")
    record: dict[Words, RecordBlock] = Field(
        {}, description="signal, or * for all -> what is kept; default: everything"
    )
    sweep: dict[Words, Values] = Field({}, description="dotted key -> values; `cosim sweep` runs all combinations")
    calibrated: dict[Name, CalibratedBlock] = Field({}, description="where values of included overlays come from")
    calibrate: CalibrateBlock | None = Field(None, description="`cosim calibrate` moves values towards measurements")


@cache
def scenario_with(keys: tuple[tuple[str, type[NodeKey]], ...], events: tuple[type[EventKey], ...]) -> type[Scenario]:
    """The model of a scenario whose adapters bring keys of nodes and events of their own."""
    if not keys and not events:
        return Scenario
    own: dict[str, Any] = {key: (block | None, Field(None, description=_summary(block))) for key, block in keys}
    kind = create_model("KindBlock", __base__=KindBlock, __doc__=KindBlock.__doc__, **own)
    group = create_model("GroupBlock", __base__=GroupBlock, __doc__=GroupBlock.__doc__, **own)
    node = create_model("NodeBlock", __base__=NodeBlock, __doc__=NodeBlock.__doc__, **own)
    fields: dict[str, Any] = {
        "defaults": (kind, _like("defaults", kind.si())),
        "kinds": (dict[Name, kind], _like("kinds", {})),
        "groups": (dict[Name, group], _like("groups", {})),
        "nodes": (dict[Words, node], Field(min_length=1, description=Scenario.model_fields["nodes"].description)),
    }
    if events:
        every: Any = reduce(or_, events, EventBlock)
        fields["events"] = (list[Annotated[every, Field(discriminator="do")]], _like("events", []))
    return create_model("Scenario", __base__=Scenario, __doc__=Scenario.__doc__, **fields)


def _like(name: str, default: object) -> Any:  # noqa: ANN401 - as pydantic's Field
    return Field(default, description=Scenario.model_fields[name].description)


def _summary(model: type[Block]) -> str:
    """The first line of a class's docstring, as a description."""
    line = (model.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return line[:1].lower() + line[1:]


__all__ = [
    "Arrivals", "Cell", "Cost", "Cpu", "EventBlock", "GroupBlock", "KindBlock", "Law", "LinkBlock",
    "NodeBlock", "Pacing", "PowerBlock", "Radio", "RecordBlock", "RunBlock", "Scenario", "Speed", "WorkloadBlock",
]  # fmt: skip

"""The scenario as its author writes it, as pydantic models.

One class per block of the YAML file. Field names are the YAML keys; every quantity is text with a
unit (`cosim.units`) and is held in SI. `docs/schema/scenario.v1.json` is generated from here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cosim import units
from cosim.scenario.text import (
    ArrivalLaw,
    Arrivals,
    Cpu,
    CpuText,
    Law,
    LawOfBytes,
    LawOfWork,
    Origin,
    Pacing,
    PacingText,
)
from cosim.units import (
    BitRate,
    Bytes,
    Distance,
    Duration,
    EnergyPerBit,
    Fraction,
    Frequency,
    Gain,
    Length,
    Level,
    Period,
    Power,
    PricePerBytes,
    PricePerEnergy,
    PricePerTime,
    Speed,
)

NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"
Name = Annotated[str, Field(pattern=rf"^{NAME}$")]
Tier = Literal["device", "edge", "cloud"]


class Block(BaseModel):
    """A block of the file: unknown keys are errors, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants", defer_build=True)


Position = Annotated[list[Length], Field(min_length=2, max_length=3, description="east, north[, up] in metres")]


class LagBlock(Block):
    """What to do when a paced run cannot keep up with the wall clock."""

    policy: Literal["wait", "report", "strict"] = Field(
        "report", description="wait: shift the deadlines; report: catch up and record the lag; strict: fail the run"
    )
    warn: Period = 0.1
    fail: Period = 2.0


class RunBlock(Block):
    """How long, how fine, with which seed, how fast."""

    duration: Period
    step: Period = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = 1
    pacing: PacingText = Pacing(factor=0.0)
    lag: LagBlock = LagBlock()
    timeout: Annotated[float, units.Unit("time", gt=0.0)] = Field(
        60.0, description="limit of every wait for an adapter in another process"
    )


class GeoBlock(Block):
    """WGS84 <-> local east-north-up: `origin: [latitude, longitude, height]`."""

    origin: Annotated[tuple[float, float, float], Origin()]  # deg, deg, m


class PowerBlock(Block):
    """Electrical power: linear between idle and max, or a table of equal steps from 0 to 100 % load."""

    idle: Power = 0.0
    max: Power = 0.0
    table: list[Power] | None = Field(None, min_length=2, max_length=101)
    source: str = Field("", description="where the figures come from")


class RadioBlock(Block):
    """The radio of a device (user equipment)."""

    power: Level = Field(23.0, description="transmit power; 3GPP TS 38.101-1 power class 3")
    gain: Gain = 0.0
    noise_figure: Gain = Field(9.0, description="3GPP TR 38.901 table 7.8-1 convention for user equipment")
    height: Distance = 1.5


class CellBlock(Block):
    """The radio cell of a base station."""

    power: Level = Field(30.0, description="transmit power")
    gain: Gain = 8.0
    noise_figure: Gain = Field(5.0, description="3GPP convention for a gNB")
    height: Distance = 10.0
    carrier: Frequency = 3.5e9
    bandwidth: Frequency = 20e6


class CostBlock(Block):
    """Pay-per-use prices, in one currency for the whole scenario."""

    cpu: PricePerTime = Field(0.0, description="per second of a busy core")
    transfer: PricePerBytes = 0.0
    energy: PricePerEnergy = 0.0


class KindBlock(Block):
    """What nodes of one kind have in common; a node, its groups and `defaults` use the same keys."""

    kind: Name | None = Field(None, description="the kind whose keys this one starts from")
    tier: Tier | None = None
    at: Position | None = None
    cpu: CpuText | None = None
    memory: Bytes | None = None
    slots: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = Field(
        None, description="tasks a host admits at once, running and waiting; more are refused (capacity)"
    )
    power: PowerBlock | None = None
    radio: RadioBlock | None = None
    cell: CellBlock | None = None
    cost: CostBlock | None = None
    radio_energy_sent: EnergyPerBit | None = None
    radio_energy_received: EnergyPerBit | None = None
    color: Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")] | None = None


class NodeBlock(KindBlock):
    """A node, a numbered range of nodes (`uav-[1..3]`), or a fleet (`fleet: sumo`)."""

    fleet: Name | None = Field(None, description="the adapter whose moving objects are the members")
    capacity: Annotated[int, Field(ge=1, le=2_000_000, strict=True)] = Field(
        10_000, description="most members at the same time"
    )


class GroupBlock(KindBlock):
    """Keys shared by several nodes, whatever their kind."""

    members: list[str] | str


Selector = str | list[str]


class LinkBlock(Block):
    """A link between two selections of nodes, the same in both directions."""

    between: Annotated[list[Selector], Field(min_length=2, max_length=2)]
    rate: BitRate = 1e9
    delay: Duration = 0.0
    loss: Fraction = 0.0
    energy: EnergyPerBit = 0.0


class WorkloadBlock(Block):
    """A stream of tasks that the selected nodes make."""

    model_config = ConfigDict(populate_by_name=True)
    source: Selector = Field(alias="from")
    arrivals: ArrivalLaw
    input: LawOfBytes = Law(law="fixed", a=0.0)
    output: LawOfBytes = Law(law="fixed", a=0.0)
    work: LawOfWork
    deadline: Period | None = None
    share: Fraction = Field(1.0, description="part of the selected nodes that make this workload")
    active: Period | None = Field(None, description="mean length of the active phase; with idle: on/off source")
    idle: Period | None = None
    start: Duration = 0.0
    stop: Period | None = None

    @model_validator(mode="after")
    def _both_phases(self) -> WorkloadBlock:
        if (self.active is None) != (self.idle is None):
            raise ValueError("'active' and 'idle' go together: give both or neither")
        if self.stop is not None and self.stop <= self.start:
            raise ValueError("'stop' is not after 'start'")
        return self


class EventBlock(Block):
    """Something that happens at a time: a node fails, a link degrades."""

    at: Duration
    do: Literal["fail", "recover", "degrade", "restore"]
    node: Selector | None = None
    link: str | None = Field(None, description="two selectors joined by a slash: uav-2/edge-1")
    duration: Period | None = Field(None, alias="for")
    delay: Duration = 0.0
    loss: Fraction = 0.0
    rate: Fraction = 1.0

    @model_validator(mode="after")
    def _has_target(self) -> EventBlock:
        if self.do in ("fail", "recover"):
            if self.node is None or self.link is not None:
                raise ValueError(f"'do: {self.do}' needs 'node' and no 'link'")
        elif self.link is None or self.node is not None or self.link.count("/") != 1:
            raise ValueError(f"'do: {self.do}' needs 'link: a/b' and no 'node'")
        return self


class RecordBlock(Block):
    """What of a signal is kept: every how many seconds, which columns, which nodes."""

    every: Period | None = None
    columns: list[str] | None = None
    nodes: Selector | None = None
    keep: bool = True


class Scenario(Block):
    """A whole scenario file after includes, overrides and unit conversion."""

    apiVersion: Literal["cosim/v1"]  # noqa: N815 - the key that configuration files of this field use
    kind: Literal["Scenario"]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    title: str = ""
    description: str = ""
    run: RunBlock
    geo: GeoBlock | None = None
    adapters: dict[Name, dict[str, Any]] = Field(min_length=1, description="adapter name -> its own keys")
    defaults: KindBlock = KindBlock()
    kinds: dict[Name, KindBlock] = {}
    groups: dict[Name, GroupBlock] = {}
    nodes: dict[str, NodeBlock] = Field(min_length=1)
    links: list[LinkBlock] = []
    workloads: dict[Name, WorkloadBlock] = {}
    events: list[EventBlock] = []
    record: dict[str, RecordBlock] = {}
    sweep: dict[str, Any] = {}


__all__ = [
    "Arrivals", "CellBlock", "CostBlock", "Cpu", "EventBlock", "GroupBlock", "KindBlock", "Law", "LinkBlock",
    "NodeBlock", "Pacing", "PowerBlock", "RadioBlock", "RecordBlock", "RunBlock", "Scenario", "Speed", "WorkloadBlock",
]  # fmt: skip

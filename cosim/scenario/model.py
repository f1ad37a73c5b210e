"""The scenario as its author writes it, as pydantic models.

One class per block of the YAML file. Field names are the YAML keys; every quantity is text with a
unit (`cosim.units`) and is held in SI. `docs/schema/scenario.v1.json` is generated from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from cosim import units
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

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class Law(BaseModel):
    """A probability law over a quantity, in SI: `fixed` a, `exponential` mean a, `uniform` a..b."""

    model_config = ConfigDict(frozen=True)
    law: Literal["fixed", "exponential", "uniform"]
    a: float
    b: float = 0.0

    @property
    def mean(self) -> float:
        return (self.a + self.b) / 2 if self.law == "uniform" else self.a


class TextForm:
    """Pydantic marker: the field is written as text, read by `read` and printed by `write`.

    `read` gets whatever the file holds and raises `ValueError`; a `value_type` passes as it is.
    `schema` is its JSON schema beside ``type: string``.
    """

    def __init__(
        self,
        value_type: type[BaseModel],
        read: Callable[[object], BaseModel],
        write: Callable[[Any], str],  # the value that `read` returned
        schema: dict[str, Any],  # JSON values
    ) -> None:
        self.value_type, self.read, self.write, self.schema = value_type, read, write, schema

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda found: found if isinstance(found, self.value_type) else self.read(found),
            serialization=core_schema.plain_serializer_function_ser_schema(
                self.write, return_schema=core_schema.str_schema()
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", **self.schema}


class LawText(TextForm):
    """A law over `dimension`: `180 kB`, `exponential 180 kB` or `uniform 10 kB .. 20 kB`."""

    def __init__(self, dimension: str) -> None:
        self.dimension = dimension
        self.sample = {"bytes": "180 kB", "work": "90 Mcycles"}[dimension]
        super().__init__(Law, self._read, self._write, {
            "pattern": rf"^\s*(exponential\s+|uniform\s+\S.*\.\.\s*)?{units.pattern(dimension)}\s*$",
            "description": f"a {dimension}: fixed, or drawn from a law",
            "examples": [self.sample, f"exponential {self.sample}", f"uniform {self.sample} .. {self.sample}"],
        })  # fmt: skip

    def _read(self, text: object) -> Law:
        word, _, rest = text.strip().partition(" ") if isinstance(text, str) else ("", "", "")
        if word == "exponential":
            return Law(law="exponential", a=self._amount(rest))
        if word == "uniform":
            low, dots, high = rest.partition("..")
            if not dots:
                raise ValueError(f"'{text}' needs two bounds, for example 'uniform {self.sample} .. {self.sample}'")
            a, b = self._amount(low), self._amount(high)
            if b < a:
                raise ValueError(f"the upper bound of '{text}' is below the lower one")
            return Law(law="uniform", a=a, b=b)
        return Law(law="fixed", a=self._amount(text))

    def _write(self, value: Law) -> str:
        shown = units.show(value.a, self.dimension)
        if value.law == "uniform":
            return f"uniform {shown} .. {units.show(value.b, self.dimension)}"
        return shown if value.law == "fixed" else f"{value.law} {shown}"

    def _amount(self, text: object) -> float:
        value = units.parse(text, self.dimension)
        if value < 0:
            raise ValueError(f"'{text}' must not be negative")
        return value


LawOfBytes = Annotated[Law, LawText("bytes")]
LawOfWork = Annotated[Law, LawText("work")]


class Arrivals(BaseModel):
    """When a node makes tasks: `poisson 2 Hz` or `every 500 ms`."""

    model_config = ConfigDict(frozen=True)
    law: Literal["poisson", "every"]
    rate: float  # 1/s


def _read_arrivals(text: object) -> Arrivals:
    if isinstance(text, str):
        word, _, rest = text.strip().partition(" ")
        if word == "poisson":
            rate = units.parse(rest, "frequency")
            if rate > 0:
                return Arrivals(law="poisson", rate=rate)
        if word == "every":
            period = units.parse(rest, "time")
            if period > 0:
                return Arrivals(law="every", rate=1 / period)
    raise ValueError(f"{text!r} is not an arrival law; write 'poisson 2 Hz' or 'every 500 ms'")


def _write_arrivals(value: Arrivals) -> str:
    if value.law == "poisson":
        return f"poisson {units.show(value.rate, 'frequency')}"
    return f"every {units.show(1 / value.rate, 'time')}"


ArrivalLaw = Annotated[
    Arrivals,
    TextForm(
        Arrivals,
        _read_arrivals,
        _write_arrivals,
        {
            "pattern": rf"^\s*(poisson\s+{units.pattern('frequency')}|every\s+{units.pattern('time')})\s*$",
            "description": "when tasks are made: at random with a mean rate, or one per period",
            "examples": ["poisson 2 Hz", "every 500 ms"],
        },
    ),
]


class Cpu(BaseModel):
    """Cores and their clock, written `4 x 1.8 GHz` or `1.8 GHz`."""

    model_config = ConfigDict(frozen=True)
    cores: int
    clock: float  # Hz = cycles/s per core


def _read_cpu(text: object) -> Cpu:
    if isinstance(text, str):
        match = re.fullmatch(r"\s*(?:(\d{1,6})\s*x\s*)?(\S.*)", text, re.ASCII)
        if match:
            try:
                clock = units.parse(match[2], "frequency")
            except ValueError as error:
                raise ValueError(f"'{text[:60]}' is not a processor such as '4 x 1.8 GHz': {error}") from None
            cores = int(match[1] or 1)
            if clock > 0 and cores > 0:
                return Cpu(cores=cores, clock=clock)
    raise ValueError(f"{text!r} is not a processor; write cores x clock, for example '4 x 1.8 GHz'")


def _write_cpu(value: Cpu) -> str:
    return f"{value.cores} x {units.show(value.clock, 'frequency')}"


CpuText = Annotated[
    Cpu,
    TextForm(
        Cpu,
        _read_cpu,
        _write_cpu,
        {
            "pattern": rf"^\s*(\d+\s*x\s*)?{units.pattern('frequency')}\s*$",
            "description": "cores x clock",
            "examples": ["4 x 1.8 GHz"],
        },
    ),
]

Position = Annotated[list[Length], Field(min_length=2, max_length=3, description="east, north[, up] in metres")]


class Pacing(BaseModel):
    """How simulated time follows the wall clock: factor 0 = as fast as possible, 1 = real time."""

    model_config = ConfigDict(frozen=True)
    factor: float


def _read_pacing(text: object) -> Pacing:
    if text == "as-fast-as-possible":
        return Pacing(factor=0.0)
    if text == "real-time":
        return Pacing(factor=1.0)
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*x\s*", text, re.ASCII) if isinstance(text, str) else None
    if match and float(match[1]) > 0:
        return Pacing(factor=float(match[1]))
    raise ValueError(f"{text!r} is not a pacing; write as-fast-as-possible, real-time, or a factor such as '10 x'")


def _write_pacing(value: Pacing) -> str:
    return {0.0: "as-fast-as-possible", 1.0: "real-time"}.get(value.factor, f"{value.factor!r} x")


PacingText = Annotated[
    Pacing,
    TextForm(
        Pacing,
        _read_pacing,
        _write_pacing,
        {
            "pattern": r"^\s*(as-fast-as-possible|real-time|\d+(\.\d*)?\s*x)\s*$",
            "description": "how simulated time follows the wall clock",
            "examples": ["as-fast-as-possible", "real-time", "10 x"],
        },
    ),
]


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


class Origin:
    """Pydantic marker: `[latitude, longitude]` in degrees, with or without a height that has a unit."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: [*value[:2], units.show(value[2], "length")]
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "type": "array",
            "description": "latitude and longitude in degrees (WGS84), height above the ellipsoid with its unit",
            "prefixItems": [
                {"type": "number", "minimum": -90, "maximum": 90},
                {"type": "number", "minimum": -180, "maximum": 180},
                {"type": "string", "pattern": rf"^\s*{units.pattern('length')}\s*$"},
            ],
            "minItems": 2,
            "maxItems": 3,
            "examples": [[39.36, 22.95, "60 m"]],
        }

    @staticmethod
    def _read(found: object) -> tuple[float, float, float]:
        if not isinstance(found, (list, tuple)) or len(found) not in (2, 3):
            raise ValueError("expected [latitude, longitude] or [latitude, longitude, height]")
        degrees = [float(part) for part in found[:2] if isinstance(part, (int, float)) and not isinstance(part, bool)]
        if len(degrees) != 2 or not (abs(degrees[0]) <= 90 and abs(degrees[1]) <= 180):
            raise ValueError(f"{list(found[:2])} is not latitude (-90..90) and longitude (-180..180) in degrees")
        return degrees[0], degrees[1], units.parse(found[2], "length") if len(found) == 3 else 0.0


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

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
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

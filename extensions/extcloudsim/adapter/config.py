"""The `datacentre` block of a scenario."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from cosim.contract import units
from cosim.contract.adapter import AdapterConfig
from cosim.contract.block import Block, OnlyWith
from cosim.contract.trust import FileName, Trusted, Words
from cosim.contract.units import (
    BitRate,
    Bytes,
    Distance,
    Duration,
    Fraction,
    Frequency,
    Period,
    PowerPerBytes,
    PricePerEnergy,
    PricePerTime,
)
from cosim.engine.continuum.power import PLATFORMS, platform

Detector = Literal["thr", "iqr", "mad", "lr", "lrr", "fop", "sno", "foh"]
Selector = Literal["mmt", "mc", "mu", "rs", "mct"]
Placer = Literal["best-fit", "power-aware", "dvfs", "first-fit", "worst-fit", "cost-aware"]
Governor = Literal["performance", "powersave", "ondemand", "cost"]
FUNCTION = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
Function = Annotated[
    str, Field(pattern=FUNCTION, description="a function of your own, module:name"), Trusted("runs code")
]
PricePerBytes = units.PricePerBytes
_CARBON = re.compile(r"\s*([0-9.eE+-]+)\s*(g|kg)\s*/\s*(kWh|MWh|J)\s*")
_GRAMS = {"g": 1.0, "kg": 1000.0}
_JOULES = {"kWh": 3.6e6, "MWh": 3.6e9, "J": 1.0}


def _known(name: str) -> str:
    try:
        return platform(name).name
    except KeyError as error:
        raise ValueError(error.args[0]) from None


def _read_carbon(value: object) -> object:
    if isinstance(value, float):
        return value
    found = _CARBON.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"'{value}' is not a carbon intensity; write for example '300 g/kWh'")
    made = float(found[1]) * _GRAMS[found[2]] / _JOULES[found[3]]
    if not made >= 0.0:
        raise ValueError(f"'{value}' must be at least 0")
    return made


Carbon = Annotated[
    float,
    BeforeValidator(_read_carbon),
    PlainSerializer(lambda g: f"{g * 3.6e6!r} g/kWh", return_type=str),
    WithJsonSchema({"type": "string", "pattern": _CARBON.pattern, "examples": ["300 g/kWh"]}),
]  # g/J


class HostBlock(Block):
    """How the nodes that a pattern names use power; without a platform, by the node's own `power`."""

    platform: Annotated[Words, AfterValidator(_known)] | None = Field(
        None, description=f"power, operating points and slow-downs as measured: {', '.join(PLATFORMS)}"
    )
    points: Annotated[list[Annotated[int, Field(ge=0, le=7)]] | None, OnlyWith("platform")] = Field(
        None, min_length=1, description="operating points of the platform that may be used, 0 the slowest; default: all"
    )
    margin: Annotated[Annotated[int, Field(ge=0, le=2)] | None, OnlyWith("platform")] = Field(
        None, description="class of undervolting"
    )
    cubic: Annotated[bool, OnlyWith("platform", None)] = Field(
        False, description="the node's power grows with the cube of its load"
    )
    resting: units.Power = Field(10.0, description="power of an empty host, which sleeps; 10 W is a suspended server")
    waking: Duration = Field(10.0, description="time until a sleeping host runs again")
    memory_power: PowerPerBytes = Field(
        0.0,
        description="of the memory of a host that is awake, on top of its power; platforms have theirs in it already",
    )
    mtbf: Period | None = Field(None, description="mean time between failures of each host; default: none fails")
    repair: Annotated[Period, OnlyWith("mtbf")] = Field(3600.0, description="mean time until a failed host is back")
    mips: Frequency | None = Field(None, description="capacity at the highest point; default: cores x clock")
    ram: Bytes | None = Field(None, description="default: the node's memory, or 32 GiB")


class WindowBlock(Block):
    """Green energy from a time on until another."""

    start: Duration = Field(alias="from", description="simulated time")
    to: Period = Field(description="simulated time")
    power: units.Power | None = Field(None, description="how much there is; default: as much as is drawn")

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class CoolingBlock(Block):
    """What cooling and power supply draw beside the hosts; by a factor, or by the air outside."""

    pue: Annotated[Annotated[float, Field(ge=1.0, le=5.0)], OnlyWith("outdoors", None)] = Field(
        1.0, description="W of hosts and cooling for each W of hosts"
    )
    outdoors: FileName | None = Field(None, description="file of °C instead: a value a line, or lines time,value")
    outdoors_step: Annotated[Period, OnlyWith("outdoors")] = Field(
        3600.0, description="time between two values of that file without times"
    )
    fixed: units.Power = Field(0.0, description="that is drawn whatever the load, as by pumps and power supplies")


class PlaceBlock(Block):
    """A datacentre: which hosts are there, and what energy costs there."""

    nodes: list[Words] | Words = Field(description="names of nodes, with * and ?")
    price: Annotated[PricePerEnergy, OnlyWith("prices", None)] = Field(
        4.2e-8, description="of brown energy; 151.2 /MWh is 4.2e-8 /J"
    )
    prices: FileName | None = Field(
        None, description="file instead: a value a line, or lines time,value; see price_unit"
    )
    price_unit: Annotated[Literal["/J", "/kWh", "/MWh"], OnlyWith("prices")] = Field(
        "/MWh", description="of the values in the file"
    )
    price_step: Annotated[Period, OnlyWith("prices")] = Field(
        300.0, description="time between two values of a file without times"
    )
    carbon: Carbon = Field(0.0, description="carbon intensity of brown energy, such as 300 g/kWh")
    cap: units.Power | None = Field(None, description="that its hosts may draw together; default: no limit")
    caps: FileName | None = Field(None, description="file instead: a value in W a line, or lines time,value")
    cap_step: Annotated[Period, OnlyWith("caps")] = Field(
        300.0, description="time between two values of that file without times"
    )
    cooling: CoolingBlock | None = Field(None, description="energy beside that of the hosts; default: none")
    green: list[WindowBlock] = Field([], description="when there is green energy")
    green_price: Annotated[PricePerEnergy, OnlyWith("green")] = Field(0.0, description="of green energy")
    green_carbon: Annotated[Carbon, OnlyWith("green")] = Field(0.0, description="carbon intensity of green energy")


class WanBlock(Block):
    """The way between two datacentres, both directions alike."""

    between: Annotated[list[Words], Field(min_length=2, max_length=2)] = Field(description="two places")
    rate: BitRate = Field(1e9, description="that one migration gets")
    distance: Distance = Field(0.0, description="stated in the summary")
    factor: Annotated[float, Field(ge=0.0)] = Field(
        1.0, description="times the penalty of a migration that takes as long within a place"
    )
    cost: PricePerBytes = Field(0.0, description="of the bytes that a migration moves")


class TraceBlock(Block):
    """Utilisation from files: a folder with a file per machine, or a table with a column per machine."""

    path: FileName = Field(min_length=1, description="folder, .csv, .csv.gz or .parquet; from the scenario's folder")
    scale: Fraction = Field(1.0, description="what 1 in the file is of a machine's capacity; 1 % for percent")


class PatternBlock(Block):
    """Utilisation as a daily wave with noise."""

    mean: Fraction = Field(0.3, description="mean over a day")
    amplitude: Fraction = Field(0.1, description="of the daily wave")
    peak: Duration = Field(54000.0, description="time of day of its maximum")
    noise: Fraction = Field(0.1, description="standard deviation of the noise")
    memory: Fraction = Field(0.9, description="correlation of the noise from one period to the next")
    shared: Fraction = Field(0.0, description="part of its variance that all machines of the group share")


class MachineBlock(Block):
    """A group of virtual machines that are alike."""

    count: Annotated[int, Field(ge=1, le=100_000)] = Field(1, description="machines")
    cpu: Frequency = Field(description="capacity asked for, such as 1 GHz; hosts have cores x clock")
    ram: Bytes = Field(1.0e9, description="copied by a migration")
    gpus: Annotated[int, Field(ge=0, le=64)] = Field(
        0, description="GPUs of its own on one host: of 'accelerators: {gpu: ...}' of nodes"
    )
    gpu_utilisation: Annotated[PatternBlock | None, OnlyWith("gpus")] = Field(
        None, description="of its GPUs, made at random; default: as of its processors"
    )
    work: Literal["compute", "memory", "hybrid", "io"] = Field("hybrid", description="what a lower clock does to it")
    sla: Annotated[float, Field(ge=0.0, le=100.0)] = Field(1.0, description="weight q of the service level")
    price: PricePerTime = Field(3.4444444444444446e-06, description="that its user pays; 0.0124 /h")
    start: Duration = Field(0.0, description="arrival")
    stop: Period | None = Field(None, description="departure; default: none")
    utilisation: Annotated[PatternBlock, OnlyWith("traces", None)] = Field(PatternBlock(), description="made at random")
    traces: TraceBlock | None = Field(None, description="from files instead")


class DisasterBlock(Block):
    """A place loses a share of its hosts."""

    at: Duration = Field(description="when")
    place: Words = Field(description="which one")
    share: Fraction = Field(0.5, description="of its hosts, rounded up; drawn at random")
    duration: Period | None = Field(None, alias="for", description="after which they are back; default: never")

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class DatacentreConfig(AdapterConfig):
    """Virtual machines on the edge and cloud nodes of the scenario, consolidated every period."""

    period: Period = Field(300.0, description="time between two decisions, and of one value of utilisation")
    machines: dict[Words, MachineBlock] = Field(min_length=1, description="name of a group -> its machines")
    hosts: dict[Words, HostBlock] = Field({}, description="names of nodes -> what they are; the last one holds")
    places: dict[Words, PlaceBlock] = Field({}, description="datacentres; default: one place with all hosts")
    wan: list[WanBlock] = Field([], description="between datacentres; default: 1 Gbit/s, free")
    disasters: list[DisasterBlock] = Field([], description="losses of many hosts at a time")
    detector: Annotated[Detector | Function, OnlyWith("foresight", None)] = Field(
        "lrr", description="when a host is over-loaded"
    )
    selector: Annotated[Selector | Function, OnlyWith("foresight", None)] = Field(
        "mmt", description="which machine leaves it"
    )
    placer: Annotated[Placer | Function, OnlyWith("foresight", None)] = Field(
        "power-aware", description="where it goes"
    )
    governor: Governor | Function = Field("ondemand", description="operating points of hosts")
    predictor: Function | None = Field(None, description="foresees the load of machines; module:name")
    foresight: Literal["learned", "lstm", "local-regression", "last-value", "oracle"] | None = Field(
        None,
        description="decide by forecasts of mean and peak over the next hour; in place of detector, selector, placer",
    )
    oracle: bool = Field(False, description="decide by the load that will really come, as the best predictor would")
    threshold: Annotated[float, units.Unit("fraction", gt=0.0, le=1.0)] = Field(0.7, description="of load")
    safety: Annotated[float, Field(gt=0.0, le=10.0), OnlyWith("detector", "iqr", "mad", "lr", "lrr")] = Field(
        1.0, description="parameter of iqr, mad, lr and lrr"
    )
    overcommit: Annotated[float, Field(ge=1.0, le=10.0)] = Field(
        1.0, description="times the RAM of a host that its machines may ask for together"
    )
    capping: Literal["foreseen", "worst-case", "none"] = Field(
        "foreseen", description="how the cap of a place is kept: by the load foreseen, by full load, or not at all"
    )
    evacuate: bool = Field(True, description="empty hosts that are under-loaded")
    relocate: bool = Field(False, description="follow the price of energy between places; needs placer: cost-aware")
    horizon: Annotated[Period, OnlyWith("placer", "cost-aware")] = Field(
        3600.0, description="within which a move between places must pay off"
    )
    penalty: Literal["proportional", "flat", "shortfall", "undone"] | Function = Field(
        "proportional", description="what too little service costs"
    )
    recovery: Literal["restart", "migration"] = Field(
        "restart", description="of machines whose host failed: boot anew, or from a copy of their memory"
    )
    restart: Duration = Field(60.0, description="time that a machine takes to boot")
    degradation: Fraction = Field(0.1, description="of a machine's capacity while it is copied")
    slowdown: Literal["measured", "fitted"] = Field("measured", description="of platforms: the table, or the formula")
    physics: Literal["corrected", "compatible"] = Field(
        "corrected", description="compatible: with all rules of the peer, to reproduce its figures"
    )
    quirks: dict[Words, bool] = Field({}, description="single rules of the peer on or off, whatever `physics` says")

    @model_validator(mode="after")
    def _together(self) -> DatacentreConfig:
        for name, place in self.places.items():
            if place.cap is not None and place.caps is not None:
                raise ValueError(f"places.{name}: give one of 'cap' and 'caps'")
        if self.relocate and self.placer != "cost-aware":
            raise ValueError("'relocate' needs 'placer: cost-aware'")
        if self.oracle + (self.predictor is not None) + (self.foresight is not None) > 1:
            raise ValueError("give one of 'oracle', 'predictor' and 'foresight'")
        return self

"""The blocks of what a node may have beyond a processor: accelerators, power states, batteries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, model_validator

from cosim.contract import units
from cosim.contract.block import Block, or_text
from cosim.contract.units import Duration, EnergyPerBit, Fraction, Frequency, Period, Power
from cosim.scenario.text import Law, LawText, TextForm

AcceleratorName = Literal["gpu", "npu", "tpu", "fpga", "dsp"]
WorkClass = Literal["compute", "memory", "hybrid", "io"]
LawOfOperations = Annotated[Law, LawText("operations")]


@dataclass(frozen=True, slots=True)
class Units:
    """Equal units and the speed of each, written `2 x 10 TFLOPS` or `10 TFLOPS`."""

    count: int
    speed: float  # FLOP/s of one


def _read_units(text: object) -> Units:
    match = re.fullmatch(r"\s*(?:(\d{1,6})\s*x\s*)?(\S.*)", text, re.ASCII) if isinstance(text, str) else None
    if match:
        try:
            speed = units.parse(match[2], "operation rate")
        except ValueError as error:
            raise ValueError(f"'{str(text)[:60]}' is not an accelerator such as '2 x 10 TFLOPS': {error}") from None
        if speed > 0 and int(match[1] or 1) > 0:
            return Units(int(match[1] or 1), speed)
    raise ValueError(f"{text!r} is not an accelerator; write units x speed, for example '2 x 10 TFLOPS'")


UnitsText = Annotated[
    Units,
    TextForm(
        Units,
        _read_units,
        lambda value: f"{value.count} x {units.show(value.speed, 'operation rate')}",
        {
            "pattern": rf"^\s*(\d+\s*x\s*)?{units.pattern('operation rate')}\s*$",
            "description": "units x speed",
            "examples": ["2 x 10 TFLOPS"],
        },
    ),
]


class AcceleratorBlock(Block):
    """An accelerator of a host: `2 x 10 TFLOPS`, or its keys."""

    model_config = or_text("units")
    units: UnitsText = Field(description="units x speed of each")
    idle: Power = Field(0.0, description="of each unit while it does nothing")
    max: Power = Field(0.0, description="of each unit in use")
    shared: bool = Field(False, description="all tasks share the units, instead of one task per unit and a queue")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, found: object) -> object:
        return found if isinstance(found, (dict, AcceleratorBlock)) else {"units": found}

    @model_validator(mode="after")
    def _rises(self) -> AcceleratorBlock:
        if 0.0 < self.max < self.idle:
            raise ValueError("'max' is below 'idle'")
        return self


class SleepBlock(Block):
    """When a host falls asleep, what it draws then, and how it wakes for a task that comes."""

    after: Period = Field(description="without a task")
    power: Power = Field(0.0, description="while asleep")
    wake: Duration = Field(0.0, description="time to wake; tasks that come wait for it")
    wake_power: Power | None = Field(None, description="while waking; default: the power at full load")


class BootBlock(Block):
    """What a node does after it has recovered from a failure, and what it draws until then."""

    time: Duration = Field(0.0, description="after it has recovered; tasks that come wait for it")
    power: Power | None = Field(None, description="while booting; default: the power at full load")
    off: Power = Field(0.0, description="while failed")


class PointBlock(Block):
    """An operating point: a clock, and a voltage or the power at it."""

    clock: Frequency = Field(description="of each core")
    voltage: Annotated[float, units.Unit("voltage", gt=0.0)] | None = Field(
        None, description="with 'activity' and 'static' of the block around it: a u V^2 f + s"
    )
    idle: Power | None = Field(None, description="power at no load, instead of 'voltage'")
    max: Power | None = Field(None, description="power at full load, instead of 'voltage'")

    @model_validator(mode="after")
    def _either(self) -> PointBlock:
        if (self.voltage is None) == (self.idle is None and self.max is None):
            raise ValueError("an operating point has a 'voltage', or 'idle' and 'max'")
        if (self.idle is None) != (self.max is None):
            raise ValueError("'idle' and 'max' go together")
        return self


class ScalingBlock(Block):
    """Frequency and voltage scaling: operating points, and the governor that chooses among them."""

    governor: Literal["performance", "powersave", "ondemand", "userspace"] = Field(
        "ondemand", description="fastest, slowest, by use, or the fastest until it is told otherwise"
    )
    period: Period = Field(0.1, description="ondemand: time between two looks at the use")
    threshold: Fraction = Field(0.8, description="ondemand: use above which it takes the fastest; default of Linux")
    platform: Literal["xeon-1220", "x-gene-2", "x-gene-3"] | None = Field(
        None, description="operating points and power of a measured processor"
    )
    points: list[PointBlock] | None = Field(None, min_length=1, max_length=32, description="instead of 'platform'")
    activity: Annotated[float, units.Unit("activity", ge=0.0)] = Field(
        0.0, description="a in the power a u V^2 f + s of all cores at use u"
    )
    static: Power = Field(0.0, description="s in the power a u V^2 f + s")

    @model_validator(mode="after")
    def _either(self) -> ScalingBlock:
        if (self.platform is None) == (self.points is None):
            raise ValueError("give 'platform' or 'points'")
        clocks = [point.clock for point in self.points or ()]
        if clocks != sorted(set(clocks)):
            raise ValueError("operating points stand slowest first, each clock once")
        return self


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a battery holds, written `18.75 Wh` or `5000 mAh x 11.1 V`."""

    joules: float


def _read_capacity(text: object) -> Capacity:
    if not isinstance(text, str):
        return Capacity(units.parse(text, "energy"))
    charge, times, voltage = text.partition(" x ")
    if not times and text.rstrip().endswith("Ah"):
        raise ValueError(f"'{text}' is a charge; write it with its voltage, for example '5000 mAh x 11.1 V'")
    joules = units.parse(charge, "charge" if times else "energy")
    joules *= units.parse(voltage, "voltage") if times else 1.0
    if joules <= 0.0:
        raise ValueError(f"'{text}' must be more than 0")
    return Capacity(joules)


CapacityText = Annotated[
    Capacity,
    TextForm(
        Capacity,
        _read_capacity,
        lambda value: units.show(value.joules, "energy"),
        {
            "pattern": rf"^\s*({units.pattern('energy')}|{units.pattern('charge')} x {units.pattern('voltage')})\s*$",
            "description": "energy, or charge x voltage",
            "examples": ["18.75 Wh", "5000 mAh x 11.1 V"],
        },
    ),
]


class BatteryBlock(Block):
    """What a node lives on, `18.75 Wh` or its keys; its power and its radio drain it, and empty it is dead."""

    model_config = or_text("capacity")
    capacity: CapacityText = Field(description="when it is full")
    level: Annotated[Law, LawText("fraction")] = Field(
        Law(law="fixed", a=1.0), description="in the beginning: a part of the capacity, fixed or uniform"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, found: object) -> object:
        return {"capacity": found} if isinstance(found, str) else found

    @model_validator(mode="after")
    def _possible(self) -> BatteryBlock:
        if self.level.law in ("exponential", "log-normal") or max(self.level.a, self.level.b) > 1.0:
            raise ValueError("'level' is a part of the capacity, such as '80 %' or 'uniform 50 % .. 100 %'")
        return self


class RadioEnergyBlock(Block):
    """What a device's radio takes under one technology."""

    sent: EnergyPerBit = Field(0.0, description="to send")
    received: EnergyPerBit = Field(0.0, description="to receive")

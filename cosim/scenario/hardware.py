"""The blocks of what a node may have beyond a processor: accelerators, power states, batteries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from cosim.contract import units
from cosim.contract.block import Block, Name, OnlyWith, TextBlock
from cosim.contract.declared import keys_of
from cosim.contract.entities import PricedQuantities
from cosim.contract.equipment import AcceleratorQuantities, PowerStates, ScalingQuantities
from cosim.contract.laws import Law, LawText, TextForm
from cosim.contract.quantity import carried
from cosim.contract.units import Frequency, Power

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


@keys_of(AcceleratorQuantities)
class AcceleratorBlock(TextBlock):
    """An accelerator of a host: `2 x 10 TFLOPS`, or its keys."""

    TEXT: ClassVar[str] = "units"
    units: UnitsText = Field(description="units x speed of each")
    shared: bool = Field(False, description="all tasks share the units, instead of one task per unit and a queue")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, found: object) -> object:
        return found if isinstance(found, (dict, AcceleratorBlock)) else {"units": found}

    @model_validator(mode="after")
    def _rises(self) -> AcceleratorBlock:
        power = AcceleratorQuantities(**carried(self, AcceleratorQuantities))
        if 0.0 < power.max < power.idle:
            raise ValueError("'max' is below 'idle'")
        return self


@keys_of(PowerStates, "sleep")
class SleepBlock(Block):
    """When a host falls asleep, what it draws then, and how it wakes for a task that comes."""


@keys_of(PowerStates, "boot")
class BootBlock(Block):
    """What a node does after it has recovered from a failure, and what it draws until then."""


@keys_of(PricedQuantities, "cost")
class Cost(Block):
    """Prices, in one currency for the whole scenario."""

    tariff: Name | None = Field(None, description="prices of energy over time, one of `tariffs`; instead of energy")


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


@keys_of(ScalingQuantities)
class ScalingBlock(Block):
    """Frequency and voltage scaling: operating points, and the governor that chooses among them."""

    governor: Literal["performance", "powersave", "ondemand", "userspace"] = Field(
        "ondemand", description="fastest, slowest, by use, or the fastest until it is set"
    )
    platform: Literal["xeon-1220", "x-gene-2", "x-gene-3"] | None = Field(
        None, description="operating points and power of a measured processor"
    )
    points: list[PointBlock] | None = Field(None, min_length=1, max_length=32, description="instead of 'platform'")
    activity: Annotated[float, units.Unit("activity", ge=0.0), OnlyWith("points")] = Field(
        0.0, description="a in the power a u V^2 f + s of all cores at use u"
    )
    static: Annotated[Power, OnlyWith("points")] = Field(0.0, description="s in the power a u V^2 f + s")

    @model_validator(mode="after")
    def _either(self) -> ScalingBlock:
        if (self.platform is None) == (self.points is None):
            raise ValueError("give 'platform' or 'points'")
        clocks = [point.clock for point in self.points or ()]
        if clocks != sorted(set(clocks)):
            raise ValueError("operating points stand slowest first, each clock once")
        return self

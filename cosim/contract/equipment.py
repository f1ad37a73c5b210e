"""What nodes are made of, beside their cores: power, accelerators, states of power, operating points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from cosim.contract.block import OnlyWith
from cosim.contract.quantity import DeclaredQuantity


@dataclass(frozen=True, slots=True)
class Power:
    """Electrical power in W at equal load steps from 0 to 1, linear in between, or cubic between two."""

    table: tuple[float, ...]  # W, at least two points
    source: str = ""
    law: Literal["linear", "cubic"] = "linear"


def _watts(meaning: str, key: str = "", *, optional: bool = False) -> DeclaredQuantity:
    return DeclaredQuantity("power", meaning, optional=optional, key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorQuantities:
    """The plain numbers of an accelerator: a line declares one, from the scenario's key to the engine's column."""

    idle: Annotated[float, _watts("of each unit while it does nothing")] = 0.0  # W
    max: Annotated[float, _watts("of each unit in use")] = 0.0  # W


@dataclass(frozen=True, slots=True)
class Accelerator(AcceleratorQuantities):
    """Equal units of one kind."""

    kind: str  # one of cosim.contract.signals.ACCELERATORS
    units: int
    speed: float  # FLOP/s of one unit
    shared: bool = False  # all tasks share the units, instead of one task per unit and a queue


_AFTER = DeclaredQuantity("time", "without a task", above=True, key="sleep.after")
_WAKE = DeclaredQuantity("time", "time to wake; tasks that come wait for it", key="sleep.wake")
_BOOT = DeclaredQuantity("time", "after it has recovered; tasks that come wait for it", key="boot.time")
_WAKING = _watts("while waking; default: the power at full load", "sleep.wake_power", optional=True)
_BOOTING = _watts("while booting; default: the power at full load", "boot.power", optional=True)


@dataclass(frozen=True, slots=True)
class PowerStates:
    """Sleep, boot and off; what is not there never happens. A machine wakes for a task that comes."""

    sleep_after: Annotated[float, _AFTER] = math.inf  # s
    sleep_power: Annotated[float, _watts("while asleep", "sleep.power")] = 0.0  # W
    wake_time: Annotated[float, _WAKE] = 0.0  # s
    wake_power: Annotated[float, _WAKING] = 0.0  # W
    boot_time: Annotated[float, _BOOT] = 0.0  # s
    boot_power: Annotated[float, _BOOTING] = 0.0  # W
    off_power: Annotated[float, _watts("while failed", "boot.off")] = 0.0  # W


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A clock of the cores, and the power at it."""

    clock: float  # cycles/s
    idle: float  # W at no load
    max: float  # W at full load


_PERIOD = DeclaredQuantity("time", "ondemand: time between two looks at the use", above=True)
_THRESHOLD = DeclaredQuantity("fraction", "ondemand: use above which it takes the fastest; default of Linux", most=1.0)
_ONDEMAND = OnlyWith("governor", "ondemand")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingQuantities:
    """The plain numbers of a governor."""

    period: Annotated[float, _PERIOD, _ONDEMAND] = 0.1  # s
    threshold: Annotated[float, _THRESHOLD, _ONDEMAND] = 0.8  # 1


@dataclass(frozen=True, slots=True)
class Scaling(ScalingQuantities):
    """Operating points, slowest first, or the platform that has them, and who chooses."""

    governor: Literal["performance", "powersave", "ondemand", "userspace"]
    platform: str = ""
    points: tuple[OperatingPoint, ...] = ()

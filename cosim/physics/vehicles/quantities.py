"""The plain numbers of vehicles: a line declares one, from the scenario's key to the dynamics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from cosim.contract.block import OnlyWith
from cosim.contract.quantity import DeclaredQuantity

_PART = partial(DeclaredQuantity, "fraction", most=1.0)
_FAST = partial(DeclaredQuantity, "speed", above=True, optional=True)
_CELLS = DeclaredQuantity("", "in series; default: 4 in a copter, 7 in a rover", least=1, most=100, optional=True)
_RESISTANCE = DeclaredQuantity("resistance", "of the pack; default: 20 mohm, 30 mohm in a rover", optional=True)
_MASS = DeclaredQuantity("mass", "default: 1.5 kg, rovers 60 kg", above=True, optional=True)
_SPEED = _FAST("greatest over ground; default: 10 m/s, rovers 2 m/s")
_GAIN = "acceleration"
_ACCELERATION = DeclaredQuantity(_GAIN, "default: 2.5 m/s2, rovers 1 m/s2", above=True, optional=True, key=_GAIN)
_HOVER = DeclaredQuantity("power", "from the battery; default: by momentum theory", optional=True)
_WHEELBASE = DeclaredQuantity("length", "of an Ackermann rover; default: 0.8 m", above=True, optional=True)
_FLIES = OnlyWith("frame", "copter")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackQuantities:
    """Of a pack of cells in series."""

    cells: Annotated[int, _CELLS] = 4
    resistance: Annotated[float, _RESISTANCE] = 0.02  # ohm
    low: Annotated[float, _PART("charge at which `action` is taken")] = 0.2
    critical: Annotated[float, _PART("charge at which a copter lands wherever it is")] = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class CopterQuantities:
    """Of a multirotor; limits as ArduCopter ships them."""

    mass: Annotated[float, _MASS] = 1.5  # kg
    speed: Annotated[float, _SPEED] = 10.0  # m/s, horizontal
    climb: Annotated[float, _FAST("default: 2.5 m/s"), _FLIES] = 2.5  # m/s
    descent: Annotated[float, _FAST("default: 1.5 m/s"), _FLIES] = 1.5  # m/s
    accel: Annotated[float, _ACCELERATION] = 2.5  # m/s^2
    hover_power: Annotated[float, _HOVER, _FLIES] = 0.0  # W; 0: from momentum theory with a figure of merit of 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class RoverQuantities:
    """Of a ground vehicle on wheels or tracks; a small field robot."""

    mass: Annotated[float, _MASS] = 60.0  # kg
    speed: Annotated[float, _SPEED] = 2.0  # m/s
    accel: Annotated[float, _ACCELERATION] = 1.0  # m/s^2
    wheelbase: Annotated[float, _WHEELBASE, OnlyWith("steering", "ackermann")] = 0.8  # m

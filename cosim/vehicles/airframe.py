"""Vehicles as their makers describe them, and the numbers that the dynamics need."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cosim.vehicles.layout import ACKERMANN, AIRFRAME, COPTER, LAND, RETURN, SKID

GRAVITY = 9.80665  # m/s^2
AIR = 1.225  # kg/m^3, ICAO standard atmosphere at sea level
ACTIONS = {"none": -1, "land": int(LAND), "return": int(RETURN)}


@dataclass(frozen=True, slots=True)
class Battery:
    """A pack of cells in series."""

    capacity: float = 5.2  # Ah
    cells: int = 4
    resistance: float = 0.02  # ohm, of the pack
    low: float = 0.2  # fraction of the capacity at which `action` is taken
    critical: float = 0.08  # at which it lands wherever it is
    action: Literal["return", "land", "none"] = "return"

    def __post_init__(self) -> None:
        if not (self.capacity > 0.0 and self.cells >= 1 and self.resistance >= 0.0):
            raise ValueError("a battery needs a capacity and cells above 0, and a resistance of 0 or more")
        if not 0.0 <= self.critical <= self.low < 1.0:
            raise ValueError("a battery needs 0 <= critical <= low < 1")


@dataclass(frozen=True, slots=True)
class Copter:
    """A multirotor. Defaults: a quadrotor of 1.5 kg with 10-inch propellers, limits as ArduCopter ships them."""

    mass: float = 1.5  # kg
    rotors: int = 4
    rotor_radius: float = 0.127  # m
    speed: float = 10.0  # m/s, horizontal
    climb: float = 2.5  # m/s
    descent: float = 1.5  # m/s
    land_speed: float = 0.5  # m/s below 10 m
    accel: float = 2.5  # m/s^2
    tilt: float = math.radians(30.0)
    lag: float = 0.15  # s, of thrust and attitude
    yaw_rate: float = math.radians(90.0)  # rad/s
    drag: float = 0.1  # 1/s, deceleration per m/s against the air
    drag2: float = 0.01  # 1/m
    hover_power: float = 0.0  # W from the battery; 0: from momentum theory with a figure of merit of 0.6
    efficiency: float = 0.75  # of motors and controllers
    idle: float = 6.0  # W of the electronics
    radius: float = 2.0  # m within which a waypoint counts as reached
    return_height: float = 15.0  # m above home
    dynamics: Literal["point", "rigid"] = "point"  # a mass with a lag, or a rigid body with four rotors
    arm: float = 0.16  # m, of a rotor from the axes of roll and pitch; this and what follows: rigid only
    inertia: tuple[float, float, float] = (0.02, 0.02, 0.035)  # kg m^2 about forward, left, up
    rotor_lag: float = 0.04  # s
    torque: float = 0.016  # m, of a rotor's drag torque per thrust
    thrust_ratio: float = 2.2  # most thrust per weight
    battery: Battery = field(default_factory=Battery)

    def row(self) -> NDArray[np.void]:
        """(1,) AIRFRAME.

        Power of the rotors by Zeng, Xu, Zhang, IEEE Transactions on Wireless Communications 18(4), 2019:
        induced power in hover W^(3/2) / sqrt(2 rho A), mean inflow sqrt(W / (2 rho A)) (appendix A).
        """
        row = np.zeros(1, AIRFRAME)
        weight = self.mass * GRAVITY
        disc = self.rotors * math.pi * self.rotor_radius**2
        inflow = math.sqrt(weight / (2.0 * AIR * disc))
        induced = 1.1 * weight * inflow  # 1.1: the usual correction for a real wake (their k = 0.1)
        hover = self.efficiency * (self.hover_power - self.idle) if self.hover_power else weight * inflow / 0.6
        if hover <= induced:
            raise ValueError(
                f"a copter of {self.mass} kg on {disc:.3f} m^2 of rotors needs more than "
                f"{induced / self.efficiency + self.idle:.0f} W to hover; hover_power is {self.hover_power}"
            )
        names = (
            "mass", "speed", "climb", "descent", "land_speed", "accel", "tilt", "lag", "yaw_rate", "drag", "drag2",
            "efficiency", "idle", "radius", "return_height",
        )  # fmt: skip
        for name in names:
            row[name] = getattr(self, name)
        row["profile"], row["induced"], row["inflow"], row["tip"] = hover - induced, induced, inflow, 120.0
        row["parasite"] = 0.5 * AIR * 0.3 * 0.05 * disc  # their d0 = 0.3, solidity 0.05
        row["gain"], row["disarm_delay"], row["kind"] = 1.0, 10.0, COPTER
        if self.dynamics == "rigid":
            if self.rotors != 4:
                raise ValueError(f"rigid dynamics are those of four rotors; this copter has {self.rotors}")
            for name in ("arm", "rotor_lag", "torque", "thrust_ratio"):
                row[name] = getattr(self, name)
            for axis, inertia in zip("xyz", self.inertia, strict=True):
                row[f"inertia_{axis}"] = inertia
            row["rigid"] = 1
        return _with_battery(row, self.battery)


@dataclass(frozen=True, slots=True)
class Rover:
    """A ground vehicle on wheels or tracks. Defaults: a small field robot; a tractor is heavier."""

    mass: float = 60.0  # kg
    speed: float = 2.0  # m/s
    accel: float = 1.0  # m/s^2
    steering: Literal["skid", "ackermann"] = "skid"
    yaw_rate: float = math.radians(60.0)  # rad/s, skid
    wheelbase: float = 0.8  # m, Ackermann
    steer: float = math.radians(30.0)  # greatest angle of the wheels, Ackermann
    lag: float = 0.2  # s
    rolling: float = 0.08  # coefficient of rolling resistance; 0.08 is firm farmland
    efficiency: float = 0.7  # battery to wheels
    idle: float = 15.0  # W
    radius: float = 1.0  # m within which a waypoint counts as reached
    battery: Battery = field(default_factory=lambda: Battery(capacity=40.0, cells=7, resistance=0.03))

    def row(self) -> NDArray[np.void]:
        """(1,) AIRFRAME."""
        row = np.zeros(1, AIRFRAME)
        for name in ("mass", "speed", "accel", "yaw_rate", "wheelbase", "steer", "lag", "rolling", "idle", "radius"):
            row[name] = getattr(self, name)
        row["wheel_efficiency"], row["gain"] = self.efficiency, 1.0
        row["kind"] = SKID if self.steering == "skid" else ACKERMANN
        return _with_battery(row, self.battery)


def _with_battery(row: NDArray[np.void], battery: Battery) -> NDArray[np.void]:
    for name in ("cells", "resistance", "low", "critical"):
        row[name] = getattr(battery, name)
    row["capacity"], row["low_action"] = 3600.0 * battery.capacity, ACTIONS[battery.action]
    return row

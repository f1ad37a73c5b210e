"""Vehicles as their makers describe them, and the numbers that the dynamics need."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from cosim.contract.records import Records
from cosim.physics.vehicles.battery import OPEN_CIRCUIT
from cosim.physics.vehicles.layout import ACKERMANN, AIRFRAME, COPTER, LAND, RETURN, SKID
from cosim.physics.vehicles.power import CORRECTION
from cosim.physics.vehicles.quantities import CopterQuantities, PackQuantities, RoverQuantities

GRAVITY = 9.80665  # m/s^2
AIR = 1.225  # kg/m^3, ICAO standard atmosphere at sea level
TIP = 120.0  # m/s, speed of the blades' tips in a hover
# m/s of an impact from which on it is broken. A rotorcraft's landing gear may yield but not collapse in a drop from 1.5
# times 13 inches, which is 3.1 m/s (14 CFR 27.725(a) and 27.727). A car's drive, steering and brakes have to work after
# 2.5 mph, which is 1.1 m/s, against a barrier (49 CFR 581.5).
COPTER_BEARS, ROVER_BEARS = 3.0, 1.1
# A rover's radius by its wheelbase: a disc as large as Clearpath's Husky A200, .99 x .67 m on a wheelbase of .51 m.
HULL = 0.9
ACTIONS = {"none": -1, "land": int(LAND), "return": int(RETURN)}


@dataclass(frozen=True, slots=True)
class BatteryPack(PackQuantities):
    """A pack of cells in series."""

    capacity: float = 5.2  # Ah
    action: Literal["return", "land", "none"] = "return"
    temperature: float = 25.0  # deg C
    cycles: float = 0.0  # that it has gone through

    @property
    def usable(self) -> float:
        """Ah that it gives at its temperature and age.

        A lithium-polymer cell keeps about 80 % after 500 cycles and gives about 85 % at 0 deg C; both are what
        makers of packs state, taken as straight lines.
        """
        cold = max(25.0 - self.temperature, 0.0)
        return self.capacity * max(1.0 - 0.0004 * self.cycles, 0.2) * max(1.0 - 0.006 * cold, 0.2)

    @property
    def internal(self) -> float:
        """Ohm at its temperature and age.

        Arrhenius' law with 20 kJ/mol, which doubles the resistance from 25 to 0 deg C, and half as much again
        after 500 cycles.
        """
        kelvin = 273.15 + self.temperature
        return self.resistance * (1.0 + 0.001 * self.cycles) * math.exp(2405.6 * (1.0 / kelvin - 1.0 / 298.15))

    def __post_init__(self) -> None:
        if not (-60.0 < self.temperature < 100.0 and self.cycles >= 0.0):
            raise ValueError("a battery needs a temperature of -60 to 100 deg C and 0 cycles or more")
        if not (self.capacity > 0.0 and self.cells >= 1 and self.resistance >= 0.0):
            raise ValueError("a battery needs a capacity and cells above 0, and a resistance of 0 or more")
        if not 0.0 <= self.critical <= self.low < 1.0:
            raise ValueError("a battery needs 0 <= critical <= low < 1")


@dataclass(frozen=True, slots=True)
class Copter(CopterQuantities):
    """A multirotor. Defaults: a quadrotor of 1.5 kg with 10-inch propellers, limits as ArduCopter ships them."""

    rotors: int = 4
    rotor_radius: float = 0.127  # m
    land_speed: float = 0.5  # m/s below 10 m
    climb_accel: float = 0.0  # m/s^2, vertical; 0: half of `accel`
    jerk: float = 0.0  # m/s^3 of legs from point to point; 0: no limit, and no corners cut
    tilt: float = math.radians(30.0)
    lag: float = 0.15  # s, of thrust and attitude
    yaw_rate: float = math.radians(90.0)  # rad/s
    drag: float = 0.1  # 1/s, deceleration per m/s against the air
    drag2: float = 0.01  # 1/m
    efficiency: float = 0.75  # of motors and controllers
    idle: float = 6.0  # W of the electronics
    radius: float = 2.0  # m within which a waypoint counts as reached
    return_height: float = 15.0  # m above home
    arming_delay: float = 0.0  # s from arming before it can leave the ground
    spool_up: float = 0.0  # s from the order, or from then on, until it does
    return_hover: float = 0.0  # s above home before it comes down
    disarm_after: float = 1.0  # s on the ground before the motors stop
    dynamics: Literal["point", "rigid"] = "point"  # a mass with a lag, or a rigid body with four rotors
    arm: float = 0.16  # m, of a rotor from the axes of roll and pitch; this and what follows: rigid, and motor outputs
    inertia: tuple[float, float, float] = (0.02, 0.02, 0.035)  # kg m^2 about forward, left, up
    rotor_lag: float = 0.04  # s
    torque: float = 0.016  # m, of a rotor's drag torque per thrust
    thrust_ratio: float = 2.2  # most thrust per weight
    battery: BatteryPack = field(default_factory=BatteryPack)

    def row(self) -> Records:
        """(1,) AIRFRAME.

        What a hover needs above the induced power, W^(3/2) / sqrt(2 rho A) by momentum theory, is profile power.
        """
        row: Records = np.zeros(1, AIRFRAME)
        weight = self.mass * GRAVITY
        disc = self.rotors * math.pi * self.rotor_radius**2
        inflow = math.sqrt(weight / (2.0 * AIR * disc))
        induced = CORRECTION * weight * inflow
        hover = self.efficiency * (self.hover_power - self.idle) if self.hover_power else weight * inflow / 0.6
        if hover <= induced:
            raise ValueError(
                f"a copter of {self.mass} kg on {disc:.3f} m^2 of rotors needs more than "
                f"{induced / self.efficiency + self.idle:.0f} W to hover; hover_power is {self.hover_power}"
            )
        names = (
            "mass", "speed", "climb", "descent", "land_speed", "accel", "tilt", "lag", "yaw_rate", "drag", "drag2",
            "efficiency", "idle", "radius", "return_height", "jerk", "arming_delay", "spool_up", "return_hover",
            "disarm_after",
        )  # fmt: skip
        for name in names:
            row[name] = getattr(self, name)
        row["climb_accel"] = self.climb_accel or 0.5 * self.accel
        row["profile"], row["inflow"], row["tip"] = hover - induced, inflow, TIP
        row["gain"], row["disarm_delay"], row["kind"] = 1.0, 10.0, COPTER
        row["body"], row["bears"] = math.sqrt(2.0) * self.arm + self.rotor_radius, COPTER_BEARS
        for name in ("arm", "rotor_lag", "torque", "thrust_ratio"):
            row[name] = getattr(self, name)
        for axis, inertia in zip("xyz", self.inertia, strict=True):
            row[f"inertia_{axis}"] = inertia
        if self.dynamics == "rigid":
            if self.rotors != 4:
                raise ValueError(f"rigid dynamics are those of four rotors; this copter has {self.rotors}")
            row["rigid"] = 1
        return _with_battery(row, self.battery)

    def can_hover(self) -> None:
        """Raise `ValueError` if a hover draws more than a full pack gives at most."""
        row = self.row()[0]
        needs = (row["profile"] + CORRECTION * self.mass * GRAVITY * row["inflow"]) / self.efficiency + self.idle
        gives = (self.battery.cells * OPEN_CIRCUIT[-1]) ** 2 / max(4.0 * self.battery.internal, 1e-12)
        if needs > gives:
            raise ValueError(f"a hover draws {needs:.0f} W, and its full battery gives {gives:.0f} W at most")


@dataclass(frozen=True, slots=True)
class Rover(RoverQuantities):
    """A ground vehicle on wheels or tracks. Defaults: a small field robot; a tractor is heavier."""

    steering: Literal["skid", "ackermann"] = "skid"
    yaw_rate: float = math.radians(60.0)  # rad/s, skid
    steer: float = math.radians(30.0)  # greatest angle of the wheels, Ackermann
    lag: float = 0.2  # s
    rolling: float = 0.08  # coefficient of rolling resistance; 0.08 is firm farmland
    efficiency: float = 0.7  # battery to wheels
    idle: float = 15.0  # W
    radius: float = 1.0  # m within which a waypoint counts as reached
    battery: BatteryPack = field(default_factory=lambda: BatteryPack(capacity=40.0, cells=7, resistance=0.03))

    def row(self) -> Records:
        """(1,) AIRFRAME."""
        row: Records = np.zeros(1, AIRFRAME)
        for name in ("mass", "speed", "accel", "yaw_rate", "wheelbase", "steer", "lag", "rolling", "idle", "radius"):
            row[name] = getattr(self, name)
        row["wheel_efficiency"], row["gain"] = self.efficiency, 1.0
        row["body"], row["bears"] = HULL * self.wheelbase, ROVER_BEARS
        row["kind"] = SKID if self.steering == "skid" else ACKERMANN
        return _with_battery(row, self.battery)


def _with_battery(row: Records, battery: BatteryPack) -> Records:
    for name in ("cells", "low", "critical"):
        row[name] = getattr(battery, name)
    row["capacity"], row["resistance"] = 3600.0 * battery.usable, battery.internal
    row["low_action"] = ACTIONS[battery.action]
    return row

"""Airframes of drones on the market, and the endurance that their makers publish.

Mass, propellers, pack, hovering time, top speed and the tilt at it are those of the makers' data sheets. Nothing is
fitted to a flight: the power of a hover is pack / hovering time, the drag is what balances the
weight at that tilt and speed, g tan(tilt) / v^2. The points in forward flight are the makers', too, but
take no part in it: they are what the model is judged by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cosim.physics.vehicles.airframe import GRAVITY, BatteryPack, Copter
from cosim.physics.vehicles.power import rotor_power


@dataclass(frozen=True, slots=True)
class Published:
    """The figures of a data sheet."""

    source: str
    mass: float  # kg
    propeller: float  # inch, diameter
    energy: float  # Wh of the pack
    cells: int
    hover: float  # min
    top: float  # m/s
    tilt: float  # deg at that speed
    idle: float  # W of camera, radio and computers; an estimate, no maker states it
    flights: tuple[tuple[float, float], ...]  # m/s and min of flight at that speed, without wind

    @property
    def hover_power(self) -> float:
        """W."""
        return 60.0 * self.energy / self.hover

    def power(self, speed: float) -> float:
        """W at `speed` m/s as published; NaN if it is not."""
        return next((60.0 * self.energy / minutes for v, minutes in self.flights if v == speed), math.nan)


PUBLISHED = {
    "mavic-2-pro": Published("DJI Mavic 2 Pro, specifications", 0.907, 8.7, 59.29, 4, 29.0, 20.0, 35.0, 6.0,
                             ((25 / 3.6, 31.0), (50 / 3.6, 18 / 50 * 60))),
    "mavic-3": Published("DJI Mavic 3, specifications", 0.895, 9.4, 77.0, 4, 40.0, 21.0, 35.0, 6.0,
                         ((32.4 / 3.6, 46.0), (50.4 / 3.6, 30 / 50.4 * 60))),
    "mavic-3-pro": Published("DJI Mavic 3 Pro, specifications", 0.958, 9.4, 77.0, 4, 37.0, 21.0, 35.0, 6.0,
                             ((32.4 / 3.6, 43.0), (50.4 / 3.6, 28 / 50.4 * 60))),
    "air-3": Published("DJI Air 3, specifications", 0.720, 8.7, 62.6, 4, 42.0, 21.0, 35.0, 5.0,
                       ((28.8 / 3.6, 46.0), (50.4 / 3.6, 32 / 50.4 * 60))),
    "mavic-air-2": Published("DJI Mavic Air 2, specifications", 0.570, 7.2, 40.42, 3, 33.0, 19.0, 35.0, 5.0,
                             ((18 / 3.6, 34.0),)),
    "mini-3-pro": Published("DJI Mini 3 Pro, specifications", 0.249, 6.0, 18.1, 2, 30.0, 16.0, 40.0, 4.0,
                            ((21.6 / 3.6, 34.0), (43.2 / 3.6, 18 / 43.2 * 60))),
}  # fmt: skip


def airframe(name: str) -> Copter:
    """The copter of this name, one of `PUBLISHED`; ValueError for others."""
    if name not in PUBLISHED:
        raise ValueError(f"airframe '{name}': known are {', '.join(PUBLISHED)}")
    sheet = PUBLISHED[name]
    tilt = math.radians(sheet.tilt)
    return Copter(
        mass=sheet.mass,
        rotor_radius=0.0254 * sheet.propeller / 2.0,
        speed=sheet.top,
        tilt=tilt,
        drag=0.0,
        drag2=GRAVITY * math.tan(tilt) / sheet.top**2,
        hover_power=sheet.hover_power,
        idle=sheet.idle,
        battery=replace(BatteryPack(), capacity=sheet.energy / (3.85 * sheet.cells), cells=sheet.cells),
    )


def level_power(copter: Copter, speed: float, head_wind: float = 0.0) -> float:
    """W from the battery in steady level flight at `speed` m/s over ground."""
    row = copter.row()[0]
    air = speed + head_wind
    ahead = (copter.drag + copter.drag2 * abs(air)) * air  # m/s^2 that thrust has to give
    load = math.hypot(ahead, GRAVITY) / GRAVITY
    along = ahead * air / (load * GRAVITY)
    across = math.sqrt(max(air * air - along * along, 0.0))
    weight = copter.mass * GRAVITY
    work = rotor_power(across, along, load, 1.0, weight, float(row["profile"]), float(row["inflow"]), float(row["tip"]))
    return work / copter.efficiency + copter.idle

"""Mechanical power of rotors and wheels."""

from __future__ import annotations

import math

from cosim.compiling import part


@part
def rotor_power(
    v: float, load: float, profile: float, induced: float, tip: float, inflow: float, parasite: float
) -> float:
    """W of a rotorcraft at airspeed v with thrust `load` times its weight, level.

    P = P0 (1 + 3 v^2 / U^2) + Pi k (sqrt(k^2 + v^4 / (4 v0^4)) - v^2 / (2 v0^2))^(1/2) + (d0 rho s A / 2) v^3;
    Zeng, Xu, Zhang 2019, equation (12), with the thrust-to-weight ratio k of their appendix A.
    """
    square = v * v
    ratio = square / (2.0 * inflow * inflow)
    wake = math.sqrt(max(math.sqrt(load * load + ratio * ratio) - ratio, 0.0))
    return profile * (1.0 + 3.0 * square / (tip * tip)) + induced * load * wake + parasite * square * v


@part
def wheel_power(v: float, accel: float, mass: float, rolling: float, weight: float) -> float:
    """W at the wheels at speed v: rolling resistance and acceleration; braking gives nothing back."""
    return max((rolling * weight + mass * accel) * v, 0.0)

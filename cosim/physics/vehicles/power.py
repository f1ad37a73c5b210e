"""Mechanical power of rotors and wheels."""

from __future__ import annotations

import math

from cosim.compiled.compiling import part

CORRECTION = 1.15  # induced power of a real rotor over the ideal one (Leishman 2006, section 2.4.6)
ADVANCE = 4.65  # growth of profile power with the square of the advance ratio (Leishman 2006, equation 5.21)


@part
def inflow_at(across: float, along: float, hover: float) -> float:
    """m/s induced at the disc by Glauert's momentum theory.

    `across` and `along` are the parts of the air's velocity (m/s) in the plane of the disc and down
    through it, `hover` the inflow that this thrust has at rest: v sqrt(across^2 + (along + v)^2) =
    hover^2 (Leishman, Principles of Helicopter Aerodynamics, 2006, equation 2.126). Newton's method
    from the solution without `along`; four steps give nine digits.
    """
    if hover <= 0.0:
        return 0.0
    square, goal = across * across, hover * hover
    v = math.sqrt(max(0.5 * (math.sqrt(square * square + 4.0 * goal * goal) - square), 1e-12))
    if along == 0.0:
        return v
    for _ in range(4):
        flow = math.sqrt(square + (along + v) * (along + v))
        v = max(v - (v * flow - goal) / (flow + v * (along + v) / max(flow, 1e-9)), 1e-6)
    return v


@part
def rotor_power(
    across: float, along: float, load: float, density: float, weight: float, profile: float, inflow: float, tip: float
) -> float:
    """W of the rotors that give `load` times `weight` N in air of `density` relative to the standard's.

    `across` and `along`: m/s of the air in the plane of the discs and down through them. Thrust times
    the flow through the disc pays for drag and climb to the full: T along = D v in level flight. To it come the
    induced power and the profile power, both as of rotors of fixed pitch, which turn faster for
    more thrust and in thinner air: P0 load^1.5 / sqrt(density) (1 + 4.65 mu^2). Sinking gives nothing back: down
    to a third of the hover's inflow measured rotors need what they need in a hover, to 6 % (Leishman,
    section 2.13.6).
    """
    if load <= 0.0:
        return 0.0
    faster = math.sqrt(load / density)  # speed of the rotors, relative
    through = max(along, 0.0)
    mu = across / (tip * faster)
    induced = CORRECTION * inflow_at(across, through, inflow * faster)
    return load * (weight * (induced + through) + profile * faster * (1.0 + ADVANCE * mu * mu))


@part
def relative_density(altitude: float, temperature: float, height: float) -> float:
    """Of air at `height` m above a place at `altitude` m with `temperature` K, over 1.225 kg/m^3.

    Pressure and lapse rate of the ICAO standard atmosphere (Doc 7488). No temperature: 1.
    """
    if temperature <= 0.0:
        return 1.0
    pressure = max(1.0 - 2.25577e-5 * (altitude + height), 0.1) ** 5.25588
    relative: float = pressure * 288.15 / max(temperature - 0.0065 * height, 150.0)
    return relative


@part
def wheel_power(v: float, accel: float, mass: float, rolling: float, weight: float) -> float:
    """W at the wheels at speed v: rolling resistance and acceleration; braking gives nothing back."""
    return max((rolling * weight + mass * accel) * v, 0.0)

"""A cell's voltage in flight: the project's battery with a resistance that relaxes and grows.

The terminal voltage is U = E(charge) - V1 - R0 I with the open-circuit curve and the current of
`cosim.physics.vehicles.battery`. V1 is the voltage of one resistor beside a capacitor in series (Thevenin model;
Plett, "Battery Management Systems", vol. 1, chapter 2): dV1/dt = (R1 I - V1) / tau. Both resistances
grow as the cell empties. Where the sag of a flight's first seconds is known, it determines their size. Brushed
motors at full duty draw what their resistance allows, however much power hover would take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cosim.compiled.compiling import entry
from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.jit import jit
from cosim.physics.vehicles.airframe import BatteryPack
from cosim.physics.vehicles.battery import current, open_circuit
from cosim.twin.space import Parameter, Space

Integers = Ints

STEP = 0.1  # s
PER_SECOND = 10  # steps


@dataclass(frozen=True, slots=True, eq=False)
class DischargeFlights:
    """Flights one after another: flight k has the steps `first[k]` to `first[k + 1]`."""

    first: Integers  # (flights + 1,) multiples of PER_SECOND apart
    load: Floats  # (steps,) 1 in flight, 0 at rest
    rest: Floats  # (flights,) V before the motors start
    sag: Floats  # (flights,) V between rest and the first seconds of flight; NaN: not known


def space(power: float, *, sags: bool) -> Space:
    """The free parameters; the start is the battery that vehicles have by default, at `power` W of hover.

    With known `sags` the resistance follows from them, and there is no parameter for it.
    """
    resistance = Parameter("resistance", 0.005, 1.0, scale="log", unit="ohm", start=BatteryPack(1.0).resistance)
    return Space([
        Parameter("power", 1.0, 20.0, scale="log", unit="W", start=power),  # in hover
        Parameter("motors", 0.2, 5.0, scale="log", unit="ohm", start=0.5),  # all of them, at full duty
        Parameter("relaxing", 0.0, 2.0, start=0.0),  # resistance that builds up, over the one at once
        Parameter("relaxation", 1.0, 100.0, scale="log", unit="s", start=10.0),  # time constant
        Parameter("growth", 0.0, 5.0, start=0.0),  # of the resistance from full to empty, as a share
        Parameter("knee", -0.5, 0.5, unit="V", start=0.0),  # added to the open-circuit curve at no charge, linearly
        *([] if sags else [resistance]),
    ])  # fmt: skip


@jit
def _drawn(power: float, motors: float, emf: float, resistance: float) -> float:
    """A that the motors draw for `power` W, or at full duty."""
    return min(current(power, emf, resistance), emf / (resistance + motors))


@entry()
def _fly(
    values: Floats, first: Integers, load: Floats, rest: Floats, sag: Floats, seen: float,
    capacity: float, voltage: Floats,
) -> None:  # fmt: skip
    for v in range(len(values)):
        power, motors, ratio, tau, growth, knee = values[v, :6]
        for flight in range(len(rest)):
            charge = 1.0  # the rest voltage determines it, on the same curve
            low, high = 0.0, 1.0
            for _ in range(40):
                charge = 0.5 * (low + high)
                if open_circuit(charge) + knee * (1.0 - charge) < rest[flight]:
                    low = charge
                else:
                    high = charge
            emf = open_circuit(charge) + knee * (1.0 - charge)
            at_once = sag[flight]
            if math.isnan(at_once):
                at_once = values[v, 6]
            else:
                # U = E - sag gives the current by hover or by full duty, and both give the resistance
                left = max(emf - at_once, 0.3)
                amperes = min(power / left, left / motors)
                full = amperes * (1.0 + ratio * (1.0 - math.exp(-seen / tau))) * (1.0 + growth * (1.0 - charge))
                at_once = max(at_once, 0.01) / full
            slow, total = 0.0, 0.0
            for k in range(first[flight], first[flight + 1]):
                emf = open_circuit(charge) + knee * (1.0 - charge)
                r = at_once * (1.0 + growth * (1.0 - charge))
                drawn = load[k] * _drawn(power, motors, max(emf - slow, 0.5), r)
                total += emf - slow - r * drawn
                slow += (ratio * r * drawn - slow) * (1.0 - math.exp(-STEP / tau))
                charge = max(charge - drawn * STEP / capacity, 0.0)
                if (k + 1) % PER_SECOND == 0:
                    voltage[v, k // PER_SECOND] = total / PER_SECOND
                    total = 0.0


def simulate(values: Floats, flights: DischargeFlights, *, capacity: float, seen: float) -> Floats:
    """(n, seconds) V, the mean of every second of all flights, for `values` (n, 6 or 7) as `space` has them.

    `capacity` in C. `flights.sag` is the mean sag around `seen` s after the start.
    """
    values = np.ascontiguousarray(np.atleast_2d(values), np.float64)
    voltage = np.empty((len(values), len(flights.load) // PER_SECOND))
    _fly(
        values, flights.first, flights.load, flights.rest, flights.sag, float(seen), float(capacity),
        voltage,
    )  # fmt: skip
    return voltage

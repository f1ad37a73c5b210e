"""Power and batteries against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.vehicles import Battery, Copter, Fleet, Rover
from cosim.vehicles.airframe import AIR, GRAVITY
from cosim.vehicles.battery import OPEN_CIRCUIT, current, open_circuit
from cosim.vehicles.power import rotor_power, wheel_power


def rotor(v, load=1.0, copter=None):
    row = (copter or Copter()).row()[0]
    return rotor_power(v, load, *(float(row[name]) for name in ("profile", "induced", "tip", "inflow", "parasite")))


def test_hover_needs_what_momentum_theory_says():
    copter = Copter()
    disc = 4 * math.pi * copter.rotor_radius**2
    ideal = (copter.mass * GRAVITY) ** 1.5 / math.sqrt(2.0 * AIR * disc)
    assert rotor(0.0) == pytest.approx(ideal / 0.6)


def test_stated_hover_power_is_what_the_battery_gives():
    fleet = Fleet([Copter(hover_power=220.0)], [(0, 0, 0)])
    fleet.arm([0])
    fleet.take_off([0], 10.0)
    fleet.advance(30.0)
    assert fleet.state["power"][0] == pytest.approx(220.0, rel=1e-3)
    with pytest.raises(ValueError, match="needs more than"):
        Copter(hover_power=40.0).row()


def test_power_over_speed_has_its_least_value_between_hover_and_top_speed():
    speeds = np.arange(0.0, 30.0, 0.5)
    watts = [rotor(v) for v in speeds]
    best = int(np.argmin(watts))
    assert 3.0 < speeds[best] < 20.0
    assert watts[best] < 0.9 * watts[0]
    assert watts[-1] > watts[best]


def test_induced_power_far_above_the_inflow_falls_as_one_over_speed():
    """Glauert's limit: with v >> v0 the wake term is k v0 / v."""
    row = Copter().row()[0]
    v = 40.0 * row["inflow"]
    induced = rotor_power(v, 1.0, 0.0, float(row["induced"]), 120.0, float(row["inflow"]), 0.0)
    assert induced == pytest.approx(row["induced"] * row["inflow"] / v, rel=1e-3)


@given(st.floats(1.0, 400.0), st.floats(8.0, 30.0), st.floats(0.0, 0.1))
def test_current_gives_the_power_or_as_much_as_the_pack_can(power, emf, resistance):
    amps = current(power, emf, resistance)
    given_ = (emf - resistance * amps) * amps
    most = math.inf if resistance == 0.0 else emf * emf / (4.0 * resistance)
    assert given_ == pytest.approx(min(power, most), rel=1e-6)


def test_open_circuit_voltage_rises_with_charge_and_meets_its_table():
    levels = np.linspace(0.0, 1.0, 501)
    volts = [open_circuit(x) for x in levels]
    assert np.all(np.diff(volts) >= 0.0)
    assert volts[::25] == pytest.approx(OPEN_CIRCUIT.tolist())
    assert open_circuit(-0.1) == OPEN_CIRCUIT[0]
    assert open_circuit(1.1) == OPEN_CIRCUIT[-1]


def test_energy_and_charge_agree():
    """A hover's energy at the terminals plus the loss inside is the integral of the rest voltage over charge."""
    pack = Battery(capacity=1.0, resistance=0.05, low=0.0, critical=0.0, action="none")
    fleet = Fleet([Copter(battery=pack)], [(0, 0, 0)])
    fleet.arm([0])
    fleet.take_off([0], 10.0)
    loss, used = 0.0, fleet.state["charge"][0]
    for k in range(1, 1201):
        fleet.advance(0.1 * k)
        loss += 0.1 * 0.05 * fleet.state["current"][0] ** 2
    used -= fleet.state["charge"][0]
    levels = np.linspace(1.0 - used / 3600.0, 1.0, 20001)
    inside = 4.0 * np.trapezoid([open_circuit(x) for x in levels], levels) * 3600.0
    assert fleet.state["energy"][0] + loss == pytest.approx(inside, rel=2e-3)


def test_wheels_pay_for_rolling_and_acceleration_and_get_nothing_back():
    rover = Rover()
    weight = rover.mass * GRAVITY
    assert wheel_power(2.0, 0.0, rover.mass, rover.rolling, weight) == pytest.approx(0.08 * weight * 2.0)
    assert wheel_power(2.0, 1.0, rover.mass, rover.rolling, weight) == pytest.approx((0.08 * weight + 60.0) * 2.0)
    assert wheel_power(2.0, -5.0, rover.mass, rover.rolling, weight) == 0.0


@pytest.mark.parametrize(
    "wrong", [{"capacity": 0.0}, {"cells": 0}, {"resistance": -0.1}, {"low": 0.1, "critical": 0.2}, {"low": 1.0}]
)
def test_batteries_that_cannot_be(wrong):
    with pytest.raises(ValueError, match="a battery needs"):
        Battery(**wrong)

"""Power and batteries against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.physics.vehicles import BatteryPack, Copter, Rover, VehicleFleet
from cosim.physics.vehicles.airframe import AIR, GRAVITY
from cosim.physics.vehicles.airframes import PUBLISHED, airframe, level_power
from cosim.physics.vehicles.battery import OPEN_CIRCUIT, current, open_circuit
from cosim.physics.vehicles.power import CORRECTION, inflow_at, relative_density, rotor_power, wheel_power


def rotor(across=0.0, along=0.0, load=1.0, density=1.0):
    row = Copter().row()[0]
    weight = 1.5 * GRAVITY
    return rotor_power(across, along, load, density, weight, *(float(row[n]) for n in ("profile", "inflow", "tip")))


def test_hover_needs_what_momentum_theory_says():
    copter = Copter()
    disc = 4 * math.pi * copter.rotor_radius**2
    ideal = (copter.mass * GRAVITY) ** 1.5 / math.sqrt(2.0 * AIR * disc)
    assert rotor(0.0) == pytest.approx(ideal / 0.6)


def test_stated_hover_power_is_what_the_battery_gives():
    fleet = VehicleFleet([Copter(hover_power=220.0)], [(0, 0, 0)])
    fleet.arm([0])
    fleet.take_off([0], 10.0)
    fleet.advance(30.0)
    assert fleet.state["power"][0] == pytest.approx(220.0, rel=1e-3)
    with pytest.raises(ValueError, match="needs more than"):
        Copter(hover_power=40.0).row()


def test_a_pack_has_to_give_what_a_hover_draws():
    pack = BatteryPack(cells=3, resistance=0.2)  # (3 x 4.2 V)^2 / (4 x 0.2 ohm) = 198 W
    Copter(hover_power=198.0, battery=pack).can_hover()
    with pytest.raises(ValueError, match="a hover draws 199 W, and its full battery gives 198 W at most"):
        Copter(hover_power=199.0, battery=pack).can_hover()


def flat_out(copter, speed, wind=(0.0, 0.0, 0.0)):
    """Power (W) and airspeed (m/s) of a copter that has flown east at `speed` for long, as the fleet flies it."""
    fleet = VehicleFleet([copter], [(0, 0, 0)], substep=0.02)
    fleet.wind[:] = wind
    fleet.arm([0])
    fleet.take_off([0], 20.0)
    fleet.advance(15.0)
    fleet.set_speed([0], speed)
    fleet.go([0], [[1e5, 0.0, 20.0]])
    fleet.advance(60.0)
    s = fleet.state[0]
    assert s["vz"] == pytest.approx(0.0, abs=1e-3)
    return float(s["power"]), float(s["vx"] - wind[0])


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
@pytest.mark.parametrize("speed", [4.0, 10.0, 16.0])
def test_rotors_pay_for_the_drag_of_the_dynamics(dynamics, speed):
    """Against an independent solution of Glauert's equations for the forces of level flight."""
    copter = Copter(speed=25.0, dynamics=dynamics)
    watts, air = flat_out(copter, speed)
    assert air == pytest.approx(speed, rel=1e-3)
    drag = copter.mass * (copter.drag + copter.drag2 * air) * air
    weight = copter.mass * GRAVITY
    thrust, lean = math.hypot(drag, weight), math.atan2(drag, weight)
    area = 4 * math.pi * copter.rotor_radius**2
    low, high = 0.0, 20.0
    for _ in range(60):  # v such that thrust = 2 rho A v |flow|
        v = 0.5 * (low + high)
        flow = math.hypot(air * math.cos(lean), air * math.sin(lean) + v)
        low, high = (v, high) if 2.0 * AIR * area * v * flow < thrust else (low, v)
    row = copter.row()[0]
    faster = math.sqrt(thrust / weight)
    profile = row["profile"] * faster**3 * (1.0 + 4.65 * (air * math.cos(lean) / (120.0 * faster)) ** 2)
    expected = thrust * (CORRECTION * v + air * math.sin(lean)) + profile
    mechanical = (watts - copter.idle) * copter.efficiency
    assert mechanical == pytest.approx(expected, rel=2e-3)
    assert mechanical > drag * air
    assert level_power(copter, air) == pytest.approx(watts, rel=2e-3)


def test_there_is_a_speed_of_best_range_and_head_wind_costs():
    copter = Copter()
    speeds = np.arange(2.0, 22.0, 0.5)
    per_metre = np.array([level_power(copter, v) / v for v in speeds])
    best = int(np.argmin(per_metre))
    assert 0 < best < len(speeds) - 1
    watts = np.array([level_power(copter, v) for v in np.arange(0.0, 22.0, 0.5)])
    assert 0 < int(np.argmin(watts)) < 30  # the least power is between hover and top speed
    assert level_power(copter, 10.0, 5.0) > level_power(copter, 10.0) > level_power(copter, 10.0, -2.0)
    against, _ = flat_out(copter, 8.0, (-8.0, 0.0, 0.0))
    calm, _ = flat_out(copter, 8.0)
    assert against > calm


def test_climbing_costs_its_work_and_sinking_gives_nothing_back():
    weight = 1.5 * GRAVITY
    assert rotor(along=2.0) > rotor() + 0.45 * weight * 2.0  # a climb also lowers the inflow
    assert rotor(along=-2.0) == rotor()
    climb = inflow_at(0.0, 2.0, 5.0)
    assert climb == pytest.approx(-1.0 + math.sqrt(1.0 + 25.0))  # momentum theory of axial climb


def test_thin_air_costs():
    """Rotors of fixed pitch turn faster in it: both parts grow with density^-1/2."""
    assert rotor(density=0.64) == pytest.approx(rotor() / 0.8)
    assert relative_density(0.0, 0.0, 4000.0) == 1.0
    assert relative_density(0.0, 288.15, 0.0) == pytest.approx(1.0)
    assert relative_density(0.0, 288.15, 2000.0) == pytest.approx(1.0066 / 1.225, rel=1e-3)  # ICAO table
    fleet = VehicleFleet([Copter(), Copter()], [(0, 0, 0), (50, 0, 0)])
    fleet.set_air(3000.0)
    fleet.frames["temperature"][0] = 0.0  # as it is without
    fleet.arm([0, 1])
    fleet.take_off([0, 1], 10.0)
    fleet.advance(30.0)
    low, high = (fleet.state["power"] - 6.0) * 0.75
    assert high / low == pytest.approx(1.0 / math.sqrt(0.9091 / 1.225), rel=3e-3)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_endurance_within_15_percent(name):
    """Hover from the published hover; forward flight is predicted, with nothing fitted to it."""
    copter, sheet = airframe(name), PUBLISHED[name]
    assert level_power(copter, 0.0) == pytest.approx(sheet.hover_power, rel=1e-6)
    for speed, _ in sheet.flights:
        assert level_power(copter, speed) == pytest.approx(sheet.power(speed), rel=0.15)


def test_a_cold_or_old_battery_gives_less_at_more_resistance():
    new, cold, old = BatteryPack(), BatteryPack(temperature=0.0), BatteryPack(cycles=500.0)
    assert (new.usable, new.internal) == (new.capacity, pytest.approx(new.resistance))
    assert cold.usable == pytest.approx(0.85 * new.capacity)
    assert cold.internal == pytest.approx(2.09 * new.resistance, rel=0.01)
    assert old.usable == pytest.approx(0.8 * new.capacity)
    assert old.internal == pytest.approx(1.5 * new.resistance)


def test_induced_power_far_above_the_inflow_falls_as_one_over_speed():
    """Glauert's limit: with v >> v0 the inflow is v0^2 / v."""
    assert inflow_at(200.0, 0.0, 5.0) == pytest.approx(25.0 / 200.0, rel=1e-3)


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
    pack = BatteryPack(capacity=1.0, resistance=0.05, low=0.0, critical=0.0, action="none")
    fleet = VehicleFleet([Copter(battery=pack)], [(0, 0, 0)])
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
        BatteryPack(**wrong)

from __future__ import annotations

import math

import numpy as np
import pytest

from cosim.extensions.published_data.models import discharge
from cosim.physics.vehicles.battery import current, open_circuit

VALUES = (6.0, 0.8, 0.6, 8.0, 0.4, -0.1, 0.09)


def flights(rest=(4.1, 3.9), sag=None, seconds=(40, 25)):
    first = np.concatenate([[0], np.cumsum([10 * s for s in seconds])])
    load = np.ones(first[-1])
    load[:7] = 0.0
    sag = np.full(len(rest), np.nan) if sag is None else np.array(sag)
    return discharge.DischargeFlights(first.astype(np.int64), load, np.array(rest), sag)


def plain(values, known, flight, capacity, resistance):
    """The same discharge, a step at a time in plain numbers."""
    power, motors, ratio, tau, growth, knee = values[:6]

    def emf(charge):
        return open_circuit(charge) + knee * (1.0 - charge)

    charges = np.linspace(0.0, 1.0, 200_001)
    charge = float(charges[np.argmin([abs(emf(c) - known.rest[flight]) for c in charges])])
    slow, voltage = 0.0, []
    for k in range(known.first[flight], known.first[flight + 1]):
        at_once = resistance * (1.0 + growth * (1.0 - charge))
        left = max(emf(charge) - slow, 0.5)
        drawn = known.load[k] * min(current(power, left, at_once), left / (at_once + motors))
        voltage.append(emf(charge) - slow - at_once * drawn)
        slow += (ratio * at_once * drawn - slow) * (1.0 - math.exp(-0.1 / tau))
        charge = max(charge - 0.1 * drawn / capacity, 0.0)
    return np.array(voltage).reshape(-1, 10).mean(axis=1)


def test_a_discharge_is_that_of_a_plain_integration():
    known = flights()
    found = discharge.simulate(np.array([VALUES]), known, capacity=864.0, seen=7.5)
    wanted = np.concatenate([plain(VALUES, known, k, 864.0, VALUES[6]) for k in (0, 1)])
    np.testing.assert_allclose(found[0], wanted, atol=2e-4)


def test_the_sag_of_the_first_seconds_tells_the_resistance():
    rest, values = (4.1, 3.95), (6.0, 0.3, 0.6, 8.0, 0.4, 0.0, 0.12)
    true = discharge.simulate(np.array([values]), flights(rest), capacity=864.0, seen=7.5)[0]
    sag = [4.1 - true[5:10].mean(), 3.95 - true[45:50].mean()]
    found = discharge.simulate(np.array([values[:6]]), flights(rest, sag), capacity=864.0, seen=7.5)[0]
    np.testing.assert_allclose(found[10:40], true[10:40], atol=0.03)


def test_motors_at_full_duty_do_not_draw_more_than_their_resistance_allows():
    values = np.array([(50.0, 1.0, 0.0, 10.0, 0.0, 0.0, 0.5)])
    voltage = discharge.simulate(values, flights((4.2,), seconds=(5,)), capacity=1e6, seen=0.0)[0]
    assert voltage[-1] == pytest.approx(4.2 / 1.5, rel=1e-3)


def test_the_start_is_the_battery_that_vehicles_have():
    space = discharge.space(7.6, sags=False)
    known = flights((4.2,), seconds=(3,))
    voltage = discharge.simulate(space.start, known, capacity=864.0, seen=0.0)[0]
    drawn = current(7.6, 4.2, 0.02)
    assert voltage[1] == pytest.approx(4.2 - 0.02 * drawn, abs=0.01)
    assert len(discharge.space(7.6, sags=True)) == len(space) - 1

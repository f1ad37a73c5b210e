"""Errors of positions: as strong and as slow as is said, whatever the step."""

from __future__ import annotations

import numpy as np
import pytest

from cosim.physics.vehicles import Copter, Rover, VehicleFleet
from cosim.physics.vehicles import phases as ph
from cosim.physics.vehicles.engagement import Engagements
from cosim.physics.vehicles.receivers import PositionErrors
from cosim.physics.vehicles.reports import PairLinks
from cosim.physics.vehicles.rule import Follow


@pytest.mark.parametrize("dt", [0.1, 7.0])
def test_errors_have_the_deviation_and_the_correlation_that_they_were_given(dt):
    errors = PositionErrors(20_000, 1.5, 3.0, 20.0, 1)
    first = errors.now.copy()
    for _ in range(round(14.0 / dt)):
        errors.step(dt)
    assert errors.now.std(axis=0) == pytest.approx([1.5, 1.5, 3.0], rel=0.03)
    together = (first * errors.now).mean(axis=0) / np.array([1.5, 1.5, 3.0]) ** 2
    assert together == pytest.approx([np.exp(-14.0 / 20.0)] * 3, abs=0.03)


@pytest.mark.parametrize("wrong", [(-1.0, 1.0, 9.0), (1.0, -1.0, 9.0), (1.0, 1.0, 0.0)])
def test_errors_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match=r"0 m or more|above 0 s"):
        PositionErrors(2, *wrong, 1)


def engaged(error=(0.0, 0.0, 0.0), spread=0.0, count=1):
    """Pairs of a drone and a rover that stands 40 m off, half a minute after the order."""
    homes = [(0.0, 200.0 * k, 0.0) for k in range(count)] + [(40.0, 200.0 * k, 0.0) for k in range(count)]
    fleet = VehicleFleet([Copter()] * count + [Rover()] * count, homes, substep=0.05)
    pairs = Engagements(fleet, range(count), range(count, 2 * count), Follow(behind=0.0, arming_spread=spread))
    pairs.position_error[:count] = error
    pairs.command(range(count), engage=True)
    while fleet.now < 60.0:
        fleet.advance(fleet.now + 0.1)
        pairs.tick(PairLinks.steady(count))
    return fleet, pairs


def test_a_drone_that_errs_is_beside_where_it_should_be():
    fleet, pairs = engaged((1.5, -1.0, 0.5))
    s = fleet.state[0]
    assert [s["x"], s["y"], s["z"]] == pytest.approx([40.0 - 1.5, 1.0, 15.0 - 0.5], abs=0.2)
    assert pairs.phase[0] == ph.FOLLOW


def test_arming_takes_its_time_and_another_for_each():
    _, pairs = engaged(spread=3.0, count=40)
    _, still = engaged(count=1)
    for each in (pairs, still):
        each.command(range(len(each)), engage=False)
        while (each.fleet.state["armed"][: len(each)] != 0).any():
            each.fleet.advance(each.fleet.now + 0.1)
            each.tick(PairLinks.steady(len(each)))
    arming = pairs.records()["t_arm"]
    assert still.records()["t_arm"] == pytest.approx([1.0], abs=0.11)
    assert arming.min() >= 1.0 - 1e-9
    assert arming.mean() == pytest.approx(4.0, abs=1.5)  # of 40 draws
    assert len(np.unique(arming)) > 20

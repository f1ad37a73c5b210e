"""The way over a field: every row once, and turns that a vehicle can drive."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.physics.vehicles import Rover, VehicleFleet
from cosim.physics.vehicles.rows import FieldRows, _bend


def test_rows_alternate_and_lie_to_the_right():
    course, row_of = FieldRows((10.0, 20.0), rows=3, pitch=4.0, length=50.0).course()
    assert [(w.x, w.y) for w in course] == [(10, 20), (10, 70), (14, 70), (14, 20), (18, 20), (18, 70)]
    assert row_of.tolist() == [-1, 0, -1, 1, -1, 2]


def test_rows_follow_their_heading():
    course, _ = FieldRows(rows=2, pitch=2.0, length=10.0, heading=math.pi / 2).course()
    assert np.array([(w.x, w.y) for w in course]) == pytest.approx(np.array([(0, 0), (10, 0), (10, -2), (0, -2)]))


def test_speeds_and_stops_belong_to_rows():
    course, row_of = FieldRows(rows=3, speeds=(1.0, 2.0), stop=5.0).course()
    ends = [w for w, row in zip(course, row_of, strict=True) if row >= 0]
    assert [w.speed for w in ends] == [1.0, 2.0, 1.0]
    assert [w.hold for w in ends] == [5.0, 5.0, 5.0]


@given(st.floats(0.5, 20.0), st.floats(0.0, 10.0))
def test_turns_join_two_rows_smoothly(pitch, radius):
    points = np.array([(0.0, 0.0), *_bend(pitch, radius)])
    assert points[-1] == pytest.approx((pitch, 0.0), abs=1e-6)
    if radius > 0.0:
        legs = np.diff(points, axis=0)
        legs = legs[np.hypot(*legs.T) > 1e-6]
        course = np.unwrap(np.arctan2(legs[:, 0], legs[:, 1]))
        assert np.abs(np.diff(course)).max(initial=0.0) <= math.radians(31.0)
        assert points[:, 1].min() >= -1e-6  # it never turns back into the crop


def test_a_rover_with_that_radius_drives_it():
    field = FieldRows((0.0, 0.0), rows=3, pitch=3.0, length=30.0, headland=1.0, turn=2.0)
    fleet = VehicleFleet([Rover(steering="ackermann")], [(0.0, -5.0, 0.0)], substep=0.02)
    course, row_of = field.course()
    fleet.set_mission(0, course)
    fleet.arm([0])
    fleet.start_mission([0])
    off = []
    while fleet.state["done"][0] == 0:
        fleet.advance(fleet.now + 0.2)
        s = fleet.state[0]
        row = row_of[min(s["item"], len(row_of) - 1)]
        if s["done"] == 0 and row >= 0 and 8.0 < s["y"] < 22.0:
            off.append(abs(s["x"] - 3.0 * row))
        assert fleet.now < 300.0
    assert len(off) > 50
    assert max(off) < 0.8  # m beside the row


def test_places_on_rows():
    field = FieldRows((0.0, 0.0), rows=2, pitch=4.0, length=100.0)
    assert field.on_row(1, 0.25) == pytest.approx((4.0, 75.0, math.pi))
    assert field.box(1.0) == pytest.approx((-3.0, -1.0, 7.0, 101.0))


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"pitch": 0.0}, {"headland": -1.0}, {"speeds": (0.0,)}])
def test_impossible_fields_are_refused(wrong):
    with pytest.raises(ValueError, match=r"above 0|below 0"):
        FieldRows(**wrong)

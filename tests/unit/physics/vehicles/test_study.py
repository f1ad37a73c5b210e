"""The study of engagements: a table, a surface, and the same flights however they are batched."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosim.physics.vehicles import BatteryPack, Copter, Rover, VehicleFleet, Waypoint, phases
from cosim.physics.vehicles.coverage import FieldCoverage
from cosim.physics.vehicles.layout import LOW
from cosim.physics.vehicles.missions import MissionRunner
from cosim.physics.vehicles.phases import RECORD
from cosim.physics.vehicles.reports import PairLinks
from cosim.physics.vehicles.rows import FieldRows
from cosim.physics.vehicles.study import fit, study

FIELD = FieldRows((40.0, 0.0), rows=4, length=120.0, turn=1.6)
HOMES = [(0.0, 0.0), (-150.0, -50.0), (40.0, 300.0)]
PLACES = [(0, 0.1), (1, 0.5), (2, 0.8)]


@pytest.fixture(scope="module")
def found():
    return study(HOMES, PLACES, FIELD, follow=10.0)


def test_every_home_meets_every_position(found):
    assert found.t_engage.shape == (3, 3)
    assert (found.records["outcome"] == phases.COMPLETED).all()
    assert found.t_engage[1].min() > found.t_engage[0].max()
    assert found.simulated > 9 * 60.0


def test_the_surface_explains_the_times(found):
    surface = found.surface
    assert surface.explained > 0.9
    assert 1.0 / 14.0 < surface.per_metre < 1.0 / 8.0  # the drone flies at up to 10 m/s
    left = surface.at(found.records["distance_command"]) - found.t_engage.ravel()
    assert np.abs(left).max() < 8.0


def test_batches_change_nothing(found):
    lossy = lambda away: PairLinks.steady(len(away), 0.2, 0.3)  # noqa: E731
    one, other = (study(HOMES[:2], PLACES, FIELD, follow=5.0, links=lossy, batch=size).records for size in (100, 2))
    for name in RECORD.names:
        assert np.array_equal(one[name], other[name], equal_nan=name not in ("pair", "number", "outcome", "reason")), (
            name
        )


def test_a_surface_is_found_again():
    records = np.zeros(50, RECORD)
    rng = np.random.default_rng(1)
    records["target_x"], records["target_y"] = rng.uniform(50.0, 500.0, (2, 50))
    records["target_vx"], records["target_vy"] = rng.uniform(-2.0, 2.0, (2, 50))
    far = np.hypot(records["target_x"], records["target_y"])
    records["distance_command"] = far
    away = (records["target_x"] * records["target_vx"] + records["target_y"] * records["target_vy"]) / far
    records["t_engage"] = 9.0 + 0.1 * far + 1.5 * away
    got = fit(records)
    assert (got.constant, got.per_metre, got.per_speed, got.explained) == pytest.approx((9.0, 0.1, 1.5, 1.0))
    assert math.isnan(fit(records[:3]).constant)


def test_places_off_the_field_are_refused():
    with pytest.raises(ValueError, match=r"no place \(4, 0.5\)"):
        study(HOMES, [(4, 0.5)], FIELD)


def test_a_camera_sees_what_its_footprint_covers():
    coverage = FieldCoverage(1, (0.0, 0.0, 100.0, 100.0), 1.0)
    look = np.array([[50.0, 50.0, 0.0, 10.0, 5.0]])  # 20 m across, 10 m along
    one = np.array([0])
    assert coverage.look(one, look, np.array([1])) == pytest.approx([200.0])
    assert coverage.look(one, look + np.array([0.0, 5.0, 0, 0, 0]), np.array([1])) == pytest.approx([100.0])
    assert coverage.look(one, look, np.array([2])) == pytest.approx([200.0])  # another flight sees it anew
    assert coverage.total() == 300.0
    assert coverage.look(one, look + np.array([50.0, 0, 0, 0, 0]), np.array([3])) == pytest.approx(
        [100.0]
    )  # half outside


def test_a_field_of_more_cells_than_memory_holds_has_larger_ones(monkeypatch):
    monkeypatch.setattr("cosim.physics.vehicles.coverage._MOST", 2e4)
    coverage = FieldCoverage(2, (0.0, 0.0, 1000.0, 1000.0), 1.0)  # 100 x 100 cells of 10 m for each
    look = np.array([[500.0, 500.0, 0.0, 40.0, 20.0]])
    assert coverage.look(np.array([0]), look, np.array([1])) == pytest.approx([3200.0])
    assert coverage.total() == 3200.0


def working(pauses=(), **options):
    field = FieldRows(rows=2, pitch=4.0, length=20.0, **options)
    course, row_of = field.course()
    fleet = VehicleFleet([Rover()], [(0.0, -2.0, 0.0)], substep=0.05)
    fleet.set_mission(0, course)
    return fleet, MissionRunner(fleet, [0], [3.0], row_of[None], pauses)


def course_of(fleet, works, until=80.0):
    seen = {}
    while fleet.now < until:
        fleet.advance(fleet.now + 0.1)
        works.tick()
        seen.setdefault(phases.STATES[works.state[0]], []).append(round(fleet.now, 1))
    return seen


def test_a_tractor_parks_works_turns_and_is_done():
    fleet, works = working()
    seen = course_of(fleet, works)
    assert seen["parked"][-1] == pytest.approx(2.9)
    assert list(seen) == ["parked", "turning", "working", "done"]
    assert works.done.all()
    assert len(seen["working"]) * 0.1 == pytest.approx(40.0 / 2.0, abs=6.0)


def test_it_stands_at_the_ends_and_during_pauses():
    fleet, works = working([(0, 8.0, 12.0), (0, 10.0, 15.0)], stop=3.0)
    seen = course_of(fleet, works)
    waited = np.array(seen["waiting"])
    assert ((waited >= 8.0) & (waited < 15.0)).sum() == pytest.approx(70, abs=1)
    assert len(waited) == pytest.approx(70 + 2 * 30, abs=6)
    assert works.done.all()


@pytest.mark.parametrize(("action", "goes_on"), [("return", False), ("land", False), ("none", True)])
def test_after_a_pause_a_low_battery_goes_before_the_mission(action, goes_on):
    pack = BatteryPack(capacity=0.06, low=0.6, critical=0.0, action=action)  # low while it hovers in the pause
    fleet = VehicleFleet([Copter(battery=pack)], [(0.0, 0.0, 0.0)], substep=0.05)
    fleet.set_mission(0, [Waypoint(10.0, 0.0, 5.0), Waypoint(40.0, 0.0, 5.0)])
    works = MissionRunner(fleet, [0], [0.0], np.full((1, 2), -1), [(0, 3.0, 11.0)])
    course_of(fleet, works, 10.9)
    assert fleet.state["failsafe"][0] == LOW
    course_of(fleet, works, 11.5)
    assert (fleet.mode([0]) == ["mission"]) is goes_on


def test_a_failed_rover_stops_and_goes_on():
    fleet, works = working()
    course_of(fleet, works, 8.0)
    works.fail([0])
    course_of(fleet, works, 12.0)
    there = fleet.state["y"][0]
    course_of(fleet, works, 20.0)
    assert fleet.state["y"][0] == pytest.approx(there, abs=0.01)
    works.fail([0], False)
    course_of(fleet, works)
    assert works.done.all()

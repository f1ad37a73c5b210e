"""Engaging a drone: the way through its states, what cuts it short, and what is written down."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.physics.vehicles import BatteryPack, Copter, Rover, VehicleFleet, phases
from cosim.physics.vehicles.engagement import Engagements
from cosim.physics.vehicles.follow import apart, fenced, stand_off
from cosim.physics.vehicles.phases import RECORD
from cosim.physics.vehicles.reports import Chance, PairLinks, Reports
from cosim.physics.vehicles.rule import Follow

RULE = Follow(report=0.2)


class Field:
    """One drone at the origin and a rover that drives north at 1 m/s from (30, 0)."""

    def __init__(self, rule=RULE, copter=Copter(), delay=0.1, loss=0.0, **options):  # noqa: B008
        self.fleet = VehicleFleet([copter, Rover()], [(0, 0, 0), (30, 0, 0)], substep=0.05, **options)
        self.fleet.arm([1])
        self.fleet.set_speed([1], 1.0)
        self.fleet.go([1], [[30.0, 5000.0, 0.0]])
        self.pairs = Engagements(self.fleet, [0], [1], rule, keys=[7])
        self.links = PairLinks.steady(1, delay, loss)
        self.done = np.zeros(1, bool)
        self.seen = [self.state]

    @property
    def state(self):
        return phases.STATES[self.pairs.phase[0]]

    def run(self, until):
        while self.fleet.now < until - 1e-9:
            self.fleet.advance(self.fleet.now + 0.1)
            self.pairs.tick(self.links, self.done)
            if self.state != self.seen[-1]:
                self.seen.append(self.state)
        return self

    def engage(self, on=True):
        self.pairs.command([0], engage=on)
        return self

    def record(self, number=-1):
        row = self.pairs.records()[number]
        return {name: row[name].item() for name in RECORD.names} | {
            "outcome": phases.OUTCOMES[row["outcome"]], "reason": phases.REASONS[row["reason"]],
        }  # fmt: skip


WAY = ["home-idle", "arming", "takeoff", "approach", "follow", "return", "landing", "home-idle"]


def test_goes_there_follows_and_comes_home():
    field = Field().run(5.0).engage().run(70.0).engage(False).run(200.0)
    assert field.seen == WAY
    found = field.record()
    assert (found["outcome"], found["reason"]) == ("completed", "disengaged")
    steps = ("latency", "wait", "t_arm", "t_takeoff", "t_approach")
    assert found["t_engage"] == pytest.approx(sum(found[name] for name in steps))
    assert found["distance_command"] == pytest.approx(math.hypot(30.0, 4.0), abs=1.5)
    assert found["target_vy"] == pytest.approx(1.0, abs=0.01)
    assert found["error_p95"] <= found["error_max"] + 0.05
    assert found["error_mean"] < 0.3
    assert found["separation"] > 14.0
    assert 0.1 < found["age"] < 0.3
    assert np.hypot(field.fleet.state["x"][0], field.fleet.state["y"][0]) < 1.0


def test_the_energy_of_the_phases_is_all_of_the_flight():
    field = Field().run(5.0)
    before = field.fleet.state["energy"][0]
    field.engage().run(5.1)
    idle = field.fleet.state["energy"][0] - before  # until the order was heard
    field.run(60.0).engage(False)
    while field.state != "home-idle":
        field.run(field.fleet.now + 0.1)
    found = field.record()
    whole = field.fleet.state["energy"][0] - before
    booked = sum(found[f"energy_{name}"] for name in phases.ENERGIES)
    assert booked == pytest.approx(whole - idle, rel=1e-3)
    assert found["charge_landing"] < found["charge_contact"] < 1.0


def test_disengaged_on_the_way_out_it_returns_without_contact():
    field = Field().run(5.0).engage()
    while field.state != "approach":
        field.run(field.fleet.now + 0.1)
    field.engage(False).run(120.0)
    assert field.seen == ["home-idle", "arming", "takeoff", "approach", "return", "landing", "home-idle"]
    assert (field.record()["outcome"], field.record()["reason"]) == ("aborted", "disengaged")


@pytest.mark.parametrize(("after", "phase"), [(0.6, "arming"), (3.0, "takeoff")])
def test_called_off_early_it_goes_back(after, phase):
    field = Field().run(5.0).engage().run(5.0 + after)
    assert field.state == phase
    field.engage(False).run(60.0)
    assert field.seen[-2:] == ["abort", "home-idle"]
    assert field.record()["outcome"] == "aborted"
    assert field.fleet.state["armed"][0] == 0


def test_engaged_again_on_its_way_home_it_turns_round():
    field = Field().run(5.0).engage().run(60.0).engage(False).run(64.0)
    assert field.state == "return"
    field.engage().run(100.0)
    assert field.state == "follow"
    first, second = field.pairs.records()
    assert first["outcome"] == phases.COMPLETED
    assert math.isnan(first["t_land"])
    assert (second["number"], second["t_arm"], second["t_takeoff"]) == (2, 0.0, 0.0)


def test_an_order_to_one_that_follows_changes_nothing():
    field = Field().run(5.0).engage().run(60.0).engage().run(70.0)
    assert field.state == "follow"
    assert len(field.pairs.records()) == 1


def test_when_nothing_is_heard_it_hovers_and_then_returns():
    field = Field().run(5.0).engage().run(60.0)
    field.links = PairLinks.steady(1, 0.1, 1.0)
    field.run(64.0)
    assert field.state == "follow"
    assert np.hypot(field.fleet.state["vx"][0], field.fleet.state["vy"][0]) < 0.1  # stale after 2 s
    field.run(120.0)
    assert field.seen == WAY
    assert field.record()["reason"] == "link-lost"


def test_the_end_of_the_target_s_work_sends_it_home():
    field = Field().run(5.0).engage().run(60.0)
    field.done[:] = True
    field.run(150.0)
    assert (field.record()["outcome"], field.record()["reason"]) == ("completed", "target-done")


def test_commands_that_are_lost_are_sent_again_and_given_up():
    field = Field(loss=1.0).run(5.0).engage().run(20.0)
    assert field.seen == ["home-idle"]
    assert (field.record()["outcome"], field.record()["reason"]) == ("failed", "unheard")
    field = Field(loss=1.0).run(5.0).engage().run(7.5)
    field.links = PairLinks.steady(1, 0.3, 0.0)
    field.run(10.0)
    assert field.state == "takeoff"
    assert field.record()["latency"] == pytest.approx(3.4, abs=0.15)  # three tries, 1 s apart, and the delay


def test_a_low_battery_brings_it_home_and_is_changed():
    weak = Copter(battery=BatteryPack(capacity=0.8))
    field = Field(replace(RULE, swap=30.0, swap_below=0.5), weak).run(5.0).engage()
    while "home-idle" not in field.seen[1:]:
        field.run(field.fleet.now + 1.0)
        assert field.fleet.now < 600.0
    assert field.seen == [
        "home-idle",
        "arming",
        "takeoff",
        "approach",
        "follow",
        "failsafe",
        "return",
        "landing",
        "home-idle",
    ]
    assert (field.record()["outcome"], field.record()["reason"]) == ("completed", "battery")
    assert field.record()["charge_landing"] < 0.2
    landed = field.fleet.now
    field.engage().run(landed + 60.0)
    assert field.record()["wait"] == pytest.approx(29.0, abs=1.5)
    assert field.pairs.phase[0] != phases.HOME_IDLE


def test_a_weak_battery_without_a_spare_is_refused():
    field = Field(charge=[0.25, 1.0]).run(5.0).engage().run(30.0)
    assert (field.record()["outcome"], field.record()["reason"]) == ("failed", "battery")
    assert field.seen == ["home-idle"]


def test_it_waits_at_the_fence():
    field = Field(replace(RULE, fence=60.0)).run(5.0).engage().run(150.0)
    away = np.hypot(field.fleet.state["x"][0], field.fleet.state["y"][0])
    assert away == pytest.approx(57.0, abs=0.5)
    assert field.state in ("approach", "follow")


def test_a_drone_that_fails_lands_where_it_is():
    field = Field().run(5.0).engage().run(60.0)
    field.pairs.fail([0])
    field.run(110.0)
    assert field.seen[-2:] == ["landing", "home-idle"]
    assert (field.record()["outcome"], field.record()["reason"]) == ("failed", "node-failed")
    assert field.fleet.state["y"][0] > 40.0
    field.engage().run(120.0)
    assert field.record()["reason"] == "unheard"
    field.pairs.fail([0], False)
    field.engage().run(140.0)
    assert field.state in ("takeoff", "approach", "follow")


def test_delay_moves_the_follower_only_a_little():
    """The last report is carried on with its velocity, so that a straight course hides the delay."""
    near, late = (Field(delay=delay).run(5.0).engage().run(90.0).record() for delay in (0.0, 1.0))
    assert late["age"] == pytest.approx(near["age"] + 1.0, abs=0.11)
    assert late["error_mean"] < near["error_mean"] + 0.3


def test_the_same_keys_give_the_same_flight_beside_others():
    def fly(count):
        fleet = VehicleFleet(
            [Copter()] * count + [Rover()] * count, [(0, 0, 0)] * count + [(30, 0, 0)] * count, substep=0.05
        )
        fleet.arm(np.arange(count, 2 * count))
        fleet.go(np.arange(count, 2 * count), [30.0, 900.0, 0.0])
        pairs = Engagements(fleet, np.arange(count), np.arange(count, 2 * count), RULE, keys=np.arange(count)[::-1])
        pairs.command(np.arange(count), engage=True)
        while fleet.now < 40.0:
            fleet.advance(fleet.now + 0.1)
            pairs.tick(PairLinks.steady(count, 0.2, 0.4))
        return pairs.records()

    alone, many = fly(1), fly(5)
    same = many[many["pair"] == 4][0]  # key 0, as the single one
    for name in phases.METRICS:
        assert np.array_equal(alone[0][name], same[name], equal_nan=True), name


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.floats(0.5, 25.0), st.booleans()), min_size=1, max_size=6), st.floats(0.0, 0.6))
def test_every_order_comes_to_an_end_and_the_ways_are_those_of_the_states(orders, loss):
    allowed = {
        "home-idle": {"arming"},
        "arming": {"takeoff", "abort"},
        "takeoff": {"approach", "abort"},
        "approach": {"follow", "return", "failsafe"},
        "follow": {"return", "failsafe"},
        "return": {"landing", "approach"},
        "landing": {"home-idle"},
        "abort": {"home-idle"},
        "failsafe": {"return", "landing"},
    }
    field = Field(loss=loss).run(2.0)
    for gap, on in orders:
        field.engage(on).run(field.fleet.now + gap)
    field.links = PairLinks.steady(1)
    field.run(field.fleet.now + 6.0).engage(False).run(field.fleet.now + 120.0)
    for before, after in zip(field.seen, field.seen[1:], strict=False):
        assert after in allowed[before]
    assert field.state == "home-idle"
    records = field.pairs.records()
    assert (records["outcome"] != phases.RUNNING).all()
    assert len(records) <= sum(on for _, on in orders)


# -- the parts -----------------------------------------------------------------------------------


def test_stand_off_is_behind_beside_and_above():
    place, heading = np.array([[10.0, 20.0, 1.0]]), np.array([math.pi / 2])  # to the east
    point = stand_off(place, heading, np.array([5.0]), np.array([2.0]), np.array([15.0]))
    assert point == pytest.approx(np.array([[5.0, 18.0, 16.0]]))


def test_points_stay_inside_the_fence():
    home, point = np.zeros((2, 3)), np.array([[300.0, 400.0, 90.0], [30.0, 40.0, 9.0]])
    kept = fenced(point, home, np.array([100.0, 0.0]), np.array([50.0, 0.0]))
    assert kept == pytest.approx(np.array([[57.0, 76.0, 47.5], [30.0, 40.0, 9.0]]))


def test_a_drone_too_near_is_led_away():
    point, target = np.array([[0.0, 0.0, 5.0]]), np.zeros((1, 3))
    led = apart(point, np.array([[1.0, 0.0, 1.0]]), target, np.array([4.0]))
    assert led == pytest.approx(np.array([[8.0, 0.0, 5.0]]))
    assert apart(point, np.array([[9.0, 0.0, 1.0]]), target, np.array([4.0])) is point


def test_the_newest_report_counts_however_they_arrive():
    reports = Reports(1, Chance(np.zeros(1, np.uint64)))
    one = np.array([0])
    said = np.arange(7.0)[None]
    reports.send(one, 0.0, said, np.array([3.0]), np.zeros(1))
    reports.send(one, 1.0, said + 1.0, np.array([0.5]), np.zeros(1))
    reports.receive(1.0)
    assert reports.sent[0] == -np.inf
    reports.receive(2.0)
    assert (reports.sent[0], reports.heading[0]) == (1.0, 7.0)
    reports.receive(4.0)  # the older one was overtaken
    assert (reports.sent[0], reports.heading[0]) == (1.0, 7.0)


def test_reports_are_lost_as_often_as_the_link_says():
    reports = Reports(4000, Chance(np.arange(4000, dtype=np.uint64)))
    everyone = np.arange(4000)
    for k in range(5):
        reports.send(everyone, float(k), np.zeros((4000, 7)), np.zeros(4000), np.full(4000, 0.3))
    assert reports.losses.sum() / reports.sends.sum() == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("wrong", [{"height": 1.0, "behind": 1.0}, {"radius": 0.0}, {"patience": -1.0}])
def test_impossible_rules_are_refused(wrong):
    with pytest.raises(ValueError, match=r"separation|above 0|below 0"):
        Follow(**wrong)

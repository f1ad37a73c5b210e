"""Slips of ordinary authors, each put into a shipped scenario: `cosim check` refuses them or warns of them."""

from __future__ import annotations

import pytest

from cosim.scenario.plan.compile import plan_of
from tests.contract.mutated import ROOT, check_refused, check_silent, check_warned

VEHICLE = "adapters.vehicle"

REFUSED = [
    ("hello", "adapters.radio.background=100 %", "must be less than 1.0"),
    ("hello", "adapters.radio.downlink_share=0 %", "must be more than 0.0"),
    ("hello", "adapters.live.model=foo", "there is no adapter 'foo' whose tasks these could be"),
    ("hello", "adapters.network.radio={foo: 1}", "backend linkd has no radio of its own"),
    ("hello", "adapters.continuum.scheduler=os:getpid", "'os:getpid' is called with 3 arguments, and takes ()"),
    ("hello", "adapters.continuum.scheduler=mine/policy.py:choose", "write 'mine.policy:choose', not a path"),
    ("hello", "nodes.cloud.cpu=16 \u00d7 3 GHz", "write whole cores x clock"),
    ("hello", "nodes.cloud.kind=plane", "known: drone, field-edge, uav"),
    ("hello", "sweep={run: {seed: 1..3}}", "write 'run.seed: ...'"),
    ("hello", "nodes.north.cell={carrier: 3.5 Hz}", "does not fit around a carrier of 3.5 Hz"),
    ("hello", "run.duration=2 minutes", "unknown unit 'minutes' for a time; write 'min'"),
    ("hello", "links={north: cloud}", "begin each entry with '- '"),
    ("hello", "run.duration=1e12 s", "too long"),
    ("hello", f"{VEHICLE}.missions.uav-3=nowhere.geojson", "nowhere.geojson: cannot be read: there is no such file"),
]

WARNED = [
    ("hello", f"{VEHICLE}.missions.uav-3.points=[[280 m, -120 m, -30 m]]", "30 m below the ground"),
    ("hello", f"{VEHICLE}.missions.uav-3.points=[[280 km, -120 m, 30 m]]", "is 279,850 m away"),
    ("hello", f"{VEHICLE}.missions.uav-3.speed=60 m/s", "is made for 12 m/s at most"),
    ("hello", "nodes.uav-1.vehicle={frame: copter, battery: {level: 0 %}}", "begins with a charge of 0 %"),
    ("smart-farm", f"{VEHICLE}.engage.0.ceiling=5 m", "may rise to 5 m"),
    ("jammed-farm", "nodes.x={kind: edge, at: [5 m, 5 m], wifi: {network: x}}", "'x' is alone in the network 'x'"),
    ("hello", "events=[{at: 1 s, do: degrade, link: uav-1/cloud, delay: 1 s}]", "nothing joins 'uav-1' and 'cloud'"),
    ("hello", "record={task: {every: 1 h}}", "only its first step is kept"),
    ("hello", "tariffs={day: {price: 0.1 /kWh}}", "no node has this tariff"),
    ("hello", "run.lag={policy: strict}", "the run is as fast as it can be"),
    ("hello", "links.0.loss=100 %", "loses every packet"),
    ("hello", "adapters.live={}", "leaves 'weed-detection' to real nodes"),
    ("hello", "adapters.continuum.priorities={position-report: 2}", "'priorities' has no effect"),
    ("hello", "adapters.continuum.network={model: cellular, rate: 1 Mbit/s}", "another adapter writes the links"),
    ("hello", "adapters.telemetry.nodes=['foo-*']", "'foo-*' names no node"),
    ("hello", f"{VEHICLE}.missions.uav-3.start=1 h", "missions.uav-3.start: begins at 3600 s"),
    ("smart-farm", f"{VEHICLE}.missions.tractor.pauses=[{{at: 2 h, for: 90 s}}]", "pauses.0.at: begins at 7200 s"),
    ("hello", "kinds.drone.vehicle.wheelbase=1 m", "kinds.drone.vehicle.wheelbase: 'wheelbase' has no effect"),
    ("hello", "adapters.radio.rician=5 dB", "'rician' has no effect without 'fading: rician'"),
    ("hello", "events=[{at: 1 s, do: fail, node: south, delay: 1 s}]", "events.0.delay: 'delay' has no effect"),
    ("jammed-farm", "nodes.box.jammer.carrier=3.5 GHz", "the jammer 'box' disturbs nothing"),
    ("hello", "adapters.other={use: continuum}", "made by 'continuum' and 'other', each on its own"),
    ("hello", "adapters.other={use: radio}", "cells are served by 'radio' and 'other'"),
    ("hello", "workloads.position-report.work=1e6 Gcycles", "takes 3.33e+05 s on the fastest processor"),
]


@pytest.mark.parametrize(("scenario", "assignment", "said"), REFUSED)
def test_what_cannot_be_is_refused(scenario, assignment, said):
    check_refused(scenario, assignment, said)


@pytest.mark.parametrize(("scenario", "assignment", "said"), WARNED)
def test_what_would_be_ignored_is_warned_of(scenario, assignment, said):
    check_warned(scenario, assignment, said)


@pytest.mark.parametrize("scenario", sorted({name for name, _, _ in (*REFUSED, *WARNED)}))
def test_the_scenarios_themselves_say_nothing(scenario):
    check_silent(scenario)


def test_what_a_sweep_chooses_has_an_effect():
    swept = ["adapters.radio.rician=5 dB", "sweep={adapters.radio.fading: [none, rician]}"]
    assert plan_of(ROOT / "scenarios" / "hello", swept).warnings == ()


def test_what_is_said_for_all_may_be_otherwise_for_one():
    own = ["defaults.cost={energy: 0.2 /kWh}", "tariffs={day: {price: 0.1 /kWh}}", "nodes.cloud.cost={tariff: day}"]
    assert plan_of(ROOT / "scenarios" / "hello", own).warnings == ()
    both = ["tariffs={day: {price: 0.1 /kWh}}", "nodes.cloud.cost={tariff: day, energy: 0.2 /kWh}"]
    (warning,) = plan_of(ROOT / "scenarios" / "hello", both).warnings
    assert "'energy' has no effect beside 'tariff'" in warning

"""The compiled vehicular model against the same rules in plain Python, task by task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosim.extensions.edgecloudsim.offloading import Simulation, compatible
from cosim.extensions.edgecloudsim.offloading.layout import CAUSES
from cosim.extensions.edgecloudsim.offloading.transport import ring_road
from cosim.extensions.edgecloudsim.offloading.vehicular.choices import POLICIES
from cosim.extensions.edgecloudsim.tests.vehicular.oracle import Oracle

PEER = compatible("app5") - {"processing-tick"}  # the oracle has none


def assert_same(study, seed):
    run = Simulation(study, seed, trace=True)
    run.advance(study.duration)
    ours = run.drain()
    theirs = Oracle(study, seed).run(study.duration)
    assert run.outcome().created == len(theirs)
    ended = {task.serial: task for task in theirs if task.cause}
    assert set(ours["serial"]) == set(ended)
    theirs = [ended[serial] for serial in ours["serial"]]
    assert [CAUSES[cause] for cause in ours["cause"]] == [task.cause for task in theirs]
    assert list(ours["vm"]) == [task.machine for task in theirs]
    assert list(ours["place"]) == [task.place for task in theirs]
    for name in ("created", "ended", "upload", "download", "length", "wlan", "man", "wan", "gsm"):
        expected = [getattr(task, name) for task in theirs]
        np.testing.assert_allclose(ours[name], expected, rtol=1e-9, atol=1e-8, err_msg=name)
    return ours


@pytest.mark.parametrize("quirks", [frozenset(), PEER], ids=["corrected", "peer"])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_task_fares_as_in_the_oracle(policy, quirks):
    study = ring_road(300, policy, duration=40.0, warm_up=20.0, quirks=quirks)
    # links and machines with little to spare, so that every way of failing is met
    links = replace(study.links, wlan=1.5e6, wan=4e6, gsm=3e6, man=1.6e8)
    places = tuple(replace(place, hosts=(place.hosts[0][:1],) if k % 8 else ()) for k, place in enumerate(study.places))
    ours = assert_same(replace(study, links=links, places=places, cloud=(study.cloud[0][:2],)), 5)
    assert len(np.unique(ours["cause"])) >= 5


def test_a_vehicle_that_leaves_its_access_point_is_followed_or_lost():
    study = ring_road(200, duration=60.0, warm_up=0.0)
    quick = tuple(replace(place, x=place.x / 20.0) for place in study.places)  # 20 m each
    ours = assert_same(replace(study, places=quick), 2)
    assert np.any(ours["cause"] == CAUSES.index("mobility"))
    assert np.any((ours["man"] > 0.0) & (ours["tier"] == 1))


def test_periods_of_activity():
    study = ring_road(50, duration=120.0, warm_up=0.0)
    apps = tuple(replace(app, active=7.0, idle=11.0, usage=25.0) for app in study.applications)
    assert_same(replace(study, applications=apps), 3)

"""What a caller of the offloading simulation meets: policies of its own, checks, closed forms."""

from dataclasses import replace

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.extensions.edgecloudsim.offloading import Simulation, StudyLinks, Vm, compatible, simulate
from cosim.extensions.edgecloudsim.offloading.layout import CAPACITY, CAUSES, COMPLETED
from cosim.extensions.edgecloudsim.tests.offloading.studies import APPLICATIONS, PLACES, study


def finished(run):
    run.advance(run.study.duration)
    return run.drain()


def test_a_policy_of_the_callers_own_is_asked_for_every_task():
    asked = []

    def emptiest(request, machines):
        """The emptiest machine with room, wherever it is."""
        asked.append(request)
        room = 100.0 - machines["load"] - machines["reserved"]
        fits = room >= np.where(machines["tier"] == 0, request.need[0], request.need[1])
        return int(np.argmax(np.where(fits, room, -1.0))) if fits.any() else -1

    rows = finished(Simulation(study("app2", "network-based"), 4, emptiest, trace=True))
    assert len(asked) >= len(rows["ended"]) > 100
    assert len(np.unique(rows["vm"][rows["cause"] == COMPLETED])) == 8
    assert all(0.0 <= request.chance < 1.0 and request.wlan_delay > 0.0 for request in asked)
    assert [request.now for request in asked] == sorted(request.now for request in asked)


@pytest.mark.parametrize("model", ["app1", "app2", "app3", "tutorial5"])
def test_refusing_and_own_execution_are_answers_too(model):
    rows = finished(Simulation(study(model), 1, lambda request, machines: -1, trace=True))
    assert set(rows["cause"]) == {CAPACITY}
    rows = finished(Simulation(study(model), 1, lambda request, machines: -2, trace=True))
    assert set(rows["tier"]) == {2}
    assert COMPLETED in rows["cause"]


def test_a_custom_policy_gets_the_machine_that_it_names():
    rows = finished(Simulation(study("app1"), 1, lambda request, machines: 3, trace=True))
    assert set(rows["vm"][rows["cause"] == COMPLETED]) == {3}
    assert set(np.unique(rows["cause"])) <= {CAUSES.index(c) for c in ("completed", "capacity", "mobility")}


@pytest.mark.parametrize("answer", [99, -3, 1.5, None])
def test_a_wrong_answer_is_named(answer):
    run = Simulation(study("app1"), 1, lambda request, machines: answer)
    with pytest.raises(
        ValueError, match=r"the policy answered .*expected the number of a machine, 0\.\.7, -1 for none"
    ):
        run.advance(120.0)


def test_time_goes_forward_and_ends_with_the_study():
    run = Simulation(study("app1"), 1)
    run.advance(50.0)
    for until in (49.0, 120.5, float("nan")):
        with pytest.raises(ValueError, match="cannot advance from 50 s"):
            run.advance(until)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"devices": 0}, "devices"),
        ({"duration": 0.0}, "duration"),
        ({"warm_up": 120.0}, "warm_up"),
        ({"policy": "best-guess"}, "policy"),
        ({"quirks": frozenset({"gravity"})}, "quirks"),
        ({"applications": ()}, "applications"),
        ({"applications": (replace(APPLICATIONS[0], interarrival=0.0),)}, "applications.video.interarrival"),
        ({"applications": (replace(APPLICATIONS[0], usage=101.0),)}, "applications"),
        ({"places": ()}, "places"),
        ({"places": (replace(PLACES[0], attractiveness=3), PLACES[1])}, "places.square.attractiveness"),
        ({"dwell": (60.0, 0.0, 15.0)}, "places.park"),
        ({"links": StudyLinks(wlan=1e6)}, "links.wan"),
        ({"links": StudyLinks(wlan=1e6, wan=1e6, wlan_servers=3)}, "links.wlan_servers"),
        ({"cloud": ((Vm(0, 1.0),),)}, "places"),
        ({"load_interval": -1.0}, "load_interval"),
    ],
)
def test_a_wrong_study_is_refused_with_the_place_of_the_mistake(changes, path):
    with pytest.raises(ScenarioError) as found:
        Simulation(replace(study("app1"), **changes), 1)
    assert path in [problem.path for problem in found.value.problems]
    assert all(problem.hint for problem in found.value.problems)


def test_quirks_that_need_a_layout_of_their_own_say_so():
    two_hosts = replace(PLACES[0], hosts=PLACES[0].hosts * 2)
    case = study("app2", places=(two_hosts, *PLACES[1:]), quirks=frozenset({"one-host-per-place"}))
    with pytest.raises(ScenarioError, match="2 hosts, and quirk one-host-per-place is on"):
        Simulation(case, 1)
    simulate(replace(case, quirks=frozenset()), 1)
    far = study("app1", places=(replace(PLACES[0], wlan=7), *PLACES[1:]), quirks=compatible("app1"))
    with pytest.raises(ScenarioError, match="access point 7"):
        Simulation(far, 1)


def test_local_policies_need_machines_on_the_devices():
    with pytest.raises(ScenarioError, match="needs machines on the devices"):
        Simulation(study("app3", "hybrid", device_vm=None), 1)
    simulate(study("app3", "only-edge", device_vm=None), 1)


def test_the_queueing_delays_are_those_of_the_published_parameters():
    """Seven devices at one place, the four applications of the first sample: 12.27 and 6.67 ms, 263.95 and 189.08 ms.

    Mean interval 5.4 s (WLAN) and 62.7 s (WAN), mean sizes 301.875 and 165.375 kB, after all divisions.
    """
    figures = ((30, 20, 5, 1500, 25), (20, 20, 30, 1250, 20), (20, 40, 60, 2500, 250), (30, 15, 7, 25, 2000))
    applications = tuple(
        replace(
            APPLICATIONS[0], name=str(n), usage=usage, cloud_probability=cloud, interarrival=gap, upload=up,
            download=down, active=1e4, length=1.0,
        )
        for n, (usage, cloud, gap, up, down) in enumerate(figures)
    )  # fmt: skip
    case = study(
        "app1", "next-fit", devices=7, places=PLACES[:1], applications=applications, duration=4000.0,
        links=StudyLinks(wlan=200e6, wan=15e6, wan_propagation=0.1), quirks=compatible("app1"),
    )  # fmt: skip
    rows = finished(Simulation(case, 1, trace=True))
    assert np.all(rows["cause"] == COMPLETED)
    edge, cloud = rows["tier"] == 0, rows["tier"] == 1
    np.testing.assert_allclose(rows["wlan"][edge], 0.01227 + 0.00667, atol=2e-5)
    np.testing.assert_allclose(rows["wan"][cloud], 0.01227 + 0.00667 + 0.26395 + 0.18908, atol=4e-5)


def test_processors_are_shared_as_m_m_1_ps():
    """Mean response of M/M/1 with equal sharing: 1 / (mu - lambda)."""
    one = replace(
        APPLICATIONS[0], usage=100.0, interarrival=200.0, active=100.0, idle=0.0, length=700.0, load_edge=0.0,
        upload=1e-6, download=1e-6,
    )  # fmt: skip
    case = study(
        "app1", "first-fit", architecture="single-tier", devices=200, applications=(one,), duration=20000.0,
        warm_up=1000.0, places=(replace(PLACES[0], hosts=((Vm(1, 1000.0),),)),), load_interval=0.0,
        links=StudyLinks(wlan=1e12),
    )  # fmt: skip
    mean = np.mean([simulate(case, seed).metrics()["processing_time_s"] for seed in range(4)])
    assert mean == pytest.approx(1.0 / (1.0 / 0.7 - 1.0), rel=0.06)

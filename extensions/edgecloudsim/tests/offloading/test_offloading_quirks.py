"""Every quirk changes something, belongs to a model, and the corrected model has none."""

from dataclasses import replace

import numpy as np
import pytest

from cosim.extensions.edgecloudsim.offloading import QUIRKS, Simulation, StudyLinks, Vm, compatible, simulate
from cosim.extensions.edgecloudsim.offloading.choosing import POLICIES
from cosim.extensions.edgecloudsim.tests.offloading.studies import APPLICATIONS, ENERGY, PLACES, study

NARROW = StudyLinks(wlan=1e9, wan=1e6, wan_propagation=0.1)
SLOW_MAN = StudyLinks(man=20e6, lan_delay=0.004)
ELSEWHERE = tuple(replace(place, wlan=(n + 1) % 3) for n, place in enumerate(PLACES))
SMALL = tuple(replace(a, length=20.0) for a in APPLICATIONS)
LOCAL = {"energy": ENERGY, "policy": "hybrid", "devices": 30}
REMOTE = {**LOCAL, "policy": "only-edge"}
# What each quirk needs in order to show; first the model.
SHOWS = {
    "integer-sizes": ("app1", {}),
    "processing-tick": ("app1", {"applications": SMALL}),
    "warm-up-rejections-counted": ("app3", {"policy": "only-mobile", "devices": 60}),
    "warm-up-load-counted": ("app1", {}),
    "cost-never-set": ("app1", {}),
    "uploads-not-reserved": ("app2", {"policy": "hybrid", "devices": 150}),
    "dwell-by-access-point-number": ("app1", {"places": ELSEWHERE}),
    "means-divided-by-applications": ("app1", {}),
    "wan-mean-running-sum": ("app1", {}),
    "unstable-queue-passes": ("app1", {"links": NARROW, "devices": 900}),
    "wan-delay-holds-wlan": ("app1", {}),
    "lan-on-return-only": ("app1", {"policy": "next-fit"}),
    "cloud-draw-inclusive": ("app1", {"devices": 60}),
    "random-fit-tries-once": ("app1", {"policy": "random-fit", "devices": 40}),
    "transfers-counted-where-submitted": ("app2", {"policy": "network-based", "devices": 60, "dwell": (9.0, 9.0, 3.0)}),
    "man-rate-constant": ("app2", {"links": SLOW_MAN, "policy": "hybrid"}),
    "man-sizes-never-measured": ("app2", {"policy": "hybrid"}),
    "man-idle-keeps-estimate": ("app2", {"policy": "hybrid", "devices": 2, "duration": 600.0}),
    "probing-is-traffic": ("app4", {"policy": "fuzzy-competitor"}),
    **dict.fromkeys(("idle-power-per-call", "dynamic-power-by-image-size", "dead-devices-go-on"), ("app6", LOCAL)),
    **dict.fromkeys(("kilobytes-taken-as-bits", "radio-energy-swapped", "network-energy-missing"), ("app6", REMOTE)),
    **dict.fromkeys(("edge-on-cloud-power", "cloud-energy-missing"), ("app6", REMOTE)),
}  # fmt: skip
ELSEWHERE_TESTED = {"one-host-per-place"}  # refuses studies instead of changing them


def of_places():
    return {name for name, quirk in QUIRKS.items() if quirk.models & set(POLICIES)}


def test_every_quirk_is_tested():
    assert set(SHOWS) | ELSEWHERE_TESTED == of_places()


@pytest.mark.parametrize("name", SHOWS)
def test_a_quirk_changes_something(name):
    model, changes = SHOWS[name]
    corrected = study(model, **changes)
    assert corrected.quirks == frozenset()
    assert model in QUIRKS[name].models
    odd = replace(corrected, quirks=frozenset({name}))
    if name == "cloud-draw-inclusive":  # one in a hundred draws
        corrected, odd = (replace(case, duration=1000.0) for case in (corrected, odd))
    assert repr(simulate(corrected, 5).metrics()) != repr(simulate(odd, 5).metrics())


@pytest.mark.parametrize("model", [*POLICIES, "app5"])
def test_a_compatible_study_takes_all_quirks_of_its_model(model):
    names = compatible(model)
    assert names == {name for name, quirk in QUIRKS.items() if model in quirk.models}
    assert "processing-tick" in names
    if model in POLICIES:
        simulate(study(model, quirks=names), 1)


def test_names_and_reasons_read_well():
    for name, quirk in QUIRKS.items():
        assert name == name.lower().replace("_", "-")
        assert quirk.why[0].isupper()
        assert quirk.why.endswith(".")
        assert quirk.models


def test_the_tick_delays_executions_by_milliseconds():
    case = study("app1", "worst-fit", architecture="single-tier", devices=6, duration=2000.0)
    late = simulate(replace(case, quirks=frozenset({"processing-tick"})), 1).metrics()["processing_time_s"]
    exact = simulate(case, 1).metrics()["processing_time_s"]
    assert 0.0 < late - exact < 0.05


def test_the_inclusive_draw_takes_one_percentage_point_more():
    """21 of 101 for 20 %."""
    one = (replace(APPLICATIONS[0], usage=100.0, cloud_probability=20.0, length=1.0, interarrival=0.5),)
    case = study("app1", devices=100, applications=one, duration=1500.0)
    for quirks, share in ((set(), 20.0), ({"cloud-draw-inclusive"}, 100.0 * 21 / 101)):
        found = simulate(replace(case, quirks=frozenset(quirks)), 2).metrics()
        counted = found["tasks_counted"]
        assert found["share_cloud_pct"] == pytest.approx(share, abs=400.0 * np.sqrt(0.16 / counted))


def test_sizes_are_cut_to_integers():
    """The mean of max(1, floor(X)) for X exponential of mean 1 is 1 + e^-2 / (1 - e^-1)."""
    one = (replace(APPLICATIONS[0], usage=100.0, upload=1.0, download=3.0, length=500.0),)
    case = study("app3", "only-edge", devices=200, applications=one, duration=600.0)
    run = Simulation(replace(case, quirks=frozenset({"integer-sizes"})), 1, trace=True)
    run.advance(600.0)
    rows = run.drain()
    for name in ("upload", "download", "length"):
        assert np.all(rows[name] == np.floor(rows[name]))
        assert np.all(rows[name] >= 1.0)
    assert np.mean(rows["upload"]) == pytest.approx(1.0 + np.exp(-2) / (1.0 - np.exp(-1)), rel=0.02)


def test_an_overloaded_queue_passes_or_fails():
    """Ten thousand requests/s too many: 1 / (mu - lambda) is about 0, the propagation delay is what remains."""
    one = (replace(APPLICATIONS[0], usage=100.0, cloud_probability=100.0, upload=50.0, download=50.0),)
    case = study(
        "app1",
        devices=200,
        applications=one,
        places=PLACES[:1],
        links=StudyLinks(wlan=1e9, wan=1e6, wan_propagation=0.1),
        cloud=((Vm(64, 1e6),),),
        duration=60.0,
        quirks=frozenset({"cloud-draw-inclusive"}),
    )
    assert simulate(case, 1).metrics()["failed_bw_wan_pct"] == 100.0
    odd = replace(case, quirks=case.quirks | {"unstable-queue-passes"})
    assert simulate(odd, 1).metrics()["failed_bw_wan_pct"] == 0.0


def test_rejections_during_warm_up_are_counted_or_not():
    case = study("app3", "only-mobile", devices=30, warm_up=119.0)
    counted = simulate(replace(case, quirks=frozenset({"warm-up-rejections-counted"})), 1)
    exact = simulate(case, 1)
    assert exact.tally["capacity"][0].sum() > 20
    assert counted.tally["capacity"][0].sum() == 0
    assert counted.tally["capacity"][1].sum() == exact.tally["capacity"].sum()
    assert np.array_equal(counted.tally["completed"], exact.tally["completed"])

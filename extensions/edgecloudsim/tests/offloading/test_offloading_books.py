"""The books of an offloading simulation close, and it does not matter how it is driven."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.extensions.edgecloudsim.offloading import Simulation, simulate
from cosim.extensions.edgecloudsim.offloading.choosing import POLICIES
from cosim.extensions.edgecloudsim.offloading.layout import CAUSES, COMPLETED
from cosim.extensions.edgecloudsim.tests.offloading.studies import studies, study


def same(a, b):
    assert set(a) == set(b)
    for name, values in a.items():
        if name != "meta":
            assert values.tobytes() == b[name].tobytes(), name
    # META holds addresses too; everything else in it must be equal.
    for field in a["meta"].dtype.names:
        if field not in a:
            assert a["meta"][field].tobytes() == b["meta"][field].tobytes(), field


@settings(max_examples=60, deadline=None)
@given(studies(), st.integers(0, 2**40))
def test_every_task_is_booked_once(case, seed):
    run = Simulation(case, seed, trace=True)
    run.advance(case.duration)
    outcome, rows = run.outcome(), run.drain()
    ledger = outcome.ledger()
    assert ledger["created"] == sum(ledger[cause] for cause in CAUSES) + ledger["uncompleted"]
    assert len(rows["ended"]) == ledger["created"] - ledger["uncompleted"]
    for number, cause in enumerate(CAUSES):
        assert np.sum(rows["cause"] == number) == ledger[cause]
    assert np.all(rows["ended"] >= rows["created"])
    for name in ("wlan", "man", "wan", "gsm", "length", "upload", "download"):
        assert np.all(rows[name] >= 0.0)
    done = rows["cause"] == COMPLETED
    spent = sum(rows[link] for link in ("wlan", "man", "wan", "gsm"))
    executing = rows["computed"] - rows["arrived"]
    np.testing.assert_allclose((rows["ended"] - rows["created"])[done], (spent + executing)[done], atol=1e-6)
    assert np.all(executing[done] >= 0.0)
    counted = outcome.metrics()
    assert counted["tasks_counted"] == counted["completed"] + counted["failed"]
    assert counted["failed_pct"] <= 100.0 + 1e-9


@settings(max_examples=40, deadline=None)
@given(studies(), st.integers(0, 2**40))
def test_nothing_is_left_where_no_task_is(case, seed):
    run = Simulation(case, seed)
    run.advance(case.duration)
    state = run.snapshot()
    vms, places = state["vms"], state["places"]
    tasks = state["tasks"][state["tasks"]["stage"] != 0]
    assert vms["active"].sum() == np.sum(tasks["stage"] == 6)  # RUN
    assert np.all(vms["load"][vms["active"] == 0] == 0.0)
    assert np.all(vms["load"] >= 0.0)
    if "uploads-not-reserved" not in case.quirks:
        assert np.all(vms["load"] + vms["reserved"] <= 100.0 + 1e-6)
    assert places["wlan"].sum() + places["wan"].sum() == np.sum(tasks["via"] >= 0)
    assert places["devices"].sum() == case.devices
    sampled = run.outcome().locations
    assert np.all(sampled[:, 1:].sum(axis=1) == case.devices)


@settings(max_examples=30, deadline=None)
@given(studies(), st.integers(0, 2**40))
def test_machines_do_the_work_of_the_tasks_that_they_finish(case, seed):
    run = Simulation(case, seed, trace=True)
    run.advance(case.duration)
    rows, vms = run.drain(), run.snapshot()["vms"]
    computed = ~np.isnan(rows["computed"])
    work = np.bincount(rows["vm"][computed], rows["length"][computed], minlength=len(vms))
    # One core per task: MI done = rate * busy core-seconds, of finished and of present tasks.
    done = vms["rate"] * vms["busy"]
    assert np.all(work <= done + 2.0 * np.bincount(rows["vm"][computed], minlength=len(vms)) + 1e-6 * done)
    idle = (vms["active"] == 0) & (case.energy is None)
    if "processing-tick" not in case.quirks:
        np.testing.assert_allclose(work[idle], done[idle], rtol=1e-9, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(studies(), st.integers(0, 2**40), st.lists(st.floats(0.0, 1.0), max_size=6))
def test_how_finely_time_is_stepped_does_not_matter(case, seed, cuts):
    whole, parts = Simulation(case, seed, trace=True), Simulation(case, seed, trace=True)
    whole.advance(case.duration)
    for cut in sorted(cuts):
        parts.advance(cut * case.duration)
        parts.outcome(), parts.loads(), parts.positions(), parts.places()
    parts.advance(case.duration)
    same(whole.snapshot(), parts.snapshot())


@settings(max_examples=30, deadline=None)
@given(studies(), st.integers(0, 2**40), st.floats(0.0, 1.0))
def test_a_restored_snapshot_goes_on_bit_for_bit(case, seed, cut):
    run = Simulation(case, seed, trace=True)
    run.advance(cut * case.duration)
    kept = run.snapshot()
    run.advance(case.duration)
    after = run.snapshot()
    run.restore(kept)
    assert run.now == cut * case.duration
    run.advance(case.duration)
    same(after, run.snapshot())
    other = Simulation(case, seed + 1, trace=True)  # and in another simulation of the study
    other.restore(kept)
    other.advance(case.duration)
    same(after, other.snapshot())


@pytest.mark.parametrize("model", sorted(POLICIES))
def test_equal_seeds_give_equal_figures_and_others_do_not(model):
    case = study(model)
    first, again, other = (simulate(case, seed).metrics() for seed in (7, 7, 8))
    assert repr(first) == repr(again)
    assert repr(first) != repr(other)


def test_finished_tasks_are_drained_once_and_in_order():
    run = Simulation(study("app1", "next-fit", devices=40), 1, trace=True)
    seen = []
    for until in range(10, 121, 10):
        run.advance(float(until))
        rows = run.drain()
        assert np.all(np.diff(rows["ended"]) >= 0.0)
        assert np.all(rows["ended"] <= until)
        seen += list(rows["serial"])
    assert len(set(seen)) == len(seen) == run.outcome().created - run.outcome().ledger()["uncompleted"]


def test_rows_grow_as_needed():
    crowd = study("app3", "only-mobile", devices=3000, duration=60.0)
    run = Simulation(crowd, 1, trace=True)
    run.advance(60.0)
    assert len(run.drain()["ended"]) > 3000
    assert run.outcome().ledger()["uncompleted"] > 1024

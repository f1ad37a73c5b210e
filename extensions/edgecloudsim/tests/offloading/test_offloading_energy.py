"""Energy and batteries against closed forms; what death does; what the energy quirks add up to."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.extensions.edgecloudsim.offloading import Energy, Simulation, Vm, simulate
from cosim.extensions.edgecloudsim.offloading.layout import COMPLETED, DEATH
from cosim.extensions.edgecloudsim.tests.offloading.studies import APPLICATIONS, PLACES, study

JOULE = 1e-9 * 8000.0  # per kB and nJ/bit
RADIO = {
    "wifi_device_transmission": 200.0, "wifi_device_reception": 100.0, "wifi_access_point_transmission": 20.0,
    "wifi_access_point_reception": 30.0, "wan": 40.0, "cellular_device_transmission": 400.0,
    "cellular_device_reception": 50.0,
}  # fmt: skip
LARGE = Energy(device_idle=2.0, device_max=5.0, cloud_idle=10.0, cloud_max=90.0, battery=1e6, nanojoule_per_bit=RADIO)
OWN = (Vm(2, 700.0, 100.0), Vm(2, 700.0, 100.0))


def of(policy, energy=LARGE, **changes):
    return study("app6", policy, energy=energy, device_vm=OWN, **changes)


def finished(case, seed=1):
    run = Simulation(case, seed, trace=True)
    run.advance(case.duration)
    return run, run.drain(), run.outcome()


def test_a_device_draws_idle_power_and_what_its_processor_works():
    run, rows, outcome = finished(of("only-mobile"))
    busy = run.snapshot()["vms"][-12:]["busy"] / 2.0  # of two cores
    late = run.snapshot()["vms"][-12:]
    busy = busy + np.minimum(late["used"], 2) / 2.0 * (120.0 - late["since"]) * (late["active"] > 0)
    expected = 12 * 120.0 * 2.0 + 3.0 * busy.sum()
    assert outcome.energy["mobile"] == pytest.approx(expected, rel=1e-9)
    assert outcome.metrics()["energy_mobile_wh"] == pytest.approx(expected / 3600.0, rel=1e-9)
    assert expected > 12 * 120.0 * 2.0 + 100.0
    assert outcome.energy["network"] == 0.0
    assert len(rows["ended"]) > 50


def test_radio_energy_is_bits_times_energy_per_bit():
    run, rows, outcome = finished(of("only-edge"))
    state = run.snapshot()["tasks"]
    going = state[state["stage"] != 0]
    sent = rows["upload"].sum() + going["upload"].sum()
    came_back = rows["cause"] == COMPLETED
    received = rows["download"][came_back].sum() + going["download"][going["stage"] == 7].sum()  # DOWN
    expected = 12 * 120.0 * 2.0 + JOULE * (200.0 * sent + 100.0 * received)
    assert outcome.energy["mobile"] == pytest.approx(expected, rel=1e-9)
    assert outcome.energy["network"] == pytest.approx(JOULE * (30.0 * sent + 20.0 * received), rel=1e-9)


def test_edge_and_cloud_draw_by_their_busy_cores():
    case = of("only-edge", devices=40)
    run, _, outcome = finished(case)
    vms = run.snapshot()["vms"]
    late = np.minimum(vms["used"], vms["cores"]) * (120.0 - vms["since"]) * (vms["active"] > 0)
    expected = 0.0
    for p, place in enumerate(PLACES):
        here = (vms["tier"] == 0) & (vms["place"] == p)
        busy = (vms["busy"] + late)[here].sum() / vms["cores"][here].sum()
        expected += place.power[0] * 120.0 + (place.power[1] - place.power[0]) * busy
    assert outcome.energy["edge"] == pytest.approx(expected, rel=1e-9)
    assert outcome.energy["cloud"] == pytest.approx(2 * 10.0 * 120.0)  # idle
    assert simulate(replace(case, energy=None), 1).energy == {}


def test_an_idle_device_dies_when_its_battery_is_empty():
    quiet = (replace(APPLICATIONS[0], usage=0.0),)
    energy = replace(LARGE, battery=100.0 / 3600.0, initial=(60.0, 60.0))  # 60 J at 2 W: 30 s
    run, _, outcome = finished(of("only-edge", energy, applications=quiet))
    batteries = run.snapshot()["batteries"]
    np.testing.assert_allclose(batteries["died"], 30.0, rtol=1e-9)
    np.testing.assert_allclose(batteries["consumed"], 60.0, rtol=1e-9)
    assert outcome.energy["mobile"] == pytest.approx(12 * 60.0)
    assert not run.snapshot()["devices"]["alive"].any()


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["only-edge", "only-mobile", "hybrid"]), st.floats(20.0, 400.0), st.integers(0, 1000))
def test_death_ends_tasks_generation_and_movement(policy, joules, seed):
    energy = replace(LARGE, battery=joules / 3600.0, initial=(10.0, 100.0))
    run, rows, outcome = finished(of(policy, energy, devices=20), seed)
    state = run.snapshot()
    died = state["batteries"]["died"]
    dead = ~np.isnan(died)
    assert dead.sum() == np.sum(state["devices"]["alive"] == 0)
    late = died[rows["device"]]
    assert np.all(np.isnan(late) | (rows["created"] <= late))
    assert np.all(np.isnan(late) | (rows["ended"] <= late))
    assert np.all(rows["ended"][rows["cause"] == DEATH] == late[rows["cause"] == DEATH])
    living = np.isnan(died[state["tasks"]["device"][state["tasks"]["stage"] != 0]])
    assert living.all()
    batteries = state["batteries"]
    assert np.all(batteries["consumed"][dead] >= batteries["capacity"][dead] * (1.0 - 1e-9))
    assert np.all(np.isinf(state["devices"]["next_move"][dead]))
    ledger = outcome.ledger()
    assert ledger["created"] == sum(ledger.values()) - ledger["created"]
    vms = state["vms"]
    assert vms["active"].sum() == np.sum(state["tasks"]["stage"] == 6)
    assert np.all(vms["reserved"][vms["tier"] == 0] >= 0.0)


def test_immortal_devices_go_on_with_an_empty_battery():
    energy = replace(LARGE, battery=1.0 / 3600.0, mortal=False)
    _, _, outcome = finished(of("only-edge", energy))
    assert outcome.ledger()["death"] == 0
    assert outcome.energy["mobile"] > 1000.0


def test_idle_power_per_call_grows_with_everybodys_tasks():
    """One second of idle power for every device at every submission and every sample."""
    case = of("only-mobile", replace(LARGE, mortal=False), quirks=frozenset({"idle-power-per-call"}))
    for devices in (5, 50):
        run, _, outcome = finished(replace(case, devices=devices))
        calls = outcome.created + 24  # samples, every 5 s
        busy = run.snapshot()["vms"][-devices:]
        seconds = busy["busy"] + np.minimum(busy["used"], 2) * (120.0 - busy["since"]) * (busy["active"] > 0)
        assert outcome.energy["mobile"] == pytest.approx(devices * calls * 2.0 + 3.0 * seconds.sum() / 2.0, rel=1e-9)


def test_the_swapped_and_shrunk_radio_energy():
    quirks = frozenset({"radio-energy-swapped", "kilobytes-taken-as-bits"})
    run, rows, outcome = finished(of("only-edge", quirks=quirks))
    state = run.snapshot()["tasks"]
    going = state[state["stage"] != 0]
    sent = rows["upload"].sum() + going["upload"].sum()
    received = rows["download"][rows["cause"] == COMPLETED].sum() + going["download"][going["stage"] == 7].sum()
    expected = 12 * 120.0 * 2.0 + 1e-9 * (100.0 * sent + 200.0 * received)
    assert outcome.energy["mobile"] == pytest.approx(expected, rel=1e-12)


def test_edge_servers_die_of_the_first_sample_with_the_quirk():
    """(max - idle) / (load * MIPS) * image J at each sample, from a battery of a device's size."""
    energy = replace(LARGE, battery=0.001, mortal=False)
    run, _, outcome = finished(of("only-edge", energy, devices=60, quirks=frozenset({"edge-on-cloud-power",
        "dynamic-power-by-image-size"})))  # fmt: skip
    centres = run.snapshot()["centres"]
    assert np.all(centres["alive"][:3] == 0)
    assert outcome.energy["edge"] == 0.0  # the dead vanish from the sums
    assert outcome.loads[:, 1].max() > 0.0  # but not from the mean load


def test_only_local_execution_is_refused_to_the_dead_with_the_quirk():
    energy = replace(LARGE, battery=50.0 / 3600.0, initial=(100.0, 100.0))
    quirks = frozenset({"dead-devices-go-on"})
    _, rows, _ = finished(of("only-mobile", energy, quirks=quirks))
    assert DEATH in rows["cause"]
    assert np.all(rows["ended"][rows["cause"] == DEATH] == rows["created"][rows["cause"] == DEATH])
    _, rows, _ = finished(of("only-edge", energy, quirks=quirks))
    assert DEATH not in rows["cause"]
    assert rows["created"].max() > 100.0

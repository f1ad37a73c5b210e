"""Jammers in a scene, and what phones and base stations log of them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from cosim.adapters.radio import ADAPTER
from cosim.adapters.radio.check import problems
from cosim.adapters.radio.config import RadioConfig
from cosim.adapters.radio.tests.test_radio_adapter import CALM, mobility, phone, scene, started, station, traffic
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Event, Node, SlotRange
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame, fault
from cosim.contract.signals import CATALOGUE
from cosim.physics.radio import pathloss, power
from cosim.scenario.load import load

FAR = 400.0  # m


def jammer(name, x, **keys):
    written = {"power": "20 dBm", **keys}
    return Node(name, "jammer", "device", (x, 0.0, 0.0), keys=(("jammer", json.dumps(written)),))


def frames(adapter, time=0.0, *, events=(), **inputs):
    """The frames of a step by signal, each as its signal allows."""
    found = {frame.signal: frame for frame in adapter.step(time, Inputs(inputs, list(events)))}
    known = {**CATALOGUE, **{signal.name: signal for signal in ADAPTER.signals_of(RadioConfig(log=True))}}
    for name, frame in found.items():
        assert fault(frame, known[name], 1000) == ""
    return found


def world(*jammers, x=100.0, **config):
    return started(scene(station("bs", 0.0), phone("p", x), *jammers), log=True, exponent=3.1, **{**CALM, **config})


def test_a_jammer_adds_its_power_to_the_interference_of_both_directions():
    seen = frames(world(jammer("j", FAR)))
    loss = pathloss.close_in(math.hypot(300.0, 0.0), 3.5e9, 3.1)
    noise = float(power.milliwatts(power.noise(51 * 12 * 30e3, 9.0)))
    channel = 51 * 12 * 30e3 / 20e6  # part of its power that falls on the resource blocks
    jam = float(power.milliwatts(20.0 - loss)) * channel
    truth = seen["jamming"]
    assert truth["jn_down"][0] == pytest.approx(10 * math.log10(jam / noise))
    assert truth["loss_down"][0] == pytest.approx(10 * math.log10(1 + jam / noise))
    at_mast = 20.0 + 8.0 - pathloss.close_in(math.hypot(FAR, 8.5), 3.5e9, 3.1)
    floor = float(power.milliwatts(power.noise(51 * 12 * 30e3, 5.0)))
    up = 10 * math.log10(1 + float(power.milliwatts(at_mast)) * channel / floor)
    assert truth["loss_up"][0] == pytest.approx(up)
    assert truth["loss"][0] == pytest.approx(max(up, truth["loss_down"][0]))


def test_all_power_on_some_blocks_of_a_channel_is_on_the_channel():
    """A cell of 20 MHz has 51 blocks; 0 and 50 lie inside its guards, not at the edges of the 20 MHz."""
    loss = pathloss.close_in(300.0, 3.5e9, 3.1)
    expected = 20.0 - loss - power.noise(51 * 12 * 30e3, 9.0)
    for blocks in ([0, 9], [41, 50], [0, 50]):
        seen = frames(world(jammer("j", FAR, blocks=blocks)))["jamming"]
        assert seen["jn_down"][0] == pytest.approx(float(expected)), blocks


def test_the_loss_is_that_against_the_same_run_without_the_jammer():
    """Common random numbers: shadowing and fading of a link do not depend on who jams it."""
    config = {"shadowing": "8 dB", "fading": "rayleigh", "interference": False}
    with_jam = started(scene(station("bs", 0.0), phone("p", 100.0), jammer("j", FAR)), log=True, **config)
    without = started(scene(station("bs", 0.0), phone("p", 100.0)), log=True, **config)
    for time in range(10):
        one, other = frames(with_jam, float(time)), frames(without, float(time))
        lost = other["ue"]["sinr"] - one["ue"]["sinr"]
        assert one["jamming"]["loss_down"] == pytest.approx(lost)
        assert (other["jamming"]["loss"] == 0.0).all()


def test_without_jammers_the_new_signals_change_nothing():
    runs = [started(scene(station("bs", 0.0), phone("p", 90.0)), log=log) for log in (False, True)]
    for time in range(3):
        plain, logged = (a.step(float(time), Inputs()) for a in runs)
        assert all(one.same_as(other) for one, other in zip(plain, logged, strict=False))


def test_jamming_raises_rssi_and_leaves_rsrp_while_a_hole_lowers_both():
    clean, jammed, hole = frames(world()), frames(world(jammer("j", 110.0))), frames(world(x=800.0))
    ue = [one["ue"] for one in (clean, jammed, hole)]
    assert ue[1]["rsrp"] == ue[0]["rsrp"]
    assert ue[1]["rssi"] > ue[0]["rssi"] + 3.0
    assert ue[1]["sinr"] < ue[0]["sinr"] - 10.0
    assert ue[1]["rsrq"] < ue[0]["rsrq"] - 3.0
    assert ue[2]["rsrp"] < ue[0]["rsrp"] - 20.0
    assert ue[2]["rssi"] < ue[0]["rssi"] - 15.0


def test_rsrq_is_a_twelfth_where_nothing_but_the_cell_is_heard():
    """TS 38.215: 10 log10 N + RSRP - RSSI = -10 log10 12 when all power is the cell's own."""
    assert frames(world(x=10.0))["ue"]["rsrq"][0] == pytest.approx(-10 * math.log10(12), abs=0.01)


def test_a_jammer_beside_the_channel_does_nothing():
    seen = frames(world(jammer("j", 110.0, carrier="3.6 GHz")))
    assert (seen["jamming"]["loss"] == 0.0).all()


def test_a_narrow_jammer_beside_the_synchronisation_block_is_not_in_its_rssi():
    clean = frames(world())["ue"]
    edge = frames(world(jammer("j", 110.0, blocks=[0, 9])))["ue"]
    middle = frames(world(jammer("j", 110.0, blocks=[21, 30])))["ue"]
    assert edge["rssi"] == clean["rssi"]
    assert middle["rssi"] > clean["rssi"] + 10.0
    assert edge["rssi_wide"] > clean["rssi_wide"] + 5.0


@pytest.mark.parametrize("target", ["pdcch", "pucch"])
def test_a_jammer_of_control_channels_leaves_the_sinr_of_data_but_not_the_rate(target):
    clean, jammed = frames(world()), frames(world(jammer("j", 110.0, target=target, power="30 dBm")))
    assert jammed["ue"]["sinr"] == clean["ue"]["sinr"]
    assert jammed["jamming"]["loss"][0] > 3.0
    assert jammed["link"]["downlink_rate"][0] < clean["link"]["downlink_rate"][0]


def test_a_phone_that_does_not_hear_the_synchronisation_block_has_no_link():
    jammed = frames(world(jammer("j", 102.0, target="ssb", power="40 dBm")))
    assert jammed["link"]["cell"].tolist() == [-1]


def test_events_and_failures_switch_a_jammer():
    adapter = world(jammer("j", 110.0, active=False))
    where = (SlotRange(2),)
    on = Event(1.0, "jammer-on", where, keys='{"at":"1 s","do":"jammer-on","power":"10 dBm"}')
    losses = [
        float(frames(adapter, float(time), events=events)["jamming"]["loss"][0])
        for time, events in enumerate(
            [[], [on], [Event(2.0, "fail", where)], [Event(3.0, "recover", where)], [Event(4.0, "jammer-off", where)]]
        )
    ]
    assert losses[0] == losses[2] == losses[4] == 0.0
    assert losses[1] == losses[3] > 10.0
    assert adapter.finish()["jammers"]["j"] == {"radiated": pytest.approx(0.02), "steps_on": 2}


def test_energy_is_power_times_the_time_of_the_run():
    """A run of 100 s has a step at its end, after which nothing is sent."""
    adapter = world(jammer("j", FAR, power="30 dBm"))
    for time in range(101):
        frames(adapter, float(time))
    assert adapter.finish()["jammers"]["j"]["radiated"] == pytest.approx(100.0)


def test_a_jammer_with_an_empty_battery_is_silent():
    adapter = world(jammer("j", 110.0))
    columns = {name: np.zeros(1) for name in ("level", "fraction", "power")}
    seen = []
    for time, empty in enumerate((False, True, False)):
        left = Frame("battery", float(time), np.array([2], np.int32), {**columns, "empty": np.array([empty])})
        seen.append(frames(adapter, float(time), battery=[left])["jammer"]["on"][0])
    assert seen == [True, False, False]  # who is dead remains so


@pytest.mark.parametrize("target", ["pdcch", "pucch"])
def test_a_silent_jammer_of_control_channels_costs_nothing(target):
    far = {"x": 900.0, "coverage": "-140 dBm"}
    silent, alone = frames(world(jammer("j", 110.0, target=target, active=False), **far)), frames(world(**far))["link"]
    assert -8.0 < alone["snr"][0] < -4.0  # where grants are lost without a jammer as well
    assert alone["downlink_rate"][0] > 0.0
    for name, column in alone.columns.items():
        np.testing.assert_array_equal(silent["link"][name], column)


@pytest.mark.parametrize("target", ["ssb", "pucch", "band"])
def test_the_power_of_a_jammer_is_divided_among_channels(target):
    """At the same place phones on n channels together receive what one phone receives."""

    def heard(*carriers):
        cells = [station(f"bs-{k}", 0.0, carrier=carrier) for k, carrier in enumerate(carriers)]
        adapter = started(
            scene(*cells, phone("p", 50.0), jammer("j", 100.0, target=target, bandwidth="40 MHz")),
            log=True, **CALM,
        )  # fmt: skip
        return 10.0 ** (frames(adapter)["jamming"]["jn_down"][0] / 10.0)

    two = [heard(3.49e9, 3.51e9), heard(3.51e9, 3.49e9)]
    whole = heard(3.49e9) + heard(3.51e9) if target == "band" else heard(3.49e9)
    assert sum(two) == pytest.approx(whole)


def test_a_jammer_that_comes_nearer_takes_more():
    adapter = world(jammer("j", FAR))
    seen = []
    for time, x in enumerate((400.0, 250.0, 120.0)):
        seen.append(
            float(frames(adapter, float(time), mobility=[mobility(float(time), [2], [x])])["jamming"]["loss"][0])
        )
    assert seen[0] < seen[1] < seen[2]


def test_a_reactive_jammer_waits_for_traffic():
    adapter = world(jammer("j", 110.0, pattern="reactive"))
    quiet = frames(adapter, 0.0, traffic=[traffic(0.0, [1], 0, 0)])
    frames(adapter, 1.0, traffic=[traffic(1.0, [1], 1, 0, sent=1e5)])
    busy = frames(adapter, 2.0, traffic=[traffic(2.0, [1], 1, 0, sent=2e5)])
    assert not quiet["jammer"]["on"][0]
    assert busy["jammer"]["on"][0]


def test_a_failing_link_waits_for_its_timer_and_comes_back_under_another_identity():
    adapter = world(jammer("j", 102.0, active=False), link_failure={"t310": "1 s", "access": "0.5 s"})
    where = (SlotRange(2),)
    seen = []
    for k in range(16):
        time = 0.25 * k
        events = {
            4: [Event(1.0, "jammer-on", where, keys='{"at":"1 s","do":"jammer-on"}')],
            12: [Event(3.0, "jammer-off", where)],
        }
        seen.append(frames(adapter, time, events=events.get(k, ()))["ue"])
    states = [int(ue["state"][0]) for ue in seen]
    assert states[:4] == [1] * 4
    assert states[4:8] == [2] * 4  # T310 runs
    assert states[8] == 3
    assert states[-1] == 1
    assert seen[0]["rnti"][0] == 0x4601
    assert seen[8]["rnti"][0] == 0
    assert seen[-1]["rnti"][0] == 0x4602
    assert adapter.finish()["radio_link_failures"] == 1


def test_a_short_burst_does_not_end_the_connection():
    adapter = world(jammer("j", 102.0, active=False), link_failure={})
    where = (SlotRange(2),)
    on = Event(1.0, "jammer-on", where, keys='{"at":"1 s","do":"jammer-on"}')
    for time, events in ((0.0, ()), (0.5, (on,)), (1.0, (Event(1.0, "jammer-off", where),)), (5.0, ())):
        seen = frames(adapter, time, events=events)["ue"]
    assert seen["rnti"][0] == 0x4601


def test_a_phone_that_is_not_connected_has_no_row_at_the_base_station():
    seen = frames(world(jammer("j", 101.0, power="40 dBm")))
    assert seen["link"]["cell"].tolist() == [-1]
    assert len(seen["gnb"]) == 0
    assert len(seen["ue"]) == 1


def test_a_late_report_is_that_of_the_steps_before():
    adapter = world(
        jammer("j", 110.0, active=False), link_adaptation="outer-loop", cqi_delay="1 s", link_failure={"t310": "9 s"}
    )
    where = (SlotRange(2),)
    on = Event(2.0, "jammer-on", where, keys='{"at":"2 s","do":"jammer-on"}')
    seen = [frames(adapter, float(k), events=[on] if k == 2 else [])["ue"] for k in range(4)]
    assert seen[2]["cqi"] == seen[1]["cqi"]
    assert seen[3]["cqi"] < seen[2]["cqi"]
    assert seen[2]["bler"] > 0.5


def test_every_mistake_of_a_jammer_is_told():
    lost = Node("lost", "jammer", "device", None, keys=(("jammer", '{"period":"2 s","blocks":[9,3]}'),))
    with pytest.raises(ScenarioError) as caught:
        started(scene(station("bs", 0.0), phone("p", 10.0), lost))
    assert [problem.path for problem in caught.value.problems] == [
        "nodes.lost.at",
        "nodes.lost.jammer.period",
        "nodes.lost.jammer.blocks",
    ]


@pytest.mark.parametrize(
    ("keys", "at", "reported"),
    [
        ('{"blocks":[0,51]}', "blocks", "has the blocks 0 to 50"),
        ('{"blocks":[0,9],"bandwidth":"200 MHz"}', "bandwidth", "is wider than"),
    ],
)
def test_blocks_that_the_band_lacks_are_refused(keys, at, reported):
    wrong = Node("j", "jammer", "device", (0.0, 0.0, 0.0), keys=(("jammer", keys),))
    with pytest.raises(ScenarioError, match=reported) as caught:
        started(scene(station("bs", 0.0), phone("p", 10.0), wrong))
    assert [problem.path for problem in caught.value.problems] == [f"nodes.j.jammer.{at}"]


@pytest.mark.parametrize(("carrier", "warned"), [("3.5 GHz", 0), ("3.519 GHz", 0), ("3.52 GHz", 1), ("5 GHz", 1)])
def test_a_jammer_beside_all_bands_is_warned_of(carrier, warned):
    nodes = scene(station("bs", 0.0), phone("p", 10.0), jammer("j", 20.0, carrier=carrier))
    found = problems(RadioConfig(), Context("radio", nodes, 1.0, 100.0, (1, 2, 3), ".", "."))
    assert [(p.path, p.fatal) for p in found] == [("nodes.j.jammer.carrier", False)] * warned


def test_the_fading_of_a_link_does_not_depend_on_other_devices():
    def run(count):
        adapter = ADAPTER.build(RadioConfig.model_validate({"log": True, "fading": "rayleigh"}))
        nodes = [station("bs", 0.0), *(phone(f"p{k}", 50.0 + k) for k in range(count))]
        adapter.start(Context("radio", scene(*nodes), 1.0, 100.0, (1, 2, 3), ".", "."))
        return [frames(adapter, float(k))["ue"]["rsrp"][0] for k in range(5)]

    assert run(1) == run(4)
    assert len(np.unique(run(1))) == 5


def alarm(time, slots, on):
    columns = {"score": np.ones(len(slots)), "on": np.asarray(on, bool), "raised": np.ones(len(slots), np.int32)}
    return Frame("alarm", time, np.asarray(slots, np.int32), columns)


@pytest.mark.parametrize(
    ("do", "cells"),
    [
        ("other-cell", [0, 1, 1, 1, 0]),  # the strongest but the first
        ("other-carrier", [0, 2, 2, 2, 0]),
        ("disconnect", [0, -1, -1, -1, 0]),
    ],
)
def test_an_alarm_makes_a_phone_stay_away_for_a_while(do, cells):
    stations = (station("a", 0.0), station("b", 300.0), station("c", 500.0, carrier=3.6e9))
    adapter = started(
        scene(*stations, phone("p", 50.0)), time_to_trigger="0 s", response={"do": do, "hold": "2.5 s"}, **CALM
    )
    seen = []
    for time in range(5):
        alarms = [alarm(float(time), [3], [time == 1])]
        seen.append(int(frames(adapter, float(time), alarm=alarms)["link"]["cell"][0]))
    assert seen == cells
    assert adapter.finish()["responses"] == 1


def test_a_phone_with_one_cell_only_stays():
    adapter = started(scene(station("a", 0.0), phone("p", 50.0)), response={"do": "other-cell"}, **CALM)
    for time in range(3):
        link = frames(adapter, float(time), alarm=[alarm(float(time), [1], [True])])["link"]
        assert link["cell"].tolist() == [0]


@pytest.mark.parametrize(
    ("event", "reported"),
    [
        ("{at: 1 s, do: jammer-on, node: phone}", "needs a node with 'jammer', which 'phone' has not (there is van)"),
        ("{at: 1 s, do: jammer-onn, node: van}", "'jammer-onn' is not possible here (did you mean 'jammer-on'?)"),
        ("{at: 1 s, node: van}", "key 'do' is missing"),
    ],
)
def test_events_that_no_jammer_hears_are_refused(event, reported, tmp_path):
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(
        "{apiVersion: cosim/v1, kind: Scenario, name: jam, run: {duration: 2 s, step: 1 s}, adapters: {radio: {}},\n"
        "nodes: {mast: {kind: base-station, at: [0 m, 0 m]}, phone: {kind: device, at: [9 m, 0 m]},\n"
        f"van: {{kind: device, at: [20 m, 0 m], jammer: {{active: false}}}}}}, events: [{event}]}}\n"
    )
    with pytest.raises(ScenarioError) as caught:
        load(file)
    assert reported in str(caught.value)
    file.write_text(file.read_text().replace(event, '{at: 1 s, do: jammer-on, node: "*"}'))
    load(file)


def test_what_else_makes_a_link_bad_is_told_by_closed_form():
    where = scene(station("bs", 0.0), station("other", 600.0), phone("p", 100.0), jammer("j", FAR))
    seen = frames(started(where, log=True, exponent=3.1, background="40 %", **{**CALM, "interference": True}))[
        "impairment"
    ]
    noise = float(power.milliwatts(power.noise(51 * 12 * 30e3, 9.0)))
    signal, other = (30.0 + 8.0 - pathloss.close_in(math.hypot(d, 8.5), 3.5e9, 3.1) for d in (100.0, 500.0))
    assert seen["snr_down"][0] == pytest.approx(float(signal) - 10 * math.log10(noise))
    lost = 10 * math.log10(1 + 0.4 * float(power.milliwatts(other)) / noise)
    assert seen["interference_down"][0] == pytest.approx(lost)
    assert (seen["interference_up"][0], seen["load"][0]) == (0.0, 0.4)


def test_a_spare_cell_sends_as_long_as_there_are_alarms():
    config = {**CALM, "interference": True, "background": "50 %", "time_to_trigger": "0 s"}
    response = {"do": "spare-cell", "spare": ["spare"], "hold": "2.5 s"}
    nodes = station("a", 0.0), phone("p", 90.0), station("spare", 100.0)
    adapter = started(scene(*nodes), response=response, **config)
    seen = [frames(adapter, float(time), alarm=[alarm(float(time), [1], [time == 1])])["link"] for time in range(6)]
    assert [int(link["cell"][0]) for link in seen] == [0, 2, 2, 2, 0, 0]
    alone = frames(started(scene(*nodes[:2]), **config))["link"]
    assert seen[0]["snr"] == pytest.approx(alone["snr"])  # it disturbs nobody while it is silent
    assert adapter.finish()["responses"] == 1


@pytest.mark.parametrize(
    ("response", "reported"),
    [
        ({"do": "spare-cell"}, "needs base stations to wake"),
        ({"do": "spare-cell", "spare": ["p"]}, "'p' is no base station"),
        ({"do": "other-cell", "spare": ["a"]}, "responses spare-cell and relay-drone, not to other-cell"),
        ({"do": "relay-drone"}, "'relay-drone' needs base stations to wake"),
        ({"do": "relay-drone", "spare": ["a"]}, "'a' is a relay that cannot fly"),
    ],
)
def test_spare_cells_that_cannot_be_are_refused(response, reported):
    with pytest.raises(ScenarioError, match=reported):
        started(scene(station("a", 0.0), phone("p", 50.0)), response=response, **CALM)


def test_a_modem_reports_a_snr_of_its_own_and_changes_nothing_else():
    """A line with noise, whole dB; the CQI stays that of the channel, and who else is there does not matter."""
    setting = {"offset": "2 dB", "slope": 0.5, "spread": "3 dB"}
    phones = [phone(f"p{k}", 20.0 + 3.0 * k) for k in range(60)]
    plain = started(scene(station("bs", 0.0), *phones), log=True, **CALM)
    reported = started(scene(station("bs", 0.0), *phones), log=True, modem_snr=setting, **CALM)
    alone = started(scene(station("bs", 0.0), *phones[:1]), log=True, modem_snr=setting, **CALM)
    off = []
    for time in range(20):
        before, seen, one = (frames(a, float(time))["ue"] for a in (plain, reported, alone))
        assert (seen["sinr"] == np.rint(seen["sinr"])).all()
        assert seen["sinr"][0] == one["sinr"][0]
        assert all((seen[name] == before[name]).all() for name in before.columns if name != "sinr")
        off.append(seen["sinr"] - 2.0 - 0.5 * before["sinr"])
    assert np.mean(off) == pytest.approx(0.0, abs=0.3)
    assert np.std(off) == pytest.approx(math.hypot(3.0, math.sqrt(1 / 12)), rel=0.08)


def test_what_a_modem_reports_needs_a_log():
    with pytest.raises(ScenarioError, match="log: true as well"):
        started(scene(station("bs", 0.0), phone("p", 90.0)), modem_snr={})


@pytest.mark.parametrize("background", ["10 %", "50 %", "95 %"])
def test_excess_is_the_jammer_and_not_a_neighbour(background):
    """Against closed forms: what a jammer adds to noise and neighbour; levels are reported to 2.5 dB."""
    config = {"log": True, "exponent": 3.1, "background": background, **CALM, "interference": True}
    masts = [station("bs", 0.0), station("other", 250.0), phone("p", 100.0), phone("q", 60.0)]
    for people in (masts, [*masts, jammer("j", 150.0, power="30 dBm")]):
        adapter = started(scene(*people), **config)
        seen = [frames(adapter, float(time)) for time in range(2)][1]
        truth, cells_ = seen["jamming"], seen["impairment"]
        disturbed = 10.0 ** (cells_["interference_down"] / 10.0)  # noise and neighbour over noise
        added = 10.0 * np.log10(1.0 + 10.0 ** (truth["jn_down"] / 10.0) / disturbed)
        assert seen["ue"]["excess"] == pytest.approx(added, abs=2.5)
        assert seen["gnb"]["excess"] == pytest.approx(truth["loss_up"], abs=1e-6)  # no phone of the other cell sends
        assert seen["gnb"]["excess_cell"] == pytest.approx(seen["ue"]["excess"].mean())
    assert seen["ue"]["excess"].max() > 5.0

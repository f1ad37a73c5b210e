"""Jammers of Wi-Fi: noise by closed form, a busy medium, lost acknowledgements, and the truth about them."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

import cosim
from cosim.adapters.wifi import ADAPTER
from cosim.adapters.wifi.config import WifiConfig
from cosim.adapters.wifi.tests.test_wifi_adapter import mobility, node, peers, scene, started, traffic
from cosim.contract.adapter import Inputs
from cosim.contract.entities import Event, Node, SlotRange
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import fault
from cosim.contract.signals import CATALOGUE
from cosim.physics.radio import pathloss, wifi

FREQUENCY, NOISE = 5.18e9, -174.0 + 10.0 * math.log10(20e6) + 7.0  # Hz, dBm


def jammer(name, x, **keys):
    written = {"carrier": "5.18 GHz", "bandwidth": "20 MHz", "height": "0 m", **keys}
    return Node(name, "jammer", "device", (x, 0.0, 0.0), keys=(("jammer", json.dumps(written)),))


def frames(adapter, time=0.0, events=(), **inputs):
    made = adapter.step(time, Inputs({name: (frame,) for name, frame in inputs.items()}, events))
    known = {**CATALOGUE, **{signal.name: signal for signal in ADAPTER.signals_of(WifiConfig(log=True))}}
    for frame in made:
        assert fault(frame, known[frame.signal], 100) == ""
    return {frame.signal: frame for frame in made}


def heard(power, distance):
    """dBm of a jammer."""
    return power - float(pathloss.close_in(np.array([distance]), FREQUENCY, 2.7)[0])


def test_a_jammer_adds_its_power_to_the_noise_of_receivers():
    where = scene(node("uav", 60.0), node("ap", 0.0, "access-point"), jammer("j", 400.0, power="0 dBm"))
    seen = frames(started(where, log=True))
    jam, signal = heard(0.0, 340.0), heard(20.0, 60.0)
    noise = 10.0 * math.log10(10.0 ** (NOISE / 10.0) + 10.0 ** (jam / 10.0))
    assert seen["link"]["snr"][0] == pytest.approx(signal - noise)
    assert seen["link"]["downlink_rate"][0] == wifi.curve().at(signal - noise).goodput
    truth = seen["jamming"]
    assert truth["jn_down"][0] == pytest.approx(jam - NOISE)
    assert truth["js_down"][0] == pytest.approx(jam - signal)
    assert truth["loss_down"][0] == pytest.approx(noise - NOISE)
    assert truth["js_up"][0] == pytest.approx(heard(0.0, 400.0) - signal)
    assert truth["loss"][0] == truth["loss_down"][0] > truth["loss_up"][0]


@pytest.mark.parametrize(("bandwidth", "part"), [("80 MHz", 0.25), ("10 MHz", 1.0)])
def test_what_falls_on_the_channel_counts(bandwidth, part):
    where = scene(node("uav", 60.0), node("ap", 0.0, "access-point"), jammer("j", 400.0, bandwidth=bandwidth))
    seen = frames(started(where, log=True))
    assert seen["jamming"]["jn_down"][0] == pytest.approx(heard(20.0, 340.0) - NOISE + 10.0 * math.log10(part))


def test_a_jammer_beside_the_channel_changes_no_bit():
    nodes = node("uav", 60.0), node("ap", 0.0, "access-point")
    plain = frames(started(scene(*nodes)))
    beside = frames(started(scene(*nodes, jammer("j", 61.0, carrier="5.2 GHz"))))
    assert all(plain[name].same_as(beside[name]) for name in ("peer_link", "link", "cell"))


@pytest.mark.parametrize("over", [-0.1, 0.1])
def test_nobody_sends_who_senses_the_energy_of_a_jammer(over):
    """At -62 dBm; the other one, out of its reach, may send as far as the noise lets it be heard."""
    power = -62.0 + over + (0.0 - heard(0.0, 1.0))  # so that it is heard 1 m away
    where = scene(node("a", 0.0, "adhoc"), node("b", 5.0, "adhoc"), jammer("j", 1.0, power=f"{power} dBm"))
    links = peers(frames(started(where))["peer_link"])
    assert ((0, 1) in links) == (over < 0.0)
    assert (1, 0) in links  # 20 dBm over 5 m are stronger than the jammer


def test_an_acknowledgement_must_come_over_the_jammer():
    """The far end hears well; at the sender the jammer is below the threshold of energy and above the answer."""
    far = 40.0
    power = -65.0 - heard(0.0, 2.0)
    where = scene(
        node("strong", 0.0, "adhoc", power=40.0), node("weak", far, "adhoc", power=10.0),
        jammer("j", -2.0, power=f"{power} dBm"),
    )  # fmt: skip
    answer, jam_far = heard(10.0, far), heard(power, far + 2.0)
    assert answer < -65.0 - 2.0  # does not come through
    assert heard(40.0, far) - jam_far > 25.0  # the data would
    links = peers(frames(started(where))["peer_link"])
    assert links == {}
    assert len(peers(frames(started(scene(*where.nodes[:2])))["peer_link"])) == 2


def test_an_access_point_that_must_be_silent_loses_its_stations():
    where = scene(node("uav", 60.0), node("ap", 0.0, "access-point"), jammer("j", 5.0, power="20 dBm", active=False))
    adapter = started(where, log=True)
    on = Event(1.0, "jammer-on", (SlotRange(2),), keys='{"at":"1 s","do":"jammer-on"}')
    off = Event(2.0, "jammer-off", (SlotRange(2),))
    cells = [
        frames(adapter, float(time), events)["link"]["cell"].tolist() for time, events in enumerate(([], [on], [off]))
    ]
    assert cells == [[1], [-1], [1]]
    assert adapter.finish()["jammers"]["j"] == {"radiated": pytest.approx(0.1), "steps_on": 1}


def test_a_reactive_jammer_waits_for_a_transfer_and_a_moving_one_takes_its_power_along():
    where = scene(node("uav", 60.0), node("ap", 0.0, "access-point"), jammer("j", 900.0, pattern="reactive"))
    adapter = started(where, log=True)
    assert not frames(adapter)["jammer"]["on"][0]
    busy = traffic(0.0, [0], uploads=1)
    losses = [
        frames(adapter, 1.0 + k, traffic=busy, mobility=mobility(1.0, [2], [x]))["jamming"]["loss"][0]
        for k, x in enumerate((900.0, 300.0))
    ]
    assert 0.0 < losses[0] < losses[1] - 4.0


def test_a_station_without_an_access_point_has_a_row_of_truth():
    seen = frames(started(scene(node("uav", 60.0), jammer("j", 70.0)), log=True))["jamming"]
    assert (seen["loss_down"][0], seen["loss_up"][0], seen["jn_down"][0]) == (0.0, 0.0, -200.0)


@pytest.mark.parametrize(
    ("keys", "reported"),
    [
        ({"target": "pucch"}, "which has no target to aim at"),
        ({"blocks": [1, 2]}, "which has no blocks to aim at"),
        ({"pattern": "sine", "hold": "1 s"}, "'hold' belongs to the pattern random, not to sine"),
    ],
)
def test_jammers_of_cells_are_refused_on_wifi(keys, reported):
    with pytest.raises(ScenarioError, match=reported):
        started(scene(node("uav", 60.0), jammer("j", 100.0, **keys)))


def test_each_medium_has_its_own_jammers(tmp_path):
    made = cosim.Scenario("both")
    made.set("run", duration="3 s", step="1 s")
    made.adapter("radio", log=True)
    made.adapter("wifi", log=True)
    made.kind("jammer", tier="device")
    made.node("mast", kind="base-station", at=["0 m", "0 m"])
    made.node("ap", kind="edge", at=["0 m", "0 m"], wifi={"mode": "access-point"})
    made.node("phone", kind="device", at=["50 m", "0 m"])
    made.node("uav", kind="uav", at=["0 m", "80 m", "5 m"], wifi={"mode": "station"})
    made.node("van", kind="jammer", at=["300 m", "0 m"], jammer={})
    made.node("box", kind="jammer", at=["0 m", "300 m"], jammer={"carrier": "5.18 GHz"})
    folder = cosim.run(made, out=tmp_path).folder / "frames" / "jammer"
    for name, where in (("van", "radio"), ("box", "wifi")):
        rows = pq.read_table(folder / f"{where}.parquet", columns=["node"])
        assert set(rows["node"].to_pylist()) == {name}

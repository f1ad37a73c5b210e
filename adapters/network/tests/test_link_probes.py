"""Links as asked for against links as measured: which are chosen, what deviates, what is said."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.adapters.network import ADAPTER
from cosim.adapters.network import probing as module
from cosim.adapters.network.config import NetworkConfig, ProbeConfig, Threshold
from cosim.adapters.network.probing import ImposedState, Probing, chosen, compare
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import RunError
from cosim.contract.frame import fault
from cosim.contract.link import DOWN, LinkState
from cosim.contract.signals import LINK_PROBE
from cosim.testbed.emulation.probing import Probe
from cosim.testing import check_adapter

GOOD = LinkState(5e6, 0.02, 0.0, 0.1)
SCENE = Scene.build(tuple(Node(name, "uav", "device", (0, 0, 0)) for name in "xabc"))
AB, BA, BC = ("a", "b", "wlan0"), ("b", "a", "wlan0"), ("b", "c", "eth1")
CB = ("c", "b", "eth1")


class Service:
    """Answers probes as it is told."""

    def __init__(self, found):
        self.asked, self._found = [], found

    def probe(self, rates):
        self.asked.append(rates)
        return len(self.asked)

    def probes(self, number):
        return {key: self._found[key] for key in self.asked[number - 1] if key in self._found}


def found(delay=0.02, sent=400, received=360, rate=4.5e6, error=""):
    return Probe(b"s", 1, delay, 0.001, sent, received, rate, error)


def asked(*states):
    made = ImposedState(states[0])
    for state in states:
        made.saw(state)
    return made


def test_it_keeps_the_contract_when_it_probes():
    check_adapter(ADAPTER, {"probe": {}})
    assert "link_probe" not in ADAPTER.ports_of(NetworkConfig.model_validate({})).writes


def test_what_is_as_asked_does_not_deviate():
    row = compare(asked(GOOD), found(), Threshold())
    assert row.deviation < 0.1
    assert (row.loss, row.loss_asked) == (pytest.approx(0.1), 0.1)
    assert row.loss_low < 0.1 < row.loss_high


@pytest.mark.parametrize(
    ("measured", "least", "most"),
    [
        (found(delay=0.05), 2.9, 3.1),  # 30 ms of 10 ms
        (found(received=400), 3.6, 3.8),  # 10 % less the interval's 2.6 %, of 2 %
        (found(rate=9e6), 4.9, 5.1),  # twice what a link of 5 Mbit/s with 10 % loss lets through, of 20 %
        (found(rate=math.nan), 0.0, 0.1),
    ],
)
def test_what_is_not_deviates_by_its_threshold(measured, least, most):
    assert least <= compare(asked(GOOD), measured, Threshold()).deviation <= most


def test_a_link_that_changes_meanwhile_may_be_anything_between():
    changing = asked(GOOD, GOOD._replace(delay=0.06, loss=0.5, rate=1e6))
    for measured in (found(), found(delay=0.05, received=250, rate=1e6), found(delay=0.06, received=200, rate=5e5)):
        assert compare(changing, measured, Threshold()).deviation < 0.1


def test_links_of_another_radio_are_not_compared():
    assert math.isnan(compare(asked(GOOD), found(delay=9.0), None).deviation)


@given(st.sets(st.tuples(*[st.sampled_from("abcdef")] * 2, st.just("wlan0"))), st.integers(1, 9))
def test_links_that_are_up_both_ways_are_chosen(keys, count):
    states = {key: GOOD for key in keys if key[0] != key[1]}
    got = chosen({**states, ("x", "y", "wlan0"): DOWN, ("y", "x", "wlan0"): GOOD}, count)
    both = [key for key in states if (key[1], key[0], key[2]) in states]
    assert len(got) == len(set(got)) == min(count, len(both))
    assert set(got) <= set(both)


def test_one_after_the_other_becomes_a_row():
    probing = Probing(ProbeConfig(), SCENE)
    states = {AB: GOOD, BA: GOOD, BC: GOOD, CB: GOOD}
    service = Service({AB: found(), BA: found(delay=0.2), BC: found(error="c: gone"), CB: found()})
    assert len(probing.step(0.0, {}, service).slot) == 0
    frames = [probing.step(float(k), states, service) for k in range(1, 7)]
    assert all(fault(frame, LINK_PROBE, 4) == "" for frame in frames)
    rows = [(frame.slot.tolist(), frame["peer"].tolist(), frame["interface"].tolist()) for frame in frames]
    assert rows == [([], [], []), ([1], [2], [0]), ([2], [1], [0]), ([], [], []), ([3], [2], [2]), ([], [], [])]
    assert service.asked == [{AB: 5e6}, {BA: 5e6}, {BC: 5e6}, {CB: 5e6}]
    summary = probing.summary()
    assert (summary["measured"], summary["left"], summary["deviating"]) == (3, 0, 1)
    assert summary["worst_link"] == "b a wlan0"
    assert summary["worst_deviation"] > 17
    assert summary["failed"] == ["link from b to c on eth1: c: gone"]


def test_the_run_ends_beyond_the_threshold_if_it_is_to():
    probing = Probing(ProbeConfig(fail=True), SCENE)
    service = Service({AB: found(), BA: found(delay=0.2)})
    probing.step(0.0, {AB: GOOD, BA: GOOD}, service)
    probing.step(1.0, {AB: GOOD, BA: GOOD}, service)
    with pytest.raises(RunError, match=r"link from b to a on wlan0: measured 200 ms.*times the threshold"):
        probing.step(2.0, {AB: GOOD, BA: GOOD}, service)


@pytest.mark.parametrize(("rate", "said"), [(math.nan, "10.0% loss; asked"), (4.5e6, "10.0% loss, 4.5 Mbit/s; asked")])
def test_what_was_not_measured_is_not_told(caplog, rate, said):
    probing = Probing(ProbeConfig(pairs=1), SCENE)
    service = Service({AB: found(delay=0.2, rate=rate)})
    for k in range(2):
        probing.step(float(k), {AB: GOOD, BA: GOOD}, service)
    assert said in caplog.text


@pytest.mark.parametrize(
    ("then", "apart", "ends"),
    [
        (GOOD, (), True),  # it should be up
        (DOWN, (), False),  # it need not carry anything
        (GOOD, ("wlan0",), False),  # another radio decides
    ],
)
def test_a_link_that_carries_nothing_ends_the_run_if_it_should_be_up(then, apart, ends):
    probing = Probing(ProbeConfig(fail=True, pairs=1), SCENE, apart)
    service = Service({AB: found(error="nothing has come through")})
    probing.step(0.0, {AB: GOOD, BA: GOOD}, service)
    with pytest.raises(RunError, match="nothing has come through; it should be up") if ends else nullcontext():
        probing.step(1.0, {AB: then, BA: GOOD}, service)
    assert probing.summary()["failed"] == ["link from a to b on wlan0: nothing has come through"]


def test_a_service_that_forgets_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    probing, service = Probing(ProbeConfig(pairs=1), SCENE), Service({})
    for k in range(3):
        probing.step(float(k), {AB: GOOD, BA: GOOD}, service)
    assert probing.summary()["failed"] == ["link from a to b on wlan0: no answer of the network service"]

"""The Wi-Fi adapter: who hears whom, who is served, what events and traffic change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosim.adapters.wifi import ADAPTER
from cosim.adapters.wifi.config import WifiConfig
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Event, Fleet, Node, Scene, SlotRange
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame, SlotTable, fault
from cosim.contract.node_keys import Wifi
from cosim.contract.signals import CELL, LINK, PEER_LINK
from cosim.testing import check_adapter


def wifi(mode="station", network="field", **changes):
    keys = {"carrier": 5.18e9, "bandwidth": 20e6, "power": 20.0, "gain": 0.0, "noise_figure": 7.0, "height": 0.0}
    return Wifi.si(mode=mode, network=network, **{**keys, **changes})


def node(name, x, mode="station", **changes):
    place = None if x is None else (x, 0.0, 0.0)
    return Node(name, "uav", "device", place, wifi=wifi(mode, **changes))


def scene(*nodes, capacity=0):
    fleet = Fleet("cars", "source", 0, capacity, node("cars", None))
    return Scene.build(nodes, (fleet,) if capacity else ())


def started(where, **config):
    adapter = ADAPTER.build(WifiConfig.model_validate(config))
    adapter.start(Context("wifi", where, 1.0, 100.0, (1,), ".", "."))
    return adapter


def step(adapter, time=0.0, events=(), where=None, **frames):
    made = adapter.step(time, Inputs({name: (frame,) for name, frame in frames.items()}, events))
    for frame, signal in zip(made, (PEER_LINK, LINK, CELL), strict=True):
        assert fault(frame, signal, 100) == ""
    return made


def mobility(time, slots, x, table=None):
    n = len(slots)
    columns = {name: np.zeros(n) for name in ("x", "y", "z", "speed", "heading")}
    columns["x"] = np.asarray(x, np.float64)
    return Frame("mobility", time, np.asarray(slots, np.int32), columns, table)


def traffic(time, slots, uploads=0, downloads=0, sent=0.0, received=0.0):
    n = len(slots)
    columns = {
        "uploads": np.full(n, uploads, np.int32), "downloads": np.full(n, downloads, np.int32),
        "sent": np.full(n, float(sent)), "received": np.full(n, float(received)),
    }  # fmt: skip
    return Frame("traffic", time, np.asarray(slots, np.int32), columns)


def peers(frame):
    return {(int(a), int(b)): k for k, (a, b) in enumerate(zip(frame.slot, frame["peer"], strict=True))}


def test_keeps_the_contract():
    check_adapter(ADAPTER)


def test_those_of_one_network_in_range_hear_each_other():
    where = scene(node("a", 0.0, "adhoc"), node("b", 100.0), node("far", 700.0), node("other", 50.0, network="x"))
    link = step(started(where))[0]
    assert sorted(peers(link)) == [(0, 1), (1, 0)]
    assert link["rate"][0] == pytest.approx(23.8e6, rel=0.01)
    lost = 20 * math.log10(4 * math.pi * 5.18e9 / 299792458.0) + 54.0
    assert link["rssi"][0] == pytest.approx(20.0 - lost)


def test_stations_take_the_strongest_point_and_keep_it_within_the_hysteresis():
    where = scene(node("uav", 20.0), node("west", 0.0, "access-point"), node("east", 200.0, "access-point"))
    adapter = started(where)
    _, link, cell = step(adapter)
    assert link["cell"].tolist() == [1]
    assert cell["attached"].tolist() == [1, 0]
    _, link, _ = step(adapter, 1.0, mobility=mobility(1.0, [0], [110.0]))
    assert (link["cell"].tolist(), link["handovers"].tolist()) == ([1], [0])
    _, link, _ = step(adapter, 2.0, mobility=mobility(2.0, [0], [160.0]))
    assert (link["cell"].tolist(), link["handovers"].tolist()) == ([2], [1])
    _, link, _ = step(adapter, 3.0, mobility=mobility(3.0, [0], [900.0]))
    assert link["cell"].tolist() == [-1]
    assert (link["uplink_rate"].tolist(), link["loss"].tolist()) == ([0.0], [1.0])
    assert adapter.finish()["handovers"] == 1
    assert adapter.finish()["coverage"] == 0.75


def test_transfers_share_the_airtime_in_both_directions():
    where = scene(node("one", 10.0), node("two", 10.0), node("ap", 0.0, "access-point"))
    adapter = started(where)
    whole = step(adapter)[1]["uplink_rate"][0]
    _, link, cell = step(adapter, 1.0, traffic=traffic(0.0, [0, 1], uploads=1, downloads=1))
    assert link["uplink_rate"] == pytest.approx(whole / 4.0)
    assert cell["active"].tolist() == [2]
    assert cell["rate"] == pytest.approx([whole])
    _, _, cell = step(adapter, 2.0, traffic=traffic(1.0, [0, 1], sent=whole / 8.0 * 0.25, received=whole / 8.0 * 0.125))
    assert cell["utilisation"] == pytest.approx([0.75])


def test_failed_nodes_are_not_heard_until_they_recover():
    where = scene(node("uav", 20.0), node("ap", 0.0, "access-point"))
    adapter = started(where)
    down = step(adapter, 0.0, [Event(0.0, "fail", (SlotRange(1),))])
    assert len(down[0]) == 0
    assert down[1]["cell"].tolist() == [-1]
    up = step(adapter, 1.0, [Event(1.0, "recover", (SlotRange(1),)), Event(1.0, "fail", (SlotRange(0),))])
    assert up[1]["cell"].tolist() == [-1]
    assert up[2]["attached"].tolist() == [0]
    assert len(step(adapter, 2.0, [Event(2.0, "recover", (SlotRange(0),))])[0]) == 2


def test_degraded_links_are_slower_and_lose_more_until_restored():
    where = scene(node("uav", 20.0), node("ap", 0.0, "access-point"))
    adapter = started(where)
    before = step(adapter)[0]
    pair = ((SlotRange(0),), (SlotRange(1),))
    peer, link, _ = step(adapter, 1.0, [Event(1.0, "degrade", (), pair, delay=0.1, loss=0.5, rate=0.25)])
    assert peer["rate"] == pytest.approx(0.25 * before["rate"])
    assert peer["delay"] == pytest.approx(before["delay"] + 0.1)
    assert peer["loss"] == pytest.approx([0.5, 0.5])
    assert link["uplink_rate"] == pytest.approx(peer["rate"][:1])
    after = step(adapter, 2.0, [Event(2.0, "restore", (), pair)])[0]
    assert after["rate"] == pytest.approx(before["rate"])


def test_members_of_fleets_come_and_go():
    adapter = started(scene(node("ap", 0.0, "access-point"), capacity=3))
    assert len(step(adapter)[1]) == 0
    table = SlotTable(1, ("p", "q", ""), np.array([1, 1, 0], np.int32), 1)
    _, link, _ = step(adapter, 1.0, mobility=mobility(1.0, [1, 2], [10.0, 30.0], table))
    assert link.slot.tolist() == [1, 2]
    assert link["cell"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ((Node("a", "uav", "device", (0.0, 0.0, 0.0)),), "no node of the scenario has a 'wifi' block"),
        ((node("a", None),), "'a' has a Wi-Fi interface but no position"),
        ((node("a", 0.0), node("b", 0.0, carrier=2.4e9)), "not on the same channel"),
        ((node("a", 0.0, bandwidth=80e6),), "no channels of 80 MHz"),
    ],
)
def test_impossible_scenes_are_refused(nodes, said):
    with pytest.raises(ScenarioError, match=said):
        started(scene(*nodes))

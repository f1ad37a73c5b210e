"""Links of live machines: what frames, wires and failures make of them, and what the summary says."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from cosim.adapters.live import ADAPTER
from cosim.adapters.live.config import LiveConfig
from cosim.adapters.live.shaping import LiveShaping
from cosim.adapters.live.tests.test_live_adapter import PERIOD, agents, context  # noqa: F401 - a fixture
from cosim.contract.adapter import Inputs
from cosim.contract.entities import Event, Fleet, Node, Scene, SlotRange
from cosim.contract.entities import Link as Wire
from cosim.contract.frame import Frame
from cosim.contract.link import LinkState
from cosim.contract.node_keys import Cell, Live, Radio, Software, Wifi
from cosim.contract.slots import SlotBook
from cosim.scenario.plan.plan import AdapterPlan
from cosim.scenario.plan.warnings import warnings
from cosim.testbed.live.shaping import Function, Impairment

WIFI = Wifi(network="field")
ADAPTERS = (AdapterPlan("live", "live", {}, 1, (), (), "measured", False, "", ()),)
RADIO, CELL = Radio(), Cell()


def live(address="", shaping=True):
    return Live.si(key="lab", lease=5.0, shaping=shaping, interval=0.1, wait=15.0, address=address)


def wire(a, b, rate=1e8, delay=0.02, loss=0.0):
    return Wire((SlotRange(a),), (SlotRange(b),), LinkState(rate, delay, loss=loss))


NODES = (
    Node("uav", "uav", "device", (0, 0, 0), wifi=WIFI, radio=RADIO, live=live("10.0.0.1")),
    Node("rover", "rover", "device", (0, 0, 0), wifi=WIFI, radio=RADIO, live=live("10.0.0.2", shaping=False)),
    Node("mast", "base-station", "edge", (0, 0, 0), cell=CELL),
    Node("edge", "edge", "edge", live=live("10.0.0.4")),
    Node("lonely", "edge", "edge", live=live("10.0.0.5")),
)
SCENE = Scene.build(NODES, (), (wire(2, 3),))
LIVE = {k: node for k, node in enumerate(NODES) if node.live is not None}


def peers(*rows):
    table = np.array(rows, float).reshape(-1, 7)
    names = ("rate", "delay", "jitter", "loss", "rssi")
    columns = {name: table[:, k + 2].copy() for k, name in enumerate(names)}
    return Frame("peer_link", 0.0, table[:, 0].astype(np.int32), {"peer": table[:, 1].astype(np.int32), **columns})


def cells(*rows):
    """Rows of slot, cell, uplink rate, downlink rate."""
    table = np.array(rows, float).reshape(-1, 4)
    count = len(table)
    columns = {
        "cell": table[:, 1].astype(np.int32), "rsrp": np.full(count, -90.0), "snr": np.full(count, 10.0),
        "uplink_rate": table[:, 2].copy(), "downlink_rate": table[:, 3].copy(), "delay": np.full(count, 0.004),
        "loss": np.full(count, 0.1), "handovers": np.zeros(count, np.int32),
    }  # fmt: skip
    return Frame("link", 0.0, table[:, 0].astype(np.int32), columns)


def inputs(*frames, events=()):
    found = {}
    for frame in frames:
        found.setdefault(frame.signal, []).append(frame)
    return Inputs(found, events)


def reported(found):
    return {name: {link.address: link for link in links} for name, links in found.items()}


def test_a_way_over_a_cell_and_a_wire_has_the_least_rate_and_all_delays_and_losses():
    shaping = LiveShaping(SCENE, LIVE)
    found = reported(shaping.changed(inputs(cells((0, 2, 1e7, 2e7)))))
    up, down = found["uav"]["10.0.0.4"], found["edge"]["10.0.0.1"]
    assert up[1:] == (1e7, pytest.approx(0.024), 0.0, pytest.approx(0.1))
    assert down.rate == 2e7
    assert "rover" not in found  # the scenario does not let it be shaped
    assert "lonely" not in found  # no model says anything about it
    assert not any("10.0.0.5" in links for links in found.values())


def test_a_member_of_a_fleet_passes_packets_on_while_it_is_there():
    relay = Node("relays", "edge", "edge", runs=Software(image="vedgenode"))
    ends = tuple(Node(name, "edge", "edge", live=live(f"10.0.0.{k}")) for k, name in enumerate(("one", "two"), 1))
    scene = Scene.build(ends, (Fleet("relays", "sumo", 0, 1, relay),), (wire(0, 2), wire(2, 1)))
    shaping, book = LiveShaping(scene, dict(enumerate(ends))), SlotBook(2, 1, "relays")
    for present, rate in ((["r"], 1e8), ([], 0.0), (["s"], 1e8)):
        places = Frame("mobility", 0.0, book.assign(present), {}, book.table())
        assert reported(shaping.changed(inputs(places)))["one"]["10.0.0.2"].rate == rate


def test_what_no_model_has_spoken_of_yet_is_left_alone_and_what_is_out_of_reach_is_down():
    shaping = LiveShaping(SCENE, LIVE)
    assert reported(shaping.changed(inputs())) == {}
    found = reported(shaping.changed(inputs(cells((0, -1, 0.0, 0.0)))))
    assert found["uav"]["10.0.0.4"] == Impairment("10.0.0.4", 0.0, 0.0, 0.0, 1.0)
    assert found["edge"]["10.0.0.1"].loss == 1.0


def test_wifi_is_direct_and_comes_first():
    shaping = LiveShaping(SCENE, LIVE)
    frame = peers((0, 1, 5e6, 0.002, 0.001, 0.05, -70), (1, 0, 6e6, 0.002, 0.001, 0.05, -70))
    found = reported(shaping.changed(inputs(frame, cells((0, 2, 1e7, 2e7), (1, 2, 1e7, 2e7)))))
    assert found["uav"]["10.0.0.2"] == Impairment("10.0.0.2", 5e6, 0.002, 0.001, 0.05)
    found = reported(shaping.changed(inputs(peers(), cells((0, 2, 1e7, 2e7), (1, 2, 1e7, 3e6)))))
    assert found["uav"]["10.0.0.2"][1:] == (3e6, pytest.approx(0.008), 0.0, pytest.approx(0.19))  # over the cell


def test_only_what_has_changed_is_told_and_failures_count():
    shaping = LiveShaping(SCENE, LIVE)
    frame = cells((0, 2, 1e7, 2e7))
    shaping.changed(inputs(frame))
    assert shaping.changed(inputs(frame)) == {}
    assert shaping.changed(inputs(cells((0, 2, 1.001e7, 2e7)))) == {}
    assert reported(shaping.changed(inputs(cells((0, 2, 1.2e7, 2e7)))))["uav"]["10.0.0.4"].rate == 1.2e7
    slower = Event(1.0, "degrade", (), ((SlotRange(2),), (SlotRange(3),)), delay=0.0, loss=0.0, rate=0.01)
    found = reported(shaping.changed(inputs(frame, events=(slower,))))
    assert found["uav"]["10.0.0.4"].rate == found["edge"]["10.0.0.1"].rate == 1e6
    found = reported(shaping.changed(inputs(frame, events=(Event(2.0, "fail", (SlotRange(3),)),))))
    assert (found["uav"]["10.0.0.4"].rate, found["edge"]["10.0.0.1"].rate) == (0.0, 0.0)


def test_an_unlimited_wire_says_so():
    scene = Scene.build((NODES[3], NODES[4]), (), (wire(0, 1, math.inf, 0.0),))
    found = reported(LiveShaping(scene, dict(enumerate(scene.nodes))).changed(inputs()))
    assert found["edge"]["10.0.0.5"] == Impairment("10.0.0.5", None, 0.0, 0.0, 0.0)


def test_who_has_nobody_to_be_shaped_towards_is_warned_of():
    alone = Scene.build((NODES[3], Node("other", "edge", "edge", live=live())), (), (wire(0, 1),))
    (warning,) = warnings(alone, ADAPTERS)
    assert warning.startswith("node 'edge' is to be shaped, but no other live node has an address")
    assert not any("shaped" in warning for warning in warnings(SCENE, ADAPTERS))


@pytest.mark.parametrize(("allowed", "held"), [(True, 1.0), (False, 0.0)])
def test_the_summary_says_whether_links_were_held(tmp_path, agents, caplog, monkeypatch, allowed, held):  # noqa: F811
    if allowed:  # a busy machine takes long to obey
        monkeypatch.setattr("cosim.adapters.live.shaping.PATIENCE", math.inf)
    calls = []
    agents("lab", None)
    nodes = tuple(
        Node(
            name,
            "edge",
            "edge",
            live=Live.si(
                key="lab", lease=5.0, tasks=False, shaping=name == "edge", interval=0.1, wait=15.0, address=address
            ),
            missing="model",
        )
        for name, address in (("edge", "10.0.0.4"), ("far", "10.0.0.5"))
    )
    made = ADAPTER.build(LiveConfig())
    try:
        made.start(context(tmp_path, Scene.build(nodes, (), (wire(0, 1, 3e6),))))
        shaper = Function(calls.append) if allowed else None
        attached = agents("lab", made._gateway.addresses[-1], node="edge", shaper=shaper, tasks=False)
        assert made._gateway.wait_for(["edge"], 15) == []
        end, reported = time.monotonic() + 60, {}
        while not reported.get("reports") and time.monotonic() < end:
            made.step(0.0, Inputs())
            time.sleep(PERIOD)
            reported = made.finish()["nodes"]["edge"]["shaping"]
        assert (reported["links"], reported["ability"]) == (1, "full" if allowed else "none")
        assert reported["held"] == held
        assert ("--allow-shaping" in reported["unshaped"]) is not allowed
        assert "shaping" not in made.finish()["nodes"]["far"]
        row = next(row for row in made._gateway.roster.table(0.0) if row["name"] == "edge")
        assert row["shaping"] == ("full" if allowed else "none")
        attached.stop("enough")
    finally:
        made.close()
    if allowed:
        assert calls[0] == [Impairment("10.0.0.5", 3e6, 0.02, 0.0, 0.0)]

"""The emulated network on the bus: states from frames, silence while nobody is real."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cosim.adapters.network import ADAPTER, EMULATION, LINK_TRAFFIC
from cosim.adapters.network.config import NetworkConfig
from cosim.adapters.network.lateness import Lateness, moments
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Event, Link, Node, Scene, SlotRange
from cosim.contract.errors import RunError, SetupError
from cosim.contract.frame import Frame, fault
from cosim.contract.link import DOWN, LinkState
from cosim.contract.node_keys import Cell, Radio, Software, Wifi
from cosim.testbed.emulation.message import EmulationReport
from cosim.testbed.emulation.state import Health
from cosim.testbed.launch.programs import programs
from cosim.testbed.launch.states import States
from cosim.testing import check_adapter

WIFI = Wifi(network="field")
RADIO, CELL = Radio(), Cell()
NODES = (
    Node("uav", "uav", "device", (0, 0, 0), wifi=WIFI, radio=RADIO, runs=Software(image="vuav")),
    Node("ghost", "uav", "device", (0, 0, 0), wifi=WIFI),
    Node("rover", "rover", "device", (0, 0, 0), wifi=WIFI, runs=Software(image="vrover")),
    Node("mast", "base-station", "edge", (0, 0, 0), cell=CELL, runs=Software(image="vedgenode")),
    Node("cloud", "cloud", "cloud", runs=Software(image="vedgenode")),
)
SCENE = Scene.build(
    NODES, (), (Link((SlotRange(3),), (SlotRange(4),), LinkState(1e8, 0.02, loss=0.01)),), real="netns"
)  # fmt: skip


def peers(*rows):
    table = np.array(rows, float).reshape(-1, 7)
    names = ("rate", "delay", "jitter", "loss", "rssi")
    columns = {name: table[:, k + 2].copy() for k, name in enumerate(names)}
    return Frame("peer_link", 0.0, table[:, 0].astype(np.int32), {"peer": table[:, 1].astype(np.int32), **columns})


def cells(slot, cell, up=1e7, down=2e7):
    columns = {
        "cell": np.array([cell], np.int32), "rsrp": np.array([-90.0]), "snr": np.array([10.0]),
        "uplink_rate": np.array([up]), "downlink_rate": np.array([down]), "delay": np.array([0.004]),
        "loss": np.array([0.001]), "handovers": np.array([0], np.int32),
    }  # fmt: skip
    return Frame("link", 0.0, np.array([slot], np.int32), columns)


def test_it_keeps_the_contract():
    check_adapter(ADAPTER)


def test_links_become_states_of_interfaces():
    states = States(SCENE, programs(SCENE), 0.1)
    found = states.changed(
        {"peer_link": [peers((0, 2, 5e6, 0.002, 0.001, 0.05, -70), (0, 1, 5e6, 0, 0, 0, 0))], "link": [cells(0, 3)]}
    )
    assert found["uav", "rover", "wlan0"] == LinkState(5e6, 0.002, 0.001, 0.05)
    assert not any("ghost" in key for key in found)
    assert found["uav", "mast", "lte0"][:4] == (1e7, 0.004, pytest.approx(0.0004), 0.001)
    assert found["mast", "uav", "lte0"].rate == 2e7
    assert found["mast", "cloud", "eth1"][:4] == (1e8, 0.02, 0.0, 0.01)
    assert found["cloud", "mast", "eth1"] == found["mast", "cloud", "eth1"]


def test_only_what_has_changed_is_told_and_what_is_gone_is_down():
    states = States(SCENE, programs(SCENE), 0.0)
    row = (0, 2, 5e6, 0.002, 0.001, 0.05, -70)
    states.changed({"peer_link": [peers(row)]})
    assert states.changed({"peer_link": [peers((0, 2, 5.01e6, *row[3:]))]}) == {}
    assert list(states.changed({"peer_link": [peers((0, 2, 5.2e6, *row[3:]))]})) == [("uav", "rover", "wlan0")]
    assert states.changed({}) == {("uav", "rover", "wlan0"): DOWN}
    assert states.changed({}) == {}


def test_without_coverage_and_without_rate_there_is_no_link():
    states = States(SCENE, programs(SCENE), 0.0)
    states.changed({"link": [cells(0, 3)]})
    assert states.changed({"link": [cells(0, -1)]}) == {("uav", "mast", "lte0"): DOWN, ("mast", "uav", "lte0"): DOWN}
    assert states.changed({"link": [cells(0, 3, down=0.0)]})["uav", "mast", "lte0"].rate == 1e7


def test_wires_follow_the_events():
    states = States(SCENE, programs(SCENE), 0.0)
    states.changed({})
    ends = ((SlotRange(3),), (SlotRange(4),))
    states.happen([Event(1.0, "degrade", link=ends, delay=0.1, loss=0.5, rate=0.5)])
    state = states.changed({})["mast", "cloud", "eth1"]
    assert (state.rate, state.delay) == (5e7, pytest.approx(0.12))
    assert state.loss == pytest.approx(1 - 0.99 * 0.5)
    states.happen([Event(2.0, "fail", (SlotRange(4),))])
    assert set(states.changed({}).values()) == {DOWN}
    states.happen([Event(3.0, "recover", (SlotRange(4),)), Event(3.0, "restore", link=ends)])
    assert states.changed({})["cloud", "mast", "eth1"].rate == 1e8


def test_wires_lose_in_rows_and_reorder_as_the_scenario_says():
    wire = SCENE.links[0]
    wire = replace(wire, state=wire.state._replace(burst=8.0, reorder=0.01))
    states = States(replace(SCENE, links=(wire,)), programs(SCENE), 0.0)
    state = states.changed({})["mast", "cloud", "eth1"]
    assert (state.burst, state.reorder) == (8.0, 0.01)
    states.happen([Event(1.0, "degrade", link=((SlotRange(3),), (SlotRange(4),)), loss=0.5)])
    state = states.changed({})["mast", "cloud", "eth1"]
    assert (state.burst, state.reorder) == (8.0, 0.01)
    assert state.loss == pytest.approx(1 - 0.99 * 0.5)


def test_nothing_happens_while_nobody_is_real():
    adapter = ADAPTER.build(NetworkConfig.model_validate({}))
    adapter.start(Context("network", Scene.build(NODES), 1.0, 10.0, (1,), ".", "."))
    frames = adapter.step(0.0, Inputs({"peer_link": (peers((0, 2, 5e6, 0, 0, 0, math.nan)),)}))
    for frame, signal in zip(frames, (LINK_TRAFFIC, EMULATION), strict=True):
        assert fault(frame, signal, 5) == ""
        assert len(frame.slot) == 0
    assert adapter.finish() == {"nodes": 0}


def test_doubts_about_the_emulation_are_told_while_the_run_goes_on():
    adapter = ADAPTER.build(NetworkConfig.model_validate({}))
    adapter.start(Context("network", Scene.build(NODES), 1.0, 10.0, (1,), ".", "."))
    adapter._slots = {"mast": 3, "uav": 0}
    sound = Health(True, 0.0, 0.001, 0, 0, 0, 0.5, 0.0)

    def row():
        frame = adapter._emulation(9.0)
        assert fault(frame, EMULATION, 5) == ""
        assert frame.slot.tolist() == [0]
        return [frame[name][0].item() for name in ("doubtful", "doubtful_at", "late", "unread", "overflowed")]

    adapter._lateness.heard(1.0, sound)
    assert row()[0] == 0
    assert math.isnan(row()[1])
    adapter._lateness.heard(2.0, replace(sound, lag_max=0.3, unread=7, overflowed=2))
    adapter._lateness.heard(3.0, replace(sound, unread=1))
    assert row() == [2, 3.0, 1, 8, 2]
    assert adapter._emulation(9.0)["lag"].tolist() == [0.3]


def test_a_service_with_nothing_to_do_is_not_silent(monkeypatch):
    """Its reports are all alike then, up to its processor time."""
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr("cosim.adapters.network.adapter.monotonic", lambda: float(next(clock)))
    adapter = ADAPTER.build(NetworkConfig.model_validate({}))
    adapter.start(Context("network", Scene.build(NODES), 1.0, 10.0, (1,), ".", "."))
    health = Health(True, 0.0, 0.0, 0, 0, 0, 0.5, 0.0)
    adapter._client = client = SimpleNamespace(healths=list)
    for _ in range(10):
        client.report = EmulationReport("s", "linkd", 0, frozenset(), health, {}, {})
        adapter._listen(1.0)
    adapter._listen(1.0)
    adapter._listen(1.0)
    with pytest.raises(RunError, match="said nothing for 10 s"):
        adapter._listen(1.0)


def test_without_a_service_it_says_how_to_get_one(monkeypatch):
    monkeypatch.delenv("COSIM_NETWORK", raising=False)
    adapter = ADAPTER.build(NetworkConfig.model_validate({}))
    with pytest.raises(SetupError, match="--nodes netns"):
        adapter.start(Context("network", SCENE, 1.0, 10.0, (1,), ".", "."))
    adapter.close()


def health(lag_max, **more):
    """Of a report that says nothing else."""
    return Health(True, lag_max, lag_max, 0, 0, 0, 0.0, 0.0, **more)


def test_a_single_late_second_of_a_run_is_not_forgotten():
    lateness = Lateness()
    for second in range(200):
        lateness.heard(float(second), health(0.61 if second in (7, 31) else 0.001))
    lateness.heard(200.0, health(math.nan))  # the kernel imposes links: nothing of ours is late
    found = lateness.summary()
    assert (found["lag_max"], found["lag_p99"]) == (0.61, 0.001)
    assert (found["late_seconds"], found["late_at"]) == (2, [7.0, 31.0])
    assert moments(found["late_at"]) == "7, 31 s"
    assert moments([float(k) for k in range(20)]) == "0, 1, 2, 3, 4, 5, 6, 7, ... s"
    assert (found["unread"], found["unread_seconds"], found["unread_at"]) == (0, 0, [])


def test_frames_that_nobody_read_are_counted_with_their_seconds():
    lateness = Lateness()
    for second in range(100):
        lateness.heard(float(second), health(math.nan, unread={40: 3, 41: 900}.get(second, 0)))
    found = lateness.summary()
    assert (found["unread"], found["unread_seconds"], found["unread_at"]) == (903, 2, [40.0, 41.0])
    assert found["lag_max"] is None


def test_a_late_second_is_named_by_when_it_was_at_its_worst_not_by_when_that_was_told(monkeypatch):
    clock = iter([100.0, 100.5, 101.0, 101.5, 102.0])
    monkeypatch.setattr("cosim.adapters.network.lateness.monotonic", lambda: next(clock))
    lateness = Lateness()
    for step in range(5):
        lateness.stepped(0.5 * step)
    lateness.heard(2.0, health(0.5, lag_at=100.7, unread=1, unread_at=101.2))
    lateness.heard(2.0, health(0.5, lag_at=99.0))  # of a time before the run
    assert lateness.summary()["late_at"] == [1.0, 2.0]
    assert lateness.summary()["unread_at"] == [1.5]


def test_frames_that_the_emulation_has_no_memory_for_are_told_apart_from_unread_ones():
    lateness = Lateness()
    lateness.heard(3.0, health(0.001, unread=2))
    lateness.heard(4.0, health(0.001, overflowed=70))
    found = lateness.summary()
    assert (found["unread"], found["unread_at"]) == (2, [3.0])
    assert (found["overflowed"], found["overflowed_seconds"], found["overflowed_at"]) == (70, 1, [4.0])


def test_nobody_heard_of_is_not_punctual():
    assert Lateness().summary()["lag_max"] is None


@pytest.mark.parametrize(("runs", "said"), [(None, ["ap"]), (Software(image="vedgenode"), [])])
def test_what_passes_packets_on_in_the_model_only_is_warned_of(runs, said):
    wifi = Wifi(mode="station")
    drone = Node("uav", "uav", "device", wifi=wifi, runs=Software(image="vedgenode"))
    point = Node("ap", "edge", "edge", wifi=wifi.model_copy(update={"mode": "access-point"}), runs=runs)
    cloud = Node("cloud", "cloud", "cloud", runs=Software(image="vedgenode"))
    wire = Link((SlotRange(1),), (SlotRange(2),), LinkState(1e8, 0.01))
    world = Scene.build([drone, point, cloud], links=[wire])
    config = NetworkConfig.model_validate({})
    asked = Context("network", replace(world, real="netns"), 1.0, 10.0, (1,), ".", ".")
    found = ADAPTER.problems(config, asked)
    assert [(one.path, one.fatal) for one in found] == [(f"nodes.{name}", False) for name in said]
    assert ADAPTER.problems(config, replace(asked, scene=world)) == []

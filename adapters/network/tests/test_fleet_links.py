"""Links of the computers on board of a fleet: up while a vehicle has the slot, down in the other time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.adapters.network import ADAPTER
from cosim.adapters.network.config import NetworkConfig
from cosim.adapters.network.routes import NodeRoutes
from cosim.adapters.network.tests.test_network_adapter import CELL, RADIO, WIFI
from cosim.adapters.ns3.backend import radio_of
from cosim.contract.adapter import Context
from cosim.contract.entities import Fleet, Link, Node, Scene, SlotRange
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame
from cosim.contract.link import DOWN, LinkState
from cosim.contract.node_keys import Software
from cosim.contract.slots import SlotBook
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.launch.programs import programs
from cosim.testbed.launch.states import States

RUNS = Software(image="vedgenode")
TRUCK = Node("trucks", "vehicle", "device", cores=2, memory=1e9, radio=RADIO, wifi=WIFI, runs=RUNS)
SCENE = Scene.build(
    (
        Node("north", "base-station", "edge", (0, 0, 0), cell=CELL, runs=RUNS),
        Node("south", "base-station", "edge", (0, 0, 0), cell=CELL, runs=RUNS),
        Node("depot", "edge", "edge", runs=RUNS),
    ),
    (Fleet("trucks", "sumo", 0, 3, TRUCK),),
    (
        Link((SlotRange(0, 2),), (SlotRange(2),), LinkState(1e9, 0.001)),
        Link((SlotRange(3, 3),), (SlotRange(2),), LinkState(1e9, 0.001)),  # a wire to a truck in the depot
    ),
    real="netns",
)  # fmt: skip


def frames(book, present, cells):
    """`mobility`, `link` and `peer_link` of the members `present`, each served by its cell."""
    slots = book.assign(present)
    zeros, ones = np.zeros(len(slots)), np.full(len(slots), 1e7)
    places = Frame("mobility", 0.0, slots, dict.fromkeys("xyz", zeros), book.table())
    link = {
        "cell": np.array(cells[: len(slots)], np.int32), "rsrp": zeros, "snr": zeros, "uplink_rate": ones,
        "downlink_rate": ones, "delay": zeros, "loss": zeros, "handovers": zeros,
    }  # fmt: skip
    pairs = [(a, b) for a in slots.tolist() for b in slots.tolist() if a != b]
    peers = np.array(pairs, np.int32).reshape(-1, 2)
    flat = {name: np.zeros(len(peers)) for name in ("delay", "jitter", "loss", "rssi")}
    peer = Frame(
        "peer_link", 0.0, peers[:, 0].copy(), {"peer": peers[:, 1].copy(), "rate": np.full(len(peers), 1e6), **flat}
    )
    return slots, {"peer_link": [peer], "link": [Frame("link", 0.0, slots, link)], "mobility": [places]}


STEP = st.tuples(st.sets(st.integers(0, 6), max_size=3), st.lists(st.sampled_from([0, 1, -1]), min_size=3, max_size=3))


@given(st.lists(STEP, min_size=1, max_size=10))
def test_links_and_routes_of_a_slot_are_there_just_while_a_vehicle_is(steps):
    nodes = programs(SCENE)
    book, states, routes = SlotBook(3, 3, "trucks"), States(SCENE, nodes, 0.0), NodeRoutes(nodes)
    names = {node.slot: node.node for node in nodes}
    tables = {}
    for members, cells in steps:
        slots, found = frames(book, [f"v{k}" for k in sorted(members)], cells)
        states.changed(found)
        here = {names[slot] for slot in slots.tolist()}
        serving = {names[slot]: names[cell] for slot, cell in zip(slots.tolist(), cells, strict=False) if cell >= 0}
        up = {key for key, state in states.reported.items() if state != DOWN}
        trucks = {f"trucks-{k}" for k in (1, 2, 3)}
        assert {key for key in up if key[2] == "eth1" and trucks & set(key)} == {
            pair for name in here for pair in ((name, "depot", "eth1"), ("depot", name, "eth1"))
        }
        assert {key for key in up if key[2] == "lte0"} == {
            key for name, base in serving.items() for key in ((name, base, "lte0"), (base, name, "lte0"))
        }
        assert {key for key in up if key[2] == "wlan0"} == {(a, b, "wlan0") for a in here for b in here if a != b}
        for node, change in routes.changed(states.reported).items():
            table = tables.setdefault(node, {})
            table.update(change)
            tables[node] = {to: hop for to, hop in table.items() if hop is not None}
        assert {
            name for name in trucks if any(hop.interface == "lte0" for hop in tables.get(name, {}).values())
        } == set(serving)


def test_nobody_s_wire_hangs_in_the_air():
    states = States(SCENE, programs(SCENE), 0.0)
    states.changed({})
    assert states.reported["trucks-1", "depot", "eth1"] == DOWN
    assert states.reported["north", "depot", "eth1"].rate == 1e9


def test_nobody_s_computer_says_nothing_in_the_results():
    """A computer that no vehicle has had yet may send; whose frames would that be?"""
    adapter = ADAPTER.build(NetworkConfig.model_validate({}))
    nodes = programs(SCENE)
    adapter.start(Context("network", replace(SCENE, real=""), 1.0, 10.0, (1,), ".", "."))
    adapter._slots, adapter._states = {node.node: node.slot for node in nodes}, States(SCENE, nodes, 0.0)
    book = SlotBook(3, 3, "trucks")
    frame = PairCount(1, 100, 0, 0)
    counts = {(name, "north", "lte0"): frame for name in adapter._slots if name != "north"}
    adapter._client = SimpleNamespace(counts=lambda: dict(counts))
    adapter._states.presence.take([frames(book, ["a"], [0])[1]["mobility"][0]])
    assert adapter._traffic(1.0).slot.tolist() == [1, 2, 3]
    adapter._states.presence.take([frames(book, [], [])[1]["mobility"][0]])
    counts["trucks-1", "north", "lte0"] = PairCount(2, 150, 0, 0)
    row = adapter._traffic(2.0)  # what was counted last of one who has left
    assert (row.slot.tolist(), row["bytes"].tolist()) == ([3], [50])


def test_ns3_has_no_stations_that_come_and_go():
    with pytest.raises(ScenarioError, match="members of fleet 'trucks' come and go"):
        radio_of(SCENE, {}, 1)

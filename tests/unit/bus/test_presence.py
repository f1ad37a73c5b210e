"""Who is there: static nodes always, members of fleets while their owner shows them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.entities import Fleet, Node, Scene
from cosim.contract.frame import Frame
from cosim.contract.presence import Presence
from cosim.contract.slots import SlotBook

NODES = (Node("mast", "base-station", "edge"), Node("cloud", "cloud", "cloud"))
SCENE = Scene.build(
    NODES, (Fleet("cars", "sumo", 0, 4, Node("cars", "car", "device")), Fleet("vans", "other", 0, 3, NODES[0]))
)


def moves(slots, table=None):
    rows = np.array(slots, np.int32)
    return Frame("mobility", 0.0, rows, {name: np.zeros(len(rows)) for name in "xyz"}, table)


@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 5), max_size=4)), max_size=12))
def test_a_fleet_s_slots_are_taken_by_whom_its_owner_shows(steps):
    books = {"cars": SlotBook(2, 4, "cars"), "vans": SlotBook(6, 3, "vans")}
    presence, here, known = Presence(SCENE), {"cars": set(), "vans": set()}, {0, 1}
    assert presence.here.tolist() == [True, True] + 7 * [False]
    for cars, members in steps:
        name = "cars" if cars else "vans"
        chosen = sorted(members)[: books[name].capacity]
        slots = books[name].assign([f"m{k}" for k in chosen])
        presence.take([moves(slots, books[name].table())])
        here[name] = set(slots.tolist())
        known |= here[name]
        assert set(np.flatnonzero(presence.here).tolist()) == {0, 1} | here["cars"] | here["vans"]
        assert set(np.flatnonzero(presence.known).tolist()) == known


def test_machines_that_report_positions_bring_nobody():
    presence = Presence(SCENE)
    presence.take([moves([0, 3])])
    assert presence.here.tolist() == [True, True] + 7 * [False]

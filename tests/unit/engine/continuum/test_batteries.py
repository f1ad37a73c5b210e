"""Batteries and the radio's energy: exact times, closed books."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum import Engine, Kind, NodeBattery
from cosim.engine.continuum.layout import BATTERY_EMPTY, COMPLETED, EDGE, NO_COVERAGE
from tests.unit.engine.continuum.worlds import CLOCK, attach, every, exponential, field, system


def device(level, **options):
    """A device that draws 2 W idle and 5 W with its core busy."""
    return Kind(**{"cores": 1, "clock": CLOCK, "power": (2.0, 5.0), "battery": NodeBattery(level)} | options)


def test_an_idle_device_dies_when_its_joules_are_gone():
    engine = field(every(1000.0, CLOCK, start=500.0), device=device(20.0))
    engine.advance(9.999)
    assert not engine.resources().empty[0]
    assert engine.resources().level[0] == pytest.approx(2.0 * 0.001)
    engine.advance(10.0)
    assert engine.resources().empty[0]
    assert engine.ledger().energy[3] == pytest.approx(20.0)
    engine.recover([3])  # no battery gets full by itself
    engine.advance(2000.0)
    assert engine.created == 0
    assert engine.ledger().energy[3] == pytest.approx(20.0)
    assert engine.meters([3]).up.tolist() == [False]


def test_death_comes_earlier_by_what_tasks_take():
    # 4 s of the own core at 3 W more per task
    engine = field(every(10.0, 4 * CLOCK), device=device(100.0), scheduler=3)
    start = engine.state.due[0]
    engine.advance(200.0)
    ended = engine.drain()
    level, now, k = 100.0, 0.0, 0
    while True:  # by hand, phase by phase
        for until, power in ((start + 10.0 * k, 2.0), (start + 10.0 * k + 4.0, 5.0)):
            if level < power * (until - now):
                now += level / power
                level = 0.0
                break
            level -= power * (until - now)
            now = until
        if level == 0.0:
            break
        k += 1
    last = ended["ended"][ended["status"] == BATTERY_EMPTY]
    if len(last):  # it died at work
        np.testing.assert_allclose(last, now, rtol=1e-12)
    assert np.sum(ended["status"] == COMPLETED) == k
    assert engine.ledger().energy[3] == pytest.approx(100.0, rel=1e-12)


def test_sending_drains_by_the_bit():
    # 8 Mbit/s at 1 uJ/bit: 8 W on top of 2 W
    kind = device(36.0, cores=0, power=(2.0, 2.0), radio_energy_sent=1e-6)
    engine = field(every(10.0, CLOCK, size=1e9), device=kind)
    attach(engine, 3, 0, rate=8e6)
    start = engine.state.due[0]
    engine.advance(100.0)
    ended = engine.drain()
    assert set(ended["status"]) == {BATTERY_EMPTY}
    assert ended["ended"][0] == pytest.approx(start + (36.0 - 2.0 * start) / 10.0, rel=1e-12)
    books = engine.ledger()
    assert books.energy[3] + books.radio[3] == pytest.approx(36.0, rel=1e-12)
    assert books.input[3] == 0.0


def test_tasks_elsewhere_end_with_their_device():
    engine = field(every(1000.0, 1e3 * CLOCK), device=device(2000.0, cores=0, power=(2.0,)))
    attach(engine, 3, 0, rate=1e9)
    engine.advance(2000.0)
    ended = engine.drain()
    assert ended["status"].tolist() == [BATTERY_EMPTY]
    assert ended["host"].tolist() == [0]
    assert ended["ended"][0] == 1000.0
    assert engine.state.hosts["running"].tolist() == [0, 0, 0]


def test_an_edge_node_on_a_battery_takes_its_cell_and_its_ways_along():
    flying = Kind(cores=2, clock=CLOCK, power=(10.0,), battery=NodeBattery(100.0))
    kinds = [flying, Kind(cores=2, clock=CLOCK), Kind()]
    load = every(1.0, CLOCK / 100)
    world = system(["edge", "edge", "device"], kinds, [load], [(2, 0)], [(0, 1, 1e9, 0.0)])
    engine = Engine(world, 1, 1, patience=0.5)
    attach(engine, 2, 0)
    engine.advance(9.9)
    assert set(engine.drain()["status"]) == {COMPLETED}
    engine.advance(20.0)
    ended = engine.drain()
    assert set(ended["status"]) == {NO_COVERAGE}
    assert len(ended["status"]) >= 9
    assert engine.state.hosts["up"].tolist() == [0, 1]
    assert engine.state.reach[1].tolist() == [np.inf, 0.0]  # nobody gets to it any more


def test_levels_are_drawn_between_their_bounds_and_again_for_the_next_device():
    kind = device(100.0, battery=NodeBattery(100.0, 0.5, 0.75))
    engine = field(every(1000.0, CLOCK, start=500.0), devices=200, device=kind)
    level = engine.resources().charged
    assert 50.0 <= level.min() < 52.0
    assert 73.0 < level.max() < 75.0
    assert len(np.unique(level)) == 200
    engine.advance(3.0)
    engine.vanish([3])
    engine.appear([3], [1])
    engine.advance(5.0)
    parts = engine.resources()
    assert parts.taken[0] == pytest.approx(level[0] - 6.0)
    assert parts.consumed[0] == pytest.approx(10.0)
    assert parts.charged[0] != 2 * level[0]
    assert parts.level[0] == pytest.approx(parts.charged[0] - parts.taken[0] - parts.consumed[0])


def test_every_byte_costs_what_its_technology_costs():
    # node 0 has a cell of technology 1, node 1 one of technology 2
    cells = [Kind(cores=2, clock=CLOCK, technology=1, cell_received=3e-6, cell_sent=4e-6),
             Kind(cores=2, clock=CLOCK, technology=2, cell_received=5e-6)]  # fmt: skip
    ue = Kind(radio_energy_sent=9e-6, radio_energy_received=9e-6, radio_by_technology=((1e-6, 2e-6), (7e-6, 8e-6)))
    world = system(
        ["edge", "edge", "device"], [*cells, ue], [every(1.0, 1.0, size=1e5, back=2e5)], [(2, 0)], [(0, 1, 1e9, 0.0)]
    )
    engine = Engine(world, 1, 0)
    attach(engine, 2, 0)
    engine.advance(50.0)
    first = engine.meters([2])
    attach(engine, 2, 1)  # the same rates: nothing else changes
    engine.advance(100.3)
    second = engine.meters([2])
    books = engine.ledger()
    up, down = 8 * (second.sent - first.sent)[0], 8 * (second.received - first.received)[0]
    before_up, before_down = 8 * first.sent[0], 8 * first.received[0]
    assert up > 0
    assert books.radio[2] == pytest.approx(1e-6 * before_up + 2e-6 * before_down + 7e-6 * up + 8e-6 * down)
    np.testing.assert_allclose(books.cells, [3e-6 * before_up + 4e-6 * before_down, 5e-6 * up, 0.0])
    assert world.tier[0] == EDGE


change = st.one_of(
    st.tuples(st.just("radio"), st.integers(2, 4), st.integers(-1, 1), st.floats(0, 1e7)),
    st.tuples(st.just("fail"), st.integers(0, 4)),
    st.tuples(st.just("recover"), st.integers(0, 4)),
    st.tuples(st.just("appear"), st.integers(2, 4)),
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 6), st.lists(st.tuples(st.floats(0.0, 3.0), change), max_size=20))
def test_what_a_battery_lost_is_what_its_node_used(seed, scheduler, steps):
    cell = Kind(cores=1, clock=CLOCK, technology=1, cell_sent=1e-7, cell_received=2e-7)
    ue = device(60.0, radio_by_technology=((2e-6, 1e-6),), battery=NodeBattery(60.0, 0.2, 1.0))
    load = every(0.5, CLOCK / 4, size=1e5, back=5e4)
    load = type(load)(rate=3.0, work=exponential(CLOCK / 5), input=exponential(1e5), output=exponential(1e5))
    tiers = ["edge", "edge", "device", "device", "device"]
    world = system(tiers, [cell, cell, ue, ue, ue], [load], [(n, 0) for n in (2, 3, 4)], [(0, 1, 1e7, 0.0)])
    engine = Engine(world, seed, scheduler, patience=0.5)
    generation = 0
    for n in (2, 3, 4):
        attach(engine, n, n % 2)
    for span, (what, slot, *rest) in steps:
        engine.advance(engine.now + span)
        if what == "radio":
            attach(engine, slot, rest[0], rate=rest[1])
        elif what == "appear":
            generation += 1
            engine.vanish([slot])
            engine.appear([slot], [generation])
            attach(engine, slot, 0)
        else:
            getattr(engine, what)([slot])
    engine.advance(engine.now + 5.0)
    books, parts = engine.ledger(), engine.resources()
    assert parts.battery_node.tolist() == [2, 3, 4]
    np.testing.assert_allclose(parts.consumed, (books.energy + books.radio)[2:], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts.charged, parts.consumed + parts.level + parts.taken, rtol=1e-9)
    assert np.all(parts.level >= -1e-9)
    assert np.all((parts.level == 0.0) == parts.empty)
    meters = engine.meters([2, 3, 4])
    carried = engine.state.nodes["cell_received"].sum() + (meters.sent - engine.state.nodes["marked_up"][2:]).sum()
    assert carried == pytest.approx(meters.sent.sum())
    tally = books.tally
    assert np.array_equal(tally[:, 0], tally[:, 2:].sum(axis=1) + books.in_flight)

"""The books close, whatever happens to the system."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum import Deciding, Engine, WorkloadStream
from cosim.engine.continuum.layout import COMPLETED, DOWN, FREE, RUN, STATUSES
from tests.unit.engine.continuum.happenings import KINDS, in_two_ways, steps, world
from tests.unit.engine.continuum.worlds import CLOCK, exponential, system


def check(engine, ended):
    books, state = engine.ledger(), engine.state
    tally = books.tally
    assert np.array_equal(tally[:, 0], tally[:, 2:].sum(axis=1) + books.in_flight)
    assert tally[:, 0].sum() == engine.created
    assert len(ended["status"]) == tally[:, 2:].sum()
    assert np.array_equal(np.bincount(ended["status"], minlength=STATUSES), tally[:, 2:].sum(axis=0))
    for offered, *parts in (books.input, books.output):
        assert np.isclose(offered, sum(parts), rtol=1e-9, atol=1e-3)
    live = state.tasks[state.tasks["phase"] != FREE]
    assert len(live) == state.meta["live"][0]
    assert len(np.unique(np.concatenate([live["serial"], ended["serial"]]))) == engine.created
    for h, host in enumerate(state.hosts):
        assert host["running"] == np.sum((live["host"] == host["slot"]) & (live["phase"] == RUN)), h
        assert host["assigned"] == np.sum((live["host"] == host["slot"]) & (live["phase"] != DOWN)), h
    stations = state.stations
    assert stations["active"].sum() + stations["queued"].sum() == np.sum(live["station"] >= 0)
    assert np.all(books.energy >= 0)
    assert np.all(engine.meters(np.arange(len(state.nodes))).busy <= engine.now * 4 + 1e-9)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    scheduler=st.integers(0, 6),
    fcfs=st.booleans(),
    drop_late=st.booleans(),
    deciding=st.sampled_from([None, Deciding(0, 0.05), Deciding(2, 1e-3)]),
    steps=steps,
)
def test_books_close(seed, scheduler, fcfs, drop_late, deciding, steps):
    options = {"drop_late": drop_late, "deciding": deciding}
    engines, columns = in_two_ways(world(fcfs), seed, scheduler, steps, rest=1.0, **options)
    check(engines[0], columns[0])
    for name, column in columns[0].items():
        assert column.tobytes() == columns[1][name].tobytes(), name


def test_joules_and_costs_are_what_was_done():
    kinds = [KINDS[2], KINDS[3]]
    load = WorkloadStream(
        rate=5.0, work=exponential(CLOCK / 10), input=exponential(2e4), output=exponential(1e4), stop=90.0
    )
    engine = Engine(system(["edge", "device"], kinds, [load], [(1, 0)]), 5, 0)
    engine.set_radio([1], [0], [1e7], [1e7], [0.0], [0.0])
    engine.advance(100.0)
    ended = engine.drain()
    assert np.all(ended["status"] == COMPLETED)
    books = engine.ledger()
    busy = ended["work"].sum() / (2 * CLOCK)
    sent, received = ended["input"].sum(), ended["output"].sum()
    np.testing.assert_allclose(books.radio, [0.0, 8 * (sent * 1e-6 + received * 2e-6)], rtol=1e-9)
    np.testing.assert_allclose(books.energy[0], 50.0 * 100.0 + 40.0 * busy / 4, rtol=1e-9)
    np.testing.assert_allclose(books.cost_transfer[0], 1e-5 * (sent + received), rtol=1e-9)
    assert books.tally[0, 1] == 0

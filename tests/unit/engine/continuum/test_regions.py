"""Systems that are advanced by regions, over threads, against one queue for all: equal bit by bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum import Engine, Kind, MachineAccelerator, WorkloadStream, dividing, regions
from cosim.engine.continuum.layout import EDF, FCFS, SHARING
from tests.unit.engine.continuum.worlds import CLOCK, exponential, fixed, system

TOWNS, HOMES = 4, 3  # a town: two edge nodes, the first of them a host, and homes; a cloud behind all of them
SLOTS = TOWNS * (2 + HOMES)  # the cloud is the last node
SCHEDULERS = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 6, 6, 6])

LOADS = (
    WorkloadStream(
        rate=4.0, work=exponential(CLOCK / 8), input=exponential(1e5), output=exponential(5e4), deadline=0.7
    ),
    WorkloadStream(
        rate=2.0, work=fixed(CLOCK / 5), input=fixed(4e4), output=fixed(1e4), periodic=True, active=1.0, idle=0.5
    ),
    WorkloadStream(rate=1.0, work=fixed(CLOCK / 9), input=fixed(4e4), output=fixed(1e4), bag=(3.0, 1.0), deadline=0.6),
)


def homes(town):
    return [TOWNS * 2 + town * HOMES + k for k in range(HOMES)]


def towns(discipline=SHARING, joined=True, hosts=True, wires=False, units=False, bags=True):
    """Two nodes per town, homes, then a cloud that joins the towns; homes make all loads, or those but the last."""
    loads = LOADS if bags else LOADS[:-1]
    parts = (MachineAccelerator(kind=0, speed=1e9, units=1),) if units else ()
    host = Kind(cores=1, clock=CLOCK, fcfs=int(discipline), slots=6, power=(5.0, 9.0), memory=8e9 * units,
                accelerators=parts)  # fmt: skip
    relay = Kind(cores=1, clock=CLOCK / 2, fcfs=int(discipline)) if hosts else Kind()
    home = Kind(cores=1, clock=CLOCK / 4, radio_energy_sent=1e-6)
    cloud = Kind(cores=4, clock=2 * CLOCK, power=(50.0, 90.0), memory=8e9 * units, accelerators=parts)
    links = [(2 * t, 2 * t + 1, 4e6, 0.002) for t in range(TOWNS)]
    if joined:
        links += [(2 * t, SLOTS, 2e7, 0.004, 0.01) for t in range(TOWNS)]
    if wires:
        links += [(homes(t)[0], 2 * t + 1, 5e6, 0.001) for t in range(TOWNS)]
    sources = [(n, w) for n in range(2 * TOWNS, SLOTS) for w in range(len(loads))] + [(0, 0)]
    tiers = ["edge"] * (2 * TOWNS) + ["device"] * (TOWNS * HOMES) + ["cloud"]
    kinds = [host, relay] * TOWNS + [home] * (TOWNS * HOMES) + [cloud]
    return system(tiers, kinds, loads, sources, links)


DEVICE = st.integers(2 * TOWNS, SLOTS - 1)
CHANGES = st.one_of(
    st.tuples(st.just("radio"), DEVICE, st.integers(-1, 2 * TOWNS - 1), st.sampled_from([0.0, 1e6, 2e7])),
    st.tuples(st.just("move"), st.integers(0, TOWNS - 1), st.integers(0, 2 * TOWNS - 1)),
    st.tuples(st.just("move"), st.integers(0, TOWNS - 1), st.integers(0, 2 * TOWNS - 1)),
    st.tuples(st.just("tell"), st.integers(0, 99), st.sampled_from([0, 1, 5])),
    st.tuples(st.just("fail"), st.integers(0, SLOTS)),
    st.tuples(st.just("recover"), st.integers(0, SLOTS)),
    st.tuples(st.just("link"), st.integers(0, TOWNS - 1), st.sampled_from([0.0, 0.3, 1.0])),
    st.tuples(st.just("vanish"), DEVICE),
)
STEPS = st.lists(st.tuples(st.sampled_from([0.05, 0.4, 1.0]), CHANGES), min_size=4, max_size=14)


def history(made, seed, scheduler, steps, threads, large, share=0.5, **options):
    """What ended, the books and the engine, after all steps."""
    before = regions.LARGE, regions._SHARE
    regions.LARGE, regions._SHARE = large, share
    try:
        engine = Engine(made, seed, scheduler, patience=0.5, threads=threads, **options)
        for town in range(TOWNS):
            for n in homes(town):
                engine.set_radio([n], [2 * town + n % 2], [3e6], [2e6], [0.003], [0.0])
        ended = []
        for span, (what, slot, *rest) in steps:
            engine.advance(engine.now + span)
            ended.append(engine.drain())
            if what == "radio" and engine.state.nodes["present"][slot]:
                engine.set_radio([slot], [rest[0]], [rest[1]], [rest[1]], [0.002], [0.1])
            elif what == "move":
                here = [n for n in homes(slot) if engine.state.nodes["present"][n]]
                for n in here:
                    engine.set_radio([n], rest, [4e6], [1e6], [0.002], [0.0])
            elif what == "tell":  # all homes in one call; some of them change their cell or have no rate
                here = np.flatnonzero(engine.state.nodes["present"][:SLOTS])[2 * TOWNS :]
                cells = engine.state.nodes["cell"][here].copy()
                if rest[0]:
                    cells[slot % 3 :: rest[0]] = slot % (2 * TOWNS)
                rates = np.where((here + slot) % 4 == 0, 0.0, 1e6 * (1 + (here + slot) % 5))
                engine.set_radio(here, cells, rates, 2 * rates, np.full(len(here), 0.002), np.full(len(here), 0.1))
            elif what == "link":
                engine.set_links([slot], rest, [0.01], [0.0])
            elif what == "vanish" and engine.state.nodes["present"][slot]:
                engine.vanish([slot])
            elif what in ("fail", "recover"):
                getattr(engine, what)([slot])
        engine.advance(engine.now + 3.0)
        ended.append(engine.drain())
        return {name: np.concatenate([part[name] for part in ended]) for name in ended[0]}, engine.ledger(), engine
    finally:
        regions.LARGE, regions._SHARE = before


def assert_same(one, other):
    (rows, books, engine), (others, their_books, them) = one, other
    for name, column in rows.items():
        assert column.tobytes() == others[name].tobytes(), name
    for name in books.__dataclass_fields__:
        mine, theirs = getattr(books, name), getattr(their_books, name)
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes() if name != "services" else True, name
    for name in ("events", "turn", "serial", "live"):
        assert engine.state.meta[name] == them.state.meta[name], name
    for name in ("assigned", "running"):
        assert np.array_equal(engine.state.hosts[name], them.state.hosts[name])
    everyone = np.arange(len(engine.state.nodes))
    for mine, theirs in zip(vars_of(engine.meters(everyone)), vars_of(them.meters(everyone)), strict=True):
        assert mine.tobytes() == theirs.tobytes()


def vars_of(meters):
    return [getattr(meters, name) for name in meters.__dataclass_fields__]


@pytest.fixture(autouse=True)
def small_regions(monkeypatch):
    monkeypatch.setattr(regions, "_FEW", 1)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1), scheduler=SCHEDULERS, discipline=st.sampled_from([SHARING, FCFS, EDF]),
    joined=st.booleans(), hosts=st.booleans(), wires=st.booleans(), units=st.booleans(), bags=st.booleans(),
    drop_late=st.booleans(), threshold=st.sampled_from([0.5, 2.0, 4.0]), share=st.sampled_from([0.5, 9.0]), steps=STEPS,
)  # fmt: skip
def test_regions_change_no_bit(
    seed, scheduler, discipline, joined, hosts, wires, units, bags, drop_late, threshold, share, steps
):
    made = towns(discipline, joined, hosts, wires, units, bags)
    options = {"drop_late": drop_late, "threshold": threshold}
    whole = history(made, seed, scheduler, steps, 1, 10**9, **options)
    for threads in (1, 2, 3):
        assert_same(whole, history(made, seed, scheduler, steps, threads, 1, share, **options))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_sort_as_one_does(threads):
    """Items by time, ties and numbers, with and without many at once, against numpy's sort."""
    chance = np.random.default_rng(threads)
    for count, times in ((0, 3), (1, 3), (7, 2), (3000, 10**6), (3000, 300), (3000, 2)):
        time, tie = chance.integers(0, times, count) / 7.0, chance.integers(0, 3, count)
        places = np.empty(count, np.int64)
        order = regions.order_by(time, tie, places, threads)
        assert np.array_equal(order, np.lexsort((np.arange(count), tie, time)))
        assert np.array_equal(order[places], np.arange(count)) or count == 0
        assert np.array_equal(places[order], np.arange(count))


def count_regions(monkeypatch, made, scheduler):
    """How many regions of each advance had anything to do."""
    found = []
    divide = regions.Regions._divide

    def watch(self, s, until):
        first, dealt = divide(self, s, until)
        found.append(np.count_nonzero(np.diff(first)))
        return first, dealt

    monkeypatch.setattr(regions.Regions, "_divide", watch)
    history(made, 3, scheduler, [(1.0, ("link", 0, 1.0))] * 5, 2, 1)
    return found


@pytest.mark.parametrize(("scheduler", "joined", "least"), [(0, True, TOWNS), (2, False, TOWNS), (3, True, TOWNS)])
def test_towns_that_share_nothing_are_regions(monkeypatch, scheduler, joined, least):
    assert min(count_regions(monkeypatch, towns(joined=joined), scheduler)) >= least


def test_hybrid_joins_regions_from_their_first_task_to_the_cloud_on(monkeypatch):
    """Regions stop at different times, what they have left is finished together, and others are not joined."""
    left, dealt = [], []
    due, divide = dividing.still_due, regions.Regions._divide

    def watch(meta, until, found):
        left.append(due(meta, until, found))
        return left[-1]

    def watch_too(*given):
        first, events = divide(*given)
        dealt.append(first[-1])
        return first, events

    monkeypatch.setattr(dividing, "still_due", watch)
    monkeypatch.setattr(regions.Regions, "_divide", watch_too)
    made, steps = towns(bags=False), [(0.1, ("link", 0, 1.0))] * 12
    whole, divided = (history(made, 4, 6, steps, 2, large, 9.0, threshold=5.0) for large in (10**9, 1))
    assert_same(whole, divided)
    assert np.isin(whole[0]["host"], [SLOTS]).any()
    assert np.any(np.array(left) < dealt)


def test_a_cloud_behind_all_joins_them(monkeypatch):
    found = count_regions(monkeypatch, towns(), 2)
    assert set(found[:1]) == {1}
    assert len(found) < 12  # after some attempts one queue is used


@pytest.mark.parametrize("scheduler", [1, 5, -2])
def test_a_scheduler_that_looks_everywhere_is_not_divided(monkeypatch, scheduler):
    assert count_regions(monkeypatch, towns(), scheduler) == []


def test_a_snapshot_between_two_advances_is_that_of_one_queue(monkeypatch):
    """A snapshot of a divided engine goes on in one that is not divided."""
    made = towns()
    _, _, engine = history(made, 5, 0, [(1.0, ("link", 0, 1.0))] * 3, 2, 1)
    assert engine.state.meta["horizon"][0] == -np.inf
    snapshot = engine.snapshot()
    other = Engine(made, 1, 0)
    other.restore(snapshot)
    monkeypatch.setattr(regions, "LARGE", 1)
    engine.advance(engine.now + 4.0)
    monkeypatch.setattr(regions, "LARGE", 10**9)
    other.advance(other.now + 4.0)
    mine, theirs = engine.drain(), other.drain()
    assert len(mine["serial"]) > 50
    assert all(mine[name].tobytes() == theirs[name].tobytes() for name in mine)


def test_room_is_made_while_regions_run():
    """More tasks in flight, and more that end in one advance, than there are rows in the beginning."""
    made = towns()
    long = [(0.1, ("link", 0, 1.0)), (120.0, ("link", 0, 1.0)), (1.0, ("link", 0, 1.0))]
    whole, divided = (history(made, 9, 0, long, 3, large) for large in (10**9, 1))
    assert len(whole[0]["serial"]) > 2048
    assert_same(whole, divided)


def test_threads_are_one_or_more():
    with pytest.raises(ValueError, match="0 threads cannot advance anything"):
        Engine(towns(), 1, 0, threads=0)

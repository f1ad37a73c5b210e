"""Prices that change, and agreements about response times."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum import Engine, JobStage, Kind, WorkloadStream, batch
from cosim.engine.continuum.agreement import WorkloadAgreement
from cosim.engine.continuum.billing import Rates
from cosim.engine.continuum.price import PlaceTariff, StepSeries, constant, windows
from cosim.engine.continuum.price import steps as price_steps
from tests.unit.engine.continuum.happenings import apply, served, steps, world
from tests.unit.engine.continuum.worlds import CLOCK, attach, every, exponential, field, fixed


def priced(rates, kinds, load=None):
    """Node 0 is an edge host of the first kind, node 1 of the second, node 2 a cloud without a tariff."""
    made = field(load or every(1e6, 1.0)).system
    return replace(made, kinds=(*kinds, *made.kinds[2:]), tariffs=tuple(rates))


def test_energy_is_paid_at_the_price_of_its_time():
    day = StepSeries(np.array([0.0, 100.0, 250.0]), np.array([1.0, 3.0, 2.0]))
    carbon = windows([(50.0, 150.0)], 0.1, 0.5)
    kinds = (
        Kind(cores=1, clock=CLOCK, power=(10.0, 10.0), tariff=0),
        Kind(cores=1, clock=CLOCK, power=(20.0, 20.0), tariff=1),
    )
    system = priced([Rates(day, carbon), Rates(constant(0.5))], kinds)
    engine = Engine(system, 1, 0)
    for time, cost, grams in (
        (40.0, 400.0, 200.0),
        (100.0, 1000.0, 250.0 + 50.0),
        (120.0, 1000.0 + 600.0, 320.0),
        (300.0, 1000.0 + 4500.0 + 1000.0, 250.0 + 100.0 + 750.0),
    ):
        engine.advance(time)
        books = engine.ledger()
        np.testing.assert_allclose(books.cost_energy[:2], [cost, 0.5 * 20.0 * time], rtol=1e-12)
        np.testing.assert_allclose(books.carbon[:3], [grams, 0.0, 0.0], rtol=1e-12)
    once = Engine(system, 1, 0)
    once.advance(300.0)
    assert np.array_equal(once.ledger().cost_energy, engine.ledger().cost_energy)
    result = batch(system, {}, [1], 300.0, scheduler=0, workers=1)
    assert result["cost.energy"][0, 0] == pytest.approx(once.ledger().cost_energy.sum(), rel=1e-12)


@given(
    price=st.lists(st.floats(0.0, 3.0), min_size=1, max_size=4),
    carbon=st.lists(st.floats(0.0, 3.0), min_size=1, max_size=4),
    share=st.floats(0.0, 1.0),
    green=st.tuples(st.floats(0.0, 80.0), st.floats(1.0, 60.0)),
    looks=st.lists(st.floats(0.1, 40.0), max_size=5),
)
@settings(max_examples=30, deadline=None)
def test_green_energy_is_billed_as_a_place_bills_it(price, carbon, share, green, looks):
    """A host of constant power, against the tariff of datacentres."""
    span = (green[0], green[0] + green[1])
    prices, carbons = price_steps(price, 17.0), price_steps(carbon, 23.0)
    rates = Rates(prices, carbons, windows([span], share), 0.5, 0.25, windows([span, (150.0, 170.0)], 0.0, -1.0))
    host = Kind(cores=1, clock=CLOCK, power=(20.0, 20.0), tariff=0)
    engine = Engine(priced([rates], (host, Kind())), 1, 0)
    for step in looks:
        engine.advance(engine.now + step)
        engine.ledger()
    engine.advance(200.0)
    books = engine.ledger()
    place = PlaceTariff(prices, carbons, windows([span], share * 20.0), constant(0.5), constant(0.25))
    expected = place.bill(20.0, 0.0, 200.0)
    assert books.green[0] == pytest.approx(expected.green, rel=1e-9, abs=1e-9)
    assert books.brown[0] == pytest.approx(expected.brown, rel=1e-9, abs=1e-9)
    assert books.cost_energy[0] == pytest.approx(expected.cost, rel=1e-9, abs=1e-9)
    assert books.carbon[0] == pytest.approx(expected.carbon, rel=1e-9, abs=1e-9)
    assert books.windows[0, 0] == pytest.approx(20.0 * (20.0 + green[1]), rel=1e-9)
    assert not books.windows[:, 1:].any()
    assert not books.green[1:].any()
    assert not books.brown[1:].any()


def test_a_flat_tariff_is_the_constant_price():
    load = WorkloadStream(rate=2.0, work=exponential(CLOCK / 5))
    host = Kind(cores=1, clock=CLOCK, power=(10.0, 30.0), price_energy=0.25)
    plain = priced([], (host, host), load)
    steps_ = StepSeries(np.array([0.0, 3.0, 7.0]), np.full(3, 0.25))
    tariff = priced([Rates(steps_)], (replace(host, tariff=0, price_energy=9.0), replace(host, tariff=0)), load)
    books = []
    for system in (plain, tariff):
        engine = Engine(system, 3, 0)
        attach(engine, 3, 0)
        engine.advance(20.0)
        books.append(engine.ledger().cost_energy)
    np.testing.assert_allclose(books[0], books[1], rtol=1e-12)


def agreed(agreement, **options):
    """A device whose tasks need 0.5 s alone at a host of one core: some wait."""
    load = WorkloadStream(rate=1.2, work=exponential(0.5 * CLOCK), sla=agreement, **options)
    engine = field(load, host=Kind(cores=1, clock=CLOCK, slots=6))
    attach(engine, 3, 0)
    return engine


@pytest.mark.parametrize("drained", [False, True])
def test_violations_and_penalties_are_counted(drained):
    agreement = WorkloadAgreement(response=0.8, target=0.9, period=10.0, penalty=2.0, rule="period")
    engine = agreed(agreement)
    parts = []
    for time in np.arange(3.7, 400.0, 3.7):
        engine.advance(time)
        if drained:
            parts.append(engine.drain())
    books = engine.ledger()
    parts.append(engine.drain())
    ended = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    response = ended["ended"] - ended["created"]
    bad = (ended["status"] != 0) | (response > 0.8)
    service = books.services[0]
    assert service.standing.tasks == len(bad) > 300
    assert service.standing.violations == bad.sum() > 20
    assert service.standing.excess == pytest.approx(np.maximum(response[bad] - 0.8, 0.0).sum(), rel=1e-12)
    assert service.kept == pytest.approx(1 - bad.mean())
    assert service.met == (service.kept >= 0.9)
    whole = np.floor(engine.now / 10.0)
    period = np.floor(ended["ended"] / 10.0)
    below = sum(1 for k in range(int(whole)) if np.any(period == k) and bad[period == k].mean() > 0.1)
    assert service.standing.periods_below == below > 3
    assert service.penalty == 2.0 * below


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("violation", lambda standing: 3.0 * standing.violations),
        ("excess", lambda standing: 3.0 * standing.excess),
        (lambda standing: max(0.0, standing.violations - 10.0), lambda standing: 3.0 * (standing.violations - 10.0)),
    ],
)
def test_rules_of_penalties(rule, expected):
    engine = agreed(WorkloadAgreement(response=0.8, penalty=3.0, rule=rule))
    engine.advance(300.0)
    service = engine.ledger().services[0]
    assert service.penalty == pytest.approx(expected(service.standing))
    assert service.penalty > 0.0


def test_penalties_are_part_of_the_cost():
    load = WorkloadStream(rate=1.2, work=exponential(0.5 * CLOCK), sla=WorkloadAgreement(response=0.8, penalty=3.0))
    host = Kind(cores=1, clock=CLOCK, slots=6, power=(10.0, 30.0), price_cpu=0.1, price_energy=0.01)
    engine = field(load, host=host)
    attach(engine, 3, 0)
    engine.advance(300.0)
    books = engine.ledger()
    assert books.penalty == 3.0 * books.services[0].standing.violations > 0.0
    parts = books.cost_cpu.sum(), books.cost_transfer.sum(), books.cost_energy.sum()
    assert min(parts[0], parts[2]) > 0.0
    assert books.cost == pytest.approx(sum(parts) + books.penalty, rel=1e-12)
    connect = [(0.0, lambda one: attach(one, 3, 0))]
    result = batch(engine.system, {}, [7, 8], 300.0, scheduler=0, timeline=connect, workers=1)
    for name in ("cost.penalty", "cost.cpu", "cost.energy", "cost.transfer"):
        assert name in set(result)
    total = sum(result[f"cost.{name}"] for name in ("cpu", "transfer", "energy", "penalty"))
    np.testing.assert_allclose(result["cost.total"], total, rtol=1e-12)
    seen = (result["cost.penalty"] / 3.0).ravel()
    assert np.all(seen == np.round(seen))
    assert np.all(seen > 0)


def test_jobs_are_judged_as_a_whole():
    graph = (JobStage(fixed(0.3 * CLOCK)), JobStage(fixed(0.3 * CLOCK), after=(0,)))
    engine = agreed(WorkloadAgreement(response=0.5), graph=graph)
    engine.advance(100.0)
    standing = engine.ledger().services[0].standing
    assert standing.tasks == standing.violations == engine.ledger().tally[0, 2:].sum()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), todo=steps, cut=st.floats(0.1, 0.9))
def test_services_do_not_depend_on_when_one_looks(seed, todo, cut):
    loads = [
        WorkloadStream(
            rate=3.0, work=exponential(CLOCK / 3), input=exponential(1e5), sla=WorkloadAgreement(0.3, 0.9, 2.0, 1.0)
        ),
        WorkloadStream(rate=2.0, work=exponential(CLOCK / 5), sla=WorkloadAgreement(0.1)),
    ]
    one, two = (served(world(False, loads), seed, 1, patience=0.7) for _ in range(2))
    generations, again = {}, {}
    for span, what in todo:
        until = one.now + span
        one.advance(until)
        two.advance(two.now + cut * span)
        two.ledger()
        two.drain()
        two.advance(until)
        apply(one, what, generations)
        apply(two, what, again)
    first, second = one.ledger().services, two.ledger().services
    assert first.keys() == second.keys() == {0, 1}
    for k in first:
        assert first[k].standing.tasks == second[k].standing.tasks
        assert first[k].standing.periods_below == second[k].standing.periods_below
        assert first[k].standing.excess == pytest.approx(second[k].standing.excess, rel=1e-12)

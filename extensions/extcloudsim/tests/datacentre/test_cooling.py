"""Cooling and power supply: by load, by the air outside, on the bill, and in what policies see."""

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.engine.continuum.price import PlaceTariff, StepSeries, constant
from cosim.extensions.extcloudsim.datacentre.cooling import Cooling, partial_pue
from cosim.extensions.extcloudsim.datacentre.platforms import HostKind
from cosim.extensions.extcloudsim.tests.adapter.test_datacentre_adapter import begin, run
from cosim.extensions.extcloudsim.tests.datacentre.worlds import hosts_of, machines_of, model_of, wan_of
from cosim.results.ledgers import ledger_faults

FLAT = HostKind(idle=50.0, full=150.0, resting=10.0)  # 100 W at half load
PRICE = 0.15 / 3.6e6  # /J


def half_loaded(cooling, **more):
    more |= {"detector": "thr", "at": np.zeros(1, np.int64), "cooling": cooling}
    return model_of([[0.5] * 2], hosts=hosts_of(1, mips=1.0), kinds=(FLAT,), **more)


def test_the_published_range():
    """Xu, Feng and Li state 1.05 at 25 degrees Fahrenheit and 1.30 at 35 degrees Celsius, and nothing beyond."""
    np.testing.assert_allclose(partial_pue([-3.9, 35.0]), [1.05, 1.30], atol=0.01)
    assert (np.diff(partial_pue(np.linspace(-3.9, 35.0))) > 0.0).all()
    assert partial_pue(60.0) == partial_pue(35.0)


def test_it_follows_load_and_air_to_the_joule_and_is_paid_for():
    air = Cooling(StepSeries(np.array([0.0, 400.0]), partial_pue([30.0, 5.0])), fixed=20.0)
    model = half_loaded([air], tariffs=[PlaceTariff(constant(PRICE))])
    model.advance(600.0)
    books = model.ledger()
    hot, cold = 1.0743 + 0.0041 * 30 + 7.1705e-5 * 900, 1.0743 + 0.0041 * 5 + 7.1705e-5 * 25
    expected = 100.0 * (400.0 * (hot - 1.0) + 200.0 * (cold - 1.0)) + 20.0 * 600.0
    assert books.cooling[0] == pytest.approx(expected, rel=1e-12)
    drawn = books.energy[0] + books.cooling[0]
    assert books.bills[0].energy == pytest.approx(drawn, rel=1e-12)
    assert books.energy_cost.sum() == pytest.approx(drawn * PRICE, rel=1e-9)
    used = {load: (100.0 * load + 50.0) for load in (0.1, 0.9)}
    pue = {load: 1.0 + air.extra(watts, 0.0, 1.0) / watts for load, watts in used.items()}
    assert pue[0.1] - pue[0.9] == pytest.approx(20.0 / 60.0 - 20.0 / 140.0)


def test_without_it_nothing_changes():
    plain, one = half_loaded(()), half_loaded([Cooling(constant(1.0))])
    for model in (plain, one):
        model.advance(600.0)
    assert plain.ledger().energy_cost.tolist() == one.ledger().energy_cost.tolist()
    assert plain.ledger().bills == one.ledger().bills
    assert not one.ledger().cooling.any()


@pytest.mark.parametrize("warm", [0, 1])
def test_machines_follow_the_cold_where_prices_are_equal(warm):
    factor = partial_pue([35.0, -3.9] if warm == 0 else [-3.9, 35.0])
    model = model_of(
        np.full((4, 24), 0.5), hosts=hosts_of(4, places=2), machines=machines_of(4, price=0.0), kinds=(FLAT,),
        tariffs=[PlaceTariff(constant(PRICE))] * 2, cooling=[Cooling(constant(float(one))) for one in factor],
        wan=wan_of(2, cost=0.0), at=np.array([0, 1, 2, 3]), placer="cost-aware", relocate=True, horizon=14400.0,
    )  # fmt: skip
    model.advance(3600.0)
    assert (model.hosts.place[model.at] == 1 - warm).all()


def cooled(tmp_path, **more):
    (tmp_path / "air.csv").write_text("12\n25\n")
    place = {"nodes": "*", "price": "0.15 /kWh", "cooling": {"outdoors": "air.csv", "fixed": "1 kW"}}
    return begin(tmp_path, places={"all": place}, placer="best-fit", **more)


def test_the_books_of_a_run_close(tmp_path):
    adapter = cooled(tmp_path)
    run(adapter)
    books = adapter.finish()
    energy = books["energy"]
    assert energy["cooling"] > 3.6e6  # an hour of 1 kW alone
    assert energy["total"] == pytest.approx(sum(energy["by_node"].values()) + energy["cooling"])
    assert books["cost"]["energy"] == pytest.approx(energy["total"] * PRICE)
    assert ledger_faults(books) == []


def test_the_peer_prices_no_cooling(tmp_path):
    with pytest.raises(ScenarioError, match="without their cooling"):
        cooled(tmp_path, physics="compatible")

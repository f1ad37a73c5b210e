"""Rows of MetaNet's Table 1 against the suite that makes them."""

from dataclasses import replace

import pytest

from cosim.extensions.cosco.interval import ContainerArrivals
from cosim.extensions.metanet import claims
from cosim.extensions.metanet.bench import suite
from cosim.extensions.metanet.catalogue.pool import CALL, MILLISECONDS, TARIFF


def test_a_row_has_the_totals_of_a_thousand_intervals():
    world = next(one for one in suite.worlds() if one.name == "fleet")
    world = replace(world, workload=replace(world.workload, arrivals=ContainerArrivals("poisson", 1.2)))
    found = suite.run(world, "aco", 4, 5)
    row = claims.table1("ARIMA+ACO", 4, [], intervals=5, tasks=1.2)["ARIMA+ACO"]
    function = (5 + suite.ENDING) * (TARIFF * MILLISECONDS["aco"] + CALL)
    assert row["cost, USD"] == pytest.approx(200 * (found.cost + function))
    assert (row["energy, kWh"], row["response, s"]) == pytest.approx((200 * found.energy, found.response))
    assert 0.0 < row["CPU, %"] <= 100.0

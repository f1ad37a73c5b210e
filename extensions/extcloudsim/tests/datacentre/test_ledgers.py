"""Whatever happens, the sums close and every machine is somewhere, once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum.price import PlaceTariff, constant, steps
from cosim.extensions.extcloudsim.datacentre.platforms import HostKind
from cosim.extensions.extcloudsim.datacentre.quirks import COMPATIBLE
from cosim.extensions.extcloudsim.datacentre.settings import PEER
from cosim.extensions.extcloudsim.tests.datacentre.worlds import XEON, hosts_of, machines_of, model_of, wan_of

worlds = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "detector": st.sampled_from(["thr", "iqr", "mad", "lr", "lrr", "fop"]),
        "selector": st.sampled_from(["mmt", "mc", "mu", "rs", "mct"]),
        "placer": st.sampled_from(["best-fit", "power-aware", "dvfs", "first-fit", "worst-fit", "cost-aware"]),
        "governor": st.sampled_from(["performance", "powersave", "ondemand", "cost"]),
        "penalty": st.sampled_from(["proportional", "flat", "shortfall", "undone"]),
        "recovery": st.sampled_from(["restart", "migration"]),
        "compatible": st.booleans(),
        "happenings": st.lists(st.tuples(st.floats(1.0, 5000.0), st.booleans(), st.integers(0, 5)), max_size=6),
    }
)


@settings(max_examples=40, deadline=None)
@given(worlds)
def test_the_sums_close(world):
    rng = np.random.default_rng(world["seed"])
    n = 10
    quirks = COMPATIBLE if world["compatible"] else frozenset()
    policies = {name: world[name] for name in ("detector", "selector", "placer", "governor", "penalty", "recovery")}
    if world["compatible"]:
        policies = {k: v if v in PEER.get(k, (v,)) else PEER[k][0] for k, v in policies.items()}
    model = model_of(
        rng.uniform(0.0, 1.0, (n, 20)),
        hosts_of(6, places=2, kinds=2, ram=2000.0),
        machines_of(n, mips=rng.uniform(0.2, 2.0, n), ram=rng.uniform(100.0, 900.0, n), work=rng.integers(0, 4, n)),
        kinds=(XEON, HostKind(idle=40.0, full=90.0, law="cubic")),
        tariffs=[PlaceTariff(steps([1e-8, 5e-8, 2e-8], 900.0)), PlaceTariff(constant(3e-8))],
        wan=wan_of(2),
        energy_per_mb=0.5,
        relocate=policies["placer"] == "cost-aware",
        quirks=quirks,
        **policies,
    )
    for time, fails, host in sorted(world["happenings"]):
        model.advance(max(time, model.time))
        (model.fail if fails else model.recover)(np.array([host]))
        assert not np.isin(model.at, np.flatnonzero(~model.up)).any()
    model.advance(6000.0)
    books = model.ledger()
    served = np.where(model.at >= 0, 1, 0) + (model.crashed & (model.at < 0))
    assert served.tolist() == [1] * n  # on one host, or waiting for one
    assert sum(bill.energy for bill in books.bills) == pytest.approx(books.energy.sum(), rel=1e-9)
    if not world["compatible"]:
        assert sum(bill.cost for bill in books.bills) == pytest.approx(books.energy_cost.sum(), rel=1e-9)
    parts = (books.energy_cost, books.transfer, books.overload, books.migration, books.crash)
    assert books.cost == pytest.approx(sum(part.sum() for part in parts), rel=1e-9)
    assert books.wanted == pytest.approx(books.done + books.dropped + books.waiting, rel=1e-9)
    assert books.link_energy == pytest.approx(0.5 * books.moved_mb)
    assert np.all(books.busy <= 6000.0 + 1e-6)
    assert np.all(books.active + books.down <= 6000.0 + 1e-6)
    assert books.point_periods.sum() == books.active_periods
    assert 0.0 <= books.levels.slatah <= 1.0
    assert 0.0 <= books.levels.overall <= 1.0
    for amount in (*parts, books.energy, books.away):
        assert np.all(amount >= 0.0)

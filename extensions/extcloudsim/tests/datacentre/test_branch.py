"""Branches of datacentres: each is a run to which the same happens."""

import numpy as np
import pytest

from cosim.engine.continuum.price import PlaceTariff, constant, steps
from cosim.extensions.extcloudsim.datacentre.model import branch
from cosim.extensions.extcloudsim.datacentre.quirks import COMPATIBLE
from cosim.extensions.extcloudsim.tests.datacentre.worlds import hosts_of, model_of, wan_of

NOW, HORIZON = 700.0, 3000.0  # s: 700 is within a period of 300
ONE, TWO = np.array([4]), np.array([1, 3])
COURSES = [(), ((700.0, 1, ONE),), ((2000.5, 0, TWO), (1100.0, 1, TWO))]
POLICIES = {
    "random": {"selector": "rs", "detector": "mad", "placer": "worst-fit", "seed": 4},
    "prices": {"placer": "cost-aware", "relocate": True, "recovery": "migration", "governor": "cost"},
    "compatible": {"quirks": COMPATIBLE, "placer": "best-fit", "governor": "cost"},
}


def at(policies, until, course=()):
    rng = np.random.default_rng(8)
    tariffs = [PlaceTariff(price=steps([1e-8, 9e-8], 1500.0)), PlaceTariff(price=constant(4e-8))]
    hosts = hosts_of(5, places=2, ram=4000.0)
    one = model_of(rng.uniform(0.1, 1.0, (9, 20)), hosts, tariffs=tariffs, wan=wan_of(2), **POLICIES[policies])
    one.advance(NOW)
    for time, fails, hosts in sorted(course, key=lambda happening: happening[0]):
        one.advance(time)
        (one.fail if fails else one.recover)(hosts)
    one.advance(until)
    return one


@pytest.mark.parametrize("policies", POLICIES)
def test_every_candidate_is_a_run_to_which_the_same_happens(policies):
    present, before = at(policies, NOW), at(policies, NOW).ledger()
    found = branch(present, COURSES, HORIZON)
    for k, course in enumerate(COURSES):
        after = at(policies, NOW + HORIZON, course).ledger()
        assert found["energy"][k] == after.energy.sum() - before.energy.sum()
        for name in ("cost", "penalty", "migrations", "restarts", "done", "dropped", "waiting"):
            assert found[name][k] == getattr(after, name) - getattr(before, name)
    assert len(set(found["cost"])) == len(COURSES)
    present.advance(NOW + HORIZON)  # as if nothing had been tried
    assert present.ledger().cost == at(policies, NOW + HORIZON).ledger().cost


@pytest.mark.parametrize("when", [NOW - 1.0, NOW + 2.0, np.nan])
def test_what_happens_at_another_time_is_refused(when):
    with pytest.raises(ValueError, match=r"outside of 700 to 701 s"):
        branch(at("random", NOW), [((when, 1, ONE),)], 1.0)

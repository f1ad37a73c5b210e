"""Choosing the policy of an interval by trying all of them on the model, and what choosing costs."""

import numpy as np
import pytest
from benchmarks.metanet import static_choice

from cosim.extensions.metanet.catalogue.pool import CALL, MILLISECONDS, POOL, TARIFF, dollars, pool
from cosim.extensions.metanet.rollout import Rollout
from cosim.extensions.metanet.tests.test_catalogue import seen
from cosim.schedulers import list_schedulers, scheduler
from cosim.schedulers.objective import Scale, costs
from cosim.schedulers.state import KEEP


@pytest.mark.parametrize("priced", [False, True])
def test_it_carries_out_the_cheapest_decision_of_the_pool(priced):
    one, now = seen(10, 3.0, switch_off=True)
    rows = np.array([policy(now) for policy in pool()])
    figures = one.branch(np.where(rows == now.tasks["host"], KEEP, rows))
    scale = Scale()
    scale.see(now)
    value = costs(figures, now, scale)
    if priced:
        joules = figures["energy"] + figures["ahead"]
        value = figures["cost"] / figures["energy"] * joules
    policy = Rollout(priced)
    found = policy(now)
    best = int(value.argmin())
    assert policy.counts.tolist() == [int(k == best) for k in range(len(POOL))]
    np.testing.assert_array_equal(np.where(found == KEEP, now.tasks["host"], found), np.where(
        rows[best] == KEEP, now.tasks["host"], rows[best]))  # fmt: skip
    assert value.max() > value.min()  # a choice that matters


def test_it_needs_a_model_that_branches():
    _, now = seen()
    with pytest.raises(ValueError, match="branch"):
        scheduler("rollout").policy("interval")(now._replace(branch=None))
    (line,) = (line for line in list_schedulers() if line.name == "rollout")
    assert line.models == ("continuum", "interval")


def test_dollars_are_the_price_of_busy_hosts_and_of_the_call_per_task_ended():
    one, before = seen(4, 2.0)
    one.step()
    from cosim.extensions.cosco.state import interval_state

    after = interval_state(one, one.state())
    ended = set(before.tasks["task"]) - set(after.tasks["task"])
    hours = before.interval / 3600.0
    price = after.hosts["price"][after.hosts["power"] > 0.0].sum() * hours
    expected = (price + TARIFF * MILLISECONDS["gosh"] + CALL) / max(len(ended), 1)
    assert dollars(before, after, Scale(), POOL.index("gosh")) == pytest.approx(expected)


def test_the_static_choice_of_a_seed_is_made_by_the_others():
    """a3c is cheapest under the last seed alone: it is not chosen there, but under the others by that one seed."""
    others = {"semi-direct": [2.0, 2.0, 2.0], "a3c": [3.0, 3.0, 0.1], "aco": [9.0, 9.0, 9.0]}
    _, found = static_choice({"metanet": [4.0, 4.0, 4.0], **others})
    assert found["policies"] == ["a3c", "a3c", "semi-direct"]
    assert found["dollars"][0] == pytest.approx((3.0 + 3.0 + 2.0) / 3.0)
    assert found["ratio"] == pytest.approx((4.0**3 / (3.0 * 3.0 * 2.0)) ** (1.0 / 3.0))
    tables, found = static_choice({"metanet": [4.0, 4.1], "aco": [2.0, 2.0]})
    assert found["take"] == "the static choice"
    assert "aco" in str(tables[0])
    assert static_choice({"metanet": [4.0], "least-loaded": [1.0]}) == ([], None)

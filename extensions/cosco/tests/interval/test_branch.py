"""Candidates tried at once give what trying them one by one gives."""

import numpy as np
import pytest

from cosim.extensions.cosco.interval import ContainerArrivals, Interval, azure_fog, compatible, static
from cosim.extensions.cosco.interval.layout import FIGURES
from cosim.extensions.cosco.interval.quirks import CORRECTED


def simulation(quirks=CORRECTED, policy="least-loaded", mean=3.0):
    workload = static(300.0, ContainerArrivals("poisson", mean))
    one = Interval(azure_fog(12, quirks), workload, 5, policy=policy, quirks=quirks, length=300.0)
    one.run(20)
    return one


def candidates(one, count, seed=1):
    chance = np.random.Generator(np.random.PCG64(seed))
    shape = (count, len(one.state().slot))
    return np.where(chance.random(shape) < 0.4, chance.integers(0, 12, shape), -1)


def one_by_one(one, tried, horizon):
    """(K, FIGURES) by snapshot, steps and restore."""
    rows, before = [], one.snapshot()
    slots = one.state().slot
    for candidate in tried:
        moved = np.flatnonzero(candidate >= 0)
        row = np.array(list(one.step(np.stack([slots[moved], candidate[moved]], axis=1)).values()))
        for _ in range(horizon - 1):
            row = row + np.array(list(one.step().values()))
        rows.append(row)
        one.restore(before)
    return np.array(rows)


@pytest.mark.parametrize("horizon", [1, 5])
@pytest.mark.parametrize("quirks", [CORRECTED, compatible(), compatible("simtune"), frozenset({"last-host-source"})])
def test_branching_is_equal_to_the_bit(quirks, horizon):
    one = simulation(quirks)
    tried = candidates(one, 30)
    figures = one.branch(tried, horizon)
    assert np.stack([figures[name] for name in FIGURES], axis=1).tobytes() == one_by_one(one, tried, horizon).tobytes()


def test_each_interval_of_a_branch_for_itself():
    one = simulation()
    tried = candidates(one, 8)
    rows = one.branch(tried, 4, each=True)
    assert rows.shape == (8, 4)
    whole = one.branch(tried, 4)
    for name in FIGURES:
        total = rows[name][:, 0].copy()
        for step in range(1, 4):
            total += rows[name][:, step]
        assert total.tobytes() == whole[name].tobytes()
    assert rows["energy"][:, 0].tobytes() == one.branch(tried)["energy"].tobytes()


def test_containers_stop_coming():
    one = simulation()
    one.expect(0.0)
    found = one.run(60)
    assert found["arrived"][1:].sum() == 0
    assert found["active"][-1] == 0
    with pytest.raises(ValueError, match="expected 0 or more"):
        one.expect(-1.0)


def test_nothing_changes_and_a_full_ring_grows():
    one, other = simulation(mean=80.0), simulation(mean=80.0)
    one.branch(candidates(one, 4), horizon=40)
    assert one.run(10)["energy"].tobytes() == other.run(10)["energy"].tobytes()


def test_what_cannot_be_tried_is_refused():
    one = simulation()
    count = len(one.state().slot)
    with pytest.raises(ValueError, match=f"there are {count}"):
        one.branch(np.zeros((2, count + 1)))
    with pytest.raises(ValueError, match=r"there are 0\.\.11"):
        one.branch(np.full((1, count), 12))
    with pytest.raises(ValueError, match="expected one or more"):
        one.branch(np.zeros((1, count)), 0)
    with pytest.raises(ValueError, match="needs a built-in policy"):
        simulation(policy=lambda view: np.empty((0, 2))).branch(np.zeros((1, count)), 2)

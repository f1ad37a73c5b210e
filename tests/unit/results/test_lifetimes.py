"""Kaplan and Meier's estimate against a published table, against numpy, and against what the unfinished can become."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.unfinished import MOST, reported, restored
from cosim.results.lifetimes import Lifetimes


def lifetimes(ended, ages):
    times, counts = np.unique(np.array(ended, float), return_counts=True)
    return Lifetimes(times, counts, np.array(ages, float))


# Weeks of remission of 21 patients with 6-mercaptopurine (Freireich et al. 1963, Blood 21, 699), and the estimate
# that textbooks work out by hand (Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data, 1.2).
ENDED = (6, 6, 6, 7, 10, 13, 16, 22, 23)
CENSORED = (6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35)
SURVIVAL = {6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448}


def test_the_estimate_is_that_of_the_textbook():
    found = lifetimes(ENDED, CENSORED)
    assert dict(zip(found.times.tolist(), found.survival().round(3).tolist(), strict=True)) == SURVIVAL
    median, low, high = found.quantile(0.5)
    assert 22 < median <= 23  # the textbook's is the step at 23, to which this one comes from 22
    assert low < median < high == math.inf  # 12 of 21 have not ended
    assert math.isnan(found.quantile(0.75)[0])  # 45 % are still in remission: no estimate gets there


times = st.lists(st.integers(1, 40).map(lambda v: v / 8), min_size=1, max_size=30)
shares = st.sampled_from([0.0, 0.1, 0.5, 0.95, 0.99, 1.0])


@given(times, shares)
def test_without_unfinished_ones_it_is_numpys_quantile(ended, q):
    assert lifetimes(ended, []).quantile(q) == pytest.approx((np.quantile(ended, q),) * 3)


@given(times, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=20), shares)
def test_whatever_the_unfinished_become_lies_between_low_and_high(ended, unfinished, q):
    """Each goes on from its age for some time more."""
    ages, ends = [a / 8 for a, _ in unfinished], [(a + more) / 8 for a, more in unfinished]
    found = lifetimes(ended, ages)
    value, low, high = found.quantile(q)
    assert low - 1e-9 <= np.quantile([*ended, *ends], q) <= high + 1e-9
    assert found.mean_at_least() <= np.mean([*ended, *ends]) + 1e-9
    if not math.isnan(value):
        assert min(ended) <= value <= max(ended)


def test_ages_are_kept_in_parts_and_never_overstated():
    ages = np.random.default_rng(1).exponential(size=3 * MOST + 7)
    kept = reported(ages)
    back = restored(kept, len(ages))
    assert len(kept) == MOST
    assert len(back) == len(ages)
    assert (back <= np.sort(ages)).all()
    assert back.mean() == pytest.approx(ages.mean(), rel=0.02)
    assert restored(reported(ages[:5]), 5).tolist() == sorted(ages[:5].tolist())
    assert restored([], 3).tolist() == [0.0, 0.0, 0.0]

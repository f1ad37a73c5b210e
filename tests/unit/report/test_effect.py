"""Intervals and effect sizes, against scipy and against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.report.effect import cliffs_delta, difference, mean, size_in_words

stats = pytest.importorskip("scipy.stats")

values = st.lists(st.integers(-1000, 1000).map(lambda v: v / 8), min_size=2, max_size=12)


@given(values)
def test_the_interval_of_a_mean_is_students(sample):
    m = mean(sample)
    half = stats.t.ppf(0.975, len(sample) - 1) * np.std(sample, ddof=1) / math.sqrt(len(sample))
    assert m.value == pytest.approx(np.mean(sample), abs=1e-9)
    assert m.half == pytest.approx(half, rel=1e-6, abs=1e-9)


@pytest.mark.filterwarnings("ignore:Precision loss:RuntimeWarning")  # scipy's, for nearly constant samples
@given(values, values)
def test_the_interval_of_a_difference_is_welchs(a, b):
    if np.var(a) + np.var(b) == 0:
        return
    d = difference(a, b)
    low, high = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert d.value - d.half == pytest.approx(low, rel=1e-6, abs=1e-6)
    assert d.value + d.half == pytest.approx(high, rel=1e-6, abs=1e-6)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.lists(st.integers(0, 9), min_size=1, max_size=20))
def test_cliffs_delta_counts_pairs(a, b):
    pairs = [(y > x) - (y < x) for x in a for y in b]
    found = cliffs_delta(np.sort(np.array(a, float)), np.sort(np.array(b, float)))
    assert found == pytest.approx(sum(pairs) / len(pairs))


def test_hedges_g_of_a_worked_example():
    a, b = [1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0]
    pooled = math.sqrt((np.var(a, ddof=1) + np.var(b, ddof=1)) / 2)
    assert difference(a, b).size == pytest.approx(2 / pooled * (1 - 3 / 23))


def test_one_value_has_no_interval_and_no_value_no_mean():
    assert math.isnan(mean([4.0]).half)
    assert math.isnan(mean([]).value)
    assert math.isnan(mean([math.nan]).value)
    assert math.isnan(difference([1.0], [2.0]).half)
    assert not difference([1.0], [2.0]).clear
    assert math.isnan(difference([], [2.0]).value)


def test_equal_replications_differ_clearly_or_not_at_all():
    assert difference([1.0, 1.0], [2.0, 2.0]).clear
    assert not difference([1.0, 1.0], [1.0, 1.0]).clear


def test_delta_in_words():
    assert [size_in_words(d) for d in (0.0, -0.2, 0.4, 0.9, math.nan)] == ["negligible", "small", "medium", "large", ""]

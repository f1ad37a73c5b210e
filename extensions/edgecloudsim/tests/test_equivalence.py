"""The tests of equivalence and difference that benchmarks decide by."""

import math

import numpy as np
import pytest

pytest.importorskip("scipy")

from benchmarks.equivalence import Sample, compare_means, compare_rates, verdict
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cosim.results.student import holm

numbers = st.floats(-1e3, 1e3)


def drawn(mean, sd, runs, seed):
    return Sample.of(np.random.default_rng(seed).normal(mean, sd, runs).tolist())


@given(st.lists(numbers, min_size=2, max_size=30))
def test_a_sample_is_mean_and_standard_deviation(values):
    sample = Sample.of(values)
    assert sample.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert sample.sd == pytest.approx(np.std(values, ddof=1), abs=1e-9)


@given(st.integers(0, 10**6), st.integers(3, 40), st.integers(3, 40), st.floats(0.1, 5.0), st.floats(-3.0, 3.0))
def test_equality_is_welchs_test(seed, n, m, spread, shift):
    a, b = drawn(10.0, 1.0, n, seed), drawn(10.0 + shift, spread, m, seed + 1)
    expected = stats.ttest_ind_from_stats(a.mean, a.sd, a.runs, b.mean, b.sd, b.runs, equal_var=False)
    assert compare_means(a, b, 0.3).p_equal == pytest.approx(expected.pvalue, rel=1e-9, abs=1e-12)


@given(st.integers(0, 10**6), st.floats(0.05, 3.0), st.floats(-1.0, 1.0))
def test_equivalence_means_that_the_ninety_percent_interval_lies_within_the_margin(seed, spread, shift):
    a, b, margin = drawn(10.0, 1.0, 12, seed), drawn(10.0 + shift, spread, 20, seed + 1), 0.8
    variance = a.variance + b.variance
    freedom = variance**2 / (a.variance**2 / 11 + b.variance**2 / 19)
    half = stats.t.ppf(0.95, freedom) * math.sqrt(variance)
    inside = abs(b.mean - a.mean) + half < margin
    assert (compare_means(a, b, margin).p_outside < 0.05) == inside


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=50))
def test_holm_is_at_most_bonferroni_and_keeps_the_order(p_values):
    corrected = holm(p_values)
    for p, c in zip(p_values, corrected, strict=True):
        assert p <= c <= min(1.0, len(p_values) * p) + 1e-12
    order = np.argsort(p_values, kind="stable")
    assert np.all(np.diff(np.array(corrected)[order]) >= 0.0)


def test_holm_of_an_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize(("theirs", "ours", "expected"), [
    (Sample(12, 100.0, 2.0), Sample(20, 100.5, 2.0), "equivalent"),
    (Sample(12, 100.0, 2.0), Sample(20, 107.0, 2.0), "different"),
    (Sample(12, 100.0, 20.0), Sample(20, 107.0, 20.0), "undecided"),
    (Sample(12, 100.0, 0.0), Sample(20, 100.0, 0.0), "equivalent"),
    (Sample(12, 100.0, 0.0), Sample(20, 110.0, 0.0), "different"),
    (Sample(12, 0.0, 0.0), Sample(20, 0.0, 0.0), "equivalent"),
    (Sample(12, 0.0, 0.0), Sample(20, 0.2, 0.01), "different"),
])  # fmt: skip
def test_verdicts(theirs, ours, expected):
    comparison = compare_means(theirs, ours, 0.03 * abs(theirs.mean))
    assert verdict(comparison, holm([comparison.p_equal])[0]) == expected


def test_the_runs_needed_decide():
    theirs, ours = Sample(12, 100.0, 3.0), Sample(5, 100.0, 5.0)
    comparison = compare_means(theirs, ours, 3.0)
    assert verdict(comparison, 1.0) == "undecided"
    more = Sample(int(comparison.needed), 100.0, 5.0)
    assert verdict(compare_means(theirs, more, 3.0), 1.0) == "equivalent"
    assert compare_means(Sample(12, 100.0, 10.0), ours, 3.0).needed == math.inf  # no number of ours would do


def test_rare_failures_are_compared_as_proportions_with_their_dispersion():
    binomial = math.sqrt(0.002 * 0.998 / 10_000) * 100.0
    theirs, ours = Sample(12, 0.2, binomial), Sample(20, 0.26, binomial)
    tasks = (10_000.0, 10_000.0)
    assert compare_rates(theirs, ours, tasks, 0.1).p_equal < 0.01
    bursts = Sample(20, 0.26, 4.0 * binomial)  # the same means from failures in bursts tell less
    assert compare_rates(theirs, bursts, tasks, 0.1).p_equal > 0.1
    assert compare_rates(theirs, theirs, tasks, 0.1).p_outside < 0.05
    assert compare_rates(Sample(12, 0.0, 0.0), Sample(20, 0.0, 0.0), tasks, 0.1).p_outside == 0.0


def test_two_samples_of_one_law_are_rarely_called_different():
    wrong = 0
    for seed in range(300):
        comparison = compare_means(drawn(5.0, 1.0, 12, seed), drawn(5.0, 1.0, 20, 1000 + seed), 0.15)
        wrong += comparison.p_equal < 0.05
    assert 3 <= wrong <= 30  # 15 expected

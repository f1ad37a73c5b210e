"""Differences in pairs of equal seeds, against scipy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosim.results.compare import adjust, effects, paired, welch

stats = pytest.importorskip("scipy.stats")


def metrics(values):
    return [{"figures": {"late": {"value": value, "unit": "1", "meaning": ""}}} for value in values]


@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    common = rng.normal(0.3, 0.1, 10)  # what the seed makes of both
    a, b = common, common - 0.00216 + rng.normal(0.0, 0.0003, 10)
    (effect,) = effects(metrics(a), metrics(b), seeds=(range(10), range(10)))
    oracle = stats.ttest_rel(b, a)
    interval = oracle.confidence_interval(0.95)
    assert effect.test == "paired t"
    assert (effect.p, effect.low, effect.high) == pytest.approx((oracle.pvalue, interval.low, interval.high), rel=1e-6)
    (apart,) = effects(metrics(a), metrics(b))
    assert apart.test == "Welch t"
    assert apart.p == pytest.approx(stats.ttest_ind(b, a, equal_var=False).pvalue, rel=1e-9)
    assert apart.high - apart.low > 20 * (effect.high - effect.low)
    assert effect.clear
    assert not apart.clear


def test_only_seeds_of_both_sides_are_pairs():
    (effect,) = effects(metrics([1.0, 2.0, 30.0]), metrics([2.5, 3.5, 90.0]), seeds=((1, 2, 3), (1, 2, 4)))
    assert (effect.test, effect.runs, effect.difference) == ("paired t", (2, 2), 1.5)
    assert (effect.base, effect.mean) == (1.5, 3.0)
    for seeds in (((1, 2, 3), (4, 5, 6)), ((1, 1, 2), (1, 2, 3)), ((1, 2, 3), (3, 5, 6))):
        (effect,) = effects(metrics([1.0, 2.0, 3.0]), metrics([2.0, 3.0, 5.0]), seeds=seeds)
        assert effect.test == "Welch t"
    (effect,) = effects(metrics([1.0]), metrics([2.0]), seeds=((1,), (1,)))
    assert effect.test == ""
    assert math.isnan(effect.p)


def test_differences_without_spread():
    assert paired([(1.0, 1.0), (2.0, 2.0)]) == (0.0, 0.0, 0.0, 1.0)
    assert paired([(1.0, 2.0), (2.0, 3.0)]) == (1.0, 1.0, 1.0, 0.0)
    assert welch([1.0, 1.0], [1.0, 1.0])[2] == 1.0


def test_figures_that_cannot_differ_are_no_tests():
    """Of the way of vehicles, which no policy changes, and a time that differs, Holm counts the time alone."""

    def of(times):
        entry = lambda value, unit: {"value": value, "unit": unit}  # noqa: E731
        return [{"figures": {"distance": entry(70.0 + i, "m"), "time": entry(t, "s")}} for i, t in enumerate(times)]

    some, others = of([1.0, 2.0, 3.0]), of([1.5, 2.4, 3.7])
    for seeds in (((1, 2, 3), (1, 2, 3)), None):
        ((way, time),) = adjust([effects(some, others, seeds=seeds)])[0]
        assert adjust([[way, time]])[1] == (1 if seeds else 2)  # without pairs the ways of different runs differ
        assert time.adjusted == pytest.approx(time.p * (1 if seeds else 2)) or not seeds
    assert (way.test, time.test) == ("Welch t", "Welch t")
    (way, time) = effects(some, others, seeds=((1, 2, 3), (1, 2, 3)))
    assert (way.test, way.difference, time.test) == ("equal", 0.0, "paired t")
    assert math.isnan(way.p)
    (one,) = effects(metrics([2.0, 2.0]), metrics([2.0, 2.0]))
    assert one.test == "equal"


def test_holm_by_hand():
    found = [effects(metrics(a), metrics(b)) for a, b in (
        ([1.0, 1.1, 0.9, 1.0], [1.0, 1.2, 0.9, 1.1]), ([1.0, 1.1, 0.9, 1.0], [2.0, 2.1, 1.9, 2.0]),
        ([1.0, 1.1, 0.9, 1.0], [1.2, 1.1, 1.3, 1.4]),
    )]  # fmt: skip
    p = sorted(group[0].p for group in found)
    corrected, tests = adjust(found)
    assert tests == 3
    by_hand = [min(1.0, 3 * p[0]), max(3 * p[0], 2 * p[1]), max(3 * p[0], 2 * p[1], p[2])]
    assert sorted(group[0].adjusted for group in corrected) == pytest.approx(by_hand)

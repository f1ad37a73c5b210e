"""Rank correlations of `benchmarks.worlds`, by hand and by scipy."""

import pytest

from benchmarks.worlds import kendall, spearman


def test_by_hand():
    """One exchanged pair of four: rho = 1 - 6 x 2 / 60, tau = (5 - 1) / 6."""
    assert spearman([1.0, 2.0, 3.0, 4.0], [10.0, 30.0, 20.0, 40.0]) == pytest.approx(0.8)
    assert kendall([1.0, 2.0, 3.0, 4.0], [10.0, 30.0, 20.0, 40.0]) == pytest.approx(4.0 / 6.0)
    assert spearman([1.0, 2.0, 3.0], [5.0, 4.0, 3.0]) == kendall([1.0, 2.0, 3.0], [5.0, 4.0, 3.0]) == -1.0


def test_equal_values_share_ranks():
    stats = pytest.importorskip("scipy.stats")
    first, other = [1.0, 2.0, 2.0, 5.0, 3.0], [0.1, 0.5, 0.2, 0.9, 0.4]
    assert spearman(first, other) == pytest.approx(stats.spearmanr(first, other).statistic)

"""Intervals on queues of a simulator that is not ours: each holds the truth as often as it states."""

from __future__ import annotations

import pytest

from benchmarks.twin_queues import held


@pytest.mark.slow
def test_an_interval_holds_its_value(tmp_path):
    assert len(held(tmp_path, "two kinds of work", 0, runs=700)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["M/M/1", "M/D/1", "two kinds of work"])
def test_intervals_hold_the_truth_as_often_as_stated(tmp_path, queue):
    """Of 6 or 12 intervals of 90 % at least as many as chance leaves in 98 of 100 cases (binomial: 4, 8)."""
    inside = [one for number in range(6) for one in held(tmp_path, queue, number)]
    assert sum(inside) >= {6: 4, 12: 8}[len(inside)]

"""Effect sizes of samples, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.report.compare import cliffs_delta, size_in_words


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.lists(st.integers(0, 9), min_size=1, max_size=20))
def test_cliffs_delta_counts_pairs(a, b):
    pairs = [(y > x) - (y < x) for x in a for y in b]
    found = cliffs_delta(np.sort(np.array(a, float)), np.sort(np.array(b, float)))
    assert found == pytest.approx(sum(pairs) / len(pairs))


def test_delta_in_words():
    assert [size_in_words(d) for d in (0.0, -0.2, 0.4, 0.9, math.nan)] == ["negligible", "small", "medium", "large", ""]

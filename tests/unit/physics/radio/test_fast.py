"""The fast logarithm and exponential against the library's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.physics.radio import fast


@given(st.floats(1e-300, 1e300))
def test_ln(x):
    assert fast.ln(x) == pytest.approx(math.log(x), rel=4e-15, abs=2e-14)


@given(st.floats(-700.0, 700.0))
def test_exp(x):
    assert fast.exp(x) == pytest.approx(math.exp(x), rel=3e-13)


def test_exp_saturates():
    assert fast.exp(-1e9) == fast.exp(-700.0) > 0.0
    assert fast.exp(1e9) == fast.exp(700.0) < math.inf


def test_ln_of_one_is_nothing():
    assert fast.ln(np.float64(1.0)) == 0.0

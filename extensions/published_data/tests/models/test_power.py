from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.extensions.published_data.models.power import LEVELS, MeasuredMachines


def machines(count, seed=1, noise=0.0):
    """Curves of a law with three coefficients: idle share, knee at low load, bend at high load."""
    rng = np.random.default_rng(seed)
    idle, knee, bend = rng.uniform(0.2, 0.5, count), rng.uniform(0.0, 0.2, count), rng.uniform(0.0, 0.3, count)
    full = rng.uniform(50.0, 500.0, count)
    shape = idle[:, None] + knee[:, None] * (1.0 - np.exp(-LEVELS / 0.05)) + bend[:, None] * LEVELS**3
    shape = shape + (1.0 - shape[:, -1:]) * LEVELS + noise * rng.standard_normal((count, len(LEVELS)))
    return full[:, None] * shape / shape[:, -1:]


def test_levels_that_were_not_measured_follow_from_the_fleet():
    watts = machines(60)
    for k in range(5):
        curve = MeasuredMachines(watts).without(k).curve([0, 2, 4, 6, 8, 10], watts[k, ::2])
        np.testing.assert_allclose(curve.watts, watts[k], rtol=0.01)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_intervals_hold_the_truth_about_as_often_as_they_say(seed):
    watts = machines(200, seed, noise=0.003)
    inside = []
    for k in range(0, 200, 10):
        curve = MeasuredMachines(watts).without(k).curve([0, 3, 6, 10], watts[k, [0, 3, 6, 10]])
        inside.append((np.abs(curve.watts - watts[k]) <= 1.645 * curve.sd)[[1, 2, 4, 5, 7, 8, 9]])
    assert 0.75 <= np.mean(inside) <= 1.0


def test_components_span_the_fleet():
    mean, rows = MeasuredMachines(machines(60)).components(4)
    assert mean.shape == (11,)
    assert rows.shape == (4, 11)
    shapes = machines(60) / machines(60)[:, -1:]
    left = shapes - mean - (shapes - mean) @ np.linalg.pinv(rows) @ rows
    assert np.abs(left).max() < 1e-6


def test_what_cannot_be_known_is_refused():
    with pytest.raises(ScenarioError, match="a fleet of 11 machines says too little"):
        MeasuredMachines(machines(11))
    with pytest.raises(ScenarioError, match="full load is missing"):
        MeasuredMachines(machines(30)).curve([0, 5], [10.0, 20.0])

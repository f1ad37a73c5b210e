"""Parameters and the unit cube."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.twin.space import Parameter, Prior, Space

SPACE = Space(
    [
        Parameter("delay", 0.0, 2.0, unit="s"),
        Parameter("rate", 1.0, 1e6, scale="log", start=100.0),
        Parameter("cores", 1, 4, kind="integer"),
        Parameter("smt", kind="boolean"),
        Parameter("law", kind="category", choices=("linear", "cubic", "table")),
    ]
)


@given(st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_values_lie_inside_and_go_back_to_the_same_values(units):
    values = SPACE.values([units])
    for parameter, value in zip(SPACE.parameters, values[0], strict=True):
        assert parameter.low <= value <= parameter.high
    assert np.allclose(SPACE.values(SPACE.units(values)), values, rtol=1e-12, atol=1e-12)


def test_levels_have_equal_parts():
    drawn = SPACE.values(np.random.default_rng(1).random((40_000, 5)))
    for column, levels in ((2, 4), (3, 2), (4, 3)):
        _, counts = np.unique(drawn[:, column], return_counts=True)
        assert len(counts) == levels
        assert counts.min() > 0.95 * 40_000 / levels


def test_a_log_scale_is_even_in_decades():
    assert SPACE.values([[0.5] * 5])[0, 1] == pytest.approx(1e3)
    assert SPACE.start[1] == 100.0
    assert SPACE.start[0] == 1.0


def test_a_normal_prior_is_what_its_draws_follow():
    space = Space([Parameter("x", 0.0, 10.0, prior=Prior("normal", 4.0, 0.5)), Parameter("y", 0.0, 1.0)])
    drawn = space.values(space.sample(4_000, np.random.default_rng(2)))
    assert drawn[:, 0].mean() == pytest.approx(4.0, abs=0.05)
    assert drawn[:, 0].std() == pytest.approx(0.5, abs=0.05)
    assert space.log_prior(space.units([[4.5, 0.3]]))[0] == pytest.approx(-0.5)


def test_samples_without_belief_fill_every_stratum():
    units = SPACE.sample(100, np.random.default_rng(3))
    for column in range(5):
        assert sorted(np.floor(units[:, column] * 100)) == list(range(100))


def test_values_are_told_as_authors_write_them():
    assert SPACE.as_written([0.5, 10.0, 3.0, 1.0, 1.0]) == {
        "delay": 0.5, "rate": 10.0, "cores": 3, "smt": True, "law": "cubic",
    }  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"low": 2.0, "high": 1.0},
        {"low": 0.0, "high": math.inf},
        {"low": 0.0, "high": 1.0, "scale": "log"},
        {"low": 0.5, "high": 3.0, "kind": "integer"},
        {"kind": "category", "choices": ("one",)},
        {"start": 2.0},
        {"prior": Prior("normal", 0.5, 0.0)},
    ],
)
def test_bounds_that_hold_nothing_are_refused(wrong):
    with pytest.raises(ScenarioError, match=r"calibrate\.x"):
        Parameter("x", **wrong)


def test_a_name_is_declared_once():
    with pytest.raises(ScenarioError, match="twice"):
        Space([Parameter("x"), Parameter("x")])

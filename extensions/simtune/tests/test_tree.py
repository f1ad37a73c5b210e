"""The tree search: equation 7 by hand, values carried back, the optimum of functions that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.extensions.simtune.surrogate.encoding import Encoding
from cosim.extensions.simtune.surrogate.tree import Tree, TreeNode, bounds, search
from cosim.twin.space import Parameter, Space

MIXED = Space(
    [
        Parameter("speed", 0.0, 10.0),
        Parameter("cores", 1, 8, kind="integer"),
        Parameter("threads", kind="boolean"),
        Parameter("disk", kind="category", choices=("hdd", "ssd", "nvme")),
        Parameter("rate", 1.0, 100.0, scale="log"),
    ]
)


def mixed(units):
    """Least, 0, at speed 7, 3 cores, threads on, ssd, rate 10."""
    v = MIXED.values(units)
    real = ((v[:, 0] - 7.0) / 10.0) ** 2 + (np.log10(v[:, 4]) - 1.0) ** 2
    return np.sqrt(real + 0.1 * (v[:, 1] - 3) ** 2 + 0.5 * (v[:, 2] != 1) + 0.5 * (v[:, 3] != 1) + 1e-12)


def slope(units_of_row):
    """Of the real features only; discrete ones have none."""
    found = np.zeros(Encoding(MIXED).width)
    for column in (0, 4):
        step = np.zeros(5)
        step[column] = 1e-5
        feature = Encoding(MIXED).real_features[0 if column == 0 else 1]
        found[feature] = (mixed(units_of_row + step)[0] - mixed(units_of_row - step)[0]) / 2e-5
    return found


def test_features_of_all_kinds():
    encoding = Encoding(MIXED)
    assert encoding.width == 7
    units = MIXED.units([[5.0, 8, 1, 2, 10.0]])
    np.testing.assert_allclose(encoding.features(units)[0], [0.5, 1.0, 1.0, 0.0, 0.0, 1.0, 0.5])
    for column, level in ((1, 4), (2, 1), (3, 2)):
        assert encoding.level(column, encoding.unit(column, level)) == level


def test_bounds_are_equation_7():
    node = TreeNode(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 2.0, 2.0, visits=9, gradient=np.array([1.0, -2.0]))
    for unit, value, visits in (([0.4, 0.5], 1.5, 4), ([0.5, 0.4], 1.0, 5)):
        node.children.append(TreeNode(np.array(unit), np.array(unit), value, value, visits=visits))
    c = 0.3
    expected = [
        1.5 - (1.0 * 0.1 + -2.0 * 0.0) - math.sqrt(c * math.log(9) / 4),
        1.0 - (1.0 * 0.0 + -2.0 * 0.1) - math.sqrt(c * math.log(9) / 5),
    ]
    np.testing.assert_allclose(bounds(node, c), expected)


def test_the_descending_side_is_favoured():
    node = TreeNode(np.array([0.5]), np.array([0.5]), 1.0, 1.0, visits=2, gradient=np.array([3.0]))
    node.children = [TreeNode(np.array([u]), np.array([u]), 1.0, 1.0) for u in (0.4, 0.6)]
    assert int(np.argmin(bounds(node, 0.0))) == 0


def test_values_are_frequency_weighted_means_of_the_children():
    found = search(Encoding(MIXED), mixed, slope, np.full(5, 0.2), tree=Tree(rollouts=30), seed=3)

    def check(node):
        if not node.children:
            assert (node.value, node.visits) == (node.loss, 1)
            return
        for child in node.children:
            check(child)
        assert node.visits == sum(child.visits for child in node.children)
        assert node.value == pytest.approx(sum(c.visits * c.value for c in node.children) / node.visits)

    check(found.root)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_finds_the_optimum_of_a_mixed_function(seed):
    start = MIXED.units([[1.0, 8, 0, 0, 90.0]])[0]
    found = search(Encoding(MIXED), mixed, slope, start, tree=Tree(rollouts=200), seed=seed)
    best = MIXED.values(found.units[:1])[0]
    assert best[1:4].tolist() == [3.0, 1.0, 1.0]
    assert found.losses[0] < 0.05


def test_discrete_parameters_alone():
    space = Space([Parameter(f"bit {k}", kind="boolean") for k in range(6)])
    hidden = np.array([1, 0, 1, 1, 0, 1.0])

    def loss(units):
        return np.abs(space.values(units) - hidden).sum(axis=1)

    found = search(Encoding(space), loss, lambda unit: np.zeros(6), np.zeros(6), tree=Tree(rollouts=20))
    assert found.losses[0] == 0.0
    assert space.values(found.units[:1])[0].tolist() == hidden.tolist()


def test_best_first_and_equal_on_repetition():
    one, two = (search(Encoding(MIXED), mixed, slope, np.full(5, 0.2), seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.units, two.units)
    assert np.all(np.diff(one.losses) >= 0.0)
    np.testing.assert_array_equal(mixed(one.units), one.losses)


def test_a_loss_that_is_not_finite_is_not_chosen():
    space = Space([Parameter("x", 0.0, 1.0)])

    def loss(units):
        return np.where(units[:, 0] < 0.4, np.nan, units[:, 0])

    found = search(Encoding(space), loss, lambda unit: np.array([1.0]), np.array([0.9]), seed=1)
    assert 0.4 <= found.units[0, 0] < 0.45


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5), st.integers(0, 1000))
def test_stays_in_the_cube(start, seed):
    found = search(Encoding(MIXED), mixed, slope, np.array(start), tree=Tree(rollouts=5), seed=seed)
    assert np.all((found.units >= 0.0) & (found.units <= 1.0))
    assert len(found.units) <= 1 + 5 * 12

"""A star of links out of rows of a cell model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.emulation.cell import Star
from cosim.emulation.state import DOWN, LinkState


def rows(*values: tuple[float, ...]) -> dict[str, np.ndarray]:
    names = ("cell", "rsrp", "uplink_rate", "downlink_rate", "delay", "loss")
    return dict(zip(names, np.array(values, np.float64).reshape(-1, 6).T, strict=True))


def test_up_and_down_have_their_own_rates_and_the_backhaul_is_added():
    star = Star("core", "lte0", backhaul=0.005)
    states = star.update(["uav"], rows((3, -80.0, 10e6, 50e6, 0.010, 0.01)))
    assert states == {
        ("uav", "core", "lte0"): LinkState(10e6, 0.015, 0.0, 0.01, -80.0),
        ("core", "uav", "lte0"): LinkState(50e6, 0.015, 0.0, 0.01, -80.0),
    }


def test_no_coverage_is_down_whatever_else_the_row_says():
    states = Star("core").update(["uav"], rows((-1, -130.0, math.nan, 0.0, math.nan, 1.0)))
    assert {state[:4] for state in states.values()} == {DOWN[:4]}
    assert {state.rssi for state in states.values()} == {-130.0}


def test_one_direction_may_be_down():
    states = Star("core").update(["uav"], rows((0, -80.0, 0.0, 1e6, 0.0, 0.0)))
    assert states["uav", "core", "lte0"].loss == 1.0
    assert states["core", "uav", "lte0"].loss == 0.0


def test_only_changes_are_told():
    star = Star("core")
    row = (0, -80.0, 1e6, 2e6, 0.01, 0.0)
    assert len(star.update(["a", "b"], rows(row, row))) == 4
    assert star.update(["a", "b"], rows(row, row)) == {}
    assert star.update(["a", "b"], rows((1, -70.0, *row[2:]), row)) == {}  # a handover that changes no figure
    assert list(star.update(["a", "b"], rows(row, (0, -80.0, 1e6, 3e6, 0.01, 0.0)))) == [("core", "b", "lte0")]


def test_a_device_that_is_gone_is_down_and_may_come_back():
    star = Star("core")
    row = (0, -80.0, 1e6, 2e6, 0.01, 0.0)
    star.update(["a", "b"], rows(row, row))
    gone = star.update(["b"], rows(row))
    assert gone == {("a", "core", "lte0"): DOWN, ("core", "a", "lte0"): DOWN}
    assert star.update([], rows()) == {("b", "core", "lte0"): DOWN, ("core", "b", "lte0"): DOWN}
    assert set(star.update(["a"], rows(row))) == {("a", "core", "lte0"), ("core", "a", "lte0")}


figure = st.floats(0, 1e9)
row = st.tuples(st.integers(-1, 3), st.floats(-150, -40), figure, figure, st.floats(0, 10), st.floats(0, 1))


@given(st.lists(st.lists(row, max_size=4), max_size=5))
def test_the_changes_add_up_to_what_is(steps):
    star, told = Star("core"), {}
    for step in steps:
        names = [f"n{i}" for i in range(len(step))]
        told |= star.update(names, rows(*step))
        fresh = Star("core").update(names, rows(*step))
        assert {pair: state[:4] for pair, state in told.items() if pair in fresh} == {
            pair: state[:4] for pair, state in fresh.items()
        }
        assert all(state[:4] == DOWN[:4] for pair, state in told.items() if pair not in fresh)


@pytest.mark.parametrize(
    ("names", "change", "words"),
    [
        (["a"], {"loss": np.array([2.0])}, "no link of a.*loss 2"),
        (["a"], {"delay": np.array([math.nan])}, "no link of a"),
        (["a", "b"], {}, "2 devices"),
        (["a"], {"loss": np.array([[0.0]])}, "loss has the shape"),
    ],
)
def test_rows_that_cannot_be(names, change, words):
    good = rows((0, -80.0, 1e6, 2e6, 0.01, 0.0))
    with pytest.raises(ValueError, match=words):
        Star("core").update(names, good | change)
    with pytest.raises(ValueError, match="no column rsrp"):
        Star("core").update(["a"], {name: column for name, column in good.items() if name != "rsrp"})
    with pytest.raises(ValueError, match="backhaul"):
        Star("core", backhaul=-1.0)

"""Which edges of a polygon cross."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.geo import crossing

SQUARE = [(0, 0), (10, 0), (10, 10), (0, 10)]


def said(*rings):
    return crossing([22.0 + 1e-3 * np.array(ring, float) for ring in rings])


@pytest.mark.parametrize(
    ("rings", "words"),
    [
        ([[(0, 0), (10, 10), (10, 0), (0, 10)]], "from corner 1 to 2 crosses that from 3 to 4"),
        ([[(0, 0), (10, 10), (10, 0), (0, 10), (0, 0)]], "from corner 1 to 2 crosses that from 3 to 4"),
        ([[(10, 10), (10, 0), (0, 10), (0, 0)]], "from corner 2 to 3 crosses that from 4 to 1"),
        ([SQUARE, [(2, 2), (12, 2), (12, 4), (2, 4)]], "from corner 2 to 3 crosses that from 1 to 2"),
        ([SQUARE], ""),
        ([[*SQUARE, SQUARE[0]]], ""),
        ([SQUARE, [(2, 2), (8, 2), (8, 8)]], ""),
        ([[(0, 0), (10, 0), (10, 10), (5, -5e-5), (0, 10)]], ""),  # it touches to half a centimetre
        ([[(0, 0), (10, 0), (10, 10), (5, -2e-4), (0, 10)]], "from corner 1 to 2 crosses that from 3 to 4"),
        ([[(0, 0), (0, 0), (5, 5)]], ""),
    ],
)
def test_the_edges_that_cross_are_named(rings, words):
    assert said(*rings).removeprefix("the edge ") == words


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=3, max_size=8))
def test_it_is_what_whole_numbers_say(ring):
    def side(a, b, p):
        return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])

    edges = list(zip(ring, [*ring[1:], ring[0]], strict=True))
    crossed = [
        (a, b)
        for a in edges
        for b in edges
        if side(*a, b[0]) * side(*a, b[1]) < 0 and side(*b, a[0]) * side(*b, a[1]) < 0
    ]
    assert bool(said(ring)) == bool(crossed)


def test_outlines_of_many_corners_are_looked_at_in_parts():
    turn = np.linspace(0.0, 2 * math.pi, 2500, endpoint=False)
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    assert crossing([circle]) == ""
    circle[[2001, 2002]] = circle[[2002, 2001]]
    assert crossing([circle]).startswith("the edge from corner 2001 to 2002 crosses that from 2003 to 2004")

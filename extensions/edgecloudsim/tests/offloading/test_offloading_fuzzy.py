"""The closed forms of the fuzzy policies against an engine that samples its output sets."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.schedulers import fuzzy

WAN = {"L": [(0, 1), (2, 1), (4, 0)], "M": [(3, 0), (5, 1), (7, 0)], "H": [(6, 0), (8, 1), (21, 1)]}
SIZE = {"L": [(0, 1), (4000, 1), (8000, 0)], "M": [(6000, 0), (12000, 1), (18000, 0)], "H": [(16000, 0), (20000, 1)]}
SENSITIVITY = {"L": [(0, 1), (0.2, 1), (0.4, 0)], "M": [(0.3, 0), (0.5, 1), (0.7, 0)], "H": [(0.6, 0), (0.8, 1)]}
LOAD = {"L": [(0, 1), (20, 1), (40, 0)], "M": [(30, 0), (50, 1), (70, 0)], "H": [(60, 0), (80, 1), (100, 1)]}
MAN = {"L": [(0, 1), (0.001, 1), (0.004, 0)], "M": [(0.002, 0), (0.007, 1), (0.012, 0)], "H": [(0.01, 0), (0.013, 1)]}
X = np.linspace(0.0, 100.0, 10001)


def member(points, x):
    xs, ys = zip(*points, strict=True)
    return float(np.interp(x, xs, ys))


def infer(rules, sets, inputs, answers):
    """How much each of the two answers holds; `rules` maps a key of letters to an answer."""
    held = dict.fromkeys(answers, 0.0)
    for key, answer in rules.items():
        strength = min(member(s[letter], x) for s, letter, x in zip(sets, key, inputs, strict=True))
        held[answer] = max(held[answer], strength)
    return held


def output(held, shapes):
    clipped = [np.minimum(np.interp(X, *zip(*shapes[answer], strict=True)), held[answer]) for answer in shapes]
    return np.maximum(*clipped)


def spread(text, answers):
    """{"LL": "RNN"} -> {"LLL": "R", ..}"""
    found = {}
    for key, row in text.items():
        found |= {key + letter: answer for letter, answer in zip("LMH", row, strict=True) if answer in answers}
    return found


PLACE = spread(
    {
        "LL": "RNN", "LM": "NNN", "LH": "NNN", "ML": "RRN", "MM": "RRN", "MH": "NNN", "HL": "RRR", "HM": "RRR",
        "HH": "RRN",
    },
    "RN",
)  # fmt: skip
CLOUD = {}
for load in "LMH":
    for size in "LMH":
        for wan in "LMH":
            if load == "H":
                row = "CCE" if wan == "L" else "CCC"
            elif wan == "L":
                row = "CCE" if (load, size) == ("M", "H") else "EEE"
            else:
                row = "CEE" if (load, size) == ("L", "L") else "CCE"
            CLOUD[load + size + wan] = row
CLOUD = spread(CLOUD, "EC")
COMPETITOR = spread(
    {
        "LLL": "LLL", "LLM": "-RR", "LLH": "RRR", "LML": "-LL", "LMM": "-LR", "LMH": "RRR", "LHH": "LLL",
        "MLL": "LLL", "MLM": "LRR", "MLH": "LRR", "MML": "LLR", "MMM": "LLR", "MMH": "LRR", "MHL": "L--",
        "MHM": "L--", "MHH": "LLL", "HLL": "LLL", "HLM": "RLL", "HLH": "LLL", "HML": "LLL", "HMM": "LLL",
        "HMH": "LLL", "HHL": "LLL", "HHM": "LLR", "HHH": "LLL",
    },
    "LR",
)  # fmt: skip


@pytest.fixture(scope="module")
def ours():
    place, cloud, competitor = fuzzy.prefers_remote_place, fuzzy.prefers_cloud, fuzzy.competitor_prefers_cloud
    return (
        numba.njit(lambda a, b, c: place(a, b, c)),
        numba.njit(lambda a, b, c, d: cloud(a, b, c, d)),
        numba.njit(lambda a, b, c, d: competitor(a, b, c, d)),
    )


def leftmost(held, shapes):
    accumulated = output(held, shapes)
    return float(X[np.argmax(accumulated >= accumulated.max() - 1e-12)]) if accumulated.max() > 0 else 0.0


FIRST, SECOND = [(0, 0), (30, 1), (60, 0)], [(40, 0), (70, 1), (100, 0)]
percent = st.floats(0.0, 100.0)


def clear(value, held, first, second, margin=0.02):
    """Whether sampling decides safely: not at the very border."""
    return abs(value - 50.0) > margin and abs(held[first] - held[second]) > 1e-3


@settings(max_examples=150, deadline=None)
@given(percent, percent, st.floats(0.0001, 0.02))
def test_nearest_or_remote(ours, nearest, remote, delay):
    held = infer(PLACE, (LOAD, LOAD, MAN), (nearest, remote, delay), "NR")
    value = leftmost(held, {"N": FIRST, "R": SECOND})
    if clear(value, held, "N", "R"):
        assert ours[0](nearest, remote, delay) == (value > 50.0)


@settings(max_examples=150, deadline=None)
@given(percent, st.floats(1.0, 50000.0), st.floats(0.0, 21.0), st.floats(0.0, 1.0))
def test_edge_or_cloud(ours, load, size, wan, sensitivity):
    held = infer(CLOUD, (LOAD, SIZE, WAN, SENSITIVITY), (load, size, wan, sensitivity), "EC")
    value = leftmost(held, {"E": FIRST, "C": SECOND})
    if clear(value, held, "E", "C"):
        assert ours[1](load, size, wan, sensitivity) == (value > 50.0)


@settings(max_examples=150, deadline=None)
@given(percent, st.floats(0.0, 4000.0), st.floats(0.0, 21.0), st.floats(0.0, 1.0))
def test_the_competitor(ours, load, kb, wan, sensitivity):
    held = infer(
        COMPETITOR, (LOAD, SENSITIVITY, WAN, SENSITIVITY),
        (100.0 - load, min(2500.0, kb) / 2500.0, wan, sensitivity), "LR",
    )  # fmt: skip
    accumulated = output(held, {"L": [(0, 1), (40, 1), (60, 0)], "R": [(40, 0), (60, 1), (100, 1)]})
    value = float((X * accumulated).sum() / accumulated.sum()) if accumulated.sum() > 0 else 0.0
    if clear(value, held, "L", "R"):
        assert ours[2](load, kb, wan, sensitivity) == (value > 50.0)

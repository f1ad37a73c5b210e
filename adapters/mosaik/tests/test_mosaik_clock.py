"""A simulator's integer time against the bus, whatever steps it asks for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.adapters.mosaik.clock import Clock, transient, triggers
from cosim.adapters.mosaik.wiring import Board, InputFeed, OutputTap, SlotNames
from cosim.contract.entities import Node, Scene
from cosim.contract.frame import Frame
from cosim.contract.signals import Column, Signal

SCENE = Scene.build(tuple(Node(f"n-{k}", "edge", "edge") for k in range(5)))
HEAT = Column("heat", "float64", "W", "heat")
MODELS = {"M": {"attrs": ["a", "b"]}}


@given(stride=st.integers(1, 7), jumps=st.lists(st.integers(1, 20), min_size=1, max_size=40))
def test_every_step_that_was_asked_for_is_made_once_and_in_time(stride, jumps):
    clock = Clock("time-based", 0.5, 0.5 * stride, 60.0)
    made, asked = [], list(jumps)
    for tick in range(10):
        now = clock.at(tick * 0.5 * stride)
        assert now == tick * stride
        while clock.next is not None and clock.next <= now and asked:
            made.append(clock.next)
            clock.answered(clock.next, clock.next + asked.pop(0))
    wanted = [0, *np.cumsum(jumps).tolist()][: len(made)]
    assert made == wanted
    assert len(made) == len(jumps) or clock.next > now


@given(now=st.integers(0, 1000), stride=st.integers(1, 50))
def test_no_triggered_step_comes_up_to_max_advance(now, stride):
    clock = Clock("hybrid", 1.0, float(stride), 2000.0)
    last = clock.max_advance(now, triggered=True)
    following = (now // stride + 1) * stride  # the next time at which the bus brings values
    assert now <= last == following - 1
    assert clock.max_advance(now, triggered=False) == clock.until


@pytest.mark.parametrize("answer", [0, -1, 1.5, "2", None, float("nan")])
def test_a_next_step_that_is_none_is_refused(answer):
    with pytest.raises(ValueError, match=r"step\(0\)"):
        Clock("time-based", 1.0, 1.0, 10.0).answered(0, answer)


def test_numpy_integers_are_integers():
    clock = Clock("time-based", 1.0, 1.0, 10.0)
    clock.answered(0, np.int64(3))
    assert clock.next == 3


def test_a_further_step_may_be_asked_for():
    clock = Clock("event-based", 1.0, 1.0, 10.0)
    clock.ask(4)
    clock.ask(2)
    clock.ask(7)
    assert clock.next == 2


@pytest.mark.parametrize(
    ("kind", "model", "makes_steps", "holds_once"),
    [
        ("time-based", {"trigger": ["a"]}, set(), set()),
        ("event-based", {}, {"a", "b"}, {"a", "b"}),
        ("hybrid", {}, set(), set()),
        ("hybrid", {"trigger": ["a"], "non-persistent": ["b"]}, {"a"}, {"b"}),
        ("hybrid", {"non-trigger": ["a"], "persistent": ["b"]}, {"b"}, {"a"}),
    ],
)
def test_attributes_trigger_and_last_as_mosaik_says(kind, model, makes_steps, holds_once):
    meta = {"type": kind, "models": {"M": {**MODELS["M"], **model}}}
    assert triggers(meta)["M"] == makes_steps
    assert transient(meta)["M"] == holds_once


values = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(rows=st.dictionaries(st.integers(0, 4), values))
def test_what_goes_in_by_node_comes_out_by_node(rows):
    """Gather and scatter are inverse for every set of present nodes; NaN and absence look alike."""
    slots = np.array(sorted(rows), np.int32)
    frame = Frame("s", 0.0, slots, {"heat": np.array([rows[slot] for slot in sorted(rows)])})
    feed = InputFeed("s", HEAT, "a", {slot: [f"e{slot}"] for slot in range(5)}, SlotNames(SCENE))
    given_ = {}
    feed.gather([frame], given_)
    board = Board(Signal("t", "", (HEAT,)), np.arange(5, dtype=np.int32))
    board.taps.append(OutputTap("heat", "a", {f"e{slot}": np.array([slot]) for slot in range(5)}))
    latest = {(eid, "a"): sum(attrs["a"].values()) for eid, attrs in given_.items()}
    out = board.frame(0.0, latest)
    for slot in range(5):
        value = rows.get(slot, math.nan)
        assert out["heat"][slot] == value or (math.isnan(value) and math.isnan(out["heat"][slot]))
    assert feed.sent == sum(not math.isnan(value) for value in rows.values())

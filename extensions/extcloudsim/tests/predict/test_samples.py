"""Windows of the past and figures of the future, against plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.extensions.extcloudsim.predict import future, recent
from cosim.extensions.extcloudsim.predict.samples import LONGEST_LIFE
from cosim.extensions.extcloudsim.predict.training import draw, joined
from cosim.extensions.traces import UtilisationTraces

VALUES = st.one_of(st.floats(0, 1, width=32), st.just(math.nan))
TRACES = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=1, max_size=4)
)


def window_of(past: list[float], size: int) -> list[float]:
    past = past[-size:]
    known = [value for value in past if not math.isnan(value)]
    held, found = (known[0] if known else 0.0), []
    for value in past:
        held = held if math.isnan(value) else value
        found.append(held)
    return [found[0]] * (size - len(past)) + found


@given(TRACES, st.integers(1, 15))
def test_recent_holds_gaps_and_starts(rows, size):
    found = recent(np.array(rows, np.float32), size)
    assert found.tolist() == [window_of(row, size) for row in rows]


@given(TRACES, st.integers(0, 14), st.integers(1, 6))
def test_future_is_mean_and_maximum_of_what_comes(rows, period, horizon):
    mean, peak = future(np.array(rows), period, horizon)
    for row, m, p in zip(rows, mean, peak, strict=True):
        ahead = row[period : period + horizon] if period < len(row) else row[-1:]
        known = [value for value in ahead if not math.isnan(value)]
        assert m == pytest.approx(sum(known) / len(known) if known else 0.0)
        assert p == max(known, default=0.0)


def test_training_samples_are_moments_of_the_trace_with_what_followed():
    nan = math.nan
    use = np.array([[nan, 0.1, 0.2, 0.3, nan, nan], [0.5, 0.4, 0.9, nan, 0.6, 0.7]], np.float32)
    traces = UtilisationTraces(("a", "b"), use, 300.0)
    found = joined([draw(traces, 200, np.random.SeedSequence(1), lives=True)])
    seen = {
        (round(float(past[-1]), 3), *(round(float(x), 3) for x in target[:2])): (past, auxiliary, target[2])
        for past, auxiliary, target in zip(found.past, found.auxiliary, found.target, strict=True)
    }
    # (now, mean of what follows, peak of what follows) at every moment with a value now and next
    assert set(seen) == {(0.1, 0.25, 0.3), (0.2, 0.3, 0.3), (0.5, 0.65, 0.9), (0.4, 0.733, 0.9), (0.6, 0.7, 0.7)}
    past, auxiliary, life = seen[0.2, 0.3, 0.3]
    assert past[:-1] == pytest.approx(0.1)
    assert auxiliary == pytest.approx([600.0 / LONGEST_LIFE, 0.2])
    assert life == pytest.approx(300.0 / LONGEST_LIFE)
    again = draw(traces, 200, np.random.SeedSequence(1), lives=True)
    assert np.array_equal(again.past, found.past)


def test_a_trace_without_two_values_in_a_row_gives_no_samples():
    traces = UtilisationTraces(("a",), np.array([[0.1, math.nan, 0.3]], np.float32), 300.0)
    with pytest.raises(ValueError, match="two consecutive"):
        draw(traces, 1, np.random.SeedSequence(1))

"""Tasks that come in bags, and tasks that a trace names."""

import math

import numpy as np
import pytest

from cosim.engine.continuum import JobStage, WorkloadStream
from cosim.engine.continuum.layout import FIXED
from cosim.engine.continuum.system import WorkloadTrace
from tests.unit.engine.continuum.worlds import CLOCK, attach, exponential, field, fixed

NAN = math.nan


def created(engine, until):
    """Columns of all tasks made up to `until`, in flight or not."""
    engine.advance(until)
    engine.state.workloads["stop"] = 0.0
    engine.advance(until + 1000.0)
    ended = engine.drain()
    keep = ended["created"] <= until
    return {name: column[keep] for name, column in ended.items()}


def test_a_bag_of_tasks_comes_every_interval():
    load = WorkloadStream(rate=1 / 300, work=exponential(CLOCK / 100), bag=(5.0, 1.5), start=10.0)
    engine = field(load, devices=3, seed=2, patience=1e6)
    for slot in range(3, 6):
        attach(engine, slot, 0)
    ended = created(engine, 300_000.0)
    np.testing.assert_allclose(ended["created"] % 300, 10.0, atol=1e-6)
    for slot in range(3, 6):
        times, counts = np.unique(ended["created"][ended["device"] == slot], return_counts=True)
        assert len(times) > 990  # a bag may be empty, with a probability of 0.13 %
        assert counts.mean() == pytest.approx(5.0, abs=0.2)
        assert counts.std() == pytest.approx(math.sqrt(1.5**2 + 1 / 12), abs=0.15)
    assert len(set(ended["work"])) == len(ended["work"])
    first = [ended["created"][ended["device"] == slot] for slot in (3, 4)]
    assert not np.array_equal(*(np.unique(one, return_counts=True)[1][:500] for one in first))


def test_a_bag_without_spread_has_one_size():
    engine = field(WorkloadStream(rate=0.1, work=fixed(1.0), bag=(3.0, 0.0), stop=25.0), patience=1.0)
    ended = created(engine, 60.0)
    assert ended["created"].tolist() == [0.0] * 3 + [10.0] * 3 + [20.0] * 3


def trace(rows):
    columns = [np.array(column, np.float64) for column in zip(*rows, strict=True)]
    return WorkloadTrace(columns[0].astype(np.int64), *columns[1:])


ROWS = [
    (4, 3.0, 2e5, 1e4, 0.5 * CLOCK),
    (3, 1.0, 1e5, NAN, NAN),
    (3, 0.5, NAN, NAN, 0.25 * CLOCK),
    (3, 1.0, 3e5, NAN, NAN),
]


def traced(rows=ROWS, **options):
    return WorkloadStream(
        rate=0.0, work=(int(FIXED), 0.1 * CLOCK, 0.0), input=fixed(7e4), output=fixed(2e3), trace=trace(rows), **options
    )


def test_a_trace_says_when_what_is_made():
    engine = field(traced(start=2.0), devices=2)
    for slot in (3, 4):
        attach(engine, slot, 0)
    engine.advance(100.0)
    ended = engine.drain()
    order = np.argsort(ended["serial"])
    table = {name: ended[name][order].tolist() for name in ("device", "created", "input", "output", "work")}
    assert table == {
        "device": [3, 3, 3, 4],
        "created": [2.5, 3.0, 3.0, 5.0],
        "input": [7e4, 1e5, 3e5, 2e5],
        "output": [2e3, 2e3, 2e3, 1e4],
        "work": [0.25 * CLOCK, 0.1 * CLOCK, 0.1 * CLOCK, 0.5 * CLOCK],
    }


def test_a_node_that_comes_back_does_not_repeat_its_trace():
    engine = field(traced(), devices=2, patience=0.1)
    engine.advance(0.7)
    engine.vanish([3])
    engine.advance(0.9)
    engine.appear([3], [1])
    engine.advance(50.0)
    ended = engine.drain()
    assert sorted(ended["created"].tolist()) == [0.5, 1.0, 1.0, 3.0]


def test_jobs_follow_a_trace_too():
    load = WorkloadStream(rate=0.0, work=fixed(0.0), trace=trace(ROWS), graph=(JobStage(fixed(CLOCK)),))
    engine = field(load, devices=2)
    attach(engine, 3, 0)
    attach(engine, 4, 1)
    engine.advance(50.0)
    ended = engine.drain()
    jobs = ended["stage"] < 0
    assert sorted(ended["input"][jobs].tolist()) == [0.0, 1e5, 2e5, 3e5]


def test_a_trace_names_sources():
    with pytest.raises(ValueError, match="not one of its sources"):
        field(traced([(9, 0.0, 1.0, 1.0, 1.0)]))

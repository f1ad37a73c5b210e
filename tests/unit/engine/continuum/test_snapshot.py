"""Going back to an earlier instant: everything that follows is bit-equal."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum import Engine, Snapshot
from tests.unit.engine.continuum.happenings import play, served, steps, world
from tests.unit.engine.continuum.worlds import every, field


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1), scheduler=st.integers(0, 6), fcfs=st.booleans(), drop_late=st.booleans(),
    before=steps, after=steps, drained=st.booleans(),
)  # fmt: skip
def test_what_follows_a_snapshot_follows_again(seed, scheduler, fcfs, drop_late, before, after, drained):
    made = world(fcfs)
    engine = served(made, seed, scheduler, patience=0.7, drop_late=drop_late)
    generations = {}
    play(engine, before, generations)
    if drained:
        engine.drain()
    snapshot = engine.snapshot()
    assert snapshot.now == engine.now
    play(engine, after, dict(generations))
    end = engine.snapshot()

    engine.restore(snapshot)
    assert engine.snapshot().same(snapshot)
    play(engine, after, dict(generations))
    assert engine.snapshot().same(end)

    fresh = Engine(made, seed + 1, 0)
    fresh.restore(pickle.loads(pickle.dumps(snapshot)))
    play(fresh, after, dict(generations))
    assert fresh.snapshot().same(end)
    ended, again = engine.drain(), fresh.drain()
    assert all(ended[name].tobytes() == again[name].tobytes() for name in ended)


def test_a_snapshot_in_a_file_is_the_snapshot(tmp_path):
    engine = served(world(), 5, 1)
    engine.advance(7.3)
    snapshot = engine.snapshot()
    snapshot.save(tmp_path / "instant.npz")
    loaded = Snapshot.load(tmp_path / "instant.npz")
    assert loaded.same(snapshot)
    assert loaded.now == 7.3
    engine.advance(20.0)
    other = served(world(), 5, 1)
    other.restore(loaded)
    other.advance(20.0)
    assert other.snapshot().same(engine.snapshot())


def test_a_snapshot_taken_after_the_arrays_grew():
    # nobody is served, so all tasks wait
    engine = field(every(0.001, 1.0, size=1e6), patience=1000.0)
    small = field(every(0.001, 1.0, size=1e6), patience=1000.0)
    engine.advance(3.0)
    assert len(engine.state.tasks) > len(small.state.tasks)
    small.restore(engine.snapshot())
    engine.advance(5.0)
    small.advance(5.0)
    assert small.snapshot().same(engine.snapshot())


def test_a_snapshot_of_another_system_is_refused(tmp_path):
    one, two = field(every(1.0, 1.0), devices=1), field(every(1.0, 1.0), devices=2)
    with pytest.raises(ValueError, match="another system: 4 nodes instead of 5"):
        two.restore(one.snapshot())
    turned = field(every(1.0, 1.0), devices=1, links=[(0, 1, 8e6, 0.1), (2, 0, 8e6, 0.1), (1, 2, 8e6, 0.1)])
    with pytest.raises(ValueError, match="its links are others"):
        turned.restore(one.snapshot())
    np.savez(tmp_path / "other.npz", nodes=np.zeros(3))
    with pytest.raises(ValueError, match="not a snapshot of this version"):
        Snapshot.load(tmp_path / "other.npz")
    (tmp_path / "text.npz").write_text("no")
    with pytest.raises(ValueError, match="is not a snapshot"):
        Snapshot.load(tmp_path / "text.npz")


def test_a_question_that_raised_is_asked_again():
    asked = []

    def choose(request, reach, hosts):
        asked.append(request.time)
        if len(asked) == 1:
            raise RuntimeError("later")
        return 0

    engine = field(every(1.0, 1.0), scheduler=choose)
    engine.set_radio([3], [0], [8e6], [8e6], [0.0], [0.0])
    with pytest.raises(RuntimeError, match="later"):
        engine.advance(10.0)
    engine.advance(10.0)
    assert asked[0] == asked[1]
    assert len(engine.drain()["status"]) == engine.created == len(asked) - 1

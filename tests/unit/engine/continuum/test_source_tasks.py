"""What a source makes in plain Python is what the engine makes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.entities import SlotRange, Workload
from cosim.contract.entities import Stage as SceneStage
from cosim.contract.laws import Law
from cosim.engine.continuum import Engine, JobStage, Kind, WorkloadStream
from cosim.engine.continuum.arrivals import TaskSource, engine_seed, stream
from cosim.engine.continuum.layout import EXPONENTIAL, FIXED, UNIFORM
from tests.unit.engine.continuum.worlds import CLOCK, system

CODES = {"fixed": FIXED, "exponential": EXPONENTIAL, "uniform": UNIFORM}
END = 40.0

laws = st.builds(
    lambda name, a, more: Law(name, a, a + more if name == "uniform" else 0.0),
    st.sampled_from(list(CODES)),
    st.floats(1.0, 1e6),
    st.floats(0.0, 1e6),
)
works = st.builds(
    lambda law, share, times: Law(law.law, law.a, law.b, share, times),
    laws,
    st.sampled_from([0.0, 0.3]),
    st.floats(0.5, 40.0),
)
loads = st.builds(
    lambda **given: Workload("w", (SlotRange(0, 3),), deadline=math.inf, **given),
    arrivals=st.sampled_from(["poisson", "every"]),
    rate=st.floats(0.1, 5.0),
    input=laws,
    output=laws,
    work=works,
    share=st.sampled_from([1.0, 0.5]),
    active=st.sampled_from([0.0, 3.0]),
    idle=st.just(4.0),
    start=st.floats(0.0, 10.0),
    stop=st.sampled_from([25.0, math.inf]),
)


def coded(law):
    return (int(CODES[law.law]), law.a, law.b)


def made(pairs, seed, taken=()):
    """Tasks that the engine makes up to END, of three hosts that work on their own; `taken`: shares, each from when."""
    streams = [
        WorkloadStream(
            rate=load.rate, work=coded(load.work), slow=(load.work.share, load.work.times),
            input=coded(load.input), output=coded(load.output),
            periodic=load.arrivals == "every", share=load.share, active=load.active, idle=load.idle,
            start=load.start, stop=min(load.stop, END), graph=graph,
        )
        for load, graph in pairs
    ]  # fmt: skip
    sources = [(node, number) for number in range(len(streams)) for node in range(3)]
    engine = Engine(system(["edge"] * 3, [Kind(cores=64, clock=CLOCK)] * 3, streams, sources), seed, 0)
    for begin, share in taken:
        engine.advance(begin)
        engine.set_taken(np.arange(len(streams)), share)
    engine.advance(END + 1e5)
    return engine.drain()


@settings(max_examples=40)
@given(st.lists(loads, min_size=1, max_size=2), st.integers(0, 2**64 - 1))
def test_instants_and_sizes_are_the_engines(given_loads, seed):
    ended = made([(load, ()) for load in given_loads], seed)
    for number, load in enumerate(given_loads):
        for slot in range(3):
            mine = (ended["device"] == slot) & (ended["workload"] == number)
            order = np.argsort(ended["created"][mine], kind="stable")
            source = TaskSource(seed, load, number, slot)
            tasks = [task for cut in (3.0, 3.0, 17.5, END) for task in source.until(cut) if task.at < END]
            for name, of in (("created", "at"), ("input", "input"), ("output", "output"), ("work", "work")):
                ours = np.array([getattr(task, of) for task in tasks])
                np.testing.assert_allclose(ours, ended[name][mine][order], rtol=1e-14, atol=0, err_msg=name)


def test_a_stop_within_a_phase_without_tasks_does_not_end_later_phases():
    """The first task of a phase may lie behind the phase and the stop; later phases may begin before the stop."""
    options = {"arrivals": "every", "rate": 0.1, "active": 3.0, "idle": 4.0, "start": 7.4, "input": Law("fixed", 1.0),
               "output": Law("fixed", 1.0), "work": Law("fixed", 1.0), "deadline": math.inf}  # fmt: skip
    endless, ended = (Workload("w", (SlotRange(0, 3),), stop=stop, **options) for stop in (math.inf, END))
    found = made([(ended, ())], 65535)
    for slot in range(3):
        wanted = [task.at for task in TaskSource(65535, endless, 0, slot).until(END) if task.at < END]
        assert sorted(found["created"][found["device"] == slot]) == pytest.approx(wanted)
        assert [task.at for task in TaskSource(65535, ended, 0, slot).until(END)] == wanted


@settings(max_examples=20)
@given(loads, st.integers(0, 2**64 - 1), st.floats(0.0, 1.0), st.floats(0.0, END))
def test_a_task_is_the_engines_or_is_taken(load, seed, share, since):
    left = made([(load, ())], seed, [(since, share)])
    for slot in range(3):
        tasks = [task for task in TaskSource(seed, load, 0, slot).until(END) if task.at < END]
        ours = [task.at for task in tasks if task.at > since and task.chance < share]
        both = np.sort([*ours, *left["created"][left["device"] == slot]])
        np.testing.assert_allclose(both, [task.at for task in tasks], rtol=1e-14, atol=0)


def test_stages_are_the_engines():
    law = [Law("exponential", 1e6), Law("uniform", 10.0, 90.0)]
    load = Workload(
        "w", (SlotRange(0, 3),), "poisson", 2.0, Law("exponential", 1e4), Law("fixed", 0.0), Law("fixed", 0.0),
        graph=(SceneStage("a", law[0], law[1], (), True), SceneStage("b", law[0], law[1], (0,), False)),
    )  # fmt: skip
    graph = tuple(JobStage(work=coded(law[0]), output=coded(law[1]), after=(0,) * k) for k in range(2))
    ended = made([(load, graph)], 11)
    for slot in range(3):
        tasks = [task for task in TaskSource(11, load, 0, slot).until(END) if task.at < END]
        assert len(tasks) > 40
        for name, ours in (("work", [t.onboard for t in tasks]), ("output", [t.sent for t in tasks])):
            mine = (ended["device"] == slot) & np.isin(ended["created"], [t.at for t in tasks])
            assert np.isin(np.array(ours), ended[name][mine]).all(), name
        last = ended["output"][ended["device"] == slot]
        assert np.isin([t.output for t in tasks], last).all()
        rest = np.array([t.work - t.onboard for t in tasks])
        there = np.sort(ended["work"][ended["device"] == slot])
        near = there[np.clip(np.searchsorted(there, rest - 1e-3), 0, len(there) - 1)]
        np.testing.assert_allclose(near, rest, rtol=1e-9)


def test_generations_and_devices_differ():
    keys = {stream(1, slot, generation, load) for slot in range(5) for generation in range(5) for load in range(5)}
    assert len(keys) == 125
    assert engine_seed((1, 2, 3)) != engine_seed((1, 2, 4))


def test_what_only_the_model_makes_is_refused():
    load = Workload("w", (), "bag", 1.0, *[Law("fixed", 1.0)] * 3)
    with pytest.raises(ValueError, match="the model only"):
        TaskSource(1, load, 0, 0)

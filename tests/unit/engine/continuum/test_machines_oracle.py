"""Machines against a SimPy model of the same rules: every task, event by event."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum import Engine, Kind, MachineAccelerator, PowerStates, WorkloadStream
from cosim.engine.continuum.layout import CAPACITY, COMPLETED
from tests.unit.engine.continuum.worlds import CLOCK, exponential, system

simpy = pytest.importorskip("simpy")

FLOPS = 1e12


class Model:
    """One host: memory in order of arrival, cores and units first come first served, sleep and wake."""

    def __init__(self, cores, memory, units, sleep_after, wake_time):
        self.now = simpy.Environment()
        self.cores = simpy.Resource(self.now, cores)
        self.units = [simpy.Resource(self.now, count) for count in units]
        self.room = simpy.Container(self.now, memory, memory)
        self.door = simpy.Resource(self.now, 1)  # who stands in front of it
        self.sleep_after, self.wake_time = sleep_after, wake_time
        self.inside, self.awake, self.idle_since, self.waking = 0, True, 0.0, None
        self.times = {}

    def task(self, i, created, work, operations, kind, takes):
        yield self.now.timeout(created)
        if self.inside == 0 and self.waking is None and self.now.now >= self.idle_since + self.sleep_after:
            self.waking = self.now.timeout(self.wake_time)
        self.inside += 1
        with self.door.request() as front:
            yield front
            if self.waking is not None:
                yield self.waking
                self.waking = None
            if takes > 0.0:
                yield self.room.get(takes)
        started = None
        for resource, length in ((self.cores, work), (self.units[kind], operations)):
            if length > 0.0:
                with resource.request() as turn:
                    yield turn
                    started = self.now.now if started is None else started
                    yield self.now.timeout(length)
        if takes > 0.0:
            yield self.room.put(takes)
        self.times[i] = (started, self.now.now)
        self.inside -= 1
        if self.inside == 0:
            self.idle_since = self.now.now


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    cores=st.integers(1, 3),
    memory=st.sampled_from([1.0, 2.5, 4.0, 100.0]),
    sleep_after=st.sampled_from([0.3, 2.0, 1e6]),
    loads=st.lists(
        st.tuples(st.floats(0.2, 2.0), st.floats(0.1, 1.0), st.sampled_from([0.0, 0.7, 2.0])), min_size=1, max_size=3
    ),
)
def test_memory_and_sleep_agree_with_simpy(seed, cores, memory, sleep_after, loads):
    states = PowerStates(sleep_after=sleep_after, wake_time=0.25)
    kind = Kind(cores=cores, clock=CLOCK, fcfs=True, memory=memory, states=states)
    streams = [
        WorkloadStream(rate=rate, work=exponential(work * CLOCK), memory=takes, stop=40.0)
        for rate, work, takes in loads
    ]
    engine = Engine(system(["edge"], [kind], streams, [(0, k) for k in range(len(streams))]), seed, 0)
    engine.advance(5000.0)
    ended = engine.drain()
    refused = np.array([streams[w].memory > memory for w in ended["workload"]], bool)
    np.testing.assert_array_equal(ended["status"], np.where(refused, CAPACITY, COMPLETED))
    assert engine.resources().spells.sum() == pytest.approx(engine.now)
    model = Model(cores, memory, (1,), sleep_after, 0.25)
    check(model, ended, ~refused, np.zeros(len(ended["serial"])), streams)


def check(model, ended, accepted, operations, streams):
    """The model's starts and ends of the accepted tasks are the engine's."""
    order = np.argsort(ended["serial"])
    for i in order[accepted[order]]:
        stream = streams[ended["workload"][i]]
        model.now.process(
            model.task(
                i, ended["created"][i], ended["work"][i] / CLOCK, operations[i], max(stream.accelerator, 0),
                stream.memory,
            )
        )  # fmt: skip
    model.now.run()
    found = np.array([model.times[i] for i in np.flatnonzero(accepted)], np.float64).reshape(-1, 2)
    np.testing.assert_allclose(found[:, 0], ended["started"][accepted], rtol=0, atol=1e-7)
    np.testing.assert_allclose(found[:, 1], ended["computed"][accepted], rtol=0, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    cores=st.integers(1, 3),
    units=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    memory=st.sampled_from([1.0, 2.5, 4.0]),
    sleep_after=st.sampled_from([0.3, 2.0, 1e6]),
    lengths=st.tuples(st.floats(0.1, 2.0), st.floats(0.1, 2.0)),
    takes=st.tuples(st.sampled_from([0.0, 0.7]), st.sampled_from([0.0, 1.0])),
    work=st.sampled_from([0.0, 0.4]),
)
def test_accelerators_agree_with_simpy(seed, cores, units, memory, sleep_after, lengths, takes, work):
    kind = Kind(
        cores=cores, clock=CLOCK, fcfs=True, memory=memory,
        accelerators=tuple(MachineAccelerator(k, count, FLOPS, idle=3.0, max=9.0) for k, count in enumerate(units)),
        states=PowerStates(sleep_after=sleep_after, wake_time=0.25),
    )  # fmt: skip
    streams = [
        WorkloadStream(
            rate=0.8, work=exponential(work * CLOCK), memory=takes[k], accelerator=k,
            operations=(0, lengths[k] * FLOPS, 0.0), stop=40.0,
        )
        for k in range(2)
    ]  # fmt: skip
    engine = Engine(system(["edge"], [kind], streams, [(0, 0), (0, 1)]), seed, 0)
    engine.advance(5000.0)
    ended = engine.drain()
    assert np.all(ended["status"] == COMPLETED)
    model = Model(cores, memory, units, sleep_after, 0.25)
    check(model, ended, ended["status"] == COMPLETED, [lengths[w] for w in ended["workload"]], streams)
    parts = engine.resources()
    count = np.bincount(ended["workload"], minlength=2)
    np.testing.assert_array_equal(parts.accelerator_completed, count)
    np.testing.assert_allclose(parts.accelerator_busy, count * lengths, atol=1e-6)
    on = parts.spells[0, 0]
    np.testing.assert_allclose(parts.accelerator_energy, 3.0 * np.array(units) * on + 6.0 * parts.accelerator_busy)

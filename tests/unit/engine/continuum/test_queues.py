"""The engine against queueing theory and against independent models of the same queue."""

import math

import numpy as np
import pytest

from cosim.engine.continuum import Engine, Kind, WorkloadStream
from tests.unit.engine.continuum.worlds import CLOCK, exponential, queue, system

simpy = pytest.importorskip("simpy")


def erlang_c(servers, load):
    """Probability to wait in M/M/c (Erlang 1917): `load` = arrival rate / service rate."""
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)


def run(engine, until, warm_up):
    engine.advance(until)
    ended = engine.drain()
    keep = ended["created"] > warm_up
    return {name: column[keep] for name, column in ended.items()}


@pytest.mark.parametrize("fcfs", [False, True])
def test_mm1_response_time(fcfs):
    ended = run(queue(7.0, 0.1, fcfs=fcfs, seed=11), 60_000.0, 100.0)
    assert len(ended["ended"]) > 400_000
    assert np.mean(ended["ended"] - ended["created"]) == pytest.approx(1 / (10.0 - 7.0), rel=0.02)


@pytest.mark.parametrize(("cores", "load"), [(2, 1.5), (4, 2.8), (8, 6.4)])
def test_mmc_waiting_time_is_erlang_c(cores, load):
    ended = run(queue(load, 1.0, cores=cores, fcfs=True, seed=5), 5e5 / load, 1000.0)
    expected = erlang_c(cores, load) / (cores - load)
    assert np.mean(ended["started"] - ended["created"]) == pytest.approx(expected, rel=0.02)
    assert np.mean(ended["started"] > ended["created"]) == pytest.approx(erlang_c(cores, load), rel=0.02)


def test_sharing_cores_has_the_response_time_of_mmc():
    # min(f, c f / k) serves at the same total rate as M/M/c, so the number in the system has the same law
    ended = run(queue(2.8, 1.0, cores=4, seed=6), 2e5, 1000.0)
    expected = 1.0 + erlang_c(4, 2.8) / (4 - 2.8)
    assert np.mean(ended["ended"] - ended["created"]) == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
def test_response_under_sharing_is_proportional_to_work():
    # M/M/1-PS: E[T | x] = x / (1 - rho) (Kleinrock 1967)
    ended = run(queue(6.0, 0.1, seed=8), 200_000.0, 100.0)
    work = ended["work"] / CLOCK
    short = work < np.median(work)
    for half in (short, ~short):
        mean = np.mean((ended["ended"] - ended["created"])[half])
        assert mean == pytest.approx(np.mean(work[half]) / (1 - 0.6), rel=0.02)


def simpy_fcfs(created, work, cores):
    environment = simpy.Environment()
    resource = simpy.Resource(environment, cores)
    ended = np.empty(len(created))

    def task(i):
        yield environment.timeout(created[i])
        with resource.request() as turn:
            yield turn
            yield environment.timeout(work[i])
        ended[i] = environment.now

    for i in range(len(created)):
        environment.process(task(i))
    environment.run()
    return ended


def simpy_sharing(created, work, cores):
    """Processor sharing: all tasks in service are worked off together between two changes."""
    environment = simpy.Environment()
    rest, fresh, ended = {}, {}, np.empty(len(created))
    changed = [environment.event()]

    def arrivals():
        for i in range(len(created)):
            yield environment.timeout(created[i] - environment.now)
            fresh[i] = work[i]
            changed[0].succeed()
            changed[0] = environment.event()

    def processor():
        while True:
            rest.update(fresh)
            fresh.clear()
            if not rest:
                yield changed[0]
                continue
            rate = min(1.0, cores / len(rest))
            first = min(rest, key=lambda i: (rest[i], i))
            since, done = environment.now, environment.timeout(rest[first] / rate)
            yield done | changed[0]
            for i in rest:
                rest[i] -= (environment.now - since) * rate
            if done.processed:
                del rest[first]
                ended[first] = environment.now

    environment.process(arrivals())
    environment.process(processor())
    environment.run(until=created[-1] + 1000.0)
    return ended


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize(("fcfs", "model"), [(True, simpy_fcfs), (False, simpy_sharing)])
def test_every_completion_agrees_with_simpy(cores, fcfs, model):
    engine = queue(0.85 * cores, 1.0, cores=cores, fcfs=fcfs, seed=4)
    engine.advance(2000.0)
    made = engine.created
    engine.state.workloads["stop"] = 0.0  # let the queue run empty
    engine.advance(4000.0)
    ended = engine.drain()
    order = np.argsort(ended["serial"])
    created, work = ended["created"][order], ended["work"][order] / CLOCK
    assert made > 1500
    assert len(created) >= made
    np.testing.assert_allclose(model(created, work, cores), ended["ended"][order], rtol=0, atol=1e-7)


def test_a_burst_on_one_station():
    # 5,000 tasks at once: all orders of completion come from the heap of tags
    host = Kind(cores=3, clock=CLOCK)
    load = WorkloadStream(rate=1.0, work=exponential(CLOCK), periodic=True)
    engine = Engine(system(["edge"], [host], [load] * 5000, [(0, k) for k in range(5000)]), 2, 0)
    engine.advance(1.0)
    engine.state.workloads["stop"] = 0.0
    engine.advance(5000.0)
    ended = engine.drain()
    order = np.argsort(ended["serial"])
    count = len(order)
    assert count >= 5000
    assert np.all(np.diff(ended["ended"]) >= 0)
    rest = simpy_sharing(ended["created"][order][:400], ended["work"][order][:400] / CLOCK, 3)
    assert np.all(rest[:400] <= ended["ended"][order][:400] + 1e-6)  # more company is never faster

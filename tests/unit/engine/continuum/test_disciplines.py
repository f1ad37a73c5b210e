"""Processors that serve by rank, against SimPy; CPU quotas, against the kernel's rule stepped in small spans."""

import math

import numpy as np
import pytest

from cosim.engine.continuum import Engine, Kind, Quota, WorkloadStream
from cosim.engine.continuum.layout import EDF, PRIORITY
from cosim.engine.continuum.system import WorkloadTrace
from tests.unit.engine.continuum.worlds import CLOCK, fixed, system

simpy = pytest.importorskip("simpy")

CLASSES = 3


def jobs(count, seed, load):
    """(count, 3) arrival s, work s, class of tasks for a server that is `load` busy."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1.0, count))
    return np.stack([arrival, rng.exponential(load, count), rng.integers(0, CLASSES, count)], axis=1)


def run(made, kind, deadlines=(math.inf,) * CLASSES):
    """When the engine has computed each job, a workload per class, all of them on the device itself."""
    streams, sources = [], []
    for k in range(CLASSES):
        mine = made[made[:, 2] == k]
        nothing = np.zeros(len(mine))
        trace = WorkloadTrace(np.full(len(mine), 1), mine[:, 0], nothing, nothing, mine[:, 1] * CLOCK)
        streams.append(WorkloadStream(1.0, fixed(CLOCK), trace=trace, priority=k, deadline=deadlines[k]))
        sources.append((1, k))
    engine = Engine(system(["edge", "device"], [Kind(cores=1, clock=CLOCK), kind], streams, sources, []), 1, 3)
    engine.advance(1e6)
    ended = engine.drain()
    return ended["computed"][np.argsort(ended["created"])]


def by_simpy(made, servers, preempts, rank):
    """When SimPy's resource has served each job; a job whose server is taken goes on where it stopped."""
    world = simpy.Environment()
    kind = simpy.PreemptiveResource if preempts else simpy.PriorityResource
    resource, done = kind(world, servers), np.zeros(len(made))

    def serve(k):
        yield world.timeout(made[k, 0])
        left = made[k, 1]
        while left > 0.0:
            asked = {"preempt": True} if preempts else {}
            with resource.request(priority=(rank(made[k]), k), **asked) as request:
                yield request
                begun = world.now
                try:
                    yield world.timeout(left)
                    left = 0.0
                except simpy.Interrupt:
                    left -= world.now - begun
        done[k] = world.now

    for k in range(len(made)):
        world.process(serve(k))
    world.run()
    return done


@pytest.mark.parametrize("preempts", [False, True])
@pytest.mark.parametrize(("discipline", "servers"), [(PRIORITY, 1), (PRIORITY, 3), (EDF, 1), (EDF, 2)])
def test_ranks_are_served_as_simpy_serves_them(discipline, servers, preempts):
    made = jobs(400, 7, 0.9 * servers)
    deadlines = (1.0, 4.0, 20.0)
    kind = Kind(cores=servers, clock=CLOCK, fcfs=int(discipline), preempts=preempts)

    def rank(job):
        return job[2] if discipline == PRIORITY else job[0] + deadlines[int(job[2])]

    found = run(made, kind, deadlines)
    assert found == pytest.approx(by_simpy(made, servers, preempts, rank), rel=1e-9)
    fcfs = run(made, Kind(cores=servers, clock=CLOCK, fcfs=1), deadlines)
    assert not np.allclose(found, fcfs)


def throttled(made, cores, period, quota, burst, step):
    """When each job is done by the kernel's rule: runs share a pool that is filled anew every period."""
    done, left, running = np.full(len(made), np.nan), made[:, 1].copy(), []
    available, now, coming, refills = 0.0, 0.0, 0, -1
    while np.isnan(done).any():
        if math.floor(now / period + 1e-9) > refills:
            refills += 1
            available = min(available + quota, quota + burst)
        while coming < len(made) and made[coming, 0] <= now:
            running.append(coming)
            coming += 1
        if running and available > 0.0:
            share = min(len(running), cores) * step / len(running)
            available -= share * len(running)
            for k in list(running):
                left[k] -= share
                if left[k] <= 0.0:
                    done[k] = now + step
                    running.remove(k)
        now += step
    return done


@pytest.mark.parametrize("period", [0.01, 0.1])
@pytest.mark.parametrize(("quota", "burst"), [(0.5, 0.0), (1.0, 0.0), (1.5, 0.0), (0.5, 0.3)])
def test_a_quota_throttles_as_the_kernel_does(period, quota, burst):
    made = jobs(60, 3, 1.0)
    made[:, 0] *= 0.15  # s between two tasks
    made[:, 1] *= 0.15 * 0.6 * quota
    kind = Kind(cores=2, clock=CLOCK, quota=Quota(period, quota * period, burst * period))
    expected = throttled(made, 2, period, quota * period, burst * period, period / 200) - made[:, 0]
    response = run(made, kind) - made[:, 0]
    assert response.mean() == pytest.approx(expected.mean(), rel=0.03)
    assert np.quantile(response, 0.9) == pytest.approx(np.quantile(expected, 0.9), rel=0.03)


@pytest.mark.parametrize(("work", "period", "quota"), [(0.03, 0.1, 0.05), (0.12, 0.1, 0.05), (0.4, 0.01, 0.008)])
def test_a_run_alone_takes_what_the_formula_says(work, period, quota):
    made = np.array([[period * 20, work, 0.0]])
    kind = Kind(cores=1, clock=CLOCK, quota=Quota(period, quota))
    throttles = math.ceil((work - quota) / quota - 1e-9) if work > quota else 0
    assert run(made, kind)[0] - made[0, 0] == pytest.approx(work + (period - quota) * throttles, rel=1e-9)


def test_a_throttled_node_draws_its_idle_power_and_its_cores_are_not_busy():
    made = np.array([[0.0, 0.1, 0.0]])
    mine = made[made[:, 2] == 0]
    trace = WorkloadTrace(np.array([1]), mine[:, 0], np.zeros(1), np.zeros(1), mine[:, 1] * CLOCK)
    kind = Kind(cores=1, clock=CLOCK, power=(10.0, 30.0), quota=Quota(0.1, 0.05))
    both = [Kind(cores=1, clock=CLOCK), kind]
    engine = Engine(
        system(["edge", "device"], both, [WorkloadStream(1.0, fixed(1.0), trace=trace)], [(1, 0)], []), 1, 3
    )
    engine.advance(1.0)
    meters = engine.meters(np.array([1]))
    assert meters.busy[0] == pytest.approx(0.1)
    assert meters.energy[0] == pytest.approx(10.0 + 20.0 * 0.1)

"""A limit of a workload: tasks that have not ended by then are given up, and only those of that workload."""

import math

import numpy as np
import pytest

from cosim.engine.continuum import Engine, Kind, WorkloadStream
from cosim.engine.continuum.layout import COMPLETED, DEADLINE, STATUSES
from tests.unit.engine.continuum.worlds import CLOCK, exponential, system


def mixed(*streams, cores, fcfs=False, seed=7):
    host = Kind(cores=cores, clock=CLOCK, fcfs=fcfs)
    return Engine(system(["edge"], [host], streams, [(0, k) for k in range(len(streams))]), seed, 0)


def assert_all_counted(engine, ended):
    tally = engine.ledger().tally
    assert np.array_equal(tally[:, 0], tally[:, 2:].sum(axis=1) + engine.ledger().in_flight)
    assert np.array_equal(np.bincount(ended["status"], minlength=STATUSES), tally[:, 2:].sum(axis=0))
    assert engine.state.hosts["running"][0] == engine.ledger().in_flight.sum()


def test_with_cores_for_all_the_exponential_tail_is_given_up():
    """M/M/inf: work is longer than L with exp(-L / mean), and given-up tasks took L each."""
    online = WorkloadStream(rate=5.0, work=exponential(2.0 * CLOCK), limit=3.0, stop=4000.0)
    offline = WorkloadStream(rate=1.0, work=exponential(2.0 * CLOCK), stop=4000.0)
    engine = mixed(online, offline, cores=200)
    engine.advance(4100.0)
    ended = engine.drain()
    assert_all_counted(engine, ended)
    took, first = ended["ended"] - ended["created"], ended["workload"] == 0
    given_up = ended["status"] == DEADLINE
    assert not given_up[~first].any()
    assert took[~first].max() > 6.0
    np.testing.assert_allclose(took[given_up], 3.0, rtol=1e-9)
    assert took[first].max() <= 3.0 + 1e-9
    share, expected = given_up[first].mean(), math.exp(-1.5)
    assert abs(share - expected) < 4.0 * math.sqrt(expected * (1.0 - expected) / first.sum())


@pytest.mark.parametrize("fcfs", [False, True])
def test_a_host_that_is_asked_too_much_goes_on_with_what_is_young(fcfs):
    """At a load of 2 queues would grow without bound; with a limit no task is older, and the host stays busy."""
    engine = mixed(WorkloadStream(rate=2.0, work=exponential(CLOCK), limit=5.0), cores=1, fcfs=fcfs)
    engine.advance(2000.0)
    ended = engine.drain()
    assert_all_counted(engine, ended)
    done = ended["status"] == COMPLETED
    assert (ended["ended"] - ended["created"]).max() <= 5.0 + 1e-9
    assert engine.ledger().in_flight[0] <= 30
    assert 0.3 < done.mean() < 0.55
    busy = engine.meters(np.arange(1)).busy[0] / 2000.0
    assert busy > 0.97


def test_the_earlier_of_limit_and_deadline_holds_when_late_tasks_are_dropped():
    load = WorkloadStream(rate=1.0, work=exponential(CLOCK), limit=2.0, deadline=1.0, stop=500.0)
    made = system(["edge"], [Kind(cores=50, clock=CLOCK)], [load], [(0, 0)])
    for drops, longest in ((True, 1.0), (False, 2.0)):
        engine = Engine(made, 3, 0, drop_late=drops)
        engine.advance(510.0)
        ended = engine.drain()
        assert (ended["ended"] - ended["created"]).max() == pytest.approx(longest)

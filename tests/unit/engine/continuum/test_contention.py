"""Busy cores that slow one another down."""

import numpy as np
import pytest

from cosim.engine.continuum import Engine, Kind, WorkloadStream, batch
from cosim.engine.continuum.layout import EXPONENTIAL
from tests.unit.engine.continuum.worlds import CLOCK, system


def host(rate, contention, *, cores=2, fcfs=True):
    kind = Kind(cores=cores, clock=CLOCK, fcfs=fcfs, contention=contention)
    return system(["edge"], [kind], [WorkloadStream(rate=rate, work=(int(EXPONENTIAL), 0.1 * CLOCK, 0.0))], [(0, 0)])


def present(load, contention, cores):
    """Mean number in a birth-death chain with service rates k / (1 + c (k - 1)), k up to the cores (Kleinrock 1975)."""
    rates = [min(k, cores) / (1.0 + contention * (min(k, cores) - 1)) for k in range(1, 400)]
    weights = np.cumprod(np.concatenate([[1.0], load / np.array(rates)]))
    return float(np.arange(400) @ weights / weights.sum())


@pytest.mark.parametrize("fcfs", [False, True])
@pytest.mark.parametrize(("cores", "contention", "load"), [(2, 0.3, 1.2), (2, 1.0, 0.6), (4, 0.1, 2.5)])
def test_response_is_that_of_the_birth_death_chain(cores, contention, load, fcfs):
    engine = Engine(host(10.0 * load, contention, cores=cores, fcfs=fcfs), seed=5)
    engine.advance(20_000.0 / load)
    ended = engine.drain()
    response = np.mean(ended["ended"] - ended["created"])
    assert response == pytest.approx(present(load, contention, cores) / (10.0 * load), rel=0.03)


def test_a_batch_varies_it_and_none_changes_nothing():
    result = batch(host(5.0, 0.0), {"kind.0.contention": [0.0, 0.5]}, seeds=[1, 2], until=50.0)
    plain = batch(host(5.0, 0.0), {}, seeds=[1, 2], until=50.0)
    slowed = batch(host(5.0, 0.5), {}, seeds=[1, 2], until=50.0)
    mean = result["response.mean"]
    assert np.array_equal(mean[0], plain["response.mean"][0])
    assert np.array_equal(mean[1], slowed["response.mean"][0])
    assert np.all(mean[1] > mean[0])

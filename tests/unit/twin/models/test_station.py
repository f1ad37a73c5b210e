"""Stations told from when requests came and were answered, against closed forms and the engine's own stations."""

import numpy as np
import pytest

from cosim.engine.continuum import Engine, Kind, System, WorkloadStream
from cosim.engine.continuum.system import WorkloadTrace
from cosim.twin.fitting.nearest import AT, quantile
from cosim.twin.models import station as stations
from cosim.twin.models.station import ServiceStation, agreeing, identify


def poisson(rate, count, random):
    return np.cumsum(random.exponential(1.0 / rate, count))


def recorded(station, loads, count, seed=3):
    random = np.random.default_rng(seed)
    found = []
    for load in loads:
        created = poisson(load * station.capacity, count, random)
        found.append((created, created + station.responses(created, random)))
    return found


def test_one_server_in_turn_has_the_mean_response_of_pollaczek_and_khinchine():
    one = ServiceStation(1, False, 0.02, 0.5, 0.0)
    random = np.random.default_rng(1)
    load = 0.6
    means = [one.responses(poisson(load / 0.02, 20_000, random), random).mean() for _ in range(6)]
    expected = 0.02 + load * 0.02 * (1.0 + 0.5**2) / 2.0 / (1.0 - load)
    assert abs(np.mean(means) - expected) < 0.04 * expected


def test_sharing_has_the_mean_response_that_no_law_of_service_changes():
    random = np.random.default_rng(2)
    load = 0.5
    for spread in (0.1, 1.0):
        one = ServiceStation(1, True, 0.02, spread, 0.0)
        means = [one.responses(poisson(load / 0.02, 20_000, random), random).mean() for _ in range(6)]
        assert abs(np.mean(means) - 0.02 / (1.0 - load)) < 0.05 * 0.04


@pytest.mark.parametrize(("servers", "sharing", "contention"), [(1, False, 0.0), (2, False, 0.4), (2, True, 0.4)])
def test_a_station_serves_like_the_engine_s(servers, sharing, contention):
    random = np.random.default_rng(4)
    arrivals, services = poisson(60.0, 300, random), random.exponential(0.02, 300)
    clock = 1e9
    host = Kind(cores=servers, clock=clock, fcfs=not sharing, contention=contention)
    nothing = np.zeros(300)
    trace = WorkloadTrace(np.zeros(300, np.int64), arrivals, nothing, nothing, services * clock)
    load = WorkloadStream(rate=1.0, work=(0, 0.0, 0.0), trace=trace)
    system = System(
        kinds=(host,), kind=np.array([0]), tier=np.array([1]), present=np.ones(1, np.bool_), workloads=(load,),
        source_node=np.array([0]), source_workload=np.array([0]), link_a=np.zeros(0, np.int64),
        link_b=np.zeros(0, np.int64), link_rate=np.zeros(0), link_delay=np.zeros(0), link_loss=np.zeros(0),
        link_energy=np.zeros(0),
    )  # fmt: skip
    engine = Engine(system, 1, 0)
    engine.advance(1e3)
    ended = np.sort(engine.drain()["ended"])
    made = np.sort(stations._departures(arrivals, services, servers, sharing, contention))
    assert np.allclose(made, ended, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "truth",
    [
        ServiceStation(1, False, 0.015, 0.3, 0.004),
        # What is tried is the same, whichever is true.
        pytest.param(ServiceStation(2, False, 0.03, 0.5, 0.002), marks=pytest.mark.slow),
        pytest.param(ServiceStation(1, True, 0.02, 0.6, 0.002), marks=pytest.mark.slow),
    ],
)
def test_two_loads_tell_how_much_a_station_can_do(truth):
    found = identify(recorded(truth, (0.3, 0.6), 500), servers=(1, 2))
    assert abs(found.station.capacity / truth.capacity - 1.0) < 0.1
    assert found.levels.deviation < 0.06
    if truth.servers == 1:
        assert abs(found.station.spread / truth.spread - 1.0) < 0.2


@pytest.mark.slow
def test_a_recording_that_lies_does_not_bend_the_station():
    truth = ServiceStation(1, False, 0.015, 0.3, 0.002)
    low, mid, high = recorded(truth, (0.3, 0.5, 0.7), 300)
    sound, none = agreeing([low, mid, high], 2)
    assert (sound.station, none) == (identify([low, mid]).station, None)
    created, ended = mid
    lying = created, created + 1.45 * (ended - created)
    found, other = agreeing([low, lying, high], 2)
    assert other == 1
    bent = identify([low, lying]).station
    assert abs(found.station.capacity / truth.capacity - 1.0) < 0.05 < abs(bent.capacity / truth.capacity - 1.0)


@pytest.mark.parametrize("count", [1, 2, 9, 500])
def test_quantiles_are_those_of_numpy(count):
    random = np.random.default_rng(count)
    for values in (random.exponential(1.0, count), random.integers(0, 9, count).astype(float)):
        for levels in (AT, random.random(300), np.array([0.0, 0.5, 1.0])):
            assert np.array_equal(quantile(values, levels), np.quantile(values, levels))


def test_a_level_that_varies_is_told():
    truth, random = ServiceStation(1, False, 0.02, 0.2, 0.001), np.random.default_rng(5)
    parts = []
    for load in (0.3, 0.5):
        created = poisson(load / 0.02, 800, random)
        slow = np.repeat([0.8, 1.2, 0.8, 1.2], 200)
        services = 0.02 * slow * np.exp(0.2 * random.standard_normal(800))
        parts.append((created, stations._departures(created, services, 1, False, 0.0)))
    levels = stations._levels(parts, truth, 1)
    assert 0.12 < levels.deviation < 0.3


def test_few_requests_tell_nothing():
    times = np.arange(10.0)
    with pytest.raises(ValueError, match="20 requests"):
        identify([(times, times + 0.1)])


@pytest.mark.slow
def test_two_modes_are_told_from_one():
    """A cache that misses in a fifth of the requests; and none, where a wide law alone makes long responses."""
    cache = ServiceStation(1, False, 0.02, 0.1, 0.0, slow_share=0.2, slow_times=8.0)
    found = identify(recorded(cache, (0.3, 0.5), 500), servers=(1,)).station
    assert abs(found.slow_share - 0.2) < 0.05
    assert abs(found.slow_times / 8.0 - 1.0) < 0.25
    assert abs(found.service / 0.02 - 1.0) < 0.15
    wide = ServiceStation(1, False, 0.02, 0.5, 0.0)
    assert identify(recorded(wide, (0.3, 0.5), 500), servers=(1,)).station.slow_share == 0.0


def test_the_mean_of_two_modes_is_that_of_the_station():
    one = ServiceStation(1, False, 0.02, 0.3, 0.0, slow_share=0.2, slow_times=8.0)
    alone = np.arange(20_000.0)  # nobody waits
    assert abs(one.responses(alone, np.random.default_rng(1)).mean() / 0.02 - 1.0) < 0.05

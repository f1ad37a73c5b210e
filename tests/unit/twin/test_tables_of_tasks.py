"""Tables of tasks of a service: which are told to lack the fast ones, or to begin slowly, and which are sound."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cosim.twin.scenario.handling import fast_ones_missing
from cosim.twin.scenario.recording import Series
from cosim.twin.scenario.rows import rows_told
from cosim.twin.telemetry.quantities import Codes, Quantity, Rows

SERVICE, LOAD, COUNT = 0.015, 0.6, 900


def responses(arrivals, works, servers=1):
    """Served in order of arrival."""
    free, ends = np.zeros(servers), np.empty(len(arrivals))
    for k, (came, work) in enumerate(zip(arrivals, works, strict=True)):
        first = int(np.argmin(free))
        free[first] = ends[k] = max(came, free[first]) + work
    return ends - arrivals


def told(created, values, simulated=()):
    """What the table of one device is told to be, beside simulated responses."""
    rows = Rows(values, created, np.zeros(len(values), np.int64), np.zeros(len(values), np.int64))
    scenario = SimpleNamespace(workloads={"ask": SimpleNamespace(arrivals=SimpleNamespace(law="trace"))})
    recording = SimpleNamespace(
        series={"response": Series(Quantity("task", "response"), rows, "", from_file=True)},
        label=lambda name: name,
        nodes=Codes(["client"]),
        loaded=SimpleNamespace(scenario=scenario),
        block=SimpleNamespace(replay=True),
    )
    return "\n".join([*rows_told(recording), *fast_ones_missing(rows, list(simulated))])


def drawn(shape, seed):
    """Arrivals and service times (s)."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(SERVICE / LOAD, COUNT))
    if shape == "even":
        arrivals = np.arange(COUNT) * SERVICE / LOAD
    elif shape == "batches":
        arrivals = np.sort(np.repeat(arrivals[: COUNT // 3] * 3.0, 3) + np.tile([0.0, 1e-4, 2e-4], COUNT // 3))
    works = {"fixed": np.full(COUNT, SERVICE), "even loads": SERVICE * (0.5 + random.random(COUNT))}
    return arrivals, works.get(shape, SERVICE * random.exponential(size=COUNT))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("shape", ["exponential", "even", "batches", "fixed", "even loads"])
def test_sound_tables_are_not_doubted(shape, seed):
    arrivals, works = drawn(shape, seed)
    assert told(arrivals, responses(arrivals, works) + 0.001) == ""
    assert told(arrivals, responses(arrivals, 2.0 * works, 2) + 0.001) == ""


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("shape", ["exponential", "batches"])
def test_a_logger_that_leaves_fast_ones_out_is_told(shape, seed):
    arrivals, works = drawn(shape, seed)
    values = responses(arrivals, works)
    slow = values > np.median(values)
    scaled = [responses(arrivals, factor * works) for factor in (0.5, 1.0, 1.3)]
    assert "were fast ones left out" in told(arrivals[slow], values[slow], scaled)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_table_of_even_arrivals_with_holes_is_told(seed):
    arrivals, works = drawn("even", seed)
    values = responses(arrivals, works)
    kept = np.random.default_rng(seed).random(COUNT) > 0.2
    assert "tasks are missing" in told(arrivals[kept], values[kept])


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("shape", ["fixed", "even loads"])
def test_a_server_that_warms_up_is_told(shape, seed):
    arrivals, works = drawn(shape, seed)
    slower = 1.0 + np.exp(-arrivals / (0.1 * arrivals[-1]))
    assert "a warm-up" in told(arrivals, responses(arrivals, works * slower))

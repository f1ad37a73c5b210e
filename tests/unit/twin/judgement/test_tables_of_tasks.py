"""Tables of tasks under the model that made them: sound ones are not doubted, lost rows and warm-ups are named."""

import functools

import numpy as np
import pytest

from benchmarks.twin_sound import in_turn
from cosim.twin.judgement.course import Course
from cosim.twin.judgement.judge import corrected, judge, worst
from cosim.twin.judgement.subject import Judged, Subject
from cosim.twin.judgement.table import figures

SERVICE, LOAD, COUNT = 0.015, 0.6, 400
DRAWS = np.random.default_rng(2).normal(1.0, 0.03, (120, 1))


def drawn(shape, seed):
    """Arrivals and service times (s)."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(SERVICE / LOAD, COUNT))
    if shape == "even":
        arrivals = np.arange(COUNT) * SERVICE / LOAD
    elif shape == "batches":
        arrivals = np.sort(np.repeat(arrivals[: COUNT // 4] * 4.0, 4) + np.tile([0.0, 1e-4, 2e-4, 3e-4], COUNT // 4))
    works = {"fixed": np.full(COUNT, SERVICE), "even loads": SERVICE * (0.5 + random.random(COUNT))}
    return arrivals, works.get(shape, SERVICE * random.exponential(size=COUNT))


def of(arrivals, values):
    return figures(Course(values, arrivals, tasks=True, scale=SERVICE))[None]


@functools.cache
def simulated(shape):
    found = []
    for k, (factor,) in enumerate(DRAWS):
        arrivals, works = drawn(shape, 1000 + k)
        found.append(of(arrivals, in_turn(arrivals, factor * works, 1) - arrivals + 0.001))
    return np.stack(found)


def reported(shape, arrivals, values):
    one = Judged((Subject("response", scale=SERVICE),), of(arrivals, values), lambda draw, seed: draw)
    return [str(row) for row in worst(corrected(judge(one, simulated(shape), DRAWS)), 20)]


@pytest.mark.parametrize("shape", ["exponential", "even", "batches", "fixed", "even loads"])
def test_sound_tables_are_not_doubted(shape):
    sets = [drawn(shape, seed) for seed in range(4)]
    assert sum(bool(reported(shape, a, in_turn(a, w, 1) - a + 0.001)) for a, w in sets) <= 1


@pytest.mark.parametrize("shape", ["exponential", "batches"])
def test_a_logger_that_leaves_fast_ones_out_is_named(shape):
    arrivals, works = drawn(shape, 1)
    values = in_turn(arrivals, works, 1) - arrivals + 0.001
    slow = values > np.median(values)
    assert any("rows are missing" in line for line in reported(shape, arrivals[slow], values[slow]))


def test_a_table_of_even_arrivals_with_holes_is_named():
    arrivals, works = drawn("even", 1)
    kept = np.random.default_rng(1).random(COUNT) > 0.2
    values = in_turn(arrivals, works, 1) - arrivals + 0.001
    assert any("rows are missing" in line for line in reported("even", arrivals[kept], values[kept]))


@pytest.mark.parametrize("shape", ["fixed", "even loads"])
def test_a_server_that_warms_up_is_named(shape):
    arrivals, works = drawn(shape, 1)
    slower = 1.0 + np.exp(-arrivals / (0.1 * arrivals[-1]))
    found = reported(shape, arrivals, in_turn(arrivals, works * slower, 1) - arrivals + 0.001)
    assert any("leave the beginning out" in line for line in found), found

"""How tasks follow one another: figures of queues with known answers, and responses that were given to other tasks."""

import functools

import numpy as np
import pytest

from cosim.twin.fitting.predictive import ORDERLY, check, pairs
from cosim.twin.problem import ORDER, Case, MeasuredSignal
from cosim.twin.telemetry.order import FIGURES, OVERTAKEN, figures
from cosim.twin.telemetry.quantities import Rows

COUNT, SERVICE = 400, 0.1


def rows(created, values, devices=None):
    zeros = np.zeros(len(values), np.int64)
    return Rows(values, created, zeros if devices is None else devices, zeros)


def queue(service, seed, load=0.6):
    """Created, and responses (s) of one server in order of arrival; Lindley's recursion."""
    random = np.random.default_rng(seed)
    created = np.cumsum(random.exponential(SERVICE / load, COUNT))
    works, waits = service * random.exponential(size=COUNT), np.zeros(COUNT)
    for k in range(1, COUNT):
        waits[k] = max(0.0, waits[k - 1] + works[k - 1] - (created[k] - created[k - 1]))
    return created, waits + works


def test_figures_of_tasks_with_known_order():
    created = np.arange(40.0)
    alone = dict(zip(FIGURES, figures(rows(created, np.full(40, 0.5))), strict=True))
    assert alone[OVERTAKEN] == 0.0
    assert alone["response by the tasks found"] == 0.0  # nothing differs
    slow = np.where(np.arange(40) % 4 == 0, 1.5, 0.2)  # every fourth ends behind the one that follows it
    found = dict(zip(FIGURES, figures(rows(created, slow)), strict=True))
    assert found[OVERTAKEN] == pytest.approx(10 / 39)
    assert found["places that a task loses or gains till its answer"] == pytest.approx(20 / 40)
    assert np.isnan(figures(rows(created[:20], slow[:20]))).all()


def test_a_clock_that_goes_faster_changes_no_figure():
    """Times and responses of a queue at s times the pace are those of another queue: nothing in a table tells s."""
    created, values = queue(SERVICE, 1)
    assert figures(rows(1.01 * created, 1.01 * values)) == pytest.approx(figures(rows(created, values)), abs=1e-9)


def test_tasks_of_several_devices_are_held_apart():
    one, other = queue(SERVICE, 1), queue(SERVICE, 2)
    both = rows(*(np.concatenate(part) for part in zip(one, other, strict=True)), np.repeat([0, 1], COUNT))
    mean = (figures(rows(*one)) + figures(rows(*other))) / 2.0
    assert figures(both)[:-2] == pytest.approx(mean[:-2])


@functools.cache
def simulated(service, seed):
    """A queue's responses and figures; every measurement is held against the same ones."""
    at, made = queue(service, seed)
    return {"response": made[None], ORDER + "response": figures(rows(at, made))[None]}


def case(created, values):
    def course(points, seed):
        (point,) = points
        return simulated(float(point[0]), seed)

    observed = {"response": MeasuredSignal(values, "s", times=created)}
    return Case(observed, course, course=course, order={ORDER + "response": figures(rows(created, values))})


def doubts(created, values):
    draws = SERVICE * np.random.default_rng(3).normal(1.0, 0.03, (200, 1))
    return [one for one in check(case(created, values), draws, range(200)).unexplained if one.remedy == ORDERLY]


@pytest.mark.parametrize("seed", range(101, 107))
def test_responses_that_belong_to_their_tasks_are_not_doubted(seed):
    assert not doubts(*queue(SERVICE, seed))


@pytest.mark.parametrize("seed", range(101, 104))
@pytest.mark.parametrize("change", ["shuffled", "shifted", "longer"])
def test_responses_of_other_tasks_are_told(change, seed):
    created, values = queue(SERVICE, seed)
    random = np.random.default_rng(seed)
    other = {
        "shuffled": random.permutation(values),
        "shifted": np.roll(values, 1),
        "longer": values + 10.0 * SERVICE * (random.random(COUNT) < 0.04),
    }
    assert doubts(created, other[change])


def test_pairs_that_do_not_go_together_are_told():
    _, values = queue(SERVICE, 1)
    random = np.random.default_rng(2)

    def told(measured, times=None):
        observed = {"response": MeasuredSignal(measured, "s", paired=True, times=times)}
        made = Case(observed, lambda points, seed: {"response": values[None]}, tasks=frozenset(observed))
        return "".join(pairs(made, np.ones(1), 1))

    near = values * random.normal(1.0, 0.02, COUNT)
    assert told(near) == ""
    assert "do not take longer where" in told(random.permutation(near))
    assert "took another time than" in told(np.where(random.random(COUNT) < 0.05, 3.0 * near, near))
    # Those at the end were held up by tasks that had not ended when the recording did.
    created = np.linspace(0.0, 30.0 * values.max(), COUNT)
    last = created > created[-1] - values.max()
    assert "took another time than" in told(np.where(last, 3.0 * values, values))
    assert told(np.where(last, np.minimum(3.0 * values, values.max()), values), created) == ""

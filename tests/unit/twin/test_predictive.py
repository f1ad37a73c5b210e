"""Models that cannot make the data are told, right ones are not; intervals are asked for their coverage."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.twin_sound import in_turn, sharing
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.fitting.coverage import coverage, predictive
from cosim.twin.fitting.predictive import check
from cosim.twin.prediction.predict import summarise, told
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.search import Budget
from cosim.twin.space import Parameter, Space

SPACE = Space([Parameter("mean", 0.5, 2.0, scale="log", unit="s"), Parameter("offset", 0.0, 1.0, unit="s")])
COUNT = 300


def exponential(values, seed):
    draws = np.random.default_rng(seed).exponential(size=COUNT)
    return {"time": values[:, 1:] + values[:, :1] * draws}


def measured(law):
    random = np.random.default_rng(5)
    if law == "exponential":
        return 0.4 + random.exponential(size=COUNT)
    if law == "two modes":
        return np.where(random.random(COUNT) < 0.5, 0.5, 3.0) + 0.1 * random.random(COUNT)
    if law == "drift":
        return np.linspace(0.5, 2.5, COUNT) * (0.7 + 0.6 * random.random(COUNT))
    return 0.4 + np.sort(random.exponential(size=COUNT).reshape(-1, 10), axis=1).ravel()


def problem(law):
    signal = MeasuredSignal(measured(law), "s", times=np.arange(COUNT, dtype=float))
    return CalibrationProblem(law, SPACE, Case({"time": signal}, exponential), cost=1e-5)


@pytest.mark.parametrize(
    ("law", "words"),
    [("two modes", "a second mode"), ("drift", "the drift of 'time'"), ("sorted", "bursts"), ("exponential", None)],
)
def test_what_the_model_cannot_make_is_told_with_what_to_try(law, words):
    answer = calibrate(problem(law), budget=Budget(3000), screen=False)
    lines = [line for line in answer.warnings if "cannot make" in line]
    assert bool(lines) == (words is not None), lines
    if words is not None:
        assert any(words in line for line in lines), lines
        assert answer.figures["widened"] > 1.0


def test_a_measurement_at_the_draws_is_within_its_bands():
    answer = calibrate(problem("exponential"), budget=Budget(3000), screen=False)
    assert len(answer.draws) == 200
    mean, tail = predictive(problem("exponential").fit, answer)
    assert mean["inside"]
    assert tail["inside"]
    assert mean["low"] < mean["predicted"] < mean["high"]


def test_too_few_values_tell_nothing():
    case = Case({"time": MeasuredSignal(np.arange(10.0), "s")}, exponential)
    assert check(case, np.ones((50, 2)), range(50)).unexplained == ()


def test_intervals_hold_the_truths_that_their_data_were_made_with():
    found = coverage(problem("exponential"), 6, budget=Budget(3000))
    assert [one.name for one in found] == ["mean", "offset"]
    for one in found:
        assert one.of == sum(one.ranks) == 6
        assert one.held >= 4


def test_bands_tell_how_much_a_value_is_amplified():
    random = np.random.default_rng(2)
    works = 0.05 * np.exp(0.02 * random.standard_normal(80))
    waits = 1.0 / (1.0 - 18.0 * works)  # a queue at 90 %
    figures = [
        {"response_mean": wait, "utilisation_mean": 18 * work, "nodes": 3.0, "none": None}
        for wait, work in zip(waits, works, strict=True)
    ]
    values = [
        {"workloads.ask.work": f"exponential {1000 * work:.6f} Mcycles", "links.0.delay": "2 ms"} for work in works
    ]
    bands = summarise(figures, values)
    assert "none" not in bands
    assert bands["nodes"].low == bands["nodes"].high == 3.0
    assert bands["response_mean"].by == "workloads.ask.work"
    assert bands["response_mean"].amplification == pytest.approx(9.0, rel=0.15)  # rho / (1 - rho)
    lines = told(bands)
    assert any("near saturation" in line for line in lines)
    assert any("utilisation_mean reaches" in line for line in lines)


def test_coverage_stops_at_the_first_ctrl_c():
    """A search that is interrupted gives what it has; the next truth must not begin."""
    whole, begun = problem("exponential"), []

    def simulate(values, seed):
        begun.append(seed)
        if len(begun) == 20:
            raise KeyboardInterrupt
        return whole.fit.simulate(values, seed)

    watched = replace(whole, fit=replace(whole.fit, simulate=simulate))
    with pytest.raises(KeyboardInterrupt):
        coverage(watched, 6, budget=Budget(3000))
    assert len(begun) < 100


def test_more_figures_and_fewer_simulations_make_no_more_false_words():
    """Six signals of a sound model, 24 simulations each: about one set in a hundred may have a word."""
    told = 0
    for repeat in range(16):
        random = np.random.default_rng([7, repeat])
        truth, *draws = 1.0 + 0.05 * random.standard_normal((25, 1))

        def made(values, seed):
            rows = np.random.default_rng(seed).lognormal(0.0, 0.8, (6, 120))
            return {f"signal {k}": float(np.ravel(values)[0]) * row[None] for k, row in enumerate(rows)}

        observed = {name: MeasuredSignal(row[0], "s") for name, row in made(truth, 10_000 + repeat).items()}
        told += bool(check(Case(observed, made), np.array(draws), range(24)).unexplained)
    assert told <= 1


def test_queues_of_the_sound_sets_are_served_as_they_should():
    random = np.random.default_rng(3)
    times, works = np.cumsum(random.exponential(1.0, 200)), random.exponential(0.8, 200)
    waits = [0.0]
    for gap, work in zip(np.diff(times), works, strict=False):
        waits.append(max(waits[-1] + work - gap, 0.0))
    assert in_turn(times, works, 1) == pytest.approx(times + np.array(waits) + works)
    young, shared = in_turn(times, works, 1, last_first=True), sharing(times, works, 1)
    assert sorted(young)[-1] == pytest.approx(sorted(shared)[-1]) == pytest.approx(times[-1] + waits[-1] + works[-1])
    assert sharing(np.array([0.0, 1.0]), np.array([2.0, 2.0]), 1).tolist() == [3.0, 4.0]
    assert in_turn(np.array([0.0, 0.1, 0.2]), np.ones(3), 1, last_first=True).tolist() == [1.0, 3.0, 2.0]

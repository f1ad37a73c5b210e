"""Models that cannot make the data are told, right ones are not; intervals are asked for their coverage."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from benchmarks.predictive import predictive
from benchmarks.twin_sound import in_turn, sharing
from cosim.adapters.continuum.tests.test_demand import GRAPH, HEAD, TARIFF
from cosim.results.executor import JobResult, carry_out
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.fitting.coverage import coverage
from cosim.twin.prediction.predict import predict, reader_notes, summarise
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.search import Budget
from cosim.twin.space import Parameter, Space
from tests.unit.twin.test_scenario import BENCH

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


@pytest.mark.slow
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
    lines = reader_notes(bands)
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


@dataclass
class RunsHere:
    """An executor whose runs write their folders from this process, one after another."""

    made: list[str] = field(default_factory=list)

    def run(self, tasks):
        for task in tasks:
            done = carry_out(task)
            self.made.append(done["run"])
            yield JobResult(task.key, {}, done["status"], done["run"], done["error"], "", done["figures"], 0.0)


VALUED = ", deadline: 400 ms, value: 2, half_life: 300 ms"


@pytest.mark.parametrize(
    ("text", "draws", "special"),
    [
        (
            BENCH.replace("600 Mcycles", f"600 Mcycles{VALUED}"),
            [{"workloads.look.work": f"{k} Gcycles"} for k in (1, 5)],
            {"value_kept", "tasks_in_flight"},
        ),
        (
            HEAD + GRAPH + TARIFF,
            [{"workloads.watch.graph.detect.work": f"{k} Mcycles"} for k in (300, 900)],
            {"cost_penalty", "carbon_total"},
        ),
    ],
    ids=["values and events", "graph and agreement"],
)
def test_draws_in_batches_have_the_figures_of_runs_of_their_own(tmp_path, text, draws, special):
    file = tmp_path / "one.cosim.yaml"
    file.write_text(text)
    runs, seen = RunsHere(), []
    one = predict(file, draws, folder=tmp_path, count=5, workers=2, progress=lambda k, n: seen.append((k, n)))
    other = predict(file, draws, folder=tmp_path, count=5, executor=runs)
    assert len(runs.made) == one.runs == 5
    assert seen == [(k + 1, 5) for k in range(5)]
    assert {"response_p99", "energy_total", "late_share", "utilisation_mean"} | special <= {*one.bands}
    assert one.bands["response_mean"].high > one.bands["response_mean"].low
    assert one == other


def test_a_draw_that_cannot_be_is_counted_and_named(tmp_path):
    file = tmp_path / "one.cosim.yaml"
    file.write_text(BENCH)
    draws = [{"kinds.gateway.power.max": value} for value in ("6 W", "6 W", "6 W", "1 W", "7 W")]
    found = predict(file, draws, folder=tmp_path, count=5, workers=1)
    assert found.runs == 4
    assert any("1 of 5 runs failed" in line and "max power is below idle power" in line for line in found.warnings)


def test_each_run_of_a_prediction_is_compiled_once(tmp_path, monkeypatch):
    file, made = tmp_path / "one.cosim.yaml", []
    file.write_text(BENCH)
    for module in ("prediction.predict", "scenario.batched"):
        monkeypatch.setattr(f"cosim.twin.{module}.compile_plan", lambda one: made.append(one) or compile_plan(one))
    predict(
        file,
        [{"kinds.gateway.power.max": "6 W"}, {"kinds.gateway.power.max": "7 W"}],
        folder=tmp_path,
        count=3,
        workers=1,
    )
    assert len(made) == 3

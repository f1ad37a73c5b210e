"""The whole way from telemetry with known parameters to values with intervals."""

import math

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.contract.seals import DamagedError
from cosim.scenario.calibrate import BudgetBlock
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.fitting.misfit import Misfit
from cosim.twin.fitting.screen import sensitivities
from cosim.twin.judgement.verdict import Verdicts
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.search import Budget
from cosim.twin.space import Parameter, Space

LOADS = np.linspace(0.0, 1.0, 24)


def power(values, seed):
    """Idle power and two more for a curve; a price that no meter sees."""
    idle, span, bend, _ = values.T[:, :, None]
    return {"power": idle + span * LOADS**bend}


POWER = Space(
    [
        Parameter("idle", 1.0, 10.0, unit="W", start=2.0),
        Parameter("span", 0.5, 20.0, unit="W"),
        Parameter("bend", 0.3, 3.0),
        Parameter("price", 0.0, 1.0),
    ]
)
TRUE_POWER = np.array([[3.1, 6.4, 0.8, 0.2]])


def power_problem(noise=0.05, seed=1, **settings):
    clean = power(TRUE_POWER, 0)["power"][0]
    errors = noise * np.random.default_rng(seed).standard_normal((2, len(clean)))
    parts = [
        Case({"power": MeasuredSignal(clean + one, "W", paired=True)}, power, name)
        for one, name in zip(errors, "ab", strict=True)
    ]
    return CalibrationProblem(
        "power", POWER, parts[0], parts[1], deterministic=True, assumptions=("one curve",), **settings
    )


WAITS = Space(
    [
        Parameter("clock", 0.5e9, 8e9, scale="log", unit="Hz"),
        Parameter("work", 1e7, 1e9, scale="log", unit="cycles", start=6e8),
        Parameter("delay", 0.0, 0.1, unit="s"),
        Parameter("price", 0.0, 1.0),
    ]
)
TRUE_WAITS = np.array([[2e9, 1e8, 0.03, 0.5]])


def waits(values, seed):
    """Response times of 80 tasks; only work over clock matters, and the delay."""
    clock, work, delay, _ = values.T[:, :, None]
    draws = np.random.default_rng(seed).exponential(size=80)
    return {"response": delay + work / clock * draws}


def waits_problem(seed=9):
    later = waits(TRUE_WAITS, seed + 1)["response"][0]
    observed = {"response": MeasuredSignal(waits(TRUE_WAITS, seed)["response"][0], "s")}
    return CalibrationProblem(
        "waits", WAITS, Case(observed, waits), Case({"response": MeasuredSignal(later, "s")}, waits)
    )


def by_name(answer):
    return {estimate.name: estimate for estimate in answer.estimates}


def test_limits_that_are_given_come_before_those_of_the_scenario():
    block = BudgetBlock.model_validate({"runs": 300, "time": "1 min"})
    assert Budget(**block.limits()) == Budget(300, 60.0)
    assert Budget(**block.limits(50, 5.0)) == Budget(50, 5.0)
    assert Budget(**BudgetBlock().limits()) == Budget() == Budget(20_000, math.inf)


def test_a_power_curve_is_found_with_intervals():
    answer = calibrate(power_problem(), budget=Budget(4_000))
    found = by_name(answer)
    assert answer.method == "least squares"
    assert answer.stopped == "converged"
    for name, true in (("idle", 3.1), ("span", 6.4), ("bend", 0.8)):
        assert found[name].verdict == "fitted"
        assert found[name].low < true < found[name].high
        assert found[name].high - found[name].low < 0.2 * true
        assert found[name].value == pytest.approx(true, rel=0.05)
    assert found["price"].verdict == "no effect"
    assert "no effect on any measured signal" in found["price"].reason
    assert found["price"].value == found["price"].start
    assert answer.runs <= 4_000 + 4
    assert answer.fit.after[-1].nrmse < 0.1 * answer.fit.before[-1].nrmse
    assert answer.held_back.after[-1].nrmse < 0.1 * answer.held_back.before[-1].nrmse
    assert answer.assumptions == ("one curve",)


def test_what_only_matters_together_is_named():
    answer = calibrate(waits_problem(), budget=Budget(12_000))
    found = by_name(answer)
    assert answer.method == "regression"
    assert found["clock"].verdict == found["work"].verdict == "correlated"
    assert "work" in found["clock"].reason
    assert found["delay"].verdict == "fitted"
    assert found["delay"].low <= 0.03 <= found["delay"].high
    assert found["price"].verdict == "no effect"
    assert found["work"].value / found["clock"].value == pytest.approx(0.05, rel=0.3)
    assert answer.held_back.after[-1].w1 < 0.3 * answer.held_back.before[-1].w1
    assert answer.runs <= 12_000


@pytest.mark.parametrize("method", ["regression", "cma-es", "bayesian"])
def test_all_methods_come_close(method):
    runs = 8_000
    if method == "bayesian":
        pytest.importorskip("sklearn")
        runs = 700
    answer = calibrate(waits_problem(), budget=Budget(runs), method=method, posterior=False)
    found = by_name(answer)
    assert answer.method == method
    assert answer.fit.after[-1].w1 < 0.25 * answer.fit.before[-1].w1
    assert found["delay"].low is None


def test_the_same_seed_gives_the_same_answer():
    answers = [calibrate(waits_problem(), budget=Budget(3_000), seed=4) for _ in range(2)]
    assert answers[0].estimates == answers[1].estimates
    other = calibrate(waits_problem(), budget=Budget(3_000), seed=5)
    assert other.estimates != answers[0].estimates


def test_a_calibration_goes_on_where_it_ended(tmp_path):
    state = tmp_path / "state.npz"
    whole = calibrate(waits_problem(), budget=Budget(3_000))
    simulated = [0]
    problem = waits_problem()

    def stopping(values, seed):
        simulated[0] += len(values)
        if simulated[0] > 900:
            raise OSError("the machine is switched off")
        return waits(values, seed)

    cut = CalibrationProblem("waits", WAITS, Case(problem.fit.observed, stopping), problem.held_back)
    with pytest.raises(OSError, match="switched off"):
        calibrate(cut, budget=Budget(3_000), state=state)
    spent = [0]

    def counting(values, seed):
        spent[0] += len(values)
        return waits(values, seed)

    rest = CalibrationProblem("waits", WAITS, Case(problem.fit.observed, counting), problem.held_back)
    again = calibrate(rest, budget=Budget(3_000), state=state)
    assert again.estimates == whole.estimates
    assert spent[0] < whole.runs - 600


def test_answers_about_other_data_are_not_taken(tmp_path):
    state = tmp_path / "state.npz"
    calibrate(waits_problem(seed=9), budget=Budget(1_000), posterior=False, state=state)
    other = calibrate(waits_problem(seed=30), budget=Budget(1_000), posterior=False, state=state)
    assert other.estimates == calibrate(waits_problem(seed=30), budget=Budget(1_000), posterior=False).estimates


def test_a_state_file_that_is_none_is_refused(tmp_path):
    state = tmp_path / "state.npz"
    state.write_text("nothing of the kind")
    with pytest.raises(DamagedError, match="delete it to begin anew"):
        calibrate(waits_problem(), budget=Budget(500), state=state)


def test_an_interrupted_search_answers_with_the_best_so_far():
    simulated = [0]

    def interrupted(values, seed):
        before, simulated[0] = simulated[0], simulated[0] + len(values)
        if before < 6_000 <= simulated[0]:  # once
            raise KeyboardInterrupt
        return waits(values, seed)

    problem = waits_problem()
    answer = calibrate(
        CalibrationProblem("waits", WAITS, Case(problem.fit.observed, interrupted)), budget=Budget(20_000)
    )
    assert answer.stopped == "interrupted"
    assert answer.fit.after[-1].w1 < answer.fit.before[-1].w1
    assert any("no data were held back" in warning for warning in answer.warnings)


def test_what_was_interrupted_before_its_search_has_fitted_nothing():
    simulated = [0]

    def interrupted(values, seed):
        before, simulated[0] = simulated[0], simulated[0] + len(values)
        if before < 100 <= simulated[0]:  # in the screen
            raise KeyboardInterrupt
        return waits(values, seed)

    problem = waits_problem()
    answer = calibrate(
        CalibrationProblem("waits", WAITS, Case(problem.fit.observed, interrupted)), budget=Budget(20_000)
    )
    assert answer.stopped == "interrupted"
    assert {one.verdict for one in answer.estimates} == {"fixed"}
    assert all(one.value == one.start for one in answer.estimates)


def test_the_time_left_counts_neither_compilation_nor_what_is_known(monkeypatch, tmp_path):
    now = [0.0]
    monkeypatch.setattr("cosim.twin.fitting.runs.time.monotonic", lambda: now[0])

    def slow_at_first(values, seed):
        now[0] += 1e-3 * len(values) + (600.0 if now[0] == 0.0 else 0.0)  # s
        return waits(values, seed)

    reported = []
    problem = CalibrationProblem("waits", WAITS, Case(waits_problem().fit.observed, slow_at_first))
    first, state = Budget(2_000), tmp_path / "state.npz"
    calibrate(problem, budget=first, progress=reported.append, state=state)
    known = [one.seconds_left for one in reported if np.isfinite(one.seconds_left)]
    assert known
    assert max(known) <= 2.0 + 1e-6
    reported.clear()
    calibrate(problem, budget=first, progress=reported.append, state=state)  # all of it from the file
    assert all(one.seconds_left in (0.0, np.inf) for one in reported[:-1])


def test_a_signal_of_weight_0_is_left_out_of_the_screen():
    given = power_problem()
    watts = given.fit.observed["power"]
    observed = {"power": watts, "told": MeasuredSignal(watts.values, "W", paired=True, weight=0.0)}

    def simulate(values, seed):
        return dict.fromkeys(observed, power(values, seed)["power"])

    rows = sensitivities(CalibrationProblem("power", POWER, Case(observed, simulate), deterministic=True))
    assert all(list(row.signals) == ["power"] for row in rows)
    assert [row.effect for row in rows] == [True, True, True, False]


def test_progress_is_told():
    reported = []
    calibrate(waits_problem(), budget=Budget(2_000, 60.0), progress=reported.append)
    assert list(dict.fromkeys(one.stage for one in reported)) == [
        "screen", "search", "posterior", "judgement",
    ]  # fmt: skip
    runs = [one.runs for one in reported]
    assert runs == sorted(runs)
    assert all(0.0 <= one.seconds_left <= 60.0 for one in reported)


def test_values_that_do_worse_elsewhere_are_told():
    right = Space([Parameter(p.name, p.low, p.high, scale=p.scale, start=v) for p, v in zip(
        WAITS.parameters, TRUE_WAITS[0], strict=True
    )])  # fmt: skip
    odd = {"response": MeasuredSignal(0.08 + 0.001 * np.random.default_rng(1).random(80), "s")}
    later, rows = waits_problem().held_back.observed, []

    def counted(values, seed):
        rows.append(len(values))
        return waits(values, seed)

    problem = CalibrationProblem("odd", right, Case(odd, counted), Case(later, counted))
    answer = calibrate(problem, budget=Budget(6_000))
    assert any("less with the data held back" in warning for warning in answer.warnings)
    assert answer.runs == sum(rows)  # with those that the warning took


def test_a_model_that_cannot_be_right_says_so():
    two = {"response": MeasuredSignal(np.repeat([0.06, 0.3], 40), "s")}
    answer = calibrate(CalibrationProblem("two", WAITS, Case(two, waits)), budget=Budget(6_000))
    assert answer.figures["widened"] > 1.5
    assert any("the model lacks a cause" in warning for warning in answer.warnings)


def test_a_method_that_does_not_fit_is_refused():
    with pytest.raises(ScenarioError, match="known: auto, least squares"):
        calibrate(waits_problem(), method="guessing")
    with pytest.raises(ScenarioError, match="not paired"):
        calibrate(waits_problem(), method="least squares", budget=Budget(2_000))


def test_categories_and_whole_numbers_are_found():
    space = Space(
        [
            Parameter("law", kind="category", choices=("linear", "square", "root")),
            Parameter("cores", 1, 8, kind="integer"),
            Parameter("work", 0.1, 10.0, scale="log"),
        ]
    )

    def model(values, seed):
        law, cores, work = values.T[:, :, None]
        load = np.where(law == 0, LOADS, np.where(law == 1, LOADS**2, np.sqrt(LOADS)))
        chance = np.random.default_rng(seed).standard_normal((2, len(LOADS)))
        return {"time": work * load / cores + 0.01 * chance[0], "idle": (8 - cores) + 0.1 * chance[1]}

    truth = model(np.array([[1.0, 5.0, 4.0]]), 77)
    observed = {"time": MeasuredSignal(truth["time"][0], paired=True), "idle": MeasuredSignal(truth["idle"][0])}
    found = by_name(calibrate(CalibrationProblem("mixed", space, Case(observed, model)), budget=Budget(12_000)))
    assert found["law"].value == "square"
    assert found["law"].low is None
    assert found["cores"].value == 5
    assert found["work"].value == pytest.approx(4.0, rel=0.05)


def test_a_budget_of_time_is_kept(monkeypatch):
    """With a clock that each run moves on by 10 ms, a budget of 20 s is about 2000 runs, whatever `cost` says."""
    now = [0.0]

    def slow(values, seed):
        now[0] += 0.01 * len(values)
        return waits(values, seed)

    monkeypatch.setattr("cosim.twin.fitting.runs.time.monotonic", lambda: now[0])
    monkeypatch.setattr("cosim.twin.fitting.runs.time.perf_counter", lambda: now[0])
    problem = waits_problem()
    answer = calibrate(CalibrationProblem("waits", WAITS, Case(problem.fit.observed, slow)), budget=Budget(10**6, 20.0))
    assert answer.stopped in ("budget of time", "converged")
    assert 12.0 < now[0] < 23.0
    assert by_name(answer)["delay"].low is not None


@pytest.mark.slow
def test_expensive_runs_get_intervals_from_few():
    pytest.importorskip("sklearn")
    dear = waits_problem()
    two = Space([p for p in WAITS.parameters if p.name in ("delay", "work")])
    dear = CalibrationProblem("waits", two, Case(dear.fit.observed, two_of_four), cost=2.0)
    answer = calibrate(dear, budget=Budget(250))
    found = by_name(answer)
    assert answer.method == "bayesian"
    assert answer.runs <= 250
    assert found["delay"].low <= 0.03 <= found["delay"].high
    assert found["work"].low <= 1e8 <= found["work"].high
    assert found["work"].high < 3.0 * found["work"].low


def two_of_four(values, seed):
    work, delay = values.T
    whole = np.repeat(TRUE_WAITS, len(values), axis=0)
    whole[:, 1], whole[:, 2] = work, delay
    return waits(whole, seed)


@pytest.mark.parametrize(("least", "reported"), [
    ((0.009,), 0), ((0.5,), 0), ((0.02, 0.002), 0), ((0.02, 0.0002), 1),
])  # fmt: skip
def test_few_simulations_with_nothing_to_report_near_the_level_are_followed_by_more(monkeypatch, least, reported):
    looks = []

    def looked(cases, draws, seeds):
        looks.append(len(draws))
        return Verdicts((), (f"look {len(looks) - 1}",), None, 0, 0.0, 0, least[len(looks) - 1])

    monkeypatch.setattr("cosim.twin.fitting.calibrate.verdict", looked)
    answer = calibrate(waits_problem(), budget=Budget(700))
    assert len(looks) == len(least)
    assert looks[-1] >= 2 * looks[0] or len(looks) == 1
    assert 2 * looks[-1] <= 700
    assert f"look {reported}" in answer.warnings


def test_a_budget_that_is_too_small_says_what_it_needs():
    answer = calibrate(waits_problem(), budget=Budget(60))
    assert any("no screen was made" in warning for warning in answer.warnings)
    assert any("there are no intervals" in warning for warning in answer.warnings)
    assert answer.runs <= 60 + 32 + 32  # choice and judgement are made in any case
    assert all(estimate.low is None for estimate in answer.estimates)
    answer = calibrate(power_problem(), budget=Budget(5))
    assert answer.stopped == "budget of runs"
    assert {estimate.verdict for estimate in answer.estimates} == {"fixed"}


def constant(values, seed):
    """Two services whose tasks all take the same time; with the start they take 3 s."""
    return {"a": np.repeat(values[:, :1] / 1e3, 40, axis=1), "b": np.repeat(values[:, 1:] / 1e3, 40, axis=1)}


@pytest.mark.parametrize("seed", [1, 4, 10])
@pytest.mark.parametrize("runs", [200, 300])
def test_what_the_data_exclude_is_not_gone_back_to_when_few_runs_are_left(seed, runs):
    random = np.random.default_rng(seed)
    observed = {
        name: MeasuredSignal(scale * random.lognormal(0.0, 1.0, 40), "s")
        for name, scale in (("a", 0.012), ("b", 0.004))
    }
    space = Space([Parameter(name, 0.1, 10_000.0, scale="log", unit="ms", start=3_000.0) for name in "ab"])
    problem = CalibrationProblem("constant", space, Case(observed, constant), deterministic=True)
    found = calibrate(problem, budget=Budget(runs=runs), seed=1)
    assert [one.verdict for one in found.estimates] == ["fitted", "fitted"]
    assert 3.0 < found.value("a") < 40.0
    assert 1.0 < found.value("b") < 15.0


def queue(values, seed):
    """Times (n, 60) in s that tasks spend at one server, of works from 1 % to 10,000 % of what it can do."""
    came = np.arange(60) * 0.1
    ended, times = np.zeros(len(values)), []
    for k, at in enumerate(came):
        ended = np.maximum(ended, at) + values[:, k % 2]
        times.append(ended - at)
    return {"time": np.stack(times, axis=1)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_start_far_away_does_not_use_up_a_small_budget(seed):
    space = Space([Parameter(name, 1e-4, 10.0, scale="log", unit="s", start=3.0) for name in ("first", "second")])
    rng = np.random.default_rng(seed)
    measured = queue(np.array([[0.011, 0.005]]), 0)["time"][0] * rng.gamma(20.0, 0.05, 60)
    case = Case({"time": MeasuredSignal(measured, "s", paired=True)}, queue)
    answer = calibrate(CalibrationProblem("queue", space, case, deterministic=True), budget=Budget(200), seed=seed)
    values = {one.name: one.value for one in answer.estimates}
    assert values["first"] == pytest.approx(0.011, rel=0.2)
    assert values["second"] == pytest.approx(0.005, rel=0.2)


def test_the_search_makes_the_distance_small_that_it_is_given():
    """Of a law that cannot fit, each distance has a best value of its own; a grid finds it."""
    measured = MeasuredSignal(np.array([0.1] * 30 + [1.0] * 10 + [8.0] * 5))
    even = (np.arange(200) + 0.5) / 200
    grid = np.linspace(0.5, 10.0, 1901)
    best = {}
    for distance in ("w1", "energy"):
        losses = Misfit({"size": measured}, distance).losses({"size": grid[:, None] * even})
        best[distance] = grid[np.argmin(losses)]
        case = Case({"size": measured}, lambda values, seed: {"size": values * even})
        problem = CalibrationProblem("even", Space([Parameter("top", 0.5, 10.0)]), case, distance=distance)
        found = calibrate(problem, budget=Budget(runs=600), method="cma-es", screen=False, posterior=False)
        assert found.value("top") == pytest.approx(best[distance], rel=0.02)
    assert abs(best["w1"] - best["energy"]) > 0.1 * best["w1"], best

"""Every fault that is put into sound telemetry is told or refused; sound telemetry raises nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.sources.tables.findings import as_warnings
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.space import Parameter, Prior, Space
from cosim.twin.telemetry.hygiene import HygieneRules, bounds, examine, examine_inputs, lag, share_of, vetted

NODES, ROWS = ("a", "b", "c"), 60


def telemetry(seed: int = 1, nodes: tuple[str, ...] = NODES) -> tuple[MeasuredSignal, np.ndarray]:
    """Power over a varying load, one row a second and node, and the load."""
    random = np.random.default_rng(seed)
    load = random.uniform(0, 1, len(nodes) * ROWS)
    power = 2.0 + 3.0 * load + random.normal(0, 0.05, len(load))
    times = np.tile(np.arange(ROWS, dtype=float), len(nodes))
    return MeasuredSignal(power, "W", times=times, groups=tuple(np.repeat(nodes, ROWS))), load


def with_values(signal: MeasuredSignal, values: np.ndarray, times: np.ndarray | None = None) -> MeasuredSignal:
    return MeasuredSignal(values, signal.unit, times=signal.times if times is None else times, groups=signal.groups)


@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=40)
def test_sound_telemetry_is_left_alone(seed):
    signal, load = telemetry(seed)
    cleaned, findings = examine({"power": signal}, parameters=3, loads={"power": load})
    assert findings == ()
    assert np.array_equal(cleaned["power"].values, signal.values)


# fault -> the kinds of finding that tell it
FAULTS = {
    "constant": {"lying node"}, "nan": {"no values", "missing values"}, "negative": {"lying node"},
    "some negative": {"impossible values"}, "infinite": {"impossible values"}, "outlier": {"outliers"},
    "stuck": {"stuck"}, "frozen clock": {"lying node"}, "clock stops": {"frozen time"}, "gap": {"gap"},
    "clock jumps back": {"time order"}, "other clock": {"period"}, "no time": {"time order"}, "shifted": {"clock"},
}  # fmt: skip


def inject(fault: str, node: int, random: np.random.Generator) -> MeasuredSignal:
    signal, _ = telemetry()
    values, times = signal.values.copy(), signal.times.copy()
    rows = slice(node * ROWS, (node + 1) * ROWS)
    some = node * ROWS + random.choice(np.arange(10, ROWS - 10), 4, replace=False)
    start = node * ROWS + int(random.integers(5, 20))
    if fault == "constant":
        values[rows] = random.uniform(0, 10)
    elif fault == "nan":
        values[rows] = np.nan
    elif fault == "negative":
        values[rows] *= -1.0
    elif fault == "some negative":
        values[some] = -random.uniform(0.01, 100)
    elif fault == "infinite":
        values[some] = np.inf
    elif fault == "outlier":
        values[some] *= random.uniform(20, 1000)
    elif fault == "stuck":
        values[start : start + 20] = values[start]
    elif fault == "frozen clock":
        times[rows] = random.uniform(0, 100)
    elif fault == "clock stops":
        times[start : start + 15] = times[start]
    elif fault == "gap":
        times[start : (node + 1) * ROWS] += random.uniform(5, 1000)
    elif fault == "clock jumps back":
        times[start : (node + 1) * ROWS] -= random.uniform(1.5, 3)
    elif fault == "other clock":
        times[rows] += random.choice([-1, 1]) * random.uniform(4, 1e9)
    elif fault == "shifted":
        values[rows] = np.roll(values[rows], random.choice([-1, 1]) * int(random.integers(1, 12)))
    elif fault == "no time":
        times[some] = np.nan
    return with_values(signal, values, times)


@pytest.mark.parametrize("fault", FAULTS)
@given(node=st.integers(0, 2), seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=25)
def test_every_fault_is_told_with_its_node(fault, node, seed):
    signal = inject(fault, node, np.random.default_rng(seed))
    cleaned, findings = examine({"power": signal}, parameters=3, loads={"power": telemetry()[1]})
    kinds = {finding.kind for finding in findings if NODES[node] in finding.subject or finding.kind == "missing values"}
    assert kinds & FAULTS[fault], findings
    others = [finding.subject for finding in findings if finding.subject not in (f"power of {NODES[node]}", "power")]
    assert not others
    left = cleaned["power"].values[node * ROWS : (node + 1) * ROWS]
    assert not (left < 0).any()
    assert not np.isinf(left).any()
    if FAULTS[fault] == {"lying node"}:
        assert np.isnan(left).all()


@pytest.mark.parametrize("fault", ["constant", "nan", "negative"])
def test_when_only_a_lying_node_was_measured_it_is_refused(fault):
    load = telemetry(nodes=("a",))[1]
    faulty = inject(fault, 0, np.random.default_rng(1))
    alone = MeasuredSignal(faulty.values[:ROWS], "W", times=faulty.times[:ROWS])
    with pytest.raises(ScenarioError, match="signal 'power' has no value that can be used"):
        examine({"power": alone}, loads={"power": load})


def test_fewer_data_are_told_and_too_few_are_refused():
    signal = MeasuredSignal(np.array([1.0, 2.0, 3.5, 2.5]), "W")
    _, findings = examine({"power": signal}, parameters=2)
    assert [finding.kind for finding in findings] == ["few rows"]
    with pytest.raises(ScenarioError, match="4 measured values cannot determine 3 parameters"):
        examine({"power": signal}, parameters=3)


def test_a_constant_without_a_load_is_told_and_kept():
    cleaned, findings = examine({"power": MeasuredSignal(np.full(40, 3.0), "W")})
    assert [finding.kind for finding in findings] == ["constant"]
    assert (cleaned["power"].values == 3.0).all()


def test_outliers_are_named_and_kept():
    signal, _ = telemetry()
    values = signal.values.copy()
    values[7] = 400.0
    cleaned, findings = examine({"power": with_values(signal, values)})
    assert [finding.kind for finding in findings] == ["outliers"]
    assert np.nanmax(cleaned["power"].values) == 400.0


def test_events_may_share_a_time_and_come_and_go():
    random = np.random.default_rng(5)
    nodes = np.repeat(["a", "b", "c"], 200)
    response = random.exponential(0.2, 600)
    bags = MeasuredSignal(response, "s", times=np.repeat(np.arange(60.0) * 10.0, 10), groups=tuple(nodes))
    cleaned, findings = examine({"response": bags})
    assert {finding.kind for finding in findings} <= {"frozen time", "period"}
    assert np.array_equal(cleaned["response"].values, response)
    alone = MeasuredSignal(response, "s", times=np.zeros(600))
    cleaned, findings = examine({"response": alone})
    assert [finding.kind for finding in findings] == ["frozen time"]
    assert np.array_equal(cleaned["response"].values, response)
    arrivals = np.concatenate([np.sort(random.uniform(0, 600, 200)) for _ in range(3)])
    assert examine({"response": MeasuredSignal(response, "s", times=arrivals, groups=tuple(nodes))})[1] == ()


def test_a_state_that_comes_back_is_no_fault_and_a_long_rest_is():
    random = np.random.default_rng(4)
    values = np.round(random.normal(200, 3, 600))  # a meter that counts in steps repeats values
    assert examine({"x": MeasuredSignal(values)})[1] == ()
    values[100:160] = 201.0
    assert [finding.kind for finding in examine({"x": MeasuredSignal(values)})[1]] == ["stuck"]
    busy = random.uniform(1, 2, 600)
    for start in (50, 200, 400):
        busy[start : start + 60] = 0.0
    assert "stuck" not in {finding.kind for finding in examine({"x": MeasuredSignal(busy)})[1]}


def test_a_long_tail_is_no_fault_and_what_is_beyond_it_is():
    times = np.random.default_rng(6).exponential(0.2, 5000)
    assert examine({"response": MeasuredSignal(times, "s")})[1] == ()
    times[9] = 500.0
    assert [finding.count for finding in examine({"response": MeasuredSignal(times, "s")})[1]] == [1]


@given(st.integers(0, 199), st.sampled_from([-1.0, 1.0]), st.integers(0, 100))
@settings(deadline=None)
def test_a_spike_in_a_smooth_course_is_seen(row, sign, seed):
    random = np.random.default_rng(seed)
    course = 20.0 + 5.0 * np.sin(np.arange(200) / 20.0) + random.normal(0, 0.1, 200)
    assert examine({"temperature": MeasuredSignal(course, "degC")})[1] == ()
    course[row] += sign * 4.0  # within the range of the series
    (finding,) = examine({"temperature": MeasuredSignal(course, "degC")})[1]
    assert (finding.kind, finding.count) == ("outliers", 1)
    assert f"the farthest {course[row]:g}" in finding.message


def test_a_series_that_jumps_has_no_spikes():
    random = np.random.default_rng(8)
    switched = np.where(random.random(300) < 0.3, 6.0, 2.0) + random.normal(0, 0.1, 300)
    counted = np.round(10 * np.sin(np.arange(300) / 30.0))
    assert examine({"x": MeasuredSignal(counted)})[1] == ()
    cleaned, (finding,) = examine({"x": MeasuredSignal(switched)})
    assert "two kinds of rows" in finding.message
    assert np.array_equal(cleaned["x"].values, switched)


def test_one_outlier_among_equal_values_is_seen():
    values = np.full(100, 2.0)
    values[50] = 900.0
    assert "outliers" in {finding.kind for finding in examine({"x": MeasuredSignal(values)})[1]}


def test_arrivals_at_random_have_no_gaps_until_there_is_one():
    times = np.cumsum(np.random.default_rng(1).exponential(1.0, 500))
    values = np.random.default_rng(2).normal(size=500)
    assert examine({"x": MeasuredSignal(values, times=times)})[1] == ()
    times[250:] += 300.0
    assert [finding.kind for finding in examine({"x": MeasuredSignal(values, times=times)})[1]] == ["gap"]


def test_bounds_follow_the_unit():
    assert bounds("W") == (0.0, np.inf)
    assert bounds("%") == (0.0, 100.0)
    assert bounds("dBm") == (-np.inf, np.inf)
    assert bounds("intervals") == (-np.inf, np.inf)


def test_many_findings_of_a_kind_are_told_together():
    nodes = tuple(f"uav-{k}" for k in range(12))
    signal, _ = telemetry(nodes=nodes)
    _, findings = examine(
        {"power": with_values(signal, -signal.values * (signal.times > 40))}, rules=HygieneRules(lying=0.9)
    )
    assert len([finding for finding in findings if finding.kind == "impossible values"]) == 12
    lines = as_warnings(findings)
    assert sum("are impossible" in line for line in lines) == 3
    assert any(line.startswith("9 more like the last one: power of uav-") for line in lines)


def a_problem(
    fit: MeasuredSignal, held_back: MeasuredSignal | None = None, parameters: int = 2, prior: Prior | None = None
) -> CalibrationProblem:
    def simulate(values, seed):
        return {"power": values[:, :1]}

    space = Space([Parameter(f"p{k}", prior=prior or Prior()) for k in range(parameters)])
    later = Case({"power": held_back}, simulate) if held_back is not None else None
    return CalibrationProblem("host", space, Case({"power": fit}, simulate), later, warnings=("read from a copy",))


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "shifted"])  # which needs the load
def test_no_problem_with_a_fault_is_fitted_in_silence(fault):
    sound, _ = telemetry()
    faulty = inject(fault, 1, np.random.default_rng(5))
    assert vetted(a_problem(sound, sound)).warnings == ("read from a copy",)
    problem = vetted(a_problem(faulty, sound))
    assert len(problem.warnings) > 1
    assert all(line.startswith("fitted data: power") for line in problem.warnings[1:])
    later = vetted(a_problem(sound, faulty))
    assert all(line.startswith("data held back: power") for line in later.warnings[1:])
    assert len(later.warnings) > 1


def test_too_few_measurements_are_refused_unless_a_prior_stands_in():
    few = MeasuredSignal(np.array([1.0, 2.0, 3.0]), "W")
    with pytest.raises(ScenarioError, match="3 measured values cannot determine 4 parameters"):
        vetted(a_problem(few, parameters=4))
    assert "only 3 values" in vetted(a_problem(few, parameters=4, prior=Prior("normal", 0.5, 0.1))).warnings[-1]


def test_held_back_data_that_are_no_data_are_told():
    sound, _ = telemetry()
    problem = vetted(a_problem(sound, MeasuredSignal(np.full(20, np.nan), "W")))
    assert problem.held_back is None
    assert "nothing could be held back" in problem.warnings[-1]
    assert vetted(problem).warnings == problem.warnings


def test_inputs_are_refused_where_they_are_broken_and_told_where_they_are_odd():
    random = np.random.default_rng(2)
    loads = random.uniform(0, 100, (80, 4)) ** 2 / 100
    effect = ("energy", 6000 + loads.sum(axis=1) + random.normal(0, 3, 80))
    assert examine_inputs("cpu", loads, "%", effect=effect) == ()
    still = loads.copy()
    still[:, 2] = 50.0
    (finding,) = examine_inputs("cpu", still, "%", nodes=["a", "b", "c", "d"])
    assert (finding.kind, finding.subject) == ("constant", "cpu of c")
    (finding,) = examine_inputs("cpu", np.roll(loads, 3, axis=0), "%", effect=effect)
    assert (finding.kind, finding.subject) == ("clock", "energy")
    assert "3 rows before" in finding.message
    for wrong in (-1.0, 101.0, np.nan, np.inf):
        broken = loads.copy()
        broken[7, 1] = wrong
        with pytest.raises(ScenarioError, match="cpu"):
            examine_inputs("cpu", broken, "%")
    assert examine_inputs("rate", loads[:, 0], "Hz") == ()
    burst = loads[:, 0].copy()
    burst[5] = 1e9
    assert [finding.kind for finding in examine_inputs("rate", burst, "Hz")] == ["outliers"]


@given(st.integers(-15, 15), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_a_lag_is_found_in_either_direction(rows, seed):
    random = np.random.default_rng(seed)
    cause = random.normal(size=120)
    effect = np.roll(cause, rows) + random.normal(0, 0.3, 120)
    found = lag(cause, effect)
    assert (found.rows if found else 0) == rows
    assert lag(cause, random.normal(size=120)) is None
    assert lag(cause, np.ones(120)) is None
    assert lag(cause[:20], effect[:20]) is None


def test_what_drifts_beside_its_load_is_told():
    random = np.random.default_rng(12)
    times = np.tile(np.arange(80.0), 2)
    load = random.random(160)
    power, groups = 4.0 + 3.0 * load**1.2 + 0.05 * random.standard_normal(160), ("a",) * 80 + ("b",) * 80
    drifting = power * np.where(np.arange(160) < 80, 1.0 + 0.15 * times / 80.0, 1.0)

    def as_warnings(values, loads):
        signal = MeasuredSignal(values, "W", times=times, groups=groups)
        return [str(f) for f in examine({"power": signal}, loads={"power": loads})[1]]

    assert as_warnings(power, load) == []
    (line,) = as_warnings(drifting, load)
    assert line.startswith("power of a: rises by 1")
    (line,) = as_warnings(power, np.where(np.arange(160) < 80, load, 100.0 * load))
    assert "percent and fractions" in line


def test_rows_that_a_sampler_lost_are_counted():
    random = np.random.default_rng(4)
    times = np.arange(200.0)
    kept = np.sort(random.choice(200, 170, replace=False))
    lost = int(np.ptp(times[kept])) + 1 - 170
    values = random.random(170)
    (found,) = examine({"power": MeasuredSignal(values, "W", times=times[kept])})[1]
    assert found.kind == "gap"
    assert found.count == lost
    assert not examine({"power": MeasuredSignal(values, "W", times=np.sort(200.0 * random.random(170)))})[1]


def test_what_a_load_is_a_share_of():
    assert [share_of(np.array(load)) for load in ([0.1, 1.0], [3.0, 97.5], [0.2, 3.8], [40.0, 390.0])] == [
        1.0, 100.0, None, None,
    ]  # fmt: skip


def test_a_few_values_at_one_end_were_cut_there():
    values = np.random.default_rng(6).exponential(size=700)
    assert not examine({"response": MeasuredSignal(values, "s")})[1]
    (found,) = examine({"response": MeasuredSignal(np.minimum(values, np.sort(values)[-7]), "s")})[1]
    assert (found.kind, found.count) == ("limit", 7)

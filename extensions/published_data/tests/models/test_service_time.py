"""Service-time functions: shapes, robustness, intervals; held-out error and coverage on measured run times."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.extensions.published_data.models.service_time import ServiceTime, fit, fit_all, table

DATA = Path(__file__).resolve().parents[4].parent / "shared" / "data" / "edge_power"


def rows(file: str) -> list[dict[str, str]]:
    """A measured table, or none of the tests that need it."""
    path = DATA / file
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as text:
        return list(csv.DictReader(text))


def held_out(x: np.ndarray, y: np.ndarray, seed: int = 0) -> tuple[ServiceTime, float, float]:
    """Fitted on one half: the function, its mean relative error on the other, coverage of its 90 % interval."""
    order = np.random.default_rng(seed).permutation(len(x))
    kept, out = order[::2], order[1::2]
    function = fit(x[kept], y[kept])
    low, high = function.interval(x[out])
    error = float(np.mean(np.abs(function.typical(x[out]) / y[out] - 1.0)))
    return function, error, float(np.mean((low <= y[out]) & (y[out] <= high)))


@pytest.mark.parametrize(
    ("law", "shape"),
    [
        (lambda x: 0.02 + 0 * x, "constant"),
        (lambda x: 0.01 + 3e-7 * x, "linear"),
        (lambda x: 0.01 + 2e-6 * np.abs(x - 27500.0), "piecewise"),  # falls, then rises
    ],
)
def test_the_shape_is_the_simplest_that_explains_the_runs(law, shape):
    random = np.random.default_rng(3)
    x = random.uniform(5000, 50000, 400)
    function = fit(x, law(x) * random.lognormal(0.0, 0.05, len(x)))
    assert function.shape == shape
    grid = np.linspace(6000, 49000, 9)
    assert function.typical(grid) == pytest.approx(law(grid), rel=0.04, abs=0.003)


def test_a_step_is_followed_by_the_monotone_shape_and_never_falls():
    random = np.random.default_rng(5)
    x = np.repeat([32.0, 64.0, 96.0, 128.0, 160.0, 192.0, 224.0], 40)
    truth = np.where(x < 80.0, 0.010, 0.030)  # as when a cache is too small
    function = fit(x, truth * random.lognormal(0.0, 0.03, len(x)))
    assert function.shape == "monotone"
    assert np.all(np.diff(function.typical(np.linspace(32, 224, 200))) >= 0.0)
    assert function.typical([64.0, 192.0]) == pytest.approx([0.010, 0.030], rel=0.02)


def test_noise_of_equal_seconds_is_told_from_noise_in_proportion():
    random = np.random.default_rng(2)
    x = random.uniform(1.0, 50.0, 600)
    assert fit(x, x + 5.0 + random.normal(0.0, 0.5, len(x))).noise == "additive"
    assert fit(x, (x + 5.0) * random.lognormal(0.0, 0.1, len(x))).noise == "multiplicative"


def test_outliers_move_the_function_little_and_are_counted():
    random = np.random.default_rng(8)
    x = random.choice([96.0, 160.0, 224.0], 300)
    truth = 1e-6 * x**2
    y = truth * random.lognormal(0.0, 0.03, len(x))
    y[:12] *= 40.0
    function = fit(x, y)
    assert function.outliers == 12
    assert function.typical([96.0, 160.0, 224.0]) == pytest.approx([0.009216, 0.0256, 0.050176], rel=0.03)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([20, 60, 300]), st.floats(0.01, 0.4))
def test_what_is_fitted_is_finite_above_zero_and_repeats(seed, count, sigma):
    random = np.random.default_rng(seed)
    x = random.choice(np.linspace(32, 256, 8), count)
    y = (0.001 + 1e-6 * x**1.7) * random.lognormal(0.0, sigma, count)
    function, again = fit(x, y), fit(x, y)
    grid = np.linspace(1, 1000, 50)
    assert np.all(function.typical(grid) > 0.0)
    low, high = function.interval(grid, 0.5)
    assert np.all(low <= high)
    assert np.all(low >= 0.0)
    assert np.all(np.isfinite(high))
    assert np.array_equal(function.typical(grid), again.typical(grid))
    drawn = function.draw(np.full(200, 128.0), (np.arange(200) + 0.5) / 200)
    assert np.all(drawn > 0.0)
    assert function.outside([1.0, 32.0, 300.0]).tolist()[::2] == [True, True]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31))
def test_a_line_scales_with_the_unit_of_time_and_of_size(seed):
    random = np.random.default_rng(seed)
    x = random.uniform(1.0, 10.0, 60)
    y = (1.0 + x) * random.lognormal(0.0, 0.1, 60)
    one, other = fit(x, y, ("linear",)), fit(1000.0 * x, 1e-3 * y, ("linear",))
    assert other.typical(1000.0 * x) == pytest.approx(1e-3 * one.typical(x), rel=1e-5)


def test_draws_follow_the_measured_scatter_and_become_cycles():
    random = np.random.default_rng(4)
    y = 0.05 * random.lognormal(0.0, 0.2, 2000)
    function = fit(np.ones(2000), y)
    quantiles = np.random.default_rng(1).random(20000)
    drawn = function.draw(np.ones(20000), quantiles)
    assert np.quantile(drawn, [0.05, 0.5, 0.95]) == pytest.approx(np.quantile(y, [0.05, 0.5, 0.95]), rel=0.02)
    assert function.mean(1.0) == pytest.approx(y.mean(), rel=0.01)
    assert function.cycles(np.ones(20000), quantiles, 2e9) == pytest.approx(2e9 * drawn)


def test_intervals_of_skewed_runs_cover_what_they_say():
    random = np.random.default_rng(11)
    covered = []
    for _ in range(40):  # laws as those of Raith et al.: a shifted log-normal with a long tail
        x = random.uniform(0.0, 1.0, 160)
        y = (0.4 + 0.2 * x) * (1.0 + 0.01 * random.lognormal(0.0, 1.5, 160))
        function = fit(x[:80], y[:80])
        low, high = function.interval(x[80:])
        covered.append(np.mean((low <= y[80:]) & (y[80:] <= high)))
    assert 0.87 <= np.mean(covered) <= 0.95


def test_few_runs_have_no_interval_and_wrong_ones_are_refused():
    function = fit([1.0, 2.0], [0.1, 0.2])
    assert np.isinf(function.interval([1.5])[1]).all()
    with pytest.raises(ScenarioError, match="two are needed"):
        fit([1.0, np.nan], [0.1, 0.2])
    with pytest.raises(ScenarioError, match="1 of 3 run times are not above 0"):
        fit([1.0, 2.0, 3.0], [0.1, -0.2, 0.3])
    with pytest.raises(ScenarioError, match="3 sizes and 2 run times"):
        fit([1.0, 2.0, 3.0], [0.1, 0.2])


def test_a_history_gives_a_function_per_service_and_edge():
    random = np.random.default_rng(6)
    services, edges = random.choice(["blur", "matmul"], 200), random.choice(["pi", "nuc"], 200)
    x = random.uniform(1.0, 4.0, 200)
    y = x * np.where(services == "blur", 0.1, 0.3) * np.where(edges == "pi", 4.0, 1.0)
    functions = fit_all(list(services), list(edges), x, y)
    assert set(functions) == {(s, e) for s in ("blur", "matmul") for e in ("pi", "nuc")}
    assert functions["matmul", "pi"].typical(2.0) == pytest.approx(2.4)
    listed = table(functions)
    assert [row["service"] for row in listed] == sorted(row["service"] for row in listed)
    assert all(row["low"] <= row["seconds"] <= row["high"] for row in listed)


def test_networks_on_a_processor_against_their_operations():
    found = rows("timm_inference/benchmark_infer_fp32_nchw_pt240_cpu_i7_12700h_dynamo.csv.gz")
    there = [row for row in found if row["infer_gmacs"] and row["infer_step_time"] and float(row["infer_gmacs"]) > 0]
    x = np.array([float(row["infer_gmacs"]) for row in there])
    y = np.array([float(row["infer_step_time"]) for row in there]) / 1e3
    _, error, coverage = held_out(x, y)
    assert error <= 0.20  # one function for all 1,400 networks
    assert 0.85 <= coverage <= 0.95
    vit = np.array([row["model"].startswith("vit") for row in there])
    _, error, coverage = held_out(x[vit], y[vit])
    assert error <= 0.08  # for one family
    assert 0.80 <= coverage <= 0.98


def test_face_detectors_on_an_image_that_was_not_seen():
    groups = defaultdict(list)
    for row in rows("rpi4_face_detection/rpi4_face_detection_times.csv"):
        groups[row["model"], row["threads"]].append(row)
    errors = []
    for members in groups.values():
        x = np.array([float(row["input_px"]) ** 2 for row in members])
        y = np.array([float(row["time_ms"]) for row in members]) / 1e3
        seen = np.array([row["image"] != "2" for row in members])
        errors.append(np.mean(np.abs(fit(x[seen], y[seen]).typical(x[~seen]) / y[~seen] - 1.0)))
    assert len(errors) == 16
    assert np.mean(errors) <= 0.05
    assert np.max(errors) <= 0.12


def test_microcontrollers_in_the_next_window():
    groups = defaultdict(list)
    for row in rows("mlperf_tiny/mlperf_tiny_v1_1.csv.gz"):
        if row["mode"] == "performance":
            groups[row["system"], row["task"]].append(float(row["runtime_s"]) / float(row["inferences"]))
    errors = [abs(fit(np.ones(len(y) - 1), y[:-1]).typical(1.0) / y[-1] - 1.0) for y in groups.values()]
    assert len(errors) > 100
    assert np.median(errors) <= 0.002
    assert np.quantile(errors, 0.95) <= 0.05


def test_functions_of_edge_devices_keep_their_published_laws():
    checked = 0
    for row in rows("edge_functions/function_times_devices_a.csv"):
        shape, place, scale = (float(row[f"lognorm_{name}"]) for name in ("shape", "loc", "scale"))
        random = np.random.default_rng(checked)
        drawn = place + scale * random.lognormal(0.0, shape, 4000)
        drawn = drawn[(drawn >= float(row["min_s"])) & (drawn <= float(row["max_s"])) & (drawn > 0.0)]
        if len(drawn) < 400:
            continue  # the fit lies outside of its own range
        function = fit(np.ones(200), drawn[:200])
        low, high = function.interval(1.0)
        assert 0.80 <= np.mean((low <= drawn[200:]) & (drawn[200:] <= high)) <= 0.98
        checked += 1
    assert checked > 30

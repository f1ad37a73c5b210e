"""The misfit against independent oracles: scipy's distances and plain loops."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.results.distances import coupling, energy_distance, wasserstein
from cosim.twin.fitting.misfit import Misfit, farther, gaps, noise_floor
from cosim.twin.problem import MeasuredSignal

stats = pytest.importorskip("scipy.stats")
DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "edge_power" / "simtune"

sample = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30).map(np.array)


@given(sample, sample)
@settings(deadline=None)
def test_distances_are_those_of_scipy(real, simulated):
    assert wasserstein(real, simulated)[0] == pytest.approx(
        stats.wasserstein_distance(real, simulated), rel=1e-9, abs=1e-9
    )
    squared = stats.energy_distance(real, simulated) ** 2  # the root would magnify rounding around 0
    assert energy_distance(real, simulated)[0] ** 2 == pytest.approx(squared, rel=1e-6, abs=1e-9)


@given(st.integers(1, 40), st.integers(1, 40))
def test_coupling_uses_each_sample_evenly(first, second):
    at, beside, widths = coupling(first, second)
    assert np.bincount(at, widths, first) == pytest.approx(np.full(first, 1 / first))
    assert np.bincount(beside, widths, second) == pytest.approx(np.full(second, 1 / second))


@given(sample, sample, st.floats(0.1, 10), st.floats(-100, 100))
@settings(deadline=None)
def test_distance_moves_with_the_samples(real, simulated, factor, shift):
    here = wasserstein(real, simulated)[0]
    assert wasserstein(simulated, real)[0] == pytest.approx(here, abs=1e-9)
    assert wasserstein(real * factor + shift, simulated * factor + shift)[0] == pytest.approx(here * factor, abs=1e-7)
    assert wasserstein(real, real + shift)[0] == pytest.approx(abs(shift), abs=1e-9)


def test_many_rows_are_as_one_by_one():
    random = np.random.default_rng(3)
    real, rows = random.normal(size=17), random.normal(1, 2, (9, 23))
    for distance in (wasserstein, energy_distance):
        assert distance(real, rows) == pytest.approx([distance(real, row)[0] for row in rows])


def test_parts_do_not_change_the_answer(monkeypatch):
    random = np.random.default_rng(3)
    real, rows = random.normal(size=17), random.normal(1, 2, (9, 23))
    whole = wasserstein(real, rows), energy_distance(real, rows)
    monkeypatch.setattr("cosim.results.distances._LARGEST", 50)
    assert np.array_equal(wasserstein(real, rows), whole[0])
    assert np.array_equal(energy_distance(real, rows), whole[1])


@pytest.mark.parametrize("distance", ["w1", "energy"])
def test_losses_are_the_weighted_mean_over_signals(distance):
    random = np.random.default_rng(1)
    paired = MeasuredSignal(np.array([1.0, np.nan, 3.0, 5.0]), paired=True, weight=3.0)
    free = MeasuredSignal(random.normal(size=12), weight=1.0)
    only_reported = MeasuredSignal(np.array([1.0, 2.0]), weight=0.0)
    simulated = {"a": random.normal(3, 1, (5, 4)), "b": random.normal(size=(5, 7))}
    simulated["a"][:, 1] = np.nan  # nothing was measured there
    losses = Misfit({"a": paired, "b": free, "c": only_reported}, distance).losses(simulated)
    for row in range(5):
        difference = simulated["a"][row, [0, 2, 3]] - np.array([1.0, 3.0, 5.0])
        first = np.sqrt(np.mean(difference**2)) / 4.0
        if distance == "w1":
            second = stats.wasserstein_distance(free.values, simulated["b"][row]) / free.span
        else:
            second = stats.energy_distance(free.values / free.span, simulated["b"][row] / free.span)
        assert losses[row] == pytest.approx(0.75 * first + 0.25 * second)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("distance", ["w1", "energy"])
def test_losses_of_a_row_do_not_depend_on_its_company(paired, distance):
    random = np.random.default_rng(3)
    real = random.normal(size=31)
    real[4] = np.nan
    misfit = Misfit({"a": MeasuredSignal(real, paired=paired)}, distance)
    rows = np.asfortranarray(random.normal(size=(64, 31)))
    alone = [misfit.losses({"a": row})[0] for row in rows]
    assert misfit.losses({"a": rows}).tolist() == alone
    assert misfit.losses({"a": rows[7:20]}).tolist() == alone[7:20]


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("distance", ["w1", "energy"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_failed_is_infinitely_far(paired, distance, bad):
    rows = np.tile([1.0, 2.0, 3.0], (3, 1))
    rows[1, 2] = bad
    losses = Misfit({"a": MeasuredSignal(np.array([1.0, 2.0, 4.0]), paired=paired)}, distance).losses({"a": rows})
    assert np.isinf(losses).tolist() == [False, True, False]
    reported = gaps({"a": MeasuredSignal(np.array([1.0, 2.0, 4.0]), paired=paired)}, {"a": rows})
    assert all(np.isinf(gap.w1) and np.isinf(gap.nrmse) and np.isinf(gap.g1) for gap in reported)


def test_how_much_farther_is_held_against_the_chance_of_the_measurement():
    """Of two normal laws as far from the truth neither is farther; the deviation is that over many measurements."""
    by, chance = [], []
    for seed in range(60):
        random = np.random.default_rng(seed)
        signal = MeasuredSignal(random.normal(size=200))
        misfit = Misfit({"a": signal})
        both = [misfit.left_out({"a": random.normal(at, 1.0, (1, 4000))}) for at in (-0.5, 0.5)]
        found = farther(*both)
        by.append(found[0] * signal.span)
        chance.append(found[1] * signal.span)
    assert abs(np.mean(by)) < 3.0 * np.std(by) / 60**0.5
    # A single simulation counts as a measurement of equal length, so with the root of two.
    assert np.mean(chance) == pytest.approx(2.0**0.5 * np.std(by), rel=0.25)


def test_runs_are_as_far_from_one_another_as_their_law_makes_them():
    random = np.random.default_rng(2)
    runs = [{"a": random.normal(size=(1, 300))} for _ in range(20)]
    signal = MeasuredSignal(random.normal(size=300))
    among = Misfit({"a": signal}).among(runs)
    pairs = [[stats.wasserstein_distance(a["a"][0], b["a"][0]) for b in runs if b is not a] for a in runs]
    assert among == pytest.approx(np.mean(pairs, axis=1) / signal.span)


def test_residuals_square_to_the_misfit():
    observed = {
        "a": MeasuredSignal(np.array([1.0, np.nan, 3.0]), paired=True, weight=2.0),
        "b": MeasuredSignal(np.array([10.0, 30.0, 20.0, 25.0]), paired=True),
    }
    simulated = {"a": np.array([[1.5, 9.0, 2.0]]), "b": np.array([[12.0, 20.0, 20.0, 31.0]])}
    residuals = Misfit(observed).residuals(simulated)
    assert residuals.shape == (1, 6)
    reported = {gap.signal: gap for gap in gaps(observed, simulated)}
    assert np.sum(residuals**2) == pytest.approx((2 * reported["a"].nrmse ** 2 + reported["b"].nrmse ** 2) / 3)


def test_residuals_refuse_a_signal_without_pairs():
    with pytest.raises(ScenarioError, match="signal 'a' is not paired"):
        Misfit({"a": MeasuredSignal(np.array([1.0, 2.0]))}).residuals({"a": np.array([[1.0, 2.0]])})


@pytest.mark.parametrize(
    ("observed", "simulated", "words"),
    [
        ({}, {}, "no measured signal counts"),
        ({"a": MeasuredSignal(np.array([1.0]), weight=0.0)}, {}, "no measured signal counts"),
        ({"a": MeasuredSignal(np.array([np.nan, np.nan]))}, {}, "signal 'a' has no measured value"),
        ({"a": MeasuredSignal(np.array([1.0, 2.0]))}, {"b": np.ones((1, 2))}, "has no signal 'a'; it has b"),
        (
            {"a": MeasuredSignal(np.array([1.0, 2.0]), paired=True)},
            {"a": np.ones((1, 3))},
            "2 measured values, 3 simulated",
        ),
        ({"a": MeasuredSignal(np.array([1.0, 2.0]))}, {"a": np.ones((1, 0))}, "has no values"),
    ],
)
def test_what_cannot_be_compared_is_refused(observed, simulated, words):
    with pytest.raises(ScenarioError, match=words):
        Misfit(observed).losses(simulated)


def test_gaps_of_paired_rows_follow_their_definitions():
    real, simulated = np.array([0.0, 4.0, 8.0, 10.0]), np.array([1.0, 4.0, 6.0, 13.0])
    other, beside = np.array([1.0, 3.0, 2.0, 2.0]), np.array([1.0, 1.0, 2.0, 3.0])
    observed = {"e": MeasuredSignal(real, "J", paired=True), "r": MeasuredSignal(other, paired=True)}
    energy, response, together = gaps(observed, {"e": simulated, "r": beside})
    assert energy.rmse == pytest.approx(np.sqrt((1 + 0 + 4 + 9) / 4))
    assert energy.nrmse == pytest.approx(energy.rmse / 10)
    assert energy.g1 == pytest.approx((1 + 0 + 2 + 3) / 4 / 10)
    assert energy.r2 == pytest.approx(1 - 14 / np.sum((real - 5.5) ** 2))
    assert (energy.unit, energy.count) == ("J", 4)
    assert together.signal == "all"
    lengths = [np.hypot((s - r) / 10, (b - o) / 2) for s, r, b, o in zip(simulated, real, beside, other, strict=True)]
    assert together.g1 == pytest.approx(np.mean(lengths))
    assert together.w1 == pytest.approx((energy.w1 + response.w1) / 2)


def test_gaps_of_unpaired_rows_compare_ranks():
    real, simulated = np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    (gap, _) = gaps({"a": MeasuredSignal(real)}, {"a": simulated})
    assert (gap.w1, gap.rmse, gap.r2) == (0.0, 0.0, 1.0)
    assert gap.g1 == pytest.approx((2 + 1 + 1) / 3 / 2)  # as the rows stand
    (gap, together) = gaps({"a": MeasuredSignal(real)}, {"a": np.array([1.0, 3.0])})
    assert np.isnan(gap.g1)
    assert np.isnan(together.g1)


def test_several_courses_in_a_row_are_blocks_of_g1():
    random = np.random.default_rng(9)
    observed = {"e": MeasuredSignal(random.normal(size=20)), "r": MeasuredSignal(random.normal(size=20))}
    blocks = {name: random.normal(size=(3, 20)) for name in observed}
    reported = gaps(observed, {name: rows.reshape(1, 60) for name, rows in blocks.items()})
    for gap, apart in zip(reported, gaps(observed, blocks), strict=True):
        assert gap.g1 == pytest.approx(apart.g1)
    assert np.isnan(gaps(observed, {**blocks, "r": random.normal(size=(1, 60))[:, :50]})[-1].g1)


def test_gaps_average_over_replicates():
    random = np.random.default_rng(5)
    observed = {"a": MeasuredSignal(random.normal(size=30))}
    rows = random.normal(size=(6, 30))
    each = [gaps(observed, {"a": row})[0] for row in rows]
    (gap, _) = gaps(observed, {"a": rows})
    assert gap.w1 == pytest.approx(np.mean([one.w1 for one in each]))
    assert gap.nrmse == pytest.approx(np.mean([one.nrmse for one in each]))
    assert gap.energy_distance == pytest.approx(np.mean([one.energy_distance for one in each]))


def test_floor_by_time_sees_a_drift_and_by_chance_does_not():
    values = np.linspace(0.0, 1.0, 100)
    assert noise_floor(MeasuredSignal(values)) == pytest.approx(50 / 99)
    assert noise_floor(MeasuredSignal(values, paired=True)) < 0.15
    assert np.isnan(noise_floor(MeasuredSignal(values[:1])))


def _column(name: str) -> np.ndarray:
    path = DATA / name
    with gzip.open(path, "rt") if name.endswith(".gz") else path.open() as stream:
        return np.array([[float(cell) for cell in row] for row in csv.reader(stream)])[:, 0]


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the SimTune files")
def test_published_traces_are_as_far_as_plain_formulas_say():
    """Blocks of 100 rows of the tuned simulator against rows 1 to 100 of the real trace."""
    energy, response = (_column(f"real_{name}_intervals_000_099.csv") for name in (
        "energytotalinterval", "avgresponsetime",
    ))  # fmt: skip
    simulated = {
        "energy": _column("sim_energytotalinterval.csv.gz").reshape(-1, 100),
        "response": _column("sim_avgresponsetime.csv.gz").reshape(-1, 100),
    }
    observed = {"energy": MeasuredSignal(energy, "J"), "response": MeasuredSignal(response)}
    first, second, together = gaps(observed, simulated)
    spans = float(np.ptp(energy)), float(np.ptp(response))
    assert first.w1 == pytest.approx(
        np.mean([np.mean(np.abs(np.sort(row) - np.sort(energy))) for row in simulated["energy"]]) / spans[0]
    )
    lengths = [
        np.hypot((e - energy[t]) / spans[0], (r - response[t]) / spans[1])
        for one, other in zip(simulated["energy"], simulated["response"], strict=True)
        for t, (e, r) in enumerate(zip(one, other, strict=True))
    ]
    assert together.g1 == pytest.approx(np.mean(lengths))
    assert together.g1 > 2.0 > first.floor  # the published result is far away, and the floor is not
    assert second.floor < 0.2

"""Intervals against analytic posteriors, and how often they hold the truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.twin.fitting.posterior import independent, laplace
from cosim.twin.fitting.summaries import Summaries
from cosim.twin.fitting.synthetic import Emulator, _Region, _without_itself, synthetic
from cosim.twin.problem import MeasuredSignal


def sampled(residuals, *rest, **settings):
    """`laplace` with the sums of squares of the same residuals."""
    return laplace(residuals, lambda u: (residuals(u) ** 2).sum(axis=1), *rest, **settings)


def test_a_linear_model_has_students_posterior():
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(1)
    design = random.standard_normal((20, 2))
    truth = np.array([0.45, 0.55])
    measured = design @ truth + 0.05 * random.standard_normal(20)
    best = np.linalg.lstsq(design, measured, rcond=None)[0]
    found = sampled(lambda u: u @ design.T - measured, best, random, runs=20_000, count=8_000)
    rest = measured - design @ best
    if independent(rest) < 20:
        pytest.skip("these residuals count as correlated")
    spread = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * (rest @ rest) / 18)
    low, high = found.interval()
    reach = stats.t(18).ppf(0.95) * spread
    assert found.method == "importance sampling"
    assert np.allclose(low, best - reach, atol=0.06 * reach.max())
    assert np.allclose(high, best + reach, atol=0.06 * reach.max())


def test_without_runs_for_proposals_the_normal_law_is_the_answer():
    random = np.random.default_rng(1)
    design = random.standard_normal((40, 2))
    measured = design @ np.array([0.4, 0.6]) + 0.05 * random.standard_normal(40)
    best = np.linalg.lstsq(design, measured, rcond=None)[0]
    brief = sampled(lambda u: u @ design.T - measured, best, random, runs=50)
    full = sampled(lambda u: u @ design.T - measured, best, random, runs=10_000)
    assert brief.method == "laplace"
    assert np.allclose(brief.interval(), full.interval(), atol=0.01)


def test_laplace_intervals_hold_the_truth():
    times = np.linspace(0.0, 3.0, 30)

    def model(units):
        return units[:, :1] * np.exp(-4.0 * units[:, 1:] * times)

    inside = 0
    for k in range(60):
        random = np.random.default_rng(100 + k)
        truth = random.uniform(0.2, 0.8, (1, 2))
        measured = model(truth)[0] + 0.02 * random.standard_normal(30)
        found = sampled(lambda u, m=measured: model(u) - m, truth[0], random, runs=3_000)
        low, high = found.interval()
        inside += int(((low <= truth[0]) & (truth[0] <= high)).sum())
    assert 0.83 <= inside / 120 <= 0.96


def test_correlated_errors_widen_the_interval():
    random = np.random.default_rng(3)
    white = random.standard_normal(4_000)
    slow = np.zeros(4_000)
    for k in range(1, 4_000):
        slow[k] = 0.8 * slow[k - 1] + white[k]
    assert independent(white) > 3_000
    assert independent(slow) == pytest.approx(4_000 * 0.2 / 1.8, rel=0.35)


@given(st.integers(0, 2**32 - 1), st.integers(2, 60))
@settings(max_examples=30, deadline=None)
def test_no_more_residuals_are_independent_than_there_are(seed, count):
    residuals = np.random.default_rng(seed).standard_normal(count)
    assert 0.0 < independent(residuals) <= count


def normal_draw(mean_of, sd, count):
    """Summaries of `count` normal values, exactly their mean's law."""

    def draw(units, first):
        random = np.random.default_rng([7, first])
        return mean_of(units) + sd / np.sqrt(count) * random.standard_normal((len(units), 2))

    return draw


def test_the_synthetic_posterior_of_a_normal_law_is_analytic():
    mixing = np.array([[1.0, 0.5], [0.0, 2.0]])
    observed = mixing @ np.array([0.4, 0.6])
    draw = normal_draw(lambda u: u @ mixing.T, 0.5, 100)
    found = synthetic(draw, observed, np.array([0.4, 0.6]), np.random.default_rng(1), runs=6_000, count=4_000)
    covariance = 0.05**2 * np.linalg.inv(mixing.T @ mixing)
    assert found.widened == 1.0
    assert np.allclose(found.units.mean(axis=0), [0.4, 0.6], atol=0.012)
    assert np.allclose(found.covariance, covariance, atol=0.2 * covariance.max())


def test_what_a_bound_cuts_off_is_cut_off():
    draw = normal_draw(lambda u: np.stack([u[:, 0], np.zeros(len(u))], axis=1), 1.0, 100)
    found = synthetic(draw, np.array([-0.05, 0.0]), np.array([0.0]), np.random.default_rng(1), runs=4_000, count=4_000)
    draws = -0.05 + 0.1 * np.random.default_rng(2).standard_normal(400_000)
    exact = np.quantile(draws[(draws > 0) & (draws < 1)], [0.05, 0.95])
    assert np.allclose(np.array(found.interval())[:, 0], exact, atol=0.02)


def test_a_parameter_without_effect_keeps_its_prior():
    draw = normal_draw(lambda u: np.stack([u[:, 0], u[:, 0]], axis=1), 0.5, 100)
    found = synthetic(draw, np.array([0.5, 0.5]), np.array([0.5, 0.5]), np.random.default_rng(1), runs=3_000)
    low, high = found.interval()
    assert high[1] - low[1] > 0.8
    assert high[0] - low[0] < 0.2


def test_data_that_the_model_cannot_make_widen_the_interval():
    draw = normal_draw(lambda u: np.stack([u[:, 0], u[:, 0]], axis=1), 0.5, 100)
    found = synthetic(draw, np.array([0.3, 0.9]), np.array([0.5]), np.random.default_rng(1), runs=3_000)
    assert found.widened > 5.0
    low, high = found.interval()
    assert high[0] - low[0] > 0.5


def test_simulations_that_fail_are_left_out_or_refused():
    def half(units, first):
        reported = normal_draw(lambda u: np.stack([u[:, 0], -u[:, 0]], axis=1), 0.5, 100)(units, first)
        reported[units[:, 0] > 0.6] = np.nan
        return reported

    found = synthetic(half, np.array([0.4, -0.4]), np.array([0.4]), np.random.default_rng(1), runs=2_000)
    assert found.interval()[0][0] < 0.4 < found.interval()[1][0]
    with pytest.raises(ValueError, match="runs around the best point"):
        synthetic(
            lambda u, first: np.full((len(u), 2), np.nan), np.zeros(2), np.array([0.4]), np.random.default_rng(1),
            runs=2_000,
        )  # fmt: skip


def queueing(units, seeds, tasks=120):
    """Times of tasks with a delay and work of random size: three parameters, all on other scales."""
    rows = []
    for unit, seed in zip(units, seeds, strict=True):
        random = np.random.default_rng(seed)
        work = 0.01 * 100.0 ** unit[1] * random.exponential(size=tasks)
        rows.append(0.2 * unit[0] + work * (1.0 + unit[2] * (random.random(tasks) < 0.5)))
    return {"response": np.array(rows)}


@pytest.mark.slow
def test_synthetic_intervals_hold_the_truth():
    inside, cases = np.zeros(2), 30
    for k in range(cases):
        random = np.random.default_rng(500 + k)
        truth = random.uniform(0.1, 0.9, 3)
        observed = queueing(truth[None], [10**6 + k])["response"][0]
        summaries = Summaries({"response": MeasuredSignal(observed)})

        def draw(units, first, k=k, summaries=summaries):
            return summaries.of(queueing(units, range(10_000 * k + first, 10_000 * k + first + len(units))))

        found = synthetic(draw, summaries.observed, truth, random, runs=2_000)
        low, high = found.interval()
        inside += ((low <= truth) & (truth <= high))[:2]
    assert ((inside / cases >= 0.78) & (inside / cases <= 1.0)).all()
    assert 0.8 <= inside.sum() / (2 * cases) <= 0.97


def test_summaries_leave_out_what_is_missing_and_what_has_no_weight():
    values = np.array([1.0, np.nan, 3.0, 4.0, 5.0, 9.0])
    kept = Summaries(
        {"a": MeasuredSignal(values), "b": MeasuredSignal(values, weight=0.0), "c": MeasuredSignal(values, paired=True)}
    )
    assert len(kept.observed) == 5 + 5  # of "a" mean, deviation and quartiles, of "c" its values
    whole = np.nan_to_num(values, nan=2.0)[None]
    assert np.isfinite(kept.observed).all()
    assert np.allclose(kept.of({"a": whole, "c": whole}), kept.observed)


def test_a_finite_measurement_has_chance_of_its_own():
    random = np.random.default_rng(1)
    many = [Summaries({"a": MeasuredSignal(10.0 + random.standard_normal(400))}) for _ in range(300)]
    scatter = many[0].of({"a": np.array([10.0 + random.standard_normal(400) for _ in range(1_000)])})
    law = {"a": 10.0 + random.standard_normal((1, 4_000))}
    for simulated in (None, law):
        reported = np.mean([one.sampling(random, simulated, 100)[0, 0] for one in many])
        assert reported == pytest.approx(scatter[:, 0].var(), rel=0.15)
    paired = Summaries({"a": MeasuredSignal(random.standard_normal(40), paired=True)})
    assert not paired.sampling(random).any()


def test_no_interval_is_narrower_than_the_sample_allows():
    """A simulator without chance knows the mean of an exponential law exactly; 200 values know it to 1 / sqrt(200)."""
    random = np.random.default_rng(4)
    count, levels = 200, (np.arange(200) + 0.5) / 200
    summaries = Summaries({"x": MeasuredSignal(random.permutation(-np.log(1.0 - levels)))})

    def draw(points, first):
        made = (0.5 + points[:, :1]) * -np.log(1.0 - levels)
        return summaries.of({"x": made * (1.0 + 1e-3 * np.random.default_rng(first).standard_normal((len(points), 1)))})

    at, settings_ = np.array([0.5]), {"runs": 2_400, "sample": lambda n: random.random((n, 1))}
    narrow = synthetic(draw, summaries.observed, at, np.random.default_rng(1), **settings_)
    found = synthetic(
        draw, summaries.observed, at, np.random.default_rng(1), sampling=summaries.sampling(random), **settings_
    )
    low, high = found.interval()
    bound = 2.0 * 1.645 * (0.5 + float(found.middle[0])) / np.sqrt(count)  # Cramer and Rao, of an exponential law
    assert np.diff(narrow.interval(), axis=0)[0, 0] < 0.5 * bound
    assert 0.85 * bound < high[0] - low[0] < 1.3 * bound


def test_rows_are_as_far_off_as_from_what_is_fitted_without_them():
    random = np.random.default_rng(14)
    terms = np.concatenate([np.ones((40, 1)), random.standard_normal((40, 2))], axis=1)
    rows = terms @ random.standard_normal((3, 6)) + random.standard_normal((40, 6))

    def fitted(some):
        lines = np.linalg.lstsq(terms[some], rows[some], rcond=None)[0]
        left = rows - terms @ lines
        return np.einsum("ij,ij->i", left @ np.linalg.inv(left[some].T @ left[some] / (some.sum() - 3)), left)

    without = [fitted(np.arange(40) != k)[k] for k in range(40)]
    found = _without_itself(terms, fitted(np.ones(40, np.bool_)))
    assert found == pytest.approx(without, rel=1e-6)
    assert np.mean(found) > 1.3 * np.mean(fitted(np.ones(40, np.bool_)))


def test_an_emulator_of_few_runs_knows_what_it_does_not_know():
    """100 runs show how 14 summaries vary together: the emulator expects a measurement to be as far off as it is."""
    random, squares = np.random.default_rng(15), []
    for _ in range(150):
        mixed = 0.3 * np.eye(14) + 0.15 * random.standard_normal((14, 14))
        slopes, places = random.standard_normal((2, 14)), random.random((101, 2))
        made = places @ slopes + random.standard_normal((101, 14)) @ mixed.T
        region = _Region(np.eye(2), np.zeros(2), np.ones(2))
        emulator = Emulator(region, places[1:], made[1:], made[0], np.zeros((14, 14)))
        # Widened without end, only the normalisation is left.
        likely, alone = (emulator.log_likelihood(places[:1], wide)[0] for wide in (1.0, 1e9))
        squares.append(2.0 * (alone - likely) / 2.0)
    assert 0.85 < np.mean(squares) < 1.2

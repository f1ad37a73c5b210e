"""Jobs by a law: a known law comes back, and a half of a real trace that was held back is met."""

from pathlib import Path

import numpy as np
import pytest

from cosim.extensions.gpu_cluster.cluster.engine.layout import WHOLE
from cosim.extensions.gpu_cluster.cluster.fitted import DAY, fit, fitted, philly_like
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs
from cosim.extensions.gpu_cluster.cluster.law import LEVELS, LawBlock, SizeBlock
from cosim.extensions.gpu_cluster.traces import read

TRACE = Path(__file__).resolve().parents[5] / "shared/data/gpu_cluster/philly/philly_jobs_before_2017-11-15.csv.gz"
EXPONENTIAL = [-np.log(1.0 - min(level, 0.9999)) for level in LEVELS]
TWO = [
    SizeBlock.si(weight=3.0, durations=[100.0 * one + 1.0 for one in EXPONENTIAL]),
    SizeBlock.si(weight=1.0, durations=[1000.0 * one + 1.0 for one in EXPONENTIAL], gpus=8),
]


def scores(values):
    """Normal scores, by scipy."""
    stats = pytest.importorskip("scipy.stats")
    return stats.norm.ppf((np.argsort(np.argsort(values)) + 0.5) / len(values))


def test_a_known_law_is_drawn_and_comes_back():
    stats = pytest.importorskip("scipy.stats")
    day = [1.0] * 12 + [3.0] * 12
    law = LawBlock.si(gaps=EXPONENTIAL, day=day, sizes=TWO, alike=[0.4, 0.99, 0.5, 0.9, 0.3])
    jobs = fitted(5, 40_000, 20.0, law)
    hours = np.bincount((jobs.arrival % DAY // 3600).astype(int), minlength=24)
    assert hours[12:].mean() / hours[:12].mean() == pytest.approx(3.0, rel=0.15)
    assert jobs.arrival[-1] == pytest.approx(20.0 * len(jobs), rel=0.1)
    large = jobs.gpus == 8
    assert large.mean() == pytest.approx(0.25, abs=0.02)
    assert stats.kstest(jobs.duration[~large], lambda x: 1.0 - np.exp(-(x - 1.0) / 100.0)).statistic < 0.03
    gap, again = fit(jobs)
    np.testing.assert_allclose(again.alike, law.alike, atol=0.06)
    assert gap == pytest.approx(20.0, rel=0.1)
    found = {one.gpus: one.weight for one in again.sizes}
    assert found == {1: pytest.approx(0.75, abs=0.02), 8: pytest.approx(0.25, abs=0.02)}
    np.testing.assert_allclose(again.sizes[1].durations[3:20], TWO[1].durations[3:20], rtol=0.12)
    equal = fitted(5, 40_000, 20.0, law)
    assert all(getattr(equal, name).tobytes() == getattr(jobs, name).tobytes() for name in jobs.__slots__)


def test_correlation_over_some_jobs_is_as_stated():
    law = LawBlock.si(gaps=EXPONENTIAL, sizes=TWO[:1], alike=[0.5, 0.98, 0.0, 0.0, 0.0])
    normal = scores(np.diff(fitted(1, 60_000, 1.0, law).arrival))
    for k in (1, 10, 40):
        assert np.mean(normal[k:] * normal[:-k]) == pytest.approx(0.5 * 0.98**k, abs=0.05)


def test_shares_of_a_gpu_are_sizes_of_their_own():
    rng = np.random.default_rng(1)
    milli = rng.choice([130, 500, WHOLE], 400)
    gap, law = fit(Jobs(np.cumsum(rng.exponential(5.0, 400)), np.ones(400, np.int64), np.full(400, 9.0), milli=milli))
    assert [one.milli for one in law.sizes] == [200, 500, 1000]
    assert set(fitted(2, 300, gap, law).milli.tolist()) == {200, 500, 1000}


def test_jobs_of_the_shipped_law_come_within_the_span_and_take_what_the_trace_takes():
    """11.3 GPU-hours a job in the half of Microsoft's trace that the law was not fitted to, 12.8 in the other."""
    hours = []
    for seed in range(20, 30):
        jobs = philly_like(seed, 20_000, 31.4 * DAY)
        assert (np.diff(jobs.arrival) >= 0.0).all()
        assert 0.0 <= jobs.arrival[0] < 0.1 * DAY
        assert 31.3 * DAY < jobs.arrival[-1] < 31.4 * DAY
        hours.append(float((jobs.gpus * jobs.duration).mean() / 3600.0))
    assert np.mean(hours) == pytest.approx(12.0, abs=2.0)


@pytest.mark.parametrize("count", [2, 3, 25])
def test_few_jobs_have_a_law_too(count):
    jobs = Jobs(np.arange(count) * 60.0, np.ones(count, np.int64), np.full(count, 7.0))
    made = fitted(1, 50, *fit(jobs))
    np.testing.assert_allclose(made.duration, 7.0, rtol=1e-9)
    assert made.arrival[-1] == pytest.approx(50 * 60.0, rel=0.05)


@pytest.mark.skipif(not TRACE.is_file(), reason="needs Microsoft's trace")
def test_the_half_of_a_trace_that_was_held_back_is_met_as_well_as_the_other_half_meets_it():
    """Kolmogorov's distance, by scipy, of drawn jobs is no more than that of the half that they were fitted to."""
    stats = pytest.importorskip("scipy.stats")
    trace = read("philly", TRACE)
    half = len(trace.arrival) // 2
    first, other = (
        Jobs(trace.arrival[rows] - trace.arrival[rows][0], trace.extra["gpus"][rows].astype(int), trace.duration[rows])
        for rows in (slice(half), slice(half, None))
    )
    drawn = fitted(1, len(other), *fit(first, trace.start))

    def apart(a, b):
        return {
            "gaps": stats.ks_2samp(np.diff(np.floor(a.arrival)), np.diff(b.arrival)).statistic,  # the trace has whole s
            "durations": stats.ks_2samp(a.duration, b.duration).statistic,
            "long": stats.ks_2samp(a.duration[a.gpus > 1], b.duration[b.gpus > 1]).statistic,
            "gpus": stats.ks_2samp(a.gpus, b.gpus).statistic,
        }

    floor, within = apart(first, other), apart(drawn, first)
    for jobs in (drawn, philly_like(1, len(other), other.arrival[-1])):
        ours = apart(jobs, other)
        assert all(ours[name] < floor[name] + 0.03 for name in ours), (ours, floor)
    assert within["durations"] < 0.1
    assert within["gpus"] < 0.01

"""The recovery job: its telemetry, its judgement, and a few of its truths."""

import numpy as np
import pytest

from benchmarks import twin_recovery as recovery
from cosim.twin.calibration import Calibration, Judgement, ParameterEstimate


@pytest.fixture(scope="module")
def twin():
    return recovery.Twin()


def test_truths_load_the_host_and_lie_inside():
    values = recovery.truths(8)
    load = recovery.DEVICES * values[:, 5] * values[:, 1] / values[:, 0] / recovery.CORES
    assert ((load > 0.1) & (load < 0.8)).all()
    assert np.array_equal(values, recovery.truths(8))
    units = recovery.SPACE.units(values)
    assert ((units > 0.05) & (units < 0.95)).all()


def test_only_work_over_clock_matters_and_the_price_does_not(twin):
    values = np.repeat(recovery.truths(1), 4, axis=0)
    values[1, :2] *= 1.3  # clock and work
    values[2, 6] = 0.9  # price
    values[3, 2] += 0.01  # delay
    reported = twin.simulate(values, 5)
    assert {name: rows.shape for name, rows in reported.items()} == {n: (4, s) for n, s in recovery.SIZES.items()}
    for rows in reported.values():
        assert np.allclose(rows[1], rows[0], rtol=1e-9)
        assert np.array_equal(rows[2], rows[0])
    assert not np.allclose(reported["response"][3], reported["response"][0])
    power = values[0, 3] + (values[0, 4] - values[0, 3]) * reported["load"][0]
    assert np.allclose(reported["power"][0], power, rtol=1e-6)


def made(low, verdict):
    """A calibration whose intervals begin at `low` and end above all truths."""
    estimates = tuple(
        ParameterEstimate(p.name, p.high, low, p.high, p.low, verdict=verdict[p.name])
        for p in recovery.SPACE.parameters
    )
    nothing = Judgement("", (), ())
    return Calibration("made", estimates, nothing, None, "none", 0, 0.0, 0.0, 1, "converged")


def test_the_judgement_counts_truths_inside_and_names():
    values = recovery.truths(2)
    right = dict.fromkeys(recovery.IDENTIFIABLE, "fitted") | {"clock": "correlated", "work": "correlated"}
    right["price"] = "no effect"
    wrong = right | {"work": "fitted"}
    reported = recovery.judge([made(0.0001, right), made(1e12, right)], values)
    assert reported["coverage"] == 0.5
    assert reported["named in all"]
    reported = recovery.judge([made(0.0001, right), made(0.0001, wrong)], values)
    assert reported["coverage"] == 1.0
    assert not reported["named in all"]
    assert reported["named"]["work"] == 0.5


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_truths_are_recovered():
    reported = recovery.run(None, None, quick=True)
    assert reported["coverage"] >= 0.75
    assert reported["named in all"]
    assert reported["after"] < 0.5 * reported["before"]
    assert reported["after"] < 1.2 * reported["noise floor"]

"""A twin that follows: a change is found within a few windows, and nothing is found where nothing changed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cosim.twin.calibration import Calibration, Judgement, ParameterEstimate
from cosim.twin.fitting.misfit import Misfit, gaps
from cosim.twin.online.windows import Drift, OnlineStudy, Span, WindowReport, spans
from cosim.twin.problem import CalibrationProblem, Case, Floats, MeasuredSignal
from cosim.twin.space import Parameter, Space

TASKS = 60  # per window
CHANGE = 10  # window


class World:
    """Service times: exponential around a mean that steps from 1 to 1.6 at window `CHANGE`, measured with noise.

    The twin replays the tasks (`sizes`) and knows neither the mean nor the noise.
    """

    def __init__(self, seed: int, *, step: bool) -> None:
        random = np.random.default_rng(seed)
        self.sizes = random.exponential(1.0, (40, TASKS))
        self.mean = np.where((np.arange(40) >= CHANGE) & step, 1.6, 1.0)[:, None]
        self.measured = self.mean * self.sizes * random.lognormal(0.0, 0.1, self.sizes.shape)

    def case(self, span: Span) -> Case:
        rows = slice(round(span[0]), round(span[1]))
        sizes, measured = self.sizes[rows].ravel(), self.measured[rows].ravel()

        def simulate(values: Floats, seed: int) -> dict[str, Floats]:
            return {"service": values[:, :1] * sizes}

        return Case({"service": MeasuredSignal(measured, "s", paired=True)}, simulate)


def search(problem: CalibrationProblem) -> Calibration:
    """The best of a fine grid; enough for one parameter."""
    grid = np.linspace(0.5, 3.0, 501)[:, None]
    found = grid[np.argmin(Misfit(problem.fit.observed).losses(problem.fit.simulate(grid, 1)))]
    reported = gaps(problem.fit.observed, problem.fit.simulate(found[None], 1))
    return Calibration(
        problem.name,
        (ParameterEstimate("mean", float(found[0]), None, None, 1.0),),
        Judgement("fit", reported, reported),
        None,
        "grid",
        501,
        0.0,
        0.0,
        1,
        "converged",
    )


def followed(seed: int, *, step: bool, start: float = 1.3) -> tuple[OnlineStudy, list[WindowReport]]:
    world = World(seed, step=step)
    space = Space([Parameter("mean", 0.5, 3.0, start=start)])
    twin = OnlineStudy("queue", space, world.case, search, last=4, deterministic=True)
    return twin, [twin.window(span) for span in spans(1.0, 30.0)]


@pytest.mark.parametrize("seed", range(8))
def test_a_step_is_found_and_learned(seed: int) -> None:
    twin, reports = followed(seed, step=True)
    drifts = [report.number for report in reports if report.drift]
    assert CHANGE <= drifts[0] <= CHANGE + 3
    adopted = [report for report in reports if report.act == "adopted"]
    assert len(adopted) >= 2
    assert adopted[0].number < CHANGE
    assert adopted[0].values["mean"] == pytest.approx(1.0, rel=0.1)
    assert adopted[1].number <= CHANGE + 6
    assert reports[-1].values["mean"] == pytest.approx(1.6, rel=0.1)
    judged = twin.adopted[-1].held_back
    assert judged is not None
    assert judged.after[0].nrmse < judged.before[0].nrmse


@pytest.mark.parametrize("seed", range(20))
def test_no_alarm_without_a_change(seed: int) -> None:
    _, reports = followed(seed, step=False)
    assert not any(report.drift for report in reports)
    assert reports[-1].values["mean"] == pytest.approx(1.0, rel=0.1)


def test_nothing_is_taken_into_use_that_the_next_window_does_not_like() -> None:
    world = World(3, step=False)

    def misled(problem: CalibrationProblem) -> Calibration:
        found = search(problem)
        return replace(found, estimates=(replace(found.estimates[0], value=2.5),))

    space = Space([Parameter("mean", 0.5, 3.0, start=1.0)])
    twin = OnlineStudy("queue", space, world.case, misled, last=2, deterministic=True)
    reports = [twin.window(span) for span in spans(1.0, 8.0)]
    assert [report.act for report in reports] == ["", "calibrated", "rejected", "", "", "", "", ""]
    assert not twin.adopted
    assert twin.values == {"mean": 1.0}


def test_windows_are_whole_and_none_is_looked_at_twice() -> None:
    assert list(spans(10.0, 35.0)) == [(0.0, 10.0), (10.0, 20.0), (20.0, 30.0)]
    assert list(spans(10.0, 40.0, done=3)) == [(30.0, 40.0)]
    assert list(spans(0.1, 0.3)) == [(0.0, 0.1), (0.1, 0.2), (0.2, pytest.approx(0.3))]


@pytest.mark.parametrize("make", [lambda: Drift(), lambda: Drift(threshold=4.0)])
def test_a_sum_grows_with_what_is_unusual_only(make: Callable[[], Drift]) -> None:
    drift = make()
    drift.restart([1.0, 1.1, 0.9, 1.0])
    for misfit in (1.0, 0.8, 1.1, 0.9) * 5:
        assert not drift.look(misfit)
    assert drift.begun == 0
    looked = [drift.look(2.0) for _ in range(3)]
    assert looked[-1]
    assert drift.begun == 3
    drift.restart([2.0, 2.0])
    assert not drift.look(2.1)
    assert not drift.look(float("nan"))
    assert drift.look(float("inf"))

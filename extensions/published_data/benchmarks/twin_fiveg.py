"""Throughput on days, and levels at altitudes, that the radio models have not seen; three baselines beside them.

Per-cell means fall back to the mean for cells that the fit part has not. A point that is best in
absolute error is a median, one that is best in squared error a mean: the radio model answers the first by
the square of its root, and the second with the variance of the roots added (smearing: Duan, "Smearing
estimate", JASA 78(383), 1983), gradient boosting with one model for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cosim.contract.errors import SetupError
from cosim.extensions.published_data import fiveg
from cosim.twin.calibration import Calibration
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.problem import CalibrationProblem, Floats
from cosim.twin.search import Budget

RUNS = 1_500
BOTH = tuple[Floats, Floats]  # predictions for absolute and for squared errors


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """The figures of both sets; drives below `held_back` are judged with all days below `data` as the fit."""
    if data is None:
        raise SetupError("this job reads drive tests: name their folder with --data")
    drives = fiveg.read_drives(data)
    days = sorted(set(drives.day.tolist()))
    pairs = [(drives.where(drives.day != day), drives.where(drives.day == day)) for day in days]
    if held_back is not None:
        pairs = [(drives, fiveg.read_drives(held_back))]
    elif quick:
        pairs = pairs[:1]
    rows: list[dict[str, object]] = []
    found: list[Calibration] = []
    predicted: list[tuple[Floats, dict[str, BOTH]]] = []
    for k, (fit, judged) in enumerate(pairs):
        problem = fiveg.throughput(fit, judged)
        found.append(calibrate(problem, budget=Budget(runs=RUNS), seed=1, posterior=k == len(pairs) - 1))
        curves = _throughputs(problem, found[-1], fit, judged)
        predicted.append((judged.throughput, curves))
        for day in sorted(set(judged.day.tolist())):
            of = judged.day == day
            there = {name: (absolute[of], squared[of]) for name, (absolute, squared) in curves.items()}
            rows += _errors(day, judged.throughput[of], there, roots=True)
    together = {name: _stacked([curves[name] for _, curves in predicted]) for name in predicted[0][1]}
    truth = np.concatenate([one for one, _ in predicted])
    summary = _errors("all judged days", truth, together, roots=True)
    fit_flights, judged_flights = _flights(data, held_back)
    problem = fiveg.level(fit_flights, judged_flights)
    found.append(calibrate(problem, budget=Budget(runs=RUNS), seed=1))
    levels = _errors("", judged_flights.level, _levels(problem, found[-1], fit_flights, judged_flights), roots=False)
    return {
        "throughput, Mbit/s": summary,
        "throughput by judged day": rows,
        "throughput, floor": [_floor(drives)],
        "RSRP from the air, dB": levels,
        "estimates": [
            {
                "set": answer.problem, "parameter": e.name, "value": float(e.value), "low": e.low, "high": e.high,
                "unit": e.unit, "verdict": e.verdict,
            }
            for answer in found[-2:] for e in answer.estimates
        ],
        "split": f"every day judged by the others of {', '.join(days)}" if held_back is None else "days held back",
        "parameters": len(found[0].estimates),
        "beats mean and per-cell mean": _beats(summary),
        "RSRP: beats mean and per-cell mean": _beats(levels),
        "throughput: over gradient boosting": _distance(summary),
        "RSRP: over gradient boosting": _distance(levels),
        "cpu_seconds": sum(answer.cpu_seconds for answer in found),
        "runs": sum(answer.runs for answer in found),
        "assumption": [*found[0].assumptions, *problem.assumptions],
        "warning": sorted({warning for answer in found for warning in answer.warnings}),
    }  # fmt: skip


def _flights(data: Path, held_back: Path | None) -> tuple[fiveg.AirLevels, fiveg.AirLevels]:
    """Those to fit and those to judge: the flights below `held_back` if there are any, else every other altitude."""
    if held_back is None or not any(held_back.rglob(fiveg.FLIGHTS)):
        return fiveg.alternate(fiveg.read_flights(data))
    return fiveg.read_flights(data), fiveg.read_flights(held_back)


def _throughputs(
    problem: CalibrationProblem, answer: Calibration, fit: fiveg.Drives, judged: fiveg.Drives
) -> dict[str, BOTH]:
    """Curve -> predictions (rows,) of the judged seconds."""
    values = np.array([[float(estimate.value) for estimate in answer.estimates]])
    assert problem.held_back is not None
    curves: dict[str, BOTH] = {}
    for name, point in (("before", problem.space.start[None]), ("after", values)):
        fitted = problem.fit.observed["throughput.root"].values
        left = problem.fit.simulate(point, 0)["throughput.root"][0] - fitted
        root = problem.held_back.simulate(point, 0)["throughput.root"][0]
        curves[name] = root**2, root**2 + float(left.var())
    curves["mean"] = _same(np.full(len(judged), fit.throughput.mean()))
    curves["per-cell mean"] = _same(_by_cell(fit.cell, fit.throughput, judged.cell))

    def features(drives: fiveg.Drives) -> Floats:
        s = drives.samples
        return np.column_stack([s.mode, s.snr, s.rsrp, s.speed, drives.others])

    curves["gradient boosting"] = _boosted(features(fit), fit.throughput, features(judged))
    where = [np.column_stack([d.position, d.samples.mode, d.samples.speed]) for d in (fit, judged)]
    curves["gradient boosting, by position"] = _boosted(where[0], fit.throughput, where[1])
    return curves


def _levels(
    problem: CalibrationProblem, answer: Calibration, fit: fiveg.AirLevels, judged: fiveg.AirLevels
) -> dict[str, BOTH]:
    """Curve -> predictions (rows,) of the judged levels."""
    values = np.array([[float(estimate.value) for estimate in answer.estimates]])
    assert problem.held_back is not None
    curves: dict[str, BOTH] = {}
    for name, point in (("before", problem.space.start[None]), ("after", values)):
        curves[name] = _same(problem.held_back.simulate(point, 0)["rsrp"][0])
    curves["mean"] = _same(np.full(len(judged.level), fit.level.mean()))
    curves["per-cell mean"] = _same(_by_cell(fit.seen.cell, fit.level, judged.seen.cell))

    def features(flights: fiveg.AirLevels) -> Floats:
        return np.column_stack([flights.seen.cell, flights.seen.distance, flights.seen.height])

    curves["gradient boosting"] = _boosted(features(fit), fit.level, features(judged))
    return curves


def _boosted(features: Floats, measured: Floats, asked: Floats) -> BOTH:
    """Gradient boosting on one thread: on a busy machine its threads wait for one another."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        absolute, squared = (
            HistGradientBoostingRegressor(loss=loss, random_state=1).fit(features, measured).predict(asked)
            for loss in ("absolute_error", "squared_error")
        )
    return absolute, squared


def _same(prediction: Floats) -> BOTH:
    return prediction, prediction


def _stacked(parts: list[BOTH]) -> BOTH:
    return np.concatenate([one for one, _ in parts]), np.concatenate([one for _, one in parts])


def _by_cell(cells: np.ndarray, measured: Floats, asked: np.ndarray) -> Floats:
    """Mean of each cell's measurements; that of all for a cell without."""
    means: Mapping[object, float] = {cell: float(measured[cells == cell].mean()) for cell in set(cells.tolist())}
    return np.array([means.get(cell, float(measured.mean())) for cell in asked.tolist()])


def _errors(judged: str, truth: Floats, curves: Mapping[str, BOTH], *, roots: bool) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, (absolute, squared) in curves.items():
        row: dict[str, object] = {"judged": judged} if judged else {}
        row |= {
            "curve": name,
            "mae": float(np.abs(absolute - truth).mean()),
            "rmse": float(np.sqrt(((squared - truth) ** 2).mean())),
        }
        if roots:
            logs = np.log10(1.0 + np.maximum(absolute, 0.0)) - np.log10(1.0 + truth)
            row["rmse of log10(1 + Mbit/s)"] = float(np.sqrt((logs**2).mean()))
        rows.append(row)
    return rows


def _beats(rows: list[dict[str, object]]) -> dict[str, bool]:
    by_curve = {row["curve"]: row for row in rows}
    return {
        error: all(float(str(by_curve["after"][error])) < float(str(by_curve[name][error])) for name in _SIMPLE)
        for error in ("mae", "rmse")
    }


def _distance(rows: list[dict[str, object]]) -> dict[str, float]:
    """Error of the model over that of gradient boosting on the same features, less 1."""
    by_curve = {row["curve"]: row for row in rows}
    return {
        error: float(str(by_curve["after"][error])) / float(str(by_curve["gradient boosting"][error])) - 1.0
        for error in ("mae", "rmse")
    }


_SIMPLE = ("mean", "per-cell mean")


def _floor(drives: fiveg.Drives) -> dict[str, object]:
    """What a second differs by from the mean of its neighbours: what changes from second to second by chance."""
    near = 0.5 * (drives.throughput[:-2] + drives.throughput[2:])
    away = drives.throughput[1:-1] - near
    return {"mae of a second to its neighbours": float(np.abs(away).mean()), "rmse": float(np.sqrt((away**2).mean()))}

"""Voltages in flights that the battery's calibration has not seen, from their first seconds or from rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cosim.contract.errors import SetupError
from cosim.extensions.published_data import battery
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.problem import Case, Floats
from cosim.twin.search import Budget

RUNS = 4_000


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """The figures with and without each flight's own first seconds; flights of `held_back` are judged only."""
    if data is None:
        raise SetupError("this job reads flight logs: name their folder with --data")
    flights, left_out = battery.read(data)
    fit, judged = (flights, battery.read(held_back)[0]) if held_back else (flights[::2], flights[1::2])
    rows: list[dict[str, object]] = []
    estimates: list[dict[str, object]] = []
    seconds, runs = 0.0, 0
    warnings = set(left_out)
    for seen in (battery.SEEN, 0.0):
        problem = battery.problem(fit, judged, seen=seen)
        problem.fit.simulate(problem.space.start[None], 0)  # machine code is made or loaded here
        # From rest alone flights differ by more than the model can tell, and intervals say nothing.
        answer = calibrate(problem, budget=Budget(runs=RUNS // 4 if quick else RUNS), seed=1, posterior=seen > 0.0)
        seconds, runs = seconds + answer.cpu_seconds, runs + answer.runs
        warnings |= set(answer.warnings)
        after = np.array([[float(estimate.value) for estimate in answer.estimates]])
        assert problem.held_back is not None
        known = f"first {seen:g} s" if seen else "voltage at rest"
        for name, values in (("before", problem.space.start[None]), ("after", after)):
            rows.append({"known of a flight": known, "curve": name, **_errors(problem.held_back, values)})
        rows.append({"known of a flight": known, "curve": "fit part, after", **_errors(problem.fit, after)})
        if seen:
            rows.append({"known of a flight": known, "curve": "stays as it was", **_last(judged, problem.held_back)})
        estimates += [
            {
                "known of a flight": known, "parameter": estimate.name, "value": float(estimate.value),
                "low": estimate.low, "high": estimate.high, "unit": estimate.unit, "verdict": estimate.verdict,
            }
            for estimate in answer.estimates
        ]  # fmt: skip
    return {
        "flights judged": rows,
        "estimates": estimates,
        "floor (V)": _floor(judged),
        "split": f"{len(fit)} flights fitted, {len(judged)} judged" + ("" if held_back else ", by turns"),
        "cpu_seconds": seconds,
        "runs": runs,
        "assumption": list(battery.problem(fit, judged).assumptions),
        "warning": sorted(warnings),
    }


def _errors(case: Case, values: Floats) -> dict[str, object]:
    """Errors in V over all seconds, by flight, and at the end of the flights."""
    predicted = {name: rows[0] for name, rows in case.simulate(values, 1).items()}
    return _figures(predicted["voltage"], predicted["end"], case)


def _figures(voltage: Floats, end: Floats, case: Case) -> dict[str, object]:
    observed = case.observed["voltage"]
    away = voltage - observed.values
    groups = np.array(observed.groups)
    each = [float(np.sqrt(np.nanmean(away[groups == name] ** 2))) for name in dict.fromkeys(observed.groups or ())]
    spread = observed.values[np.isfinite(observed.values)]
    last = end - case.observed["end"].values
    return {
        "mae (V)": float(np.nanmean(np.abs(away))),
        "rmse (V)": float(np.sqrt(np.nanmean(away**2))),
        "nrmse": float(np.sqrt(np.nanmean(away**2)) / observed.span),
        "r2": float(1.0 - np.nanmean(away**2) / spread.var()),
        "worst flight (V)": max(each),
        "rmse at the end (V)": float(np.sqrt((last**2).mean())),
    }


def _last(flights: list[battery.BatteryFlight], case: Case) -> dict[str, object]:
    """A voltage that stays what it was in the last seconds that are known."""
    observed = case.observed["voltage"]
    groups = np.array(observed.groups)
    voltage = np.empty(len(groups))
    end = []
    for flight in flights:
        here = groups == flight.name
        first = int(np.argmax(np.isfinite(observed.values[here])))
        known = flight.voltage[: first * 10][-30:].mean()
        voltage[here] = known
        end.append(known)
    return _figures(voltage, np.array(end), case)


def _floor(flights: list[battery.BatteryFlight]) -> float:
    """V: what successive seconds differ by without their trend, over the root of 2; no smooth model is nearer."""
    changes = [np.diff(f.voltage[100 : len(f.voltage) // 10 * 10].reshape(-1, 10).mean(axis=1)) for f in flights]
    return float(np.concatenate([change - change.mean() for change in changes]).std() / np.sqrt(2.0))

"""Edge nodes under loads that the twin was not fitted on.

`data` holds a measurement by `benchmarks.edge_telemetry`; without one the recording of the scenario
calibrate-edge serves. The windows below `held_back` are judged instead of the measurement's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.published_data import edge
from cosim.extensions.published_data.edge import REPLICATES, Twin, cells
from cosim.extensions.published_data.edge_telemetry import Telemetry
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.search.meter import Budget

RECORDING = Path(__file__).resolve().parents[1] / "scenarios" / "calibrate-edge" / "recording"
TARGETS = {"mape_mean": 0.10, "mape_p95": 0.20}
COVERAGE = (0.80, 0.97)
Floats = NDArray[np.float64]
LEVEL = 0.9


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """The errors of predicted mean and 95th percentile by (node, service, load), before and after calibration."""
    telemetry = _measured(data, held_back)
    of = edge.twin(telemetry)
    problem = edge.problem(of)
    answer = calibrate(problem, budget=Budget(runs=600 if quick else 6000, seconds=120.0), seed=1)
    values = problem.space.start.copy()
    for k, estimate in enumerate(answer.estimates):
        values[k] = float(estimate.value)
    before, after = judge(of, problem.space.start), judge(of, values)
    figures, floor = after.figures(), repeated(telemetry)
    return {
        "loads": _rows(before, after),
        "values": [
            {
                "name": e.name,
                "start": e.start,
                "value": e.value,
                "low": e.low,
                "high": e.high,
                "verdict": e.verdict,
            }
            for e in answer.estimates
        ],
        "before": before.figures(),
        "after": figures,
        "floor": floor,
        "fit": judge(of, values, "fit").figures(),
        "met": {
            **{name: figures[name] <= target for name, target in TARGETS.items()},
            "coverage": COVERAGE[0] <= figures["coverage"] <= COVERAGE[1],
        },
        "requests_fitted": len(telemetry.of("fit").window),
        "requests_held_back": len(telemetry.of("held-back").window),
        "cpu_seconds": answer.cpu_seconds,
        "runs": answer.runs,
        "method": answer.method,
        "data": str(telemetry.source),
        "split": "fitted on the loads of the part 'fit'; judged by those of 'held-back', which nothing was chosen by",
        "assumptions": list(answer.assumptions),
        "warnings": list(answer.warnings),
    }


def _measured(data: Path | None, held_back: Path | None) -> Telemetry:
    """The measurement below `data`, else the scenario's recording."""
    there = data is not None and any(data.rglob("windows.csv"))
    return edge.measured(data if data is not None and there else RECORDING, held_back)


def _rows(before: EdgePrediction, after: EdgePrediction) -> list[dict[str, object]]:
    """A record per (node, service, load)."""
    rows: list[dict[str, object]] = []
    for k, name in enumerate(after.names):
        node, service, load = name.split(" ")
        rows.append({
            "node": node, "service": service, "load": load, "requests": int(after.count[k]),
            "mean (ms)": 1e3 * after.mean[k],
            "before": 1e3 * before.predicted_mean[k],
            "after": 1e3 * after.predicted_mean[k],
            "error": float(np.abs(after.predicted_mean[k] / after.mean[k] - 1.0)),
            "p95 (ms)": 1e3 * after.p95[k],
            "p95 before": 1e3 * before.predicted_p95[k],
            "p95 after": 1e3 * after.predicted_p95[k],
            "p95 error": float(np.abs(after.predicted_p95[k] / after.p95[k] - 1.0)),
            "coverage": float(after.coverage[k]),
        })  # fmt: skip
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class EdgePrediction:
    """(cells,) figures in s of each (node, service, load), and the requests' intervals (n,)."""

    names: tuple[str, ...]
    count: NDArray[np.int64]
    mean: Floats
    p95: Floats
    predicted_mean: Floats
    predicted_p95: Floats
    covered: NDArray[np.bool_]  # (n,) which requests lie in their interval
    coverage: Floats  # by cell

    def figures(self) -> Mapping[str, float]:
        """Mean absolute percentage errors of mean and 95th percentile, and the coverage, all as shares."""
        return {
            "mape_mean": float(np.mean(np.abs(self.predicted_mean / self.mean - 1.0))),
            "mape_p95": float(np.mean(np.abs(self.predicted_p95 / self.p95 - 1.0))),
            "coverage": float(self.covered.mean()),
        }


def simulated(of: Twin, part: Telemetry, values: Floats, seed: int, replicates: int = REPLICATES) -> Floats:
    """(replicates, n) s of response of the part's requests, with other single runs every time."""
    replay = of.replay(part)
    return np.stack([of.run(replay, values, seed + 1 + k)[1] for k in range(replicates)])


def margin(of: Twin, values: Floats, seed: int, level: float = LEVEL) -> float:
    """By which factor intervals have to be wider to cover `level` of the requests of the fit.

    Conformalised quantile regression (Romano, Patterson, Candes 2019) on the logarithm of the response: the
    quantile of how far measured responses lie outside of the simulated interval, negative when inside.
    """
    fit = of.telemetry.of("fit")
    low, high = _bounds(simulated(of, fit, values, seed), level)
    outside = np.maximum(np.log(low) - np.log(fit.response), np.log(fit.response) - np.log(high))
    rank = min(1.0, np.ceil((len(outside) + 1) * level) / len(outside))
    return float(np.exp(np.quantile(outside, rank, method="higher")))


def judge(of: Twin, values: Floats, part: str = "held-back", *, seed: int = 1, level: float = LEVEL) -> EdgePrediction:
    """The prediction of the twin with these values (d,) for a part, beside the measurements."""
    chosen = of.telemetry.of(part)
    groups = cells(chosen, sizes=False)
    responses = simulated(of, chosen, values, seed)
    low, high = _bounds(responses, level)
    factor = margin(of, values, seed, level)
    covered = (low / factor <= chosen.response) & (chosen.response <= high * factor)
    return EdgePrediction(
        groups.names,
        np.array([len(rows) for rows in groups.rows]),
        groups.take(chosen.response),
        groups.take(chosen.response, 0.95),
        np.mean([groups.take(row) for row in responses], axis=0),
        np.mean([groups.take(row, 0.95) for row in responses], axis=0),
        covered,
        groups.take(covered.astype(np.float64)),
    )


def repeated(telemetry: Telemetry) -> Mapping[str, float]:
    """The errors of one measurement as the prediction of another one of the same requests: the noise floor.

    Empty without windows that were measured twice.
    """
    again, first = telemetry.of("repeat"), telemetry.of("held-back")
    one, two = cells(first, sizes=False), cells(again, sizes=False)
    both = [name for name in one.names if name in two.names]
    if not both:
        return {}
    a = [one.names.index(name) for name in both]
    b = [two.names.index(name) for name in both]
    found = {}
    for figure, level in (("mape_mean", None), ("mape_p95", 0.95)):
        here, there = one.take(first.response, level)[a], two.take(again.response, level)[b]
        found[figure] = float(np.mean(np.abs(there / here - 1.0)))
    return found


def _bounds(responses: Floats, level: float) -> tuple[Floats, Floats]:
    low, high = np.quantile(responses, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    return low, high

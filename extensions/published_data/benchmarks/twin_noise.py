"""Noise of virtual machines in runs that the law of work has not seen: later runs, and those of another machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cosim.contract.errors import SetupError
from cosim.extensions.published_data import noise
from cosim.sources.tables.published import find
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.problem import Floats
from cosim.twin.search import Budget

RUNS = 600
FINE = (np.arange(2000) + 0.5) / 2000


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """The figures of every benchmark below `data`; runs below `held_back` are judged instead of later ones."""
    if data is None:
        raise SetupError("this job reads scores of machines: name their folder with --data")
    rows: list[dict[str, object]] = []
    estimates: list[dict[str, object]] = []
    seconds, runs = 0.0, 0
    paths = find(data, *noise.FILES)
    for path in paths[::5] if quick else paths:
        name = path.name.split(".")[0]
        machine = noise.read(data, name)[-1].machine
        for what in ({"held_back": str(held_back)},) if held_back else ({}, {"machine": machine}):
            fit, judged = noise.parts(data, {"benchmark": name, **what})
            problem = noise.problem(fit, judged, name)
            answer = calibrate(problem, budget=Budget(runs=RUNS), seed=1, posterior=False)
            seconds, runs = seconds + answer.cpu_seconds, runs + answer.runs
            values = np.array([[float(estimate.value) for estimate in answer.estimates]])
            known, unknown = np.concatenate(fit), np.concatenate(judged)
            normal = np.random.default_rng(1).normal(known.mean(), known.std(), 100_000)
            law = np.interp(FINE, noise.LEVELS, noise.law(values)[0])
            for curve, times in zip(CURVES, (np.ones(1), np.quantile(normal, FINE), law, known), strict=True):
                rows.append({"benchmark": name, "judged": next(iter(what), "later runs"), "curve": curve})
                rows[-1] |= _errors(times, unknown)
            estimates.append({"benchmark": name, "judged": rows[-1]["judged"]})
            estimates[-1] |= {estimate.name: float(estimate.value) for estimate in answer.estimates}
    return {
        "times over typical times": rows,
        "estimates": estimates,
        "all": [
            {
                "curve": curve,
                **{key: float(np.mean([row[key] for row in rows if row["curve"] == curve])) for key in KEYS},
            }
            for curve in dict.fromkeys(row["curve"] for row in rows)
        ],
        "cpu_seconds": seconds,
        "runs": runs,
    }


CURVES = ("no noise", "normal law", "law of work", "the fitted runs")
KEYS = ("W1 (%)", "p95 off (%)", "in the 90 % interval")


def _errors(predicted: Floats, judged: Floats) -> dict[str, float]:
    """Distance of the distributions and of their 95 % quantiles, in percent of the typical time, and coverage."""
    low, high = np.quantile(predicted, (0.05, 0.95))
    return {
        KEYS[0]: 100.0 * float(np.abs(np.quantile(predicted, FINE) - np.quantile(judged, FINE)).mean()),
        KEYS[1]: 100.0 * abs(float(high - np.quantile(judged, 0.95))),
        KEYS[2]: float(((judged >= low) & (judged <= high)).mean()),
    }


def _mean(curve: str, rows: list[dict[str, object]]) -> dict[str, object]:
    return {"curve": curve, **{key: float(np.mean([row[key] for row in rows])) for key in KEYS}}

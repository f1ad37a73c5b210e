"""Figures of signals as measured and as the posterior of a calibration predicts them."""

from __future__ import annotations

import numpy as np

from cosim.twin.calibration import Calibration
from cosim.twin.problem import Case


def predictive(case: Case, answer: Calibration, *, count: int = 200, seed: int = 1) -> list[dict[str, object]]:
    """Of each signal that is not paired: mean and 95th percentile as measured and as predicted, with 90 % bands.

    Every prediction is a run with a draw of the posterior under a seed of its own.
    """
    draws = np.array(answer.draws, np.float64)
    if not len(draws):
        return []
    words = np.random.SeedSequence([seed, 0x70726564]).generate_state(count, np.uint64) >> np.uint64(1)
    runs = [case.simulate(draws[k % len(draws)][None], int(words[k])) for k in range(count)]
    rows: list[dict[str, object]] = []
    for name, signal in case.observed.items():
        if signal.paired:
            continue
        real = signal.values[np.isfinite(signal.values)]
        made = [np.asarray(run[name], np.float64)[0] for run in runs]
        made = [row[np.isfinite(row)] for row in made]
        made = [row for row in made if len(row)]
        if not made or not len(real):
            continue
        for figure, of in (("mean", np.mean), ("p95", lambda values: np.quantile(values, 0.95))):
            predicted = np.array([float(of(row)) for row in made])
            low, middle, high = np.quantile(predicted, [0.05, 0.5, 0.95])
            measured = float(of(real))
            rows.append({
                "signal": name, "figure": figure, "measured": measured, "predicted": float(middle), "low": float(low),
                "high": float(high), "inside": bool(low <= measured <= high), "off": float(middle / measured - 1.0),
            })  # fmt: skip
    return rows

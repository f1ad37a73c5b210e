"""Forecasts of what the tasks of a workload will ask for, from what they have asked for so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cosim.contract.records import Floats
from cosim.schedulers.state import State

Forecast = Callable[[Sequence[float]], float]
KEPT = 24  # intervals


def arima(series: Sequence[float]) -> float:
    """The next value by ARIMA(1, 1, 0): differences follow an AR(1) whose coefficient is fitted by least squares."""
    if len(series) < 2:
        return float(series[-1])
    change = np.diff(np.asarray(series, np.float64))
    before, after = change[:-1], change[1:]
    power = float(before @ before)
    slope = float(before @ after) / power if power > 0.0 else 0.0
    return float(series[-1] + min(max(slope, -0.95), 0.95) * change[-1])


class Demands:
    """The mean demand of each workload by interval, and the mean of now and the forecast for each task."""

    def __init__(self, forecast: Forecast) -> None:
        self._forecast = forecast
        self._series: dict[int, list[float]] = {}

    def next(self, state: State) -> Floats:
        """(T,) cycles/s."""
        tasks = state.tasks
        core = float((state.hosts["speed"] / state.hosts["cores"]).mean())
        asks = np.where(tasks["demand"] > 0.0, tasks["demand"], core)
        found = asks.copy()
        for load in np.unique(tasks["workload"]):
            mine = tasks["workload"] == load
            mean = float(asks[mine].mean())
            series = self._series.setdefault(int(load), [])
            series.append(mean)
            del series[:-KEPT]
            ratio = max(self._forecast(series), 0.0) / mean if mean > 0.0 else 1.0
            found[mine] *= 0.5 * (1.0 + min(max(ratio, 0.25), 4.0))
        return found

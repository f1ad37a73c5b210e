"""How late the emulation forwarded packets, over the whole run: whether its figures may be believed."""

from __future__ import annotations

import math

LATE = 0.02  # s; a second with later packets did not have the links that were asked for
_SHOWN = 20  # late seconds that are named


class Lateness:
    """Gathers the largest lag of every report, each of which covers about a second."""

    def __init__(self) -> None:
        self._lags: list[float] = []  # s, largest of each report
        self._late: list[float] = []  # simulated s at the end of each late one

    def heard(self, time: float, lag: float) -> None:
        """A report at `time` (simulated s) whose packets were at most `lag` (s) late; NaN: it cannot tell."""
        if not math.isfinite(lag):
            return
        self._lags.append(lag)
        if lag > LATE:
            self._late.append(time)

    def summary(self) -> dict[str, object]:
        """Largest lag, 99th percentile over the reports (s), number of late seconds and the first of them."""
        if not self._lags:
            return {"lag_max": None, "lag_p99": None, "late_seconds": 0, "late_at": []}
        ordered = sorted(self._lags)
        return {
            "lag_max": ordered[-1],
            "lag_p99": ordered[math.ceil(0.99 * len(ordered)) - 1],
            "late_seconds": len(self._late),
            "late_at": [round(time, 3) for time in self._late[:_SHOWN]],
        }

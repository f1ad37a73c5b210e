"""How late the emulation forwarded packets, over the whole run: whether its figures may be believed."""

from __future__ import annotations

import math

LATE = 0.02  # s; a second with later packets did not have the links that were asked for
_SHOWN = 20  # late seconds that are named


class Lateness:
    """Gathers the largest lag of every report, each of which covers about a second, and frames lost unread."""

    def __init__(self) -> None:
        self._lags: list[float] = []  # s, largest of each report
        self._late: list[float] = []  # simulated s at the end of each late one
        self._unread = 0
        self._overrun: list[float] = []  # simulated s at the end of each report with unread frames

    def heard(self, time: float, lag: float, unread: int = 0) -> None:
        """A report at `time` (simulated s) whose packets were at most `lag` (s) late; NaN: it cannot tell.

        `unread` frames were dropped by interfaces in its second, before the links had them.
        """
        if unread:
            self._unread += unread
            self._overrun.append(time)
        if not math.isfinite(lag):
            return
        self._lags.append(lag)
        if lag > LATE:
            self._late.append(time)

    def summary(self) -> dict[str, object]:
        """Largest lag, 99th percentile over the reports (s), number of late seconds and the first of them.

        Then how many frames were dropped unread, in how many seconds, and the first of these.
        """
        ordered = sorted(self._lags)
        return {
            "lag_max": ordered[-1] if ordered else None,
            "lag_p99": ordered[math.ceil(0.99 * len(ordered)) - 1] if ordered else None,
            "late_seconds": len(self._late),
            "late_at": [round(time, 3) for time in self._late[:_SHOWN]],
            "unread": self._unread,
            "unread_seconds": len(self._overrun),
            "unread_at": [round(time, 3) for time in self._overrun[:_SHOWN]],
        }

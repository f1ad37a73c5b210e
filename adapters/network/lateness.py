"""How late the emulation forwarded packets, over the whole run: whether its figures may be believed."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosim.testbed.emulation.state import Health

LATE = 0.02  # s; a second with later packets did not have the links that were asked for
_SHOWN = 200  # late seconds that are named
_NAMED = 8  # of them in a line
_REMEMBERED = 256  # steps whose wall-clock time is known


def moments(times: Sequence[float]) -> str:
    """The first of some moments (simulated s), in words."""
    return ", ".join(f"{time:g}" for time in times[:_NAMED]) + (", ... s" if len(times) > _NAMED else " s")


class Lateness:
    """Gathers the largest lag of every report, each of which covers about a second, and frames that were dropped.

    Dropped not by a queue of a link, as the scenario has it, but by the emulation: unread, or for want of memory.
    """

    def __init__(self) -> None:
        self._lags: list[float] = []  # s, largest of each report
        self._late: list[float] = []  # simulated s, when each late one was at its worst
        self._unread = self._overflowed = 0
        self._overrun: list[float] = []  # simulated s, when unread frames were counted, which is done once a second
        self._crowded: list[float] = []  # simulated s at the end of each report with frames that found no memory
        self._steps: list[tuple[float, float]] = []  # monotonic clock, simulated time: s

    def stepped(self, time: float) -> None:
        """The run is at `time` (simulated s) now."""
        self._steps = [*self._steps[-_REMEMBERED:], (monotonic(), time)]

    def heard(self, time: float, health: Health) -> None:
        """A report at `time` (simulated s)."""
        if health.unread:
            self._unread += health.unread
            self._overrun.append(self._simulated(health.unread_at, time))
        if health.overflowed:
            self._overflowed += health.overflowed
            self._crowded.append(time)
        if not math.isfinite(health.lag_max):  # not known
            return
        self._lags.append(health.lag_max)
        if health.lag_max > LATE:
            self._late.append(self._simulated(health.lag_at, time))

    def _simulated(self, at: float, otherwise: float) -> float:
        """The time of the step that was under way then; the `otherwise`, where that is not known."""
        if not math.isfinite(at) or not self._steps or at < self._steps[0][0]:
            return otherwise
        return self._steps[min(bisect_left(self._steps, (at, -math.inf)), len(self._steps) - 1)][1]

    def now(self) -> dict[str, float]:
        """What is known so far, as in a row of `emulation`."""
        doubtful = {*self._late, *self._overrun, *self._crowded}
        return {
            "doubtful": len(doubtful),
            "doubtful_at": max(doubtful, default=math.nan),
            "lag": max(self._lags, default=math.nan),
            "late": len(self._late),
            "unread": self._unread,
            "overflowed": self._overflowed,
        }

    def summary(self) -> dict[str, Any]:
        """Largest lag, 99th percentile over the reports (s), number of late seconds and the first of them.

        Then how many frames were dropped unread, in how many seconds, and the first of these; likewise frames for which
        there was no memory.
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
            "overflowed": self._overflowed,
            "overflowed_seconds": len(self._crowded),
            "overflowed_at": [round(time, 3) for time in self._crowded[:_SHOWN]],
        }

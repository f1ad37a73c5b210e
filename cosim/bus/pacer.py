"""Pacing: simulated time against the wall clock, to absolute deadlines.

Each tick has a deadline `origin + time / factor` on the monotonic clock. Sleeping to absolute
deadlines keeps rounding and overshoot from adding up. A tick that starts after its deadline is
late; how late is its lag. What then happens is the policy:

- `wait`: the origin moves by the lag, so that the run never hurries to catch up;
- `report`: the deadlines stand, the next ticks run without sleeping until they are caught up;
- `strict`: like `report`, but a lag above `fail` ends the run.

A run under control can be paused and given another pace from any thread; the deadlines then start
anew from the simulated time that had come, so that neither counts as lag.
"""

from __future__ import annotations

import logging
import time as wall
from collections.abc import Callable
from dataclasses import dataclass

from cosim.contract.errors import RunError
from cosim.scenario.plan.plan import Lag

log = logging.getLogger("cosim.pacer")

_LONGEST_SLEEP = 0.2  # s; so that a request to stop is noticed
_PAUSED_SLEEP = 0.05  # s; so that a run goes on at once when it is resumed
_COARSE = 0.0015  # s; the last stretch is spent in short sleeps, which wake up more exactly


@dataclass(slots=True)
class LagRecord:
    """How late the ticks of a paced run were (s)."""

    ticks: int = 0
    late_ticks: int = 0  # later than the `warn` limit
    max: float = 0.0
    sum: float = 0.0
    shifted: float = 0.0  # how far the policy `wait` has moved the deadlines

    @property
    def mean(self) -> float:
        return self.sum / self.ticks if self.ticks else 0.0


class Pacer:
    """Paces a run at `factor` simulated seconds per wall second; factor 0 never waits.

    `controlled`: the run may be paused, or its factor changed. `idle` is called between the
    sleeps of a wait, so that a paused or waiting run can still be shown.
    """

    def __init__(
        self,
        factor: float,
        lag: Lag,
        *,
        clock: Callable[[], float] = wall.monotonic,
        sleep: Callable[[float], None] = wall.sleep,
        stopping: Callable[[], bool] = lambda: False,
        controlled: bool = False,
        idle: Callable[[], None] = lambda: None,
    ) -> None:
        self.factor = factor
        self.paused = False
        self.free_until = -1.0  # simulated s up to which ticks are not held back
        self.policy = lag
        self.record = LagRecord()
        self.lag = 0.0  # s, of the last tick
        self.controlled = controlled
        self.idle = idle
        self._clock, self._sleep, self._stopping = clock, sleep, stopping
        self._origin: float | None = None
        self._left = 0.0  # simulated s to the next tick when the run was paused
        self._wish = (factor, False)  # factor and pause as last asked for; replaced whole, from any thread

    @property
    def active(self) -> bool:
        """Whether `wait` has anything to do."""
        return self.controlled or self.factor != 0.0

    @property
    def wanted(self) -> tuple[bool, float]:
        """Pause and factor as last asked for."""
        return self._wish[1], self._wish[0]

    def pause(self) -> None:
        """Let no further tick begin until `resume`."""
        self._wish = (self._wish[0], True)

    def resume(self) -> None:
        """Go on."""
        self._wish = (self._wish[0], False)

    def pace(self, factor: float) -> None:
        """Hold the run to `factor` from now on; 0 is as fast as possible."""
        self._wish = (factor, self._wish[1])

    def wait(self, time: float) -> float:
        """Sleep until `time` (simulated s) is due and return the lag in wall seconds.

        The first call sets the origin. Raises `RunError` under the policy `strict` when the lag is
        above its limit.
        """
        while not self._stopping():
            wish = self._wish
            if (self.factor, self.paused) != wish:
                self._turn(time, wish)
            if self.paused:
                self._sleep(_PAUSED_SLEEP)
                self.idle()
                continue
            if self.factor == 0.0 or time <= self.free_until:
                break
            if self._origin is None:
                self._origin = self._clock() - time / self.factor
            deadline = self._origin + time / self.factor
            left = deadline - self._clock()
            if left <= 0:
                self.lag = -left
                self._note(time, self.lag)
                return self.lag
            self._sleep(min(left - _COARSE / 2 if left > _COARSE else left, _LONGEST_SLEEP))
            self.idle()
        self.lag = 0.0
        return 0.0

    def _turn(self, time: float, wish: tuple[float, bool]) -> None:
        """Take up another pace or pause; what was waited already for the tick at `time` stays waited."""
        now, left = self._clock(), 0.0
        if self._origin is not None and self.factor != 0.0:
            left = max(0.0, time - (now - self._origin) * self.factor)
        elif self.paused:
            left = self._left
        self.factor, self.paused = wish
        self._left = left
        self._origin = now - (time - left) / self.factor if self.factor != 0.0 and not self.paused else None

    def _note(self, time: float, lag: float) -> None:
        record = self.record
        record.ticks += 1
        record.sum += lag
        record.max = max(record.max, lag)
        if lag > self.policy.warn:
            record.late_ticks += 1
            if record.late_ticks == 1:
                log.warning("the run is %.0f ms late at %g s (pace %g x)", lag * 1e3, time, self.factor)
        if self.policy.policy == "wait" and self._origin is not None:
            self._origin += lag
            record.shifted += lag
        elif self.policy.policy == "strict" and lag > self.policy.fail:
            raise RunError(
                f"at {time:g} s the run is {lag:.3g} s behind the wall clock, more than run.lag.fail = "
                f"{self.policy.fail:g} s; choose a slower pacing, a longer step, or lag policy 'report'"
            )

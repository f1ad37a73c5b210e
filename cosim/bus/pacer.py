"""Pacing: simulated time against the wall clock, to absolute deadlines.

Each tick has a deadline `origin + time / factor` on the monotonic clock. Sleeping to absolute
deadlines keeps rounding and overshoot from adding up. A tick that starts after its deadline is
late; how late is its lag. What then happens is the policy:

- `wait`: the origin moves by the lag, so that the run never hurries to catch up;
- `report`: the deadlines stand, the next ticks run without sleeping until they are caught up;
- `strict`: like `report`, but a lag above `fail` ends the run.
"""

from __future__ import annotations

import logging
import time as wall
from collections.abc import Callable
from dataclasses import dataclass

from cosim.errors import RunError
from cosim.plan.plan import Lag

log = logging.getLogger("cosim.pacer")

_LONGEST_SLEEP = 0.2  # s; so that a request to stop is noticed
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
    """Holds a run to `factor` simulated seconds per wall second; factor 0 never waits."""

    def __init__(
        self,
        factor: float,
        lag: Lag,
        *,
        clock: Callable[[], float] = wall.monotonic,
        sleep: Callable[[float], None] = wall.sleep,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.factor = factor
        self.policy = lag
        self.record = LagRecord()
        self._clock, self._sleep, self._stopping = clock, sleep, stopping
        self._origin: float | None = None

    def wait(self, time: float) -> float:
        """Sleep until `time` (simulated s) is due and return the lag in wall seconds.

        The first call sets the origin. Raises `RunError` under the policy `strict` when the lag is
        above its limit.
        """
        if self.factor == 0.0:
            return 0.0
        now = self._clock()
        if self._origin is None:
            self._origin = now - time / self.factor
        deadline = self._origin + time / self.factor
        while (left := deadline - now) > 0 and not self._stopping():
            self._sleep(min(left - _COARSE / 2 if left > _COARSE else left, _LONGEST_SLEEP))
            now = self._clock()
        lag = max(0.0, now - deadline)
        self._note(time, lag)
        return lag

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

"""The offset of a far clock by four timestamps, and limits of rates. No clock is read here."""

from __future__ import annotations

import math
from collections import deque

KEPT = 8  # samples; at one a second the best of the last eight seconds counts
SLACK = 5e-3  # s that two honest samples may disagree beyond their round trips: drift of clocks, late threads


class ClockFilter:
    """How far another clock is ahead of ours, from exchanges of messages.

    A message leaves here at t0, arrives there at t1, the answer leaves there at t2 and arrives here at t3. With
    equal ways the far clock is ((t1 - t0) + (t2 - t3)) / 2 ahead, wrong by at most half of the round trip
    (t3 - t0) - (t2 - t1) (Mills, RFC 5905, section 8). The sample with the least round trip of the last `KEPT`
    counts. When a sample contradicts it by more than both can be wrong, a clock was set: all before is forgotten.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=KEPT)  # s, s: round trip, offset
        self.steps = 0  # times that a clock was set

    def add(self, t0: float, t1: float, t2: float, t3: float) -> bool:
        """Take a sample (s); False when its times are out of order."""
        trip = (t3 - t0) - (t2 - t1)
        offset = ((t1 - t0) + (t2 - t3)) / 2
        if not (trip >= -1e-6 and t3 >= t0 and t2 >= t1):
            return False
        trip = max(trip, 0.0)
        if self._samples:
            best, known = min(self._samples)
            if abs(offset - known) > (trip + best) / 2 + SLACK:
                self._samples.clear()
                self.steps += 1
        self._samples.append((trip, offset))
        return True

    @property
    def offset(self) -> float:
        """The far clock less ours (s); NaN before the first sample."""
        return min(self._samples)[1] if self._samples else math.nan

    @property
    def round_trip(self) -> float:
        """Of the latest sample (s); NaN before the first."""
        return self._samples[-1][0] if self._samples else math.nan


class Bucket:
    """Lets `rate` units per second through, and `burst` at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._level, self._at = burst, -math.inf

    def take(self, amount: float, now: float) -> bool:
        """Whether `amount` may pass at `now` (s, monotonic)."""
        if now > self._at:
            self._level = min(self._burst, self._level + (now - max(self._at, now - 3600.0)) * self._rate)
            self._at = now
        if amount > self._level:
            return False
        self._level -= amount
        return True

"""Clocks of nodes: how far one is off the other, told from events that both saw.

With the times of a request and its answer on both clocks (sent, received, answered, returned) the
offset follows as in NTP (RFC 5905, section 8): ((received - sent) + (answered - returned)) / 2, wrong by
at most half the round trip less the service. Pairs with the shortest round trips tell it best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.twin.problem import Floats
from cosim.twin.telemetry.hygiene import Finding

_BEST = 0.25  # of the exchanges, those with the shortest way there and back


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of a node: it shows t + offset + drift (t - since) when the reference shows t."""

    offset: float  # s, at `since`
    drift: float  # s per s
    since: float  # s on the reference's clock
    uncertainty: float  # s; half the shortest way there and back
    count: int  # exchanges it was told from

    def to_reference(self, times: Floats) -> Floats:
        """(m,) s on the reference's clock of times that this clock showed."""
        return np.asarray((times - self.offset + self.drift * self.since) / (1.0 + self.drift), np.float64)


def clock(sent: Floats, received: Floats, answered: Floats, returned: Floats) -> Clock | None:
    """The clock that showed `received` and `answered`, against the one that showed `sent` and `returned`.

    All (m,) in s; exchanges with a missing time are left out. None without any whole exchange. Drift
    is told from 10 exchanges on, by least squares through the quarter of them with the shortest way.
    """
    times = np.stack([np.asarray(t, np.float64) for t in (sent, received, answered, returned)])
    times = times[:, np.isfinite(times).all(axis=0)]
    if times.shape[1] == 0:
        return None
    offsets = ((times[1] - times[0]) + (times[2] - times[3])) / 2.0
    ways = (times[3] - times[0]) - (times[2] - times[1])
    middles = (times[0] + times[3]) / 2.0
    # Within slices of time, so that a drift shows although one part of it has the shortest ways.
    slices = np.array_split(np.argsort(middles, kind="stable"), min(8, times.shape[1]))
    chosen = np.concatenate(
        [one[np.argsort(ways[one], kind="stable")[: max(int(_BEST * len(one)), 1)]] for one in slices]
    )
    since = float(middles.min())
    drift, offset = 0.0, float(np.median(offsets[chosen]))
    if times.shape[1] >= 10 and np.ptp(middles[chosen]) > 0.0:
        slope, start = np.polyfit(middles[chosen] - since, offsets[chosen], 1)
        drift, offset = float(slope), float(start)
    return Clock(offset, drift, since, max(float(ways.min()), 0.0) / 2.0, times.shape[1])


def clocks(
    sent: Floats, received: Floats, answered: Floats, returned: Floats, nodes: Sequence[str]
) -> tuple[dict[str, Clock], tuple[Finding, ...]]:
    """The clock of each node in `nodes` (m,), who received and answered, and a finding for each that is off.

    A clock is told to be off when its offset, at the beginning or the end, is beyond its uncertainty.
    """
    named = np.array(nodes)
    found: dict[str, Clock] = {}
    findings: list[Finding] = []
    for node in dict.fromkeys(nodes):
        rows = named == node
        own = clock(sent[rows], received[rows], answered[rows], returned[rows])
        if own is None:
            findings.append(Finding("clock", node, "no whole exchange: its clock cannot be told", int(rows.sum())))
            continue
        found[node] = own
        length = float(np.nanmax(returned[rows])) - own.since
        worst = max(abs(own.offset), abs(own.offset + own.drift * length))
        if worst > own.uncertainty + 1e-9:
            message = (
                f"its clock is {own.offset:+.6g} s off and drifts {own.drift * 1e6:+.3g} us/s "
                f"(known to {own.uncertainty:.3g} s); times across nodes are wrong by that unless corrected"
            )
            findings.append(Finding("clock", node, message, own.count))
    return found, tuple(findings)


def corrected(times: Floats, nodes: Sequence[str], known: Mapping[str, Clock]) -> Floats:
    """(m,) `times` of `nodes` (m,) on the reference's clock; those of nodes without a known clock stay."""
    result = np.array(times, np.float64)
    named: NDArray[np.str_] = np.array(nodes)
    for node, own in known.items():
        rows = named == node
        result[rows] = own.to_reference(result[rows])
    return result

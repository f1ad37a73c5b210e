"""Queueing links whose load is measured window by window: MMPP/M/1.

A link is an M/M/1 queue: a transfer takes 1 / (mu - lambda) on average, with mu the link's rate
over the mean size of a message and lambda the arrivals per second (Kleinrock 1975, Queueing
Systems 1, eq. 3.26). Both are what was measured in the last window, so that arrivals are a Poisson
process whose rate changes from window to window (a Markov-modulated one). Every transfer within a
window takes the same time. A link that is unstable, or slower than `PATIENCE`, fails the transfer.
The model is that of the vehicular application of EdgeCloudSim (Sonmez, Tunca, Ozgovde, Ersoy 2021,
doi 10.1109/TITS.2020.3024233).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import codes
from cosim.contract.records import Records
from cosim.engine.continuum import memory
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record

WINDOW: Final = 0.5  # s
PATIENCE: Final = 7.5  # s, a longer transfer fails
MESSAGES: Final = 10.0  # background messages per s, device and direction on the metropolitan network
MESSAGE: Final = 5.0  # kB, mean of a background message
BITS: Final = 8000.0  # per kB

LINK = np.dtype(
    [
        ("rate", "f8"),  # bit/s
        ("lag", "f8"),  # s, added to the queue's delay
        ("gap", "f8"),  # s, mean time between arrivals; inf: none
        ("size", "f8"),  # kB, mean
        ("kept_gap", "f8"),  # the last pair for which the link was stable
        ("kept_size", "f8"),
        ("delay", "f8"),  # s, of transfers that begin in this window; 0: they fail
        ("count", "f8"),  # messages asked for in this window
        ("total", "f8"),  # kB asked for in this window
        ("background", "f8"),  # messages per window that no task makes
        ("background_total", "f8"),  # kB per window
    ]
)
link = memory.rows_of(LINK)

# Numbers of links: the access points' uplinks, their downlinks, and behind these the shared ones.
MAN_UP, MAN_DOWN, WAN_UP, WAN_DOWN, GSM_UP, GSM_DOWN = codes(6)


@jit
def shared(s: Record, which: int) -> Record:
    """A link that all places share."""
    return link(s.links, 2 * s.place_count + which)


@jit
def uplink(s: Record, place: int) -> Record:
    """From the vehicles at an access point to it."""
    return link(s.links, place)


@jit
def downlink(s: Record, place: int) -> Record:
    """From an access point to the vehicles there."""
    return link(s.links, s.place_count + place)


@jit
def queueing_delay(rate: float, gap: float, size: float, lag: float) -> float:
    """Seconds through an M/M/1 link of `rate` bit/s and messages of `size` kB every `gap` s; 0: it fails."""
    spare = rate / (size * BITS) - 1.0 / gap
    if spare * PATIENCE < 1.0:
        return 0.0
    return 1.0 / spare + lag


@jit
def ask(row: Record, size: float) -> float:
    """Send a message of `size` kB: seconds it takes, 0 if it fails. It counts for the next window either way."""
    row.count += 1.0
    row.total += size
    return float(row.delay)


@jit
def close_window(row: Record, restoring: int, falling_slowly: int) -> None:
    """Take what was measured for the next window.

    `restoring`: after a window without tasks the link is as loaded as it last was when stable.
    `falling_slowly`: a falling load counts for a quarter, a rising one in full.
    """
    if row.count == 0.0 and restoring != 0:
        row.gap, row.size = row.kept_gap, row.kept_size
    else:
        messages = row.count + row.background
        if messages > 0.0:
            gap = WINDOW / messages
            row.size = (row.total + row.background_total) / messages
            if falling_slowly != 0 and gap > row.gap:
                gap = (gap + 3.0 * row.gap) / 4.0
            row.gap = gap
        else:
            row.gap = np.inf
    row.count = 0.0
    row.total = 0.0
    row.delay = queueing_delay(row.rate, row.gap, row.size, row.lag)
    if row.delay > 0.0:
        row.kept_gap, row.kept_size = row.gap, row.size


def lay_out(
    rates: Sequence[float], lags: Sequence[float], gap: NDArray[np.float64], size: NDArray[np.float64]
) -> Records:
    """Links with their first window's mean arrival gaps (s) and sizes (kB)."""
    rows: Records = np.zeros(len(gap), LINK)
    rows["rate"], rows["lag"] = rates, lags
    rows["gap"] = rows["kept_gap"] = gap
    rows["size"] = rows["kept_size"] = size
    with np.errstate(divide="ignore"):
        spare = rows["rate"] / (rows["size"] * BITS) - 1.0 / rows["gap"]
        rows["delay"] = np.where(spare * PATIENCE < 1.0, 0.0, 1.0 / spare + rows["lag"])
    return rows

"""What a phone or a drone sees of a cellular network, by a dozen parameters and less."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats, Ints
from cosim.twin.space import Parameter, Space

Integers = Ints

SLOW, LTE, NR = 0, 1, 2  # of `Samples.mode`: HSPA and older; LTE; LTE with a 5G carrier beside it


@dataclass(frozen=True, slots=True, eq=False)
class DownloadSamples:
    """Seconds of a phone with a download under way."""

    mode: Integers  # (rows,)
    snr: Floats  # (rows,) dB, NaN where the phone reports none
    rsrp: Floats  # (rows,) dBm
    speed: Floats  # (rows,) km/h


@dataclass(frozen=True, slots=True, eq=False)
class Receptions:
    """Measurements of the level of a cell from the air."""

    cell: Integers  # (rows,) 0, 1, ..
    distance: Floats  # (rows,) m on the ground
    height: Floats  # (rows,) m above ground


def efficiency(sinr: Floats, loss: Floats, most: Floats) -> Floats:
    """Bit/s/Hz at `sinr` (dB) with an implementation loss (dB) and a largest efficiency.

    The truncated Shannon bound of 3GPP TR 36.942 annex A.2 with its attenuation as a shift in dB.
    """
    return np.asarray(np.minimum(np.log2(1.0 + 10.0 ** ((sinr - loss) / 10.0)), most))


def throughput_space() -> Space:
    """Nine parameters; the start is a 20 MHz LTE carrier and a 40 MHz 5G carrier of which half is free."""
    return Space([
        Parameter("slow.rate", 0.2, 20.0, scale="log", unit="Mbit/s", start=5.0),
        Parameter("lte.bandwidth", 0.2, 40.0, scale="log", unit="MHz", start=10.0),  # that the phone gets
        Parameter("lte.loss", -15.0, 15.0, unit="dB", start=1.25),
        Parameter("lte.efficiency", 0.5, 8.0, unit="bit/s/Hz", start=4.4),  # the largest
        Parameter("nr.bandwidth", 0.2, 200.0, scale="log", unit="MHz", start=20.0),
        Parameter("nr.loss", -15.0, 15.0, unit="dB", start=1.25),
        Parameter("nr.efficiency", 0.5, 8.0, unit="bit/s/Hz", start=4.4),
        Parameter("speed", 5.0, 2000.0, scale="log", unit="km/h", start=500.0),  # at which half is left
        Parameter("floor", -125.0, -80.0, unit="dBm", start=-125.0),  # RSRP with an SNR of 0 dB by level alone
    ])  # fmt: skip


def throughput(values: Floats, samples: DownloadSamples) -> Floats:
    """(n, rows) Mbit/s for `values` (n, 9) as `throughput_space` has them.

    The SNR combines the phone's with that of the level over a floor (noise powers add). The 5G carrier
    comes on top of LTE's, whose SNR the phone reports. Movement reduces both by a share.
    """
    slow, lte_width, lte_loss, lte_most, nr_width, nr_loss, nr_most, half, floor = (
        values[:, k, None] for k in range(9)
    )
    snr = np.where(np.isfinite(samples.snr), samples.snr, 0.0)
    joined = -10.0 * np.log10(10.0 ** (-snr / 10.0) + 10.0 ** ((floor - samples.rsrp) / 10.0))
    lte = lte_width * efficiency(joined, lte_loss, lte_most)
    both = lte + nr_width * efficiency(joined, nr_loss, nr_most)
    moving = 1.0 / (1.0 + samples.speed / half)
    reported = np.where(samples.mode == NR, both, lte) * moving
    return np.asarray(np.where(samples.mode == SLOW, slow, reported), np.float64)


class CellShares:
    """What each cell gives beside the model: a factor on the root of its rates, as for its load.

    A one-way random-effects model. The seconds of a cell on a day are cut into blocks, since those within a
    minute or two hang together. The factor of a block is the least squares one and weighs as much as the sum
    of the squares of the model's roots there. The variances within and between cells follow by the ANOVA
    estimator (Searle, Casella, McCulloch, Variance Components, 1992, chapter 3). Each cell's factor is drawn
    towards 1 as far as its blocks leave it uncertain (best linear unbiased prediction); a cell without any
    has the factor 1.
    """

    BLOCK = 100.0  # s

    def __init__(self, cells: NDArray[np.str_], days: NDArray[np.str_], roots: Floats, step: float) -> None:
        """Of seconds (rows,) in the order of time, `step` s apart, with the roots of their measured rates."""
        self.names, cell = np.unique(cells, return_inverse=True)
        _, day = np.unique(days, return_inverse=True)
        group = cell * (day.max(initial=0) + 1) + day
        order = np.argsort(group, kind="stable")
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        place = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        rows = max(1, round(self.BLOCK / step))
        self._first = np.flatnonzero(place % rows == 0)  # row that begins each block, in `order`
        self._order, self._roots = order, roots[order]
        owner = cell[order][self._first]  # cell of each block; blocks of a cell follow one another
        self._owner, self._cells = owner, np.flatnonzero(np.diff(owner, prepend=-1))

    def factors(self, reported: Floats) -> Floats:
        """(n, cells + 1) factors by `names`, the last for other cells; `reported` (n, rows): the model's roots."""
        blocks, cells = len(self._first), len(self._cells)
        if blocks == cells:  # chance cannot be estimated
            return np.ones((len(reported), cells + 1))
        reported = reported[:, self._order]
        weight = np.maximum(np.add.reduceat(reported**2, self._first, axis=1), 1e-9)
        block = np.add.reduceat(reported * self._roots, self._first, axis=1) / weight
        whole = np.add.reduceat(weight, self._cells, axis=1)
        mean = np.add.reduceat(block * weight, self._cells, axis=1) / whole
        within = (weight * (block - mean[:, self._owner]) ** 2).sum(axis=1) / (blocks - cells)
        total = whole.sum(axis=1)
        grand = (whole * mean).sum(axis=1) / total
        spread = (whole * (mean - grand[:, None]) ** 2).sum(axis=1) - (cells - 1) * within
        between = np.maximum(spread, 0.0) / np.maximum(total - (whole**2).sum(axis=1) / total, 1e-9)
        kept = between[:, None] / np.maximum(between[:, None] + within[:, None] / whole, 1e-12)
        return np.pad(1.0 + kept * (mean - 1.0), ((0, 0), (0, 1)), constant_values=1.0)

    def index(self, cells: NDArray[np.str_]) -> Integers:
        """(rows,) which of the `factors` is that of each of `cells`."""
        place = np.searchsorted(self.names, cells)
        known = self.names[np.minimum(place, len(self.names) - 1)] == cells
        return np.where(known, place, len(self.names))


def level_space(cells: int) -> Space:
    """Five parameters and the power of each cell; the start is free space without an antenna pattern."""
    powers = [Parameter(f"power.{k + 1}", -80.0, 60.0, unit="dBm", start=-18.0) for k in range(cells)]
    return Space([
        Parameter("exponent", 0.0, 5.0, start=2.0),
        Parameter("height", -20.0, 20.0, unit="dB", start=0.0),  # lost from the ground to 100 m
        Parameter("tilt", -15.0, 45.0, unit="deg", start=0.0),  # elevation of the antenna's main lobe
        Parameter("width", 5.0, 90.0, scale="log", unit="deg", start=65.0),  # of the lobe, at -3 dB
        Parameter("sidelobe", 0.0, 30.0, unit="dB", start=0.0),  # the most that the pattern takes away
        *powers,
    ])  # fmt: skip


MAST = 25.0  # m, height of a macro cell's antennas: 3GPP TR 38.901 table 7.2-1 (UMa)


def level(values: Floats, seen: Receptions) -> Floats:
    """(n, rows) RSRP in dBm for `values` (n, 5 + cells) as `level_space` has them.

    Log-distance path loss from 1 m on, a loss that grows with height, and the vertical antenna pattern
    min(12 ((elevation - tilt) / width)^2, sidelobe) of 3GPP TR 38.901 table 7.3-1.
    """
    exponent, height, tilt, width, most = (values[:, k, None] for k in range(5))
    above = seen.height - MAST
    distance = np.sqrt(seen.distance**2 + above**2)
    elevation = np.degrees(np.arctan2(above, np.maximum(seen.distance, 1.0)))
    pattern = np.minimum(12.0 * ((elevation - tilt) / width) ** 2, most)
    loss = 10.0 * exponent * np.log10(np.maximum(distance, 1.0)) + height * seen.height / 100.0
    return np.asarray(values[:, 5:][:, seen.cell] - loss - pattern, np.float64)

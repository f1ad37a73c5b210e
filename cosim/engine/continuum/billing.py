"""Energy at the price of its time, green and brown.

The energy of a node is billed piece by piece: at every change of its price what has been used since
the last one is paid at the price that held, so that bills are exact and do not depend on how finely
the engine is stepped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.price import StepSeries, constant


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """What a J costs and emits over time. A part of every J may be green; the rest is brown."""

    price: StepSeries  # currency/J, brown
    carbon: StepSeries = field(default_factory=lambda: constant(0.0))  # g of CO2 per J, brown
    green: StepSeries = field(default_factory=lambda: constant(0.0))  # share of the energy that is green
    green_price: float = 0.0  # currency/J
    green_carbon: float = 0.0  # g of CO2 per J
    window: StepSeries = field(default_factory=lambda: constant(-1.0))  # number of the price window, -1: in none

    @property
    def series(self) -> tuple[StepSeries, ...]:
        """All that changes over time."""
        return self.price, self.carbon, self.green, self.window

    def at(self, time: float) -> tuple[float, float, float, int]:
        """Currency/J, g/J and green share of what is drawn at `time` (s), and the price window."""
        price, carbon, green, window = (float(series.at(time)) for series in self.series)
        brown = 1.0 - green
        return (
            brown * price + green * self.green_price, brown * carbon + green * self.green_carbon, green, int(window)
        )  # fmt: skip


BILLED: Final = 4  # rows of `State.billed` before those of price windows: J, currency, g of CO2, green J


def window_count(rates: Sequence[Rates]) -> int:
    """How many price windows the tariff with the most of them has."""
    return max((int(one.window.value.max()) + 1 for one in rates), default=0)


def cuts(rates: Sequence[Rates]) -> Floats:
    """All times (s) after 0 at which a price, a carbon intensity, a green share or the window changes."""
    if not rates:
        return np.empty(0)
    times = np.unique(np.concatenate([series.since for one in rates for series in one.series]))
    return np.asarray(times[(times > 0.0) & np.isfinite(times)])


def bill(billed: Floats, energy: Floats, tariff: Ints, rates: Sequence[Rates], now: float) -> Floats:
    """What all energy up to `now` (s) cost, from what it had cost at the last change of a price.

    (4 + windows, nodes): J, currency, g of CO2, green J, then J in each price window of the node's
    tariff, all of nodes with a tariff apart from the first. `energy` (nodes,) J used so far; `tariff`
    (nodes,) numbers of their rates, -1 for none.
    """
    before = float(np.nextafter(now, -np.inf))  # the rates that have held since the last change
    price, carbon, green, window = np.array([*(one.at(before) for one in rates), (0.0, 0.0, 0.0, -1)]).T
    used = energy - billed[0]
    made = billed.copy()
    made[0] = energy
    made[1] += used * price[tariff]
    made[2] += used * carbon[tariff]
    made[3] += used * green[tariff]
    inside = np.flatnonzero(window[tariff] >= 0)
    made[BILLED + window[tariff][inside].astype(np.int64), inside] += used[inside]
    return made

"""Energy at the price of its time.

The energy of a node is billed piece by piece: at every change of its price what has been used since
the last one is paid at the price that held, so that bills are exact and do not depend on how finely
the engine is stepped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosim.continuum.price import Series, constant

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """What a J costs and emits over time."""

    price: Series  # currency/J
    carbon: Series = field(default_factory=lambda: constant(0.0))  # g of CO2 per J


def cuts(rates: Sequence[Rates]) -> Floats:
    """All times (s) after 0 at which some price or carbon intensity changes."""
    if not rates:
        return np.empty(0)
    times = np.unique(np.concatenate([series.since for one in rates for series in (one.price, one.carbon)]))
    return np.asarray(times[(times > 0.0) & np.isfinite(times)])


def bill(billed: Floats, energy: Floats, tariff: Ints, rates: Sequence[Rates], now: float) -> Floats:
    """(3, nodes) J, currency and g of CO2 up to `now`, from those at the last change of a price.

    `energy` (nodes,) J used so far; `tariff` (nodes,) numbers of their rates, -1 for none.
    """
    before = np.nextafter(now, -np.inf)  # the rates that have held since the last change
    price = np.array([*(float(one.price.at(before)) for one in rates), 0.0])
    carbon = np.array([*(float(one.carbon.at(before)) for one in rates), 0.0])
    used = energy - billed[0]
    return np.stack([energy, billed[1] + used * price[tariff], billed[2] + used * carbon[tariff]])

"""The tariffs of a scene as rates over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from cosim.contract.entities import Scene, Tariff
from cosim.contract.errors import Problem, ScenarioError
from cosim.engine.continuum.billing import Rates
from cosim.engine.continuum.price import StepSeries, read_series

_PER_KWH: Final = 1.0 / 3.6e6  # files hold values per kWh


def _steps(
    outside: tuple[float, ...], spans: Sequence[tuple[float, float, tuple[float, ...]]], repeat: float, duration: float
) -> list[StepSeries]:
    """A series per value: those of each span (from, to, values) in it, `outside` elsewhere, up to `duration` (s)."""
    changes = {0.0: outside}
    for lap in range(math.ceil(duration / repeat) + 1 if repeat else 1):
        for begin, end, values in spans:
            changes[lap * repeat + begin] = values
            changes.setdefault(lap * repeat + end, outside)
    since = np.array(sorted(changes))
    table = np.array([changes[time] for time in sorted(changes)])
    return [StepSeries(since, column) for column in table.T]


def rate(tariff: Tariff, root: Path, duration: float) -> Rates:
    """A tariff as rates over `duration` (s). Raises `ScenarioError` for a file that holds no series."""
    spans = [(begin, end, (*rest, float(k))) for k, (begin, end, *rest) in enumerate(tariff.windows)]
    price, carbon, window = _steps((tariff.price, tariff.carbon, -1.0), spans, tariff.repeat, duration)
    shares = [(begin, end, (share,)) for begin, end, share in tariff.green]
    (green,) = _steps((0.0,), shares, tariff.repeat, duration)
    try:
        if tariff.prices:
            price = read_series(root / tariff.prices, tariff.every, _PER_KWH)
        if tariff.carbons:
            carbon = read_series(root / tariff.carbons, tariff.every, _PER_KWH)
    except ValueError as error:
        raise ScenarioError(Problem(str(error), path=f"tariffs.{tariff.name}")) from error
    return Rates(price, carbon, green, tariff.green_price, tariff.green_carbon, window)


def rates(scene: Scene, root: Path, duration: float) -> tuple[Rates, ...]:
    """The tariffs of a scene, see `rate`."""
    return tuple(rate(tariff, root, duration) for tariff in scene.tariffs)

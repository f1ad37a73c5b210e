"""Telemetry from files and runs, as the signals that a calibration compares with.

    table = read("power.csv.gz")                            # or Parquet, or (run folder, a signal's table)
    told = observe(table, {"power": Measured("p_mw", unit="mW")}, time="t", group="node", load={"power": "cpu"})
    told.observed["power"]                                   # in W, blanked where it cannot be true
    told.findings                                            # everything that was wrong with it

Units are text, as in scenarios; values are held in SI. Missing columns are refused with the nearest
names there are; everything else that is wrong is told by `cosim.twin.telemetry.hygiene`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.contract import units
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.hints import did_you_mean
from cosim.contract.signals import CATALOGUE
from cosim.tables.table import Table
from cosim.twin.problem import Floats, MeasuredSignal, Observed
from cosim.twin.telemetry.hygiene import Finding, Rules, bounds, examine, told
from cosim.twin.telemetry.tables import numbers, stamps

_SIGNED = {"climb", "clock_offset"}  # columns of the catalogue that may be negative although their unit says otherwise
_NO_UNIT = {"charge": "A s", "fraction": "1"}  # SI names that scenarios do not write


@dataclass(frozen=True, slots=True)
class Measured:
    """One column of a table as a signal; see `cosim.twin.problem.MeasuredSignal` for what the flags mean."""

    column: str
    unit: str = ""  # in the file: ms, mW, %; "" takes what the catalogue says, or the bare number
    paired: bool = False
    weight: float = 1.0
    origin: Literal["measured", "modelled"] = "measured"
    limits: tuple[float, float] | None = None  # of the value in SI; default: by the unit


@dataclass(frozen=True, slots=True)
class Range:
    """Between which values a condition of the measurement lay: a load, an input size, a distance."""

    low: float
    high: float
    unit: str = ""


class _Quantity(NamedTuple):
    values: Floats  # (m,) in SI
    unit: str
    limits: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """What a table says, and what is wrong with it."""

    observed: Observed
    findings: tuple[Finding, ...]
    source: str
    conditions: Mapping[str, Range]

    @property
    def warnings(self) -> tuple[str, ...]:
        return told(self.findings)


def observe(
    table: Table,
    measured: Mapping[str, Measured],
    *,
    time: str | None = None,
    time_unit: str = "s",
    group: str | None = None,
    load: Mapping[str, str] | None = None,
    conditions: Mapping[str, tuple[str, str]] | None = None,
    window: tuple[float, float] | None = None,
    parameters: int = 0,
    rules: Rules | None = None,
) -> Observation:
    """The signals in `measured` (name -> column), examined.

    `time` is a column of numbers in `time_unit`, or of ISO dates; times count from the first row.
    `group` is the column that names the node or service. `load` names, for a signal, the column that
    it should follow. `conditions` (name -> column, unit) are kept as ranges. `window` keeps the rows
    from its first time until before its second, in s. Raises `ScenarioError` with every missing column, and when
    nothing is left that could be fitted.
    """
    wanted = [m.column for m in measured.values()] + [c for c in (time, group) if c]
    wanted += [*(load or {}).values(), *(column for column, _ in (conditions or {}).values())]
    missing = [name for name in dict.fromkeys(wanted) if name not in table.columns]
    if missing:
        raise ScenarioError([
            Problem(
                f"{table.path.name} has no column '{name}'", "calibrate", table.path,
                hint=did_you_mean(name, table.columns, otherwise="columns"),
            )
            for name in missing
        ])  # fmt: skip
    findings: list[Finding] = []
    times = _seconds(table, time, time_unit, findings) if time else None
    kept = np.ones(len(table), np.bool_)
    if window is not None and times is not None:
        kept = (times >= window[0]) & (times < window[1])
        if not kept.any():
            there = f"the data reach from {np.nanmin(times):g} s to {np.nanmax(times):g} s" if len(times) else "no rows"
            message = f"there are no rows between {window[0]:g} s and {window[1]:g} s"
            raise ScenarioError(Problem(message, "calibrate", table.path, hint=there))
    groups = tuple(str(name) for name in table.column(group)[kept]) if group else None
    signals: dict[str, MeasuredSignal] = {}
    limits: dict[str, tuple[float, float]] = {}
    for name, how in measured.items():
        found = _quantity(table, how.column, how.unit, name, findings)
        limits[name] = how.limits or found.limits
        signals[name] = MeasuredSignal(
            found.values[kept],
            found.unit,
            how.paired,
            how.weight,
            how.origin,
            None if times is None else times[kept],
            groups,
        )
    loads = {name: numbers(table.column(column), column, findings)[kept] for name, column in (load or {}).items()}
    observed, more = examine(signals, parameters=parameters, loads=loads, limits=limits, rules=rules)
    ranges = {
        name: _range(_quantity(table, column, unit, name, []), kept)
        for name, (column, unit) in (conditions or {}).items()
    }
    return Observation(observed, (*findings, *more), table.source, ranges)


def between(observed: Observed, start: float, stop: float) -> dict[str, MeasuredSignal]:
    """The values of signals with times from `start` until before `stop` (s): a window to fit, or to hold back."""
    parts: dict[str, MeasuredSignal] = {}
    for name, signal in observed.items():
        if signal.times is None:
            raise ScenarioError(Problem(f"signal '{name}' has no times, so it has no windows", "calibrate"))
        inside = (signal.times >= start) & (signal.times < stop)
        groups = None if signal.groups is None else tuple(np.array(signal.groups)[inside].tolist())
        parts[name] = replace(signal, values=signal.values[inside], times=signal.times[inside], groups=groups)
    return parts


def _range(found: _Quantity, kept: NDArray[np.bool_]) -> Range:
    known = found.values[kept & np.isfinite(found.values)]
    least, greatest = (float(known.min()), float(known.max())) if len(known) else (np.nan, np.nan)
    return Range(least, greatest, found.unit)


def _quantity(table: Table, column: str, unit: str, name: str, findings: list[Finding]) -> _Quantity:
    """The values of a column in SI, the name of their unit, and which values are possible."""
    values = numbers(table.column(column), name, findings)
    if not unit and table.name in CATALOGUE:
        unit = {one.name: one.unit for one in CATALOGUE[table.name].columns}.get(column, "")
        least, greatest = bounds(unit)
        least = -np.inf if column in _SIGNED else 0.0 if unit == "1" else least
        return _Quantity(values, unit, (least, greatest))
    if unit in ("", "1"):
        return _Quantity(values, unit, bounds(unit))
    for dimension, factors in units.DIMENSIONS.items():
        if unit in factors:
            named = next((one for one, factor in factors.items() if factor == 1.0), _NO_UNIT.get(dimension, ""))
            least, greatest = bounds(unit)
            return _Quantity(values * factors[unit], named, (least * factors[unit], greatest * factors[unit]))
    findings.append(Finding("unit", name, f"unit '{unit}' is not known; values are taken as they stand"))
    return _Quantity(values, unit, bounds(unit))


def _seconds(table: Table, time: str, unit: str, findings: list[Finding]) -> Floats:
    """(m,) s since the earliest row."""
    times = stamps(table.column(time), time, None if unit == "s" else unit, findings).seconds
    known = times[np.isfinite(times)]
    return np.asarray(times - known.min() if len(known) else times, np.float64)

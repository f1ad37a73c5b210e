"""Telemetry from files and runs, as the signals that a calibration compares with.

    table = read("power.csv.gz")                            # or Parquet, or (run folder, a signal's table)
    told = observe(table, {"power": Measured("p_mw", unit="mW")}, time="t", group="node", load={"power": "cpu"})
    told.observed["power"]                                   # in W, blanked where it cannot be true
    told.findings                                            # everything that was wrong with it

Units are text, as in scenarios; values are held in SI. Missing columns are refused with the nearest
names there are; everything else that is wrong is told by `cosim.twin.hygiene`.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim import units
from cosim.errors import Problem, ScenarioError
from cosim.scenario.wording import did_you_mean
from cosim.telemetry.signals import CATALOGUE
from cosim.twin.hygiene import Finding, Rules, bounds, examine, told
from cosim.twin.problem import Floats, Observed, Signal

_SIGNED = {"climb", "clock_offset"}  # columns of the catalogue that may be negative although their unit says otherwise
_NO_UNIT = {"charge": "A s", "fraction": "1"}  # SI names that scenarios do not write


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of equal length as they were read, and where they come from."""

    columns: Mapping[str, NDArray[Any]]  # numbers, or text
    path: Path
    name: str = ""  # of the table in a run folder
    digest: str = ""  # SHA-256 of the file, or of the run's manifest

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def source(self) -> str:
        """What data this is, for the provenance of a calibration."""
        name = f"{self.path.name} table {self.name}" if self.name else self.path.name
        return f"{name}: {len(self)} rows, sha256 {self.digest[:16]}"

    def column(self, name: str) -> NDArray[Any]:
        """The values of a column. Raises `ScenarioError` that names the nearest one there is."""
        if name not in self.columns:
            hint = did_you_mean(name, self.columns, otherwise="columns")
            raise ScenarioError(Problem(f"{self.path.name} has no column '{name}'", "calibrate", self.path, hint=hint))
        return self.columns[name]


@dataclass(frozen=True, slots=True)
class Measured:
    """One column of a table as a signal; see `cosim.twin.problem.Signal` for what the flags mean."""

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


def read(path: str | Path, table: str = "", *, header: Sequence[str] | None = None) -> Table:
    """The table in a CSV or Parquet file (also .gz), or table `table` of a run folder.

    `header` names the columns of a CSV file that has no line of names. Raises `ScenarioError` for what
    cannot be read, `SetupError` for a folder that is no run.
    """
    path = Path(path)
    if path.is_dir():
        from cosim.results.load import load

        run = load(path)
        if table not in run.signals:
            hint = did_you_mean(table, run.signals, otherwise="tables")
            raise ScenarioError(Problem(f"the run has no table '{table}'", "calibrate", path, hint=hint))
        found = run.table(table).fetchnumpy()
        columns = {name: np.ma.filled(_floats_if_masked(values), np.nan) for name, values in found.items()}
        return Table(columns, path, table, _digest(path / "manifest.json"))
    if not path.is_file():
        there = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, sorted(there), otherwise="files there")
        raise ScenarioError(Problem("there is no such file", "calibrate", path, hint=hint))
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as parquet

            data = parquet.read_table(path)
            columns = {name: np.asarray(data[name].to_numpy()) for name in data.column_names}
        else:
            columns = _csv(path, header)
    except (OSError, EOFError, zlib.error, csv.Error, ValueError) as error:
        raise ScenarioError(Problem(f"cannot be read: {error}", "calibrate", path)) from None
    return Table(columns, path, "", _digest(path))


def _csv(path: Path, header: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = [row for row in csv.reader(raw.decode("utf-8-sig").splitlines()) if row]
    if header is None:
        if not rows:
            raise ValueError("it is empty")
        header, rows = [name.strip() for name in rows[0]], rows[1:]
        twice = sorted({name for name in header if header.count(name) > 1})
        if twice:
            raise ValueError(f"two columns are called '{twice[0]}'")
    for line, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(f"data row {line} has {len(row)} cells, and there are {len(header)} columns")
    return {name: np.array([row[k] for row in rows], dtype=str) for k, name in enumerate(header)}


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
    times = _times(table.column(time), time_unit, time, findings) if time else None
    kept = np.ones(len(table), np.bool_)
    if window is not None and times is not None:
        kept = (times >= window[0]) & (times < window[1])
        if not kept.any():
            there = f"the data reach from {np.nanmin(times):g} s to {np.nanmax(times):g} s" if len(times) else "no rows"
            message = f"there are no rows between {window[0]:g} s and {window[1]:g} s"
            raise ScenarioError(Problem(message, "calibrate", table.path, hint=there))
    groups = tuple(str(name) for name in table.column(group)[kept]) if group else None
    signals: dict[str, Signal] = {}
    limits: dict[str, tuple[float, float]] = {}
    for name, how in measured.items():
        found = _quantity(table, how.column, how.unit, name, findings)
        limits[name] = how.limits or found.limits
        signals[name] = Signal(
            found.values[kept],
            found.unit,
            how.paired,
            how.weight,
            how.origin,
            None if times is None else times[kept],
            groups,
        )
    loads = {name: _numbers(table.column(column), column, findings)[kept] for name, column in (load or {}).items()}
    observed, more = examine(signals, parameters=parameters, loads=loads, limits=limits, rules=rules)
    ranges = {
        name: _range(_quantity(table, column, unit, name, []), kept)
        for name, (column, unit) in (conditions or {}).items()
    }
    return Observation(observed, (*findings, *more), table.source, ranges)


def between(observed: Observed, start: float, stop: float) -> dict[str, Signal]:
    """The values of signals with times from `start` until before `stop` (s): a window to fit, or to hold back."""
    parts: dict[str, Signal] = {}
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
    values = _numbers(table.column(column), name, findings)
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


def _numbers(column: NDArray[Any], name: str, findings: list[Finding]) -> Floats:
    """(m,) numbers of a column; NaN, with a finding, where it holds something else."""
    if column.dtype.kind in "iufb":
        return column.astype(np.float64)
    values = np.full(len(column), np.nan)
    wrong: list[str] = []
    for row, cell in enumerate(column):
        text = "" if cell is None else str(cell).strip()
        try:
            values[row] = float(text) if text else np.nan
        except ValueError:
            wrong.append(text)
    if wrong:
        findings.append(
            Finding(
                "missing values", name, f"{len(wrong)} cells are not numbers, such as '{wrong[0][:40]}'", len(wrong)
            )
        )
    return values


def _times(column: NDArray[Any], unit: str, name: str, findings: list[Finding]) -> Floats:
    """(m,) s since the earliest row."""
    if unit not in units.DIMENSIONS["time"]:
        hint = f"known units: {', '.join(units.DIMENSIONS['time'])}"
        raise ScenarioError(Problem(f"'{unit}' is not a unit of time", "calibrate", hint=hint))
    if column.dtype.kind == "M":
        times = np.where(np.isnat(column), np.nan, column.astype("datetime64[ns]").astype(np.int64) * 1e-9)
    else:
        dates = [_date(str(cell)) for cell in column[:1]] if column.dtype.kind in "UO" else []
        if dates and np.isfinite(dates[0]):
            times = np.array([_date(str(cell)) for cell in column], np.float64)
            lost = int(np.isnan(times).sum())
            if lost:
                findings.append(Finding("missing values", name, f"{lost} cells are not dates", lost))
        else:
            times = _numbers(column, name, findings) * units.DIMENSIONS["time"][unit]
    known = times[np.isfinite(times)]
    return np.asarray(times - known.min() if len(known) else times, np.float64)


def _date(text: str) -> float:
    """s since 1970 of an ISO date; NaN if it is none. A date without a zone is taken as UTC."""
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        return float("nan")
    return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()


def _floats_if_masked(values: Any) -> Any:  # noqa: ANN401 - duckdb's arrays, masked where null
    masked = isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values)
    return values.astype(np.float64) if masked and values.dtype.kind in "iub" else values


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

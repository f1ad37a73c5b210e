"""Tables of telemetry: files, exports of monitoring systems and tables of runs, with what is wrong in them as findings.

table = read("power.csv.gz")                            # or Parquet, JSON of Prometheus and OTLP
table = read("runs/field", "host")                      # or a signal's table of a run folder
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.reading import columns as files
from cosim.contract.reading.columns import Stamps
from cosim.twin.problem import Floats
from cosim.twin.telemetry.hygiene import Finding

_DIGITS_LEAST, _DIGITS_OFF = 40, 0.35  # values; of a step: so many values are not as near by chance (0.7^40)


def numbers(column: NDArray[Any], name: str, findings: list[Finding]) -> Floats:
    """(m,) numbers of a column; NaN, with a finding, where it holds something else."""
    found = files.numbers(column)
    if found.wrong:
        message = f"{found.wrong} cells are not numbers, such as '{found.example[:40]}'"
        findings.append(Finding("missing values", name, message, found.wrong))
    return found.values


def stamps(column: NDArray[Any], name: str, unit: str | None, findings: list[Finding]) -> Stamps:
    """Times in s of a column, as `contract.reading.columns.stamps`, with findings where cells are none or of no
    zone."""
    found = files.stamps(column, name, unit)
    if found.wrong:
        message = f"{found.wrong} cells are no times, such as '{found.example}'"
        findings.append(Finding("missing values", name, message, found.wrong))
    if 0 < found.local < len(column) - found.wrong:
        message = f"{found.local} dates name no time zone, and others do: they are taken as UTC"
        findings.append(Finding("time order", name, message, found.local))
    if found.clocks:
        seconds, midnights = files.past_midnight(found.seconds)
        if midnights:
            message = f"{midnights} times of day pass midnight: the rows behind are of the next day"
            findings.append(Finding("time order", name, message, midnights))
        return found._replace(seconds=seconds)
    return found


def same_clock(begin: tuple[str, Stamps], end: tuple[str, Stamps], path: Path) -> None:
    """Raise `ScenarioError` for two columns of times, by their names, of which no difference can be taken."""
    (one, first), (other, second) = begin, end
    if first.absolute != second.absolute:
        raise ScenarioError(Problem(f"'{one}' and '{other}' do not count from the same time", "calibrate", path))
    if bool(first.local) != bool(second.local):
        message = f"'{one if first.local else other}' names no time zone, and '{other if first.local else one}' does"
        hint = "write both in UTC, as 2030-01-31T12:00:00Z"
        raise ScenarioError(Problem(message, "calibrate", path, hint=hint))


def decimal_step(values: Floats) -> float:
    """The power of ten that all `values` (n,) are multiples of, as of a column with so many digits; 0 if there is none.

    Times since 1970 hold no more than a quarter of a microsecond, so differences of them may be off by that.
    """
    found = np.abs(values[np.isfinite(values)])
    if len(found) < _DIGITS_LEAST or not found.any():
        return 0.0
    first = int(np.floor(np.log10(float(np.median(found[found > 0.0])))))
    for exponent in range(first, first - 9, -1):
        places = found * 10.0**-exponent
        if np.abs(places - np.round(places)).max() < _DIGITS_OFF:
            return float(10.0**exponent)
    return 0.0


def rounded(values: Floats, step: float) -> Floats:
    """`values` as multiples of `step`; as they are where it is 0."""
    return np.asarray(np.round(values / step) * step) if step > 0.0 else values

"""Columns of foreign tables: what a head says of its unit, numbers, and times in any usual form.

head("altitude(feet)", "length")                # Head("altitude", "feet", 0.3048)
times = stamps(column, "ts")                    # numbers, s/ms/us/ns since 1970, ISO dates, times of day
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.contract import units
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.records import Floats, Ints

NOTHING = frozenset({"", "-", "n/a", "na", "nan", "null", "none"})  # cells that stand for no value
# Numbers this large are times since 1970: their unit by the power of ten.
_EPOCHS = ((1e8, 1e11, 1.0), (1e11, 1e14, 1e-3), (1e14, 1e17, 1e-6), (1e17, 1e20, 1e-9))
# How others spell units, besides those of `units`: dimension -> factor to SI -> words.
_SPELT: Mapping[str, Mapping[float, str]] = {
    "time": {
        1.0: "sec secs second seconds", 1e-3: "msec msecs millis millisecond milliseconds",
        1e-6: "usec usecs micros microsecond microseconds", 1e-9: "nsec nanos nanosecond nanoseconds",
        60.0: "mins minute minutes", 3600.0: "hr hrs hour hours", 86400.0: "day days",
    },
    "length": {
        1.0: "meter meters metre metres", 1e3: "kilometer kilometers kilometre kilometres", 0.3048: "ft feet foot ' ′",
        0.0254: 'in inch inches " ″', 0.9144: "yd yard yards", 1609.344: "mi mile miles", 1852.0: "nmi",
    },
    "speed": {
        1.0: "mps ms m_s ms-1", 1 / 3.6: "kmh kph kmph km_h km_hr", 0.44704: "mph mi/h mi_h",
        1852 / 3600: "kn kt kts knot knots", 0.3048: "ft/s fps ft_s", 0.00508: "ft/min fpm", 0.01: "cm/s cm_s",
    },
    "angle": {1.0: "degree degrees °", 1e-7: "dege7", 0.01: "cdeg"},
}  # fmt: skip
DAY = 86400.0  # s
_SUNDAY = 3  # days after 1970-01-01, a Thursday
_NO_UNIT = frozenset({"utc", "gmt", "unix", "epoch", "iso", "iso8601", "local", "local_time", "wgs84"})
_BRACKETS = re.compile(r"\s*([^\[({<]*?)[\s_]*[\[({<]\s*([^\])}>]*?)\s*[\])}>]\s*")
_AMOUNT = re.compile(r"\s*([-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][-+]?\d+)?)\s*([^\s\d.,;~<>+-][^;,~<>\d]*?)?\s*")
_FEET = re.compile(r"\s*(\d+)\s*(?:'|′|ft|feet)\s*(\d+(?:\.\d+)?)\s*(?:\"|″|''|in|inch|inches)?\s*")
_DAY = re.compile(r"(\d{4})[/.](\d\d?)[/.](\d\d?)(?=\D|$)")
_GERMAN = re.compile(r"^(\d\d?)\.(\d\d?)\.(\d{4})(?=\D|$)")
_ZONE = re.compile(r"\s+(?:([+-]\d\d:?\d\d)(?:\s+[A-Z]{2,5})?|UTC|GMT|[zZ])$")
_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):([0-5]\d):([0-5]\d(?:[.,]\d*)?)")


class Head(NamedTuple):
    """What the head of a column says."""

    word: str  # in lower case with one kind of gap, without the unit
    unit: str = ""  # as it is written; "" for none
    factor: float = 1.0  # of the unit to SI; NaN for one that is not known


def plain_name(column: str) -> str:
    """The name of a column in lower case with one kind of gap: `Response-Code` and `responseCode` are one."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip().replace("µ", "u").replace("μ", "u"))
    return re.sub(r"[^\w%°'\"/]+", "_", spaced.lower()).strip("_")


def spellings(dimension: str) -> dict[str, float]:
    """The units of a dimension as others write them, in lower case, and their factors to SI."""
    known = {unit.lower(): factor for unit, factor in units.DIMENSIONS[dimension].items()}
    return known | {word: factor for factor, words in _SPELT.get(dimension, {}).items() for word in words.split()}


def head(column: str, dimension: str, known: frozenset[str] = frozenset()) -> Head:
    """A head taken apart: `speed [km/h]`, `altitude(feet)`, `time_ms`, `startTimeMs`, `Speed km/h`.

    `known` are words that are whole names, whatever they end with.
    """
    spelt = spellings(dimension)
    found = _BRACKETS.fullmatch(column)
    if found is not None and found[1]:
        unit, word = found[2].strip(), plain_name(found[1])
        small = re.sub(r"\s+", "_", unit.lower().replace("µ", "u").replace("μ", "u")).rstrip(".")
        if not small or small in _NO_UNIT:
            return Head(word)
        return Head(word, unit, spelt.get(small, float("nan")))
    word, column = plain_name(column), column.strip()
    if word not in known:
        ends = (f"_{word}", f"_{plain_name(column.lower())}")  # of startTimeMs and power_dBm
        for unit in sorted(spelt, key=len, reverse=True):
            if any(end.endswith(f"_{unit}") for end in ends) and len(unit) < len(word):
                return Head(plain_name(column[: -len(unit)]), unit, spelt[unit])
    return Head(word)


def amount(text: str, dimension: str, unit: str = "") -> float:
    """The SI value of a cell that may name its unit: `40 m`, `131 ft`, `13'6"`, `40,5`; `unit` is that of one without.

    Raises `ValueError` for other texts: bounds (>40), guesses (~40), several values, a comma that may be either mark.
    """
    feet = _FEET.fullmatch(text) if dimension == "length" else None
    if feet is not None:
        return 0.3048 * float(feet[1]) + 0.0254 * float(feet[2])
    found = _AMOUNT.fullmatch(text)
    if found is None or re.search(r",\d{3}(?!\d)", found[1]):
        raise ValueError(f"'{text[:40]}' is not one number with a unit")
    word = (found[2] or unit).strip().lower()
    if not word:
        raise ValueError(f"'{text[:40]}' has no unit")
    factor = spellings(dimension).get(re.sub(r"\s+", "_", word.replace("µ", "u").replace("μ", "u")).rstrip("."))
    if factor is None:
        raise ValueError(f"'{text[:40]}': unknown unit '{word}' of {dimension}")
    return float(found[1].replace(",", ".")) * factor


class NumericCells(NamedTuple):
    """What the cells of a column hold."""

    values: Floats  # (m,) NaN where a cell holds something else, or nothing
    wrong: int  # cells that hold something else
    example: str  # the first of them


class Stamps(NamedTuple):
    """Times of rows."""

    seconds: Floats  # (m,) s; NaN where a cell is no time
    absolute: bool  # since 1970, or as the table counts them
    wrong: int  # cells that are no times
    example: str  # the first of them
    local: int = 0  # dates without a time zone, which are taken as UTC
    clocks: bool = False  # times of day, see `past_midnight`


def numbers(column: NDArray[Any]) -> NumericCells:
    """The numbers of a column."""
    if column.dtype.kind in "iufb":
        return NumericCells(column.astype(np.float64), 0, "")
    if column.dtype.kind == "m":  # durations, in s
        return NumericCells(column / np.timedelta64(1, "s"), 0, "")
    texts = ["" if cell is None else str(cell).strip() for cell in column.tolist()]
    try:
        return NumericCells(np.array([text or "nan" for text in texts]).astype(np.float64), 0, "")
    except ValueError:
        values, wrong = np.full(len(texts), np.nan), list[str]()
    for row, text in enumerate(texts):
        try:
            values[row] = float(text) if text else np.nan
        except ValueError:
            wrong.append(text)
    return NumericCells(values, len(wrong), wrong[0])


def stamps(column: NDArray[Any], name: str, unit: str | None = None) -> Stamps:
    """Times in s of a column in any usual form; `unit` is that of its numbers, where it is known, else by its head.

    Numbers above 1e8 are s, ms, us or ns since 1970, by their size. Times of day (07:00:00, 1:07:00:00 on the second
    day) are s since midnight. Raises `ScenarioError` for a unit of no time, and when most cells are no times at all.
    """
    known = spellings("time")
    if unit is None and not math.isnan(head(name, "time").factor):
        unit = head(name, "time").unit or None
    if unit is not None and unit.lower() not in known:
        hint = f"known units: {', '.join(units.DIMENSIONS['time'])}"
        raise ScenarioError(Problem(f"'{unit}' is not a unit of time", hint=hint))
    if column.dtype.kind == "M":
        whole = column.astype("datetime64[ns]").astype(np.int64) * 1e-9
        return _stamps(column, name, np.where(np.isnat(column), np.nan, whole), absolute=True)
    values = numbers(column).values
    if column.dtype.kind in "UO" and np.isnan(values).any():
        for spelt in (_dates, _clocks):
            found = spelt([str(cell).strip() for cell in column], column, name)
            if np.isfinite(found.seconds).sum() >= max(1, np.isfinite(values).sum()):
                return found
    finite = values[np.isfinite(values)]
    usual = float(np.median(finite)) if len(finite) else 0.0
    if unit is None:
        for low, high, factor in _EPOCHS:
            if low <= usual < high:  # a value of another size is in another unit, or stands for no time
                seconds = np.where((values >= low) & (values < high), values * factor, np.nan)
                return _stamps(column, name, seconds, absolute=True)
    factor = 1.0 if unit is None else known[unit.lower()]
    # In a unit that is known they may count from 1970 as well: no run begins years after its own start.
    return _stamps(column, name, values * factor, absolute=bool(usual * factor >= _EPOCHS[0][0]))


def past_midnight(seconds: Floats, group: Ints | None = None) -> tuple[Floats, int]:
    """Times of day (m,) s with a day more after each midnight that they pass, in the order of the rows; how many pass.

    A fall by more than half a day is a midnight. With `group`, rows of one group that stand together are a sequence of
    their own. Times that count beyond 24:00:00 (24:30:00) are taken as they are.
    """
    if not len(seconds) or not np.nanmax(seconds, initial=0.0) < DAY:
        return seconds, 0
    same = np.ones(len(seconds) - 1, np.bool_)
    if group is not None and 1 + int((np.diff(group) != 0).sum()) == len(np.unique(group)):
        same = np.diff(group) == 0
    known = np.where(np.isnan(seconds), np.maximum.accumulate(np.nan_to_num(seconds)), seconds)
    falls = np.append(False, same & (np.diff(known) < -DAY / 2))
    days = np.cumsum(falls)
    begins = np.maximum.accumulate(np.where(np.append(True, ~same), np.arange(len(seconds)), 0))
    return seconds + DAY * (days - days[begins]), int(falls.sum())


def _dates(cells: list[str], column: NDArray[Any], name: str) -> Stamps:
    dates = [date_of(cell) for cell in cells]
    local = sum(date is not None and date.tzinfo is None for date in dates)
    utc = np.array([np.nan if date is None else date.replace(tzinfo=date.tzinfo or UTC).timestamp() for date in dates])
    if local and (row := _hour_again(utc)):
        text = f"'{name}' falls from '{cells[row - 1]}' to '{cells[row]}', as clocks do when summer time ends"
        raise ScenarioError(Problem(text, hint="write times in UTC, as 2030-01-31T12:00:00Z, or with their zone"))
    return _stamps(column, name, utc, absolute=True, strict=False)._replace(local=local)


def _hour_again(seconds: Floats) -> int:
    """The row at which an hour of times without a zone begins for the second time, 0 for none.

    Clocks are set back by an hour at 02:00 or 03:00 of a Sunday, and the rows go on without a gap.
    """
    steps = np.diff(seconds)
    falls = np.flatnonzero(steps < 0.0)
    if len(falls) != 1:
        return 0
    row = int(falls[0]) + 1
    hour = seconds[row] % DAY / 3600.0
    sunday = int(seconds[row] // DAY) % 7 == _SUNDAY
    begins = min(abs(hour - 1.0), abs(hour - 2.0)) * 3600.0 <= 60.0
    return row if sunday and begins and abs(steps[row - 1] + 3600.0) <= 60.0 else 0


def _clocks(cells: list[str], column: NDArray[Any], name: str) -> Stamps:
    found = _stamps(column, name, np.array([clock_of(cell) for cell in cells]), absolute=False, strict=False)
    return found._replace(clocks=True)


def _stamps(column: NDArray[Any], name: str, seconds: Floats, *, absolute: bool, strict: bool = True) -> Stamps:
    lost = np.isnan(seconds)
    count = int(lost.sum())
    example = str(column[lost][0]) if count else ""
    if count > 0.5 * len(column) and strict:
        hint = "write seconds, s, ms, us or ns since 1970, or ISO dates as 2030-01-31T12:00:00Z"
        raise ScenarioError(Problem(f"column '{name}' holds no times: '{example[:40]}'", hint=hint))
    return Stamps(seconds, absolute, count, example)


def date_of(text: str) -> datetime | None:
    """The date that a text is, with its zone where it has one: ISO, RFC 3339, 2030/01/31, 31.01.2030; else None."""
    plain = _DAY.sub(lambda day: f"{day[1]}-{int(day[2]):02d}-{int(day[3]):02d}", text.strip(), count=1)
    plain = _GERMAN.sub(lambda day: f"{day[3]}-{int(day[2]):02d}-{int(day[1]):02d}", plain, count=1)
    try:
        return datetime.fromisoformat(_ZONE.sub(lambda zone: zone[1] or "Z", plain).upper())
    except ValueError:
        return None


def clock_of(text: str) -> float:
    """s since midnight of 07:00:00.5, or 1:07:00:00 on the second day; NaN for other texts."""
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        return float("nan")
    days, hours, minutes, seconds = (float((part or "0").replace(",", ".")) for part in found.groups())
    return days * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds

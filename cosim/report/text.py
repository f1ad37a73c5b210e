"""Numbers as readers expect them: three significant digits, SI prefixes, a dash for nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosim.results.replications import MeanEstimate

NBSP = "\u00a0"
NOTHING = "–"

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
# Units that take prefixes downwards too; a milli-byte or a milli-cycle would only confuse.
_DIVISIBLE = frozenset({"s", "m", "J", "W", "J/bit", "m/s"})
_PREFIXED = frozenset({"B", "J", "W", "bit/s", "cycles", "Hz", "B/s", "J/bit", "cycles/s"})
_BARE = {"1": "", "1/s": "/s"}


def finite(value: object) -> float | None:
    """`value` as a float, or None when it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def number(value: object) -> float | None:
    """A number, also when it is written with a unit ("20 ms" gives 20)."""
    if isinstance(value, str):
        try:
            value = float(value.split(" ")[0])
        except ValueError:
            return None
    return finite(value)


def in_order(values: Iterable[Any]) -> list[Any]:
    """Different values: numbers, with units too, by their size; any others as they come."""
    once = list(dict.fromkeys(values))
    return sorted(once, key=number) if all(number(value) is not None for value in once) else once  # type: ignore[arg-type]


def digits(value: float, significant: int = 3) -> str:
    """`value` with about `significant` digits and thousands separators, never in powers of ten
    between 0.001 and a million million."""
    if value == 0:
        return "0"
    if abs(value - round(value)) < 1e-9 * abs(value):  # 60.00000000000001 s is a tick times its length
        value = float(round(value))
    size = abs(value)
    if size >= 1e15 or size < 1e-4:
        return f"{value:.{significant - 1}e}"
    decimals = max(0, significant - 1 - math.floor(math.log10(size)))
    text = f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) == round(float(text.replace(",", ""))) and value == round(value):
        return f"{value:,.0f}"
    return text


def scale(largest: float, unit: str) -> tuple[float, str]:
    """The factor and the unit name in which values up to `largest` read best.

    ``scale(0.25, "s") == (1e-3, "ms")``: divide by the factor, then write the name.
    """
    size = abs(largest)
    if not math.isfinite(size) or size == 0:
        return 1.0, _BARE.get(unit, unit)
    if unit == "s" and size >= 1:
        for factor, name, start in ((86400.0, "d", 2 * 86400.0), (3600.0, "h", 2 * 3600.0), (60.0, "min", 600.0)):
            if size >= start:
                return factor, name
        return 1.0, "s"
    if unit == "1/s" and size < 0.05:
        return 1 / 3600.0, "/h"
    if unit == "1/J":
        return 1 / 3.6e6, "/kWh"
    if unit == "m" and size >= 1:
        return (1e3, "km") if size >= 1e4 else (1.0, "m")
    if unit in _PREFIXED and size >= 1:
        factor, prefix = next((f, p) for f, p in _PREFIXES if size >= f)
        return factor, prefix + unit
    if unit in _DIVISIBLE and size < 1 and unit != "m/s":
        factor, prefix = next(((f, p) for f, p in _SMALL if size >= f), _SMALL[-1])
        return factor, prefix + unit
    return 1.0, _BARE.get(unit, unit)


def quantity(value: object, unit: str = "") -> str:
    """`value` (SI) for a reader: ``quantity(0.0831, "s") == "83.1 ms"`` with a no-break space."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "−∞"
    number = finite(value)
    if number is None:
        return NOTHING if value is None or isinstance(value, float) else str(value)
    if unit == "pp":  # percentage points: a difference of shares
        return f"{digits(number * 100)}{NBSP}pp".replace("-", "−")
    if unit == "%":
        text = digits(number * 100)
        for significant in range(4, 12):  # 99.97 % is not all of them
            if number == 1 or float(text.replace(",", "")) != 100:
                break
            text = digits(number * 100, significant)
        return f"{text}{NBSP}%".replace("-", "−")
    if unit in ("1", "") and number == round(number) and abs(number) < 1e15:
        return f"{number:,.0f}".replace("-", "−")
    factor, name = scale(number, unit)
    if factor == 1.0 and number == round(number) and abs(number) < 1e6:
        text = f"{number:,.0f}"
    else:
        text = digits(number / factor)
        if text.replace(",", "") == "1000" and factor < 1:  # 999.6 ms rounds up to a full unit
            factor, name = scale(1.0, unit)
            text = digits(number / factor, 1)
    return (f"{text}{NBSP}{name}" if name else text).replace("-", "−")


def figure(key: str, value: object, unit: str) -> str:
    """A named figure: shares of one are written in percent, everything else by `quantity`."""
    return quantity(value, "%" if is_share(key, value, unit) else unit)


def is_share(key: str, value: object, unit: str) -> bool:
    """Whether a dimensionless figure is a part of a whole, judged by its name and its range."""
    number = finite(value)
    words = {"share", "ratio", "fraction", "utilisation", "coverage", "loss", "success", "availability"}
    parts = re.split(r"[\W_]+", key)  # whole words: migrations are no ratio
    return unit in ("1", "") and number is not None and 0 <= number <= 1 and not words.isdisjoint(parts)


def exact(value: object) -> str:
    """The value with every digit, for sorting and for the tooltip; empty for nothing."""
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def duration(seconds: object) -> str:
    """A length of time in words of at most two units: ``1 h 12 min``, ``3 min 20 s``, ``850 ms``."""
    number = finite(seconds)
    if number is None:
        return NOTHING
    if number < 120:
        return quantity(number, "s")
    whole = round(number)
    for size, name, below, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size}{NBSP}{name}" + (f" {rest}{NBSP}{part}" if rest else "")
    return quantity(number, "s")


def interval(value: object, half: object, unit: str) -> str:
    """``83.1 ± 2.4 ms``: value and half width in the same unit, to two digits of the half width."""
    number, width = finite(value), finite(half)
    if number is None or width is None:
        return quantity(value, unit)
    width = 0.0 if width < 1e-12 * abs(number) else width  # what rounding leaves of equal values
    factor, name = (0.01, unit) if unit in ("%", "pp") else scale(max(abs(number), width), unit)
    number, width = number / factor, width / factor
    decimals = max(0, 1 - math.floor(math.log10(width))) if width > 0 else -1
    if 0 <= decimals <= 6:
        text = f"{number:,.{decimals}f}{NBSP}±{NBSP}{width:,.{decimals}f}"
    else:
        text = f"{digits(number)}{NBSP}±{NBSP}{digits(width, 2)}"
    return (f"{text}{NBSP}{name}" if name else text).replace("-", "−")


def span(low: float, high: float, unit: str) -> str:
    """``0 s to 3.55 s``, which no line break divides."""
    return f"{quantity(low, unit)}{NBSP}to{NBSP}{quantity(high, unit)}"


def estimated(key: str, found: MeanEstimate | None) -> str:
    """A mean with its interval, ``414 ms (0 ms to 909 ms)`` where that stops at 0; ``≥`` before a lower bound."""
    if found is None:
        return NOTHING
    share = all(is_share(key, value, found.unit) for value in (found.mean, max(found.low, 0.0)))
    unit = "%" if share else found.unit
    text = interval(found.mean, found.half, unit)
    if found.half is not None and found.low > found.mean - found.half:
        text = f"{quantity(found.mean, unit)} ({span(found.low, found.high, unit)})"
    return f"≥{NBSP}{text}" if found.at_least else text


def entry(key: str, figure_of: Mapping[str, Any]) -> str:
    """A figure of a run, in words where it is none: ``≥`` before a lower bound, energy that nothing declares."""
    value = figure_of.get("value")
    if value is None and key.startswith("energy_"):
        return "not given"
    text = figure(key, value, str(figure_of.get("unit") or ""))
    return f"≥{NBSP}{text}" if figure_of.get("at_least") else text


def shorten(text: str, length: int = 28) -> str:
    """`text` with its middle left out when it is longer than `length` characters."""
    if len(text) <= length:
        return text
    tail = (length - 1) // 3
    return f"{text[: length - 1 - tail]}…{text[len(text) - tail :]}"


def label(key: str) -> str:
    """A figure's key as words: ``response_p95`` reads *response p95*."""
    return key.replace("_", " ").replace(".", " · ")

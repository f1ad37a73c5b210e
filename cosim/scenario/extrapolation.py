"""Warn of a scenario that uses calibrated values outside the range of their calibration.

Warnings name values that were later changed to beyond their interval, also by a node or group that
overrides its kind, and conditions (rates, sizes, distances) beyond those of the measurement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cosim.contract.units import DIMENSIONS
from cosim.scenario import tree
from cosim.scenario.block import leaf
from cosim.scenario.calibrated import CalibratedBlock, ValueBlock
from cosim.scenario.form import Form, between
from cosim.scenario.gather import split
from cosim.scenario.tree import Keys

if TYPE_CHECKING:
    from cosim.scenario.load import Loaded

_NEAR = 1e-6  # relative; texts are rounded
_ALIKE = 0.1  # relative; distance from the only measured value up to which no warning is given
_QUANTITY = re.compile(r"(?<![\w.])([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s,()]*)", re.ASCII)


def extrapolations(loaded: Loaded) -> tuple[str, ...]:
    """Warnings: one for each calibrated value or condition that the scenario leaves."""
    found: dict[str, None] = {}
    for name, block in loaded.scenario.calibrated.items():
        for reported in (
            *_values(loaded, name, block),
            *_fields(loaded, name, block),
            *_conditions(loaded, name, block),
        ):
            found[reported] = None
    return tuple(found)


def _values(loaded: Loaded, name: str, block: CalibratedBlock) -> Iterator[str]:
    for parameter in block.values.values():
        if parameter.verdict in ("no effect", "fixed"):
            continue
        for member in parameter.members:
            places: dict[str, list[str]] = {}  # value that deviates -> where it stands
            for where, now in _uses(loaded, split(loaded.root, member)):
                if now is not None and not _agrees(now, parameter):
                    places.setdefault(_short(now), []).append(where)
            for now, names in places.items():
                what = f"calibration '{name}' found {_short(parameter.value)}"
                if parameter.interval is not None:
                    what += f" (90 % interval {_short(parameter.interval[0])} to {_short(parameter.interval[1])})"
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                yield f"{', '.join(names[:3])}{more} {'is' if len(names) == 1 else 'are'} {now}, and {what}"


def _fields(loaded: Loaded, name: str, block: CalibratedBlock) -> Iterator[str]:
    for path, found in block.fields.items():
        now = _written(loaded, split(loaded.root, path))
        if now != found:
            yield f"{path} is {_short(now)}, and calibration '{name}' found {_short(found)}"


def _uses(loaded: Loaded, keys: Keys) -> Iterator[tuple[str, object]]:
    """Every place where the field at `keys` counts, and its value there: nodes may override their kind."""
    yield tree.dotted(keys), _written(loaded, keys)
    if keys[0] == "kinds":
        for key, node in {node.key: node for node in loaded.world.everything if node.kind == keys[1]}.items():
            yield tree.dotted(("nodes", key, *keys[2:])), leaf(node.block, keys[2:])


def _agrees(now: object, parameter: ValueBlock) -> bool:
    """Whether `now` is the calibrated value, or lies inside its interval."""
    if now == parameter.value:
        return True
    form = _form(parameter.bounds) or _form(parameter.interval)
    if form is None:
        return False
    number, value = form.read(now), form.read(parameter.value)
    if number is None or value is None:
        return False
    if abs(number - value) <= _NEAR * abs(value):
        return True
    if parameter.interval is None:
        return False
    low, high = (form.read(end) for end in parameter.interval)
    if low is None or high is None:
        return False
    slack = _NEAR * max(abs(low), abs(high))
    return low - slack <= number <= high + slack


def _form(pair: list[Any] | None) -> Form | None:
    try:
        return between(*pair)[0] if pair is not None else None
    except ValueError:
        return None


def _conditions(loaded: Loaded, name: str, block: CalibratedBlock) -> Iterator[str]:
    for path, (low, high) in block.conditions.items():
        keys = split(loaded.root, path)
        now = _written(loaded, keys)
        least, most, number = quantity(low), quantity(high), quantity(now)
        if least is None or most is None or number is None or not least[1] == most[1] == number[1]:
            continue
        slack = _ALIKE if least[0] == most[0] else _NEAR
        if not least[0] - slack * abs(least[0]) <= number[0] <= most[0] + slack * abs(most[0]):
            has_seen = _short(low) if low == high else f"{_short(low)} to {_short(high)}"
            yield (
                f"{tree.dotted(keys)} is {_short(now)}, and calibration '{name}' has seen {has_seen}: "
                "its values are extrapolated"
            )


def quantity(value: object) -> tuple[float, str] | None:
    """The first quantity in `value` in SI and its dimension: of `exponential 200 kB` 2e5 and bytes."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value), ""
    for match in _QUANTITY.finditer(value) if isinstance(value, str) else ():
        for dimension, factors in DIMENSIONS.items():
            if match[2] in factors:
                number = float(match[1]) * factors[match[2]]
                # "every 500 ms" and "2 Hz" are equivalent
                if dimension == "time" and str(value).lstrip().startswith("every") and number > 0.0:
                    return 1.0 / number, "frequency"
                return number, dimension
    return None


def _written(loaded: Loaded, keys: Keys) -> object:
    """The value at `keys` as it is written; what the model has by default when nothing is."""
    item = tree.at(loaded.root, keys)
    if item is not None and item.value is not None:
        return tree.plain(item)
    return leaf(loaded.scenario, keys)


def _short(value: object) -> str:
    """`value` for a sentence: numbers with six digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return re.sub(r"\d+\.\d{6,}", lambda match: f"{float(match[0]):.6g}", value)
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Quantities of links, workloads and nodes: one line declares each, from the scenario's key to the engine's column.

A record declares a quantity as a field with a mark:

    delay: Annotated[float, DeclaredQuantity("time", "added once per direction")] = 0.0

From this line come the key of the scenario with its unit, bounds and description (`cosim.contract.declared`), the value
that the record takes over from the block (`carried`), and the columns and rows of the engine that bear its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, get_type_hints

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class DeclaredQuantity:
    """What a scenario may write for a field of a record."""

    dimension: str  # one of `cosim.contract.units.DIMENSIONS`; "": a number without a unit
    meaning: str  # for the schema and the docs
    least: float = 0.0
    most: float = math.inf
    above: bool = False  # `least` itself is refused
    optional: bool = False  # a scenario that leaves it out means the record's default, which it cannot write
    usual: float | None = None  # the scenario's default where it is another than the record's
    batched: bool = False  # runs of the engine that share all else may differ in it, and a calibration in batches
    key: str = ""  # where a block has it, if under another name: sleep.after
    needs: str = ""  # the key of the block without which it can mean nothing
    asks: str = ""  # of workloads: what it asks of a model beyond plain tasks, in words
    reported: str = ""  # of workloads: what its column in the table of tasks holds; "": it has none


@cache
def marks(record: type, kind: type[M]) -> Mapping[str, M]:
    """The marks of a `kind` on the fields of `record`, its bases' included, by the field's name in their order."""
    hints = get_type_hints(record, include_extras=True)
    found = ((name, mark) for name, hint in hints.items() for mark in getattr(hint, "__metadata__", ()))
    return {name: mark for name, mark in found if isinstance(mark, kind)}


def quantities(record: type) -> Mapping[str, DeclaredQuantity]:
    """The quantities that `record` declares, by name in their order."""
    return marks(record, DeclaredQuantity)


@cache
def columns(record: type) -> tuple[tuple[str, str], ...]:
    """Name and dtype of the engine's columns for the quantities of `record`."""
    plain = get_type_hints(record)
    return tuple((name, "i8" if plain[name] is int else "f8") for name in quantities(record))


@cache
def those(record: type, mark: str) -> tuple[str, ...]:
    """The quantities of `record` that have a `mark`: batched, reported."""
    return tuple(name for name, one in quantities(record).items() if getattr(one, mark))


def carried(source: object, record: type) -> dict[str, Any]:
    """What `source`, a block of a scenario or another record, has for the quantities of `record`.

    A quantity that is None, or that stands in a block which is, is left out, so that the default of `record` holds.
    """
    values = ((name, _value(source, name, one.key)) for name, one in quantities(record).items())
    return {name: value for name, value in values if value is not None}


def _value(source: Any, name: str, key: str) -> Any:  # noqa: ANN401 - whatever the fields hold
    if not key or hasattr(source, name):
        return getattr(source, name)
    for part in key.split("."):
        source = getattr(source, part, None)
    return source

"""What a free field of a scenario changes in the continuum engine, found by trying.

A scenario is prepared with the field at its lowest, middle and highest value. When the systems differ
in nothing but fields that a batch can set (`cosim.engine.continuum.parameters`), and each of these is affine
in the value or in one over the value, runs with any value can be made from the one system.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass

import numpy as np

from cosim.contract.records import Floats
from cosim.engine.continuum.layout import UNIFORM
from cosim.engine.continuum.parameters import KIND, LINK, SIZES, WORKLOAD
from cosim.engine.continuum.prepared import Prepared
from cosim.engine.continuum.system import System

Way = tuple[str | int, ...]

_EXACT = 1e-9  # relative; a form that is off by more is another one
_LINK = {f"link_{name}": name for name in LINK}


class NotBatchableError(Exception):
    """Runs with other values need the scenario to be prepared anew; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class LoadEffect:
    """How one engine parameter follows a value x: a + b x, or a + b / x; of a category, by its number."""

    name: str
    base: float  # with the value at which the system was prepared
    a: float = 0.0
    b: float = 0.0
    inverse: bool = False
    table: tuple[float, ...] = ()

    def __call__(self, values: Floats) -> Floats:
        if self.table:
            return np.array(self.table)[np.round(values).astype(np.int64)]
        return self.a + self.b * (1.0 / values if self.inverse else values)


def differences(one: Prepared, other: Prepared) -> dict[str, tuple[float, float]]:
    """Engine parameter -> its value in both. Raises `NotBatchableError` for any other difference."""
    if one.rest != other.rest or one.duration != other.duration or one.period != other.period:
        raise NotBatchableError("it changes more of the run than a batch can")
    found: dict[str, tuple[float, float]] = {}
    for name in one.options:
        if one.options[name] != other.options[name]:
            found[name] = float(one.options[name]), float(other.options[name])
    if one.scheduler != other.scheduler:
        if callable(one.scheduler) or callable(other.scheduler):
            raise NotBatchableError("schedulers of one's own cannot be exchanged in a batch")
        found["scheduler"] = float(one.scheduler), float(other.scheduler)
    ways: list[Way] = []
    _compare(one.system, other.system, (), ways)
    for way in ways:
        name = _name(way, one.system)
        if not _in_proportion(one.system, other.system, way):
            raise NotBatchableError(f"it changes the two bounds of '{name}' differently")
        found[name] = parameter(one.system, name), parameter(other.system, name)
    return found


def parameter(system: System, name: str) -> float:
    """The value of an engine parameter in `system`, as `cosim.engine.continuum.parameters` means it."""
    table, number, field = name.split(".", 2)
    if table == "link":
        return float(getattr(system, f"link_{field}")[int(number)])
    if field.startswith("power."):
        return float(system.kinds[int(number)].power[int(field[6:])])
    found = getattr((system.kinds if table == "kind" else system.workloads)[int(number)], field)
    if field not in SIZES:
        return float(found)
    law, a, b = found
    return (a + b) / 2 if law == UNIFORM else float(a)


def effects(base: Prepared, tried: Mapping[float, Prepared], *, category: bool) -> list[LoadEffect]:
    """What the engine's parameters do while a field takes the values of `tried`. Raises `NotBatchableError`."""
    seen = {value: differences(base, other) for value, other in tried.items()}
    names = dict.fromkeys(name for changed in seen.values() for name in changed)
    found = []
    for name in names:
        own = next(changed[name][0] for changed in seen.values() if name in changed)
        at = {value: changed[name][1] if name in changed else own for value, changed in seen.items()}
        if category:
            found.append(LoadEffect(name, own, table=tuple(at[value] for value in sorted(at))))
        else:
            found.append(_affine(name, own, at))
    return found


def _affine(name: str, own: float, at: Mapping[float, float]) -> LoadEffect:
    (x, y), *between, (last, end) = sorted(at.items())
    for inverse in (False, True):
        if inverse and x <= 0.0:
            continue
        first, second = (1.0 / x, 1.0 / last) if inverse else (x, last)
        slope = (end - y) / (second - first)
        effect = LoadEffect(name, own, y - slope * first, slope, inverse)
        size = max(abs(y), abs(end))
        if all(abs(float(effect(np.array([v]))[0]) - value) <= _EXACT * size for v, value in between):
            return effect
    raise NotBatchableError(f"the engine's '{name}' follows it neither in proportion nor inversely")


def columns(found: Sequence[Sequence[LoadEffect]], values: Floats) -> dict[str, Floats]:
    """Engine parameter -> its values (n,) for `values` (n, d); several fields that change one add up."""
    names: dict[str, Floats] = {}
    for column, of_one in enumerate(found):
        for effect in of_one:
            change = effect(values[:, column]) - effect.base
            names[effect.name] = names.get(effect.name, np.full(len(values), effect.base)) + change
    for name, rows in names.items():  # what is counted is whole
        if name == "scheduler" or name.endswith((".cores", ".slots")):
            names[name] = np.round(rows)
    return names


def agree(predicted: Mapping[str, float], base: Prepared, other: Prepared) -> bool:
    """Whether `other`, with several fields changed at once, is what the effects of each add up to."""
    changed = differences(base, other)
    for name in {*predicted, *changed}:
        before = changed[name][0] if name in changed else _value(base, name)
        want = predicted.get(name, before)
        have = changed[name][1] if name in changed else before
        if abs(want - have) > _EXACT * max(abs(want), abs(have)):
            return False
    return True


def _value(one: Prepared, name: str) -> float:
    """The value of an engine parameter, options included."""
    if name == "scheduler":
        return float(one.scheduler) if isinstance(one.scheduler, int) else -1.0
    return float(one.options[name]) if name in one.options else parameter(one.system, name)


def _name(way: Way, system: System) -> str:
    """The engine parameter behind a difference. Raises `NotBatchableError` when there is none."""
    top, *rest = way
    if top in _LINK and len(rest) == 1:
        return f"link.{rest[0]}.{_LINK[str(top)]}"
    if len(rest) >= 2:
        number, field = rest[0], str(rest[1])
        if top == "kinds" and field in KIND:
            return f"kind.{number}.{field}"
        if top == "kinds" and field == "power" and len(rest) == 3 and len(system.kinds[int(number)].power) > 1:
            return f"kind.{number}.power.{rest[2]}"
        if top == "workloads" and field in WORKLOAD:
            return f"workload.{number}.{field}"
        if top == "workloads" and field in SIZES and len(rest) == 3 and rest[2] != 0:
            return f"workload.{number}.{field}"
    raise NotBatchableError(f"it changes '{'.'.join(map(str, way))}' of the engine's system, which a batch cannot")


def _in_proportion(one: System, other: System, way: Way) -> bool:
    """Whether a law, if `way` leads into one, has the same shape in both systems."""
    if way[0] != "workloads" or way[2] not in SIZES:
        return True
    (law, a, b), (other_law, c, d) = (getattr(s.workloads[int(way[1])], str(way[2])) for s in (one, other))
    return bool(law == other_law and (b == d if law != UNIFORM else abs(a * d - b * c) <= _EXACT * abs(b * d)))


def _compare(a: object, b: object, way: Way, found: list[Way]) -> None:
    """Add to `found` where `a` and `b` differ. Raises `NotBatchableError` when they are of different shape."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape:
            raise NotBatchableError("it changes how many nodes, links or tasks there are")
        if a.dtype.names or a.ndim != 1:
            if a.tobytes() != b.tobytes():
                found.append(way)
        else:
            found.extend((*way, k) for k in np.flatnonzero(~((a == b) | ((a != a) & (b != b)))).tolist())
    elif is_dataclass(a) and type(a) is type(b):
        for field in fields(a):
            _compare(getattr(a, field.name), getattr(b, field.name), (*way, field.name), found)
    elif isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            raise NotBatchableError("it changes how many nodes, links or tasks there are")
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            _compare(x, y, (*way, k), found)
    elif a != b and not (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)):
        found.append(way)

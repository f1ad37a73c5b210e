"""A YAML document as a tree of values that know where they were written.

The tree is what includes and overrides work on; `plain` turns it into ordinary data for the model,
`place` finds the line of a mistake, and `dump` prints data as YAML.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosim.contract.errors import Problem

Keys = tuple[str | int, ...]  # way from the root to a value


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """Where something was written. Overrides have no line."""

    file: Path | None = None
    line: int | None = None
    column: int | None = None


@dataclass(slots=True, eq=False)
class Item:
    """One value: a mapping or list of items, or a scalar.

    `keys` holds the place of every key of a mapping. An alias is the same item in several places,
    so items must not be changed once they are read; `merge` and `put` make new ones.
    """

    value: Any  # dict[str, Item] | list[Item] | str | int | float | bool | None
    place: SourcePlace
    keys: dict[str, SourcePlace] = field(default_factory=dict)
    size: int = 1  # values in it after aliases are followed


def unplaced(data: Any) -> Item:  # noqa: ANN401 - YAML data
    """The item of ordinary data that stands in no file."""
    if isinstance(data, Mapping):
        data = {str(key): unplaced(child) for key, child in data.items()}
    elif isinstance(data, list):
        data = [unplaced(child) for child in data]
    return Item(data, SourcePlace())


def plain(item: Item) -> Any:  # noqa: ANN401 - YAML data
    """The ordinary data in `item`: dictionaries, lists, scalars."""
    if isinstance(item.value, dict):
        return {key: plain(child) for key, child in item.value.items()}
    if isinstance(item.value, list):
        return [plain(child) for child in item.value]
    return item.value


def merge(below: Item, above: Item) -> Item:
    """`below` with the keys of `above` on it; where both have a mapping, these are merged likewise."""
    if not (isinstance(below.value, dict) and isinstance(above.value, dict)):
        return above
    value = dict(below.value)
    for key, child in above.value.items():
        value[key] = merge(value[key], child) if key in value else child
    return Item(value, above.place, {**below.keys, **above.keys})


def put(root: Item, keys: Sequence[str | int], value: Item) -> Item:
    """`root` with `value` at `keys`; missing mappings on the way are made."""
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(root.value, list) and isinstance(key, int):
        children = list(root.value)
        children[key] = put(children[key], rest, value)
        return Item(children, root.place)
    entries = dict(root.value) if isinstance(root.value, dict) else {}
    entries[str(key)] = put(entries.get(str(key), Item(None, value.place)), rest, value)
    return Item(entries, root.place, {**root.keys, str(key): value.place})


def at(root: Item, keys: Sequence[str | int]) -> Item | None:
    """The item at `keys`; None when there is none."""
    item: Item | None = root
    for key in keys:
        entries = item.value if item is not None else None
        if isinstance(entries, dict):
            item = entries.get(str(key))
        elif isinstance(entries, list) and isinstance(key, int) and key < len(entries):
            item = entries[key]
        else:
            return None
    return item


def place(root: Item, keys: Sequence[str | int], *, key: bool = False) -> SourcePlace:
    """Where the value at `keys` was written, or as much of the way as there is.

    For a mapping, a list or nothing it is the place of their key, as it is with `key`.
    """
    item, found = root, root.place
    for index, part in enumerate(keys):
        if isinstance(item.value, dict) and part in item.value:
            of_key = item.keys.get(str(part), item.place)
            item = item.value[part]
        elif isinstance(item.value, list) and isinstance(part, int) and part < len(item.value):
            item = item.value[part]
            of_key = item.place
        else:
            break
        wants_key = (key and index == len(keys) - 1) or item.value is None or isinstance(item.value, (dict, list))
        found = of_key if wants_key else item.place
    return found


def dotted(keys: Sequence[str | int]) -> str:
    """`keys` as an author writes them: ``links.0.rate``."""
    return ".".join(str(key) for key in keys)


def problem(root: Item, keys: Sequence[str | int], message: str, hint: str = "", *, key: bool = False) -> Problem:
    """A mistake at `keys` of `root`."""
    where = place(root, keys, key=key)
    return Problem(message, dotted(keys), where.file, where.line, where.column, hint)


_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./*() +%-]*[A-Za-z0-9_./*()%]|[A-Za-z]", re.ASCII)
_QUANTITY = re.compile(r"[0-9][0-9.]* [A-Za-z/%][A-Za-z0-9/%. ]*(?<! )", re.ASCII)
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def dump(data: Mapping[str, Any]) -> str:
    """`data` as YAML in block style; the same data give the same text."""
    return "\n".join(_lines(data, "")) + "\n" if data else "{}\n"


def _lines(data: Any, indent: str) -> Iterator[str]:  # noqa: ANN401 - YAML data
    if isinstance(data, Mapping):
        for key, value in data.items():
            if _is_branch(value):
                yield f"{indent}{_scalar(key)}:"
                yield from _lines(value, indent + "  ")
            else:
                yield f"{indent}{_scalar(key)}: {_flow(value)}"
        return
    for value in data:
        if _is_branch(value):
            first, *rest = _lines(value, indent + "  ")
            yield f"{indent}- {first.lstrip(' ')}"
            yield from rest
        else:
            yield f"{indent}- {_flow(value)}"


def _is_branch(value: Any) -> bool:  # noqa: ANN401 - YAML data
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list) and any(isinstance(child, (Mapping, list)) for child in value)


def _flow(value: Any) -> str:  # noqa: ANN401 - YAML data
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_scalar(child) for child in value)}]"
    return _scalar(value)


def _scalar(value: Any) -> str:  # noqa: ANN401 - YAML data
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return ".nan" if math.isnan(value) else (".inf" if value > 0 else "-.inf")
    if isinstance(value, int):
        return str(value)
    simple = _PLAIN.fullmatch(value) or _QUANTITY.fullmatch(value)
    if simple and value.lower() not in _WORDS:
        return str(value)
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(mark if mark.isprintable() else f"\\U{ord(mark):08x}" for mark in quoted)

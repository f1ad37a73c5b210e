"""Random damage to text files, for tests that a reader answers with a clear error or not at all.

`mutate(text, rng)` applies one to three damages: lines, keys, values, types, indentation, bytes.
The result is bytes, because a damaged file need not be text any more. `vary(tree, rng)` changes the data of a
scenario as its author might, so that many still pass the check.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from typing import Any

_VALUES = (
    "", "null", "true", "-1", "0", "1e999", ".nan", ".inf", "99999999999999999999", "[]", "{}", "[1, 2, 3]",
    "{a: b}", "'text'", '"', "*alias", "&anchor x", "!!python/object x", "5 parsec", "- - -", "0 ms", "-5 s", "1 ns",
    "1e300 d", "uav-[9..1]", "x-[1..999999999]", "kind:nothing", "../..", "|", ">-", "%", "@", "\u2028", "é" * 50,
    "../scenario.cosim.yaml", "[[[[[[", "<<", "? x", "poisson", "every 0 s", "1..", "1..1e9", "0..5 step 0",
)  # fmt: skip
_KEYS = (
    "knd",
    "kind",
    "use",
    "nodes",
    "",
    "1",
    "null",
    "a.b",
    "[x]",
    "step",
    "include",
    "<<",
    "for",
    "sweep",
    "-",
    "é",
)

Damage = Callable[[list[str], random.Random], None]


def _delete(lines: list[str], rng: random.Random) -> None:
    del lines[rng.randrange(len(lines))]


def _duplicate(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    lines.insert(rng.randrange(len(lines) + 1), lines[at])


def _swap(lines: list[str], rng: random.Random) -> None:
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]


def _indent(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    lines[at] = rng.choice((" ", "  ", "\t", "      ")) + lines[at] if rng.random() < 0.5 else lines[at][1:]


def _key(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    keys = list(re.finditer(r"[^\s{,:]+(?=:)", lines[at]))
    if keys:
        key = rng.choice(keys)
        text = rng.choice((*_KEYS, key[0][:-1], key[0] * 2, key[0].upper()))
        lines[at] = lines[at][: key.start()] + text + lines[at][key.end() :]


def _value(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    values = list(re.finditer(r"(?<=: )[^,}{]+|(?<=\[)[^,\]]+|(?<=- ).+", lines[at]))
    if values:
        value = rng.choice(values)
        lines[at] = lines[at][: value.start()] + rng.choice(_VALUES) + lines[at][value.end() :]


def _append(lines: list[str], rng: random.Random) -> None:
    lines.append(f"{rng.choice(_KEYS)}: {rng.choice(_VALUES)}")


def _cut(lines: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(lines))
    lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]


_DAMAGES: tuple[Damage, ...] = (_delete, _duplicate, _swap, _indent, _key, _key, _value, _value, _value, _append, _cut)


def mutate(text: str, rng: random.Random) -> bytes:
    """`text` with one to three random damages, now and then down to its bytes."""
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        if lines:
            rng.choice(_DAMAGES)(lines, rng)
    raw = bytearray("\n".join(lines).encode("utf-8", "surrogatepass"))
    if raw and rng.random() < 0.15:
        for _ in range(rng.randint(1, 4)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw)


_QUANTITY = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?)( ?)(%|[A-Za-z][\w/]*)?")
_UNITS = ("s", "ms", "min", "m", "km", "m/s", "Hz", "GHz", "kB", "Mbit/s", "dB", "dBm", "W", "%", "Mcycles", "mAh")
_FACTORS = (0, -1, 0.01, 0.5, 1.5, 3, 100, 1e6, 4e12, 1e-9)
_KEPT = ("apiVersion", "kind", "name", "title", "description")


def _places(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [at for key, child in pairs for at in ((*above, key), *_places(child, (*above, key)))]


def _quantity(text: str, rng: random.Random) -> str:
    at = rng.choice(list(_QUANTITY.finditer(text)))
    number, space, unit = at.groups()
    if unit and rng.random() < 0.2:
        unit = rng.choice(_UNITS)
    else:
        number = str(_number(float(number), rng))
    return text[: at.start()] + number + space + (unit or "") + text[at.end() :]


def _number(value: float, rng: random.Random) -> float:
    new = value * rng.choice(_FACTORS)
    return int(new) if new == int(new) and abs(new) < 1e15 else new


def vary(tree: dict[str, Any], rng: random.Random) -> str:
    """Change one value, unit, name or key of `tree`, or leave one out; what was changed, in words.

    The run's duration stays, so that the caller may make it short.
    """
    every = [at for at in _places(tree) if at[0] not in _KEPT and at not in (("run",), ("run", "duration"))]
    *above, key = at = rng.choice(every)
    parent: Any = tree
    for part in above:
        parent = parent[part]
    value, names = parent[key], [part for one in every for part in one if isinstance(part, str)]
    how, label = rng.random(), ".".join(map(str, at))
    if how < 0.12:
        del parent[key]
        return f"{label} left out"
    if isinstance(parent, list) and how < 0.2:
        parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(value))
        return f"{label} twice"
    if isinstance(parent, dict) and how < 0.25:
        new = rng.choice([f"{key}x", rng.choice(names)])
        parent[new] = parent.pop(key)
        return f"{label} renamed to {new}"
    if isinstance(value, dict) and isinstance(parent, dict) and rng.random() < 0.5:
        parent[f"{key}-2"] = copy.deepcopy(value)
        return f"{label} twice"
    if isinstance(value, bool):
        parent[key] = not value
    elif isinstance(value, int | float):
        parent[key] = _number(value, rng)
    elif isinstance(value, str):
        parent[key] = _quantity(value, rng) if _QUANTITY.search(value) and rng.random() < 0.8 else rng.choice(names)
    elif isinstance(value, list):
        parent[key] = value[::-1] if rng.random() < 0.5 else value[:1]
    else:
        parent[key] = {}
    return f"{label}: {value!r:.60} -> {parent[key]!r:.60}"

"""Random damage to text files, for tests that a reader answers with a clear error or not at all.

`mutate(text, rng)` applies one to three damages: lines, keys, values, types, indentation, bytes.
The result is bytes, because a damaged file need not be text any more.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

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

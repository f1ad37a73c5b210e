"""Selectors of nodes: `kind:NAME`, `tier:NAME`, or a name with `*`, `?` and `[1..3]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

RANGE = re.compile(r"\[(\d{1,9})\.\.(\d{1,9})\]", re.ASCII)


class Selectable(Protocol):
    """What a selector may name: a node, or the template of a fleet."""

    @property
    def kind(self) -> str: ...

    @property
    def tier(self) -> str: ...


def matcher(selector: str) -> Callable[[str, Selectable], bool]:
    """A test of a node's or fleet's name and what it is."""
    prefix, _, word = selector.partition(":")
    if prefix == "kind":
        return lambda _, node: node.kind == word
    if prefix == "tier":
        return lambda _, node: node.tier == word
    match = name_matcher(selector)
    return lambda name, _: match(name)


def selects(selector: str | Iterable[str]) -> Callable[[str, Selectable], bool]:
    """As `matcher`, of one selector or of any of several."""
    tests = [matcher(part) for part in ([selector] if isinstance(selector, str) else selector)]
    return lambda name, node: any(test(name, node) for test in tests)


def void(selectors: Iterable[str], nodes: Sequence[tuple[str, Selectable]]) -> list[str]:
    """Those of `selectors` that select none of `nodes`, which are given with their names."""
    tests = {one: matcher(one) for one in selectors}
    return [one for one, match in tests.items() if not any(match(name, node) for name, node in nodes)]


def name_matcher(pattern: str) -> Callable[[str], bool]:
    """A test for names with `*` (any text), `?` (one character) and `[1..3]` (a number in the range)."""
    if not any(mark in pattern for mark in "*?["):
        return lambda name: name == pattern
    expression, ranges, end = "", [], 0
    for found in RANGE.finditer(pattern):
        before = pattern[end : found.start()]
        # a range behind a star is a whole number: 'a*[1..3]' must not find a 3 at the end of 'a13'
        expression += re.escape(before) + (r"(?<!\d)(\d+)" if before.endswith("*") else r"(\d+)")
        ranges.append((int(found[1]), int(found[2]), digits_of(found[1])))
        end = found.end()
    first, *pieces = re.split(r"(?:\\\*)+", (expression + re.escape(pattern[end:])).replace(r"\?", "."))
    # each star takes the shortest text that lets its piece follow, for good: no backtracking to explode
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[:-1])
    compiled = re.compile(first + middle + (f".*{pieces[-1]}" if pieces else ""), re.ASCII)

    def match(name: str) -> bool:
        hit = compiled.fullmatch(name)
        return hit is not None and all(
            len(number) <= 9 and low <= int(number) <= high and number == f"{int(number):0{digits}d}"
            for number, (low, high, digits) in zip(hit.groups(), ranges, strict=True)
        )

    return match


def digits_of(low: str) -> int:
    """Digits of the numbers of a range that begins at `low`: `01` has two, `1` as many as it needs (0)."""
    return len(low) if low.startswith("0") else 0

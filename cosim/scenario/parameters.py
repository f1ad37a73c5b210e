"""Parameters of a scenario: one number or text in many places, also as the end of a range of nodes.

    parameters: {N: 4, load: 2 Hz}
    nodes: {edge-[1..N]: {kind: edge}}
    workloads: {pictures: {from: camera-*, arrivals: "poisson ${load}", work: 90 Mcycles}}

`${NAME}` stands in any text, `[1..NAME]` in the name of nodes and in what selects them. A run is known by
what they stand for, so `--set parameters.N=6` and `sweep: {parameters.N: 1..20}` change all places at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cosim.contract.errors import Problem
from cosim.contract.hints import did_you_mean, nearest
from cosim.scenario import tree
from cosim.scenario.tree import Item, Keys
from cosim.scenario.wording import found, shorten

BLOCK = "parameters"
NAME = r"[A-Za-z][A-Za-z0-9_]{0,63}"
_USE = re.compile(rf"\$\{{({NAME})\}}", re.ASCII)
_RANGE = re.compile(rf"\[(\d{{1,9}}|{NAME})\.\.(\d{{1,9}}|{NAME})\]", re.ASCII)
_WORDS = (BLOCK, "name", "apiVersion", "kind")  # keys that identify the file
_PROSE = ("title", "description")  # in which [1..N] is no range
_KEPT = ("sweep", "calibrate")  # paths in them are those of the file


def filled(root: Item, problems: list[Problem]) -> Item:
    """`root` with its parameters put in where they are used; one that is used nowhere is a problem.

    Without a block `parameters` it is `root` itself.
    """
    block = root.value.get(BLOCK)
    if block is None:
        nodes = tree.at(root, ("nodes",))
        keys = nodes.value if nodes is not None and isinstance(nodes.value, dict) else {}
        names = [name for key in keys for name in _ends(str(key))]
        if names:
            at: Keys = ("nodes",)
            hint = f"add  {BLOCK}: {{{names[0]}: 4}}"
            problems.append(tree.problem(root, at, f"'{names[0]}' ends a range of nodes and is no parameter", hint))
        return root
    if not isinstance(block.value, dict):
        return root  # the model reports it
    filling = _Filling(root, {name: child.value for name, child in block.value.items()}, problems)
    entries = {
        key: child
        if key in (*_WORDS, *_KEPT)
        else filling.prose(child, (key,))
        if key in _PROSE
        else filling.item(child, (key,))
        for key, child in root.value.items()
    }
    filling.unused()
    return Item(entries, root.place, root.keys)


def as_written(root: Item, path: str) -> str:
    """The dotted `path` with the name of nodes as `root` has it, where `path` has it with parameters put in."""
    block, nodes = root.value.get(BLOCK), tree.at(root, ("nodes",))
    if block is None or not isinstance(block.value, dict) or nodes is None or not isinstance(nodes.value, dict):
        return path
    filling = _Filling(root, {name: child.value for name, child in block.value.items()}, [])
    for name in nodes.value:
        put_in = f"nodes.{filling.text(name, ('nodes', name))}"
        if put_in != f"nodes.{name}" and (path == put_in or path.startswith(f"{put_in}.")):
            return f"nodes.{name}{path[len(put_in) :]}"
    return path


def _ends(text: str) -> list[str]:
    """The names that ranges in `text` begin or end at."""
    return [end for match in _RANGE.finditer(text) for end in match.groups() if not end.isdigit()]


class _Filling:
    def __init__(self, root: Item, values: Mapping[str, Any], problems: list[Problem]) -> None:
        self._root, self._values, self._problems = root, values, problems
        self._used: set[str] = set()
        for name in values:
            if not re.fullmatch(NAME, name, re.ASCII):
                self._report((BLOCK, name), f"'{shorten(name)}' is not a name of a parameter", "for example 'N'")
            elif self._unfit(name):
                self._used.add(name)  # the model reports that it is none

    def item(self, item: Item, keys: Keys) -> Item:
        if isinstance(item.value, dict):
            entries: dict[str, Item] = {}
            places = {}
            for key, child in item.value.items():
                name = self.text(str(key), (*keys, key))
                if name in entries:
                    self._report((*keys, key), f"'{shorten(name)}' is there twice", "two names become the same")
                entries[name] = self.item(child, (*keys, key))
                places[name] = item.keys.get(key, item.place)
            return Item(entries, item.place, places, item.size)
        if isinstance(item.value, list):
            return Item(
                [self.item(child, (*keys, i)) for i, child in enumerate(item.value)], item.place, size=item.size
            )
        if not isinstance(item.value, str):
            return item
        whole = _USE.fullmatch(item.value)
        if whole and whole[1] in self._values and not self._unfit(whole[1]):
            self._used.add(whole[1])
            return Item(self._values[whole[1]], item.place)
        return Item(self.text(item.value, keys), item.place)

    def prose(self, item: Item, keys: Keys) -> Item:
        if not isinstance(item.value, str):
            return item
        return Item(_USE.sub(lambda match: self._word(match, keys), item.value), item.place)

    def text(self, text: str, keys: Keys) -> str:
        """`text` with what parameters stand for. `${...}` of a name that is none stays: shells have it too."""
        if "${" in text:
            text = _USE.sub(lambda match: self._word(match, keys), text)
        if ".." not in text:
            return text
        return _RANGE.sub(lambda match: f"[{self._end(match[1], keys)}..{self._end(match[2], keys)}]", text)

    def _word(self, match: re.Match[str], keys: Keys) -> str:
        name = match[1]
        if name not in self._values:
            if nearest(name, self._values):  # a slip; shells and programs have names of their own
                self._report(keys, f"there is no parameter '{name}'", did_you_mean(name, self._values))
            return match[0]
        self._used.add(name)
        return match[0] if self._unfit(name) else str(self._values[name])

    def _unfit(self, name: str) -> bool:
        """Whether the value of a parameter is neither a number nor a text, which the model reports."""
        return isinstance(self._values[name], (dict, list)) or self._values[name] is None

    def _end(self, end: str, keys: Keys) -> str:
        if end.isdigit():
            return end
        if end not in self._values:
            hint = did_you_mean(end, self._values, otherwise="parameters")
            self._report(keys, f"there is no parameter '{end}'", hint)
            return "1"
        self._used.add(end)
        value = self._values[end]
        if self._unfit(end):
            return "1"
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**9:
            self._report((BLOCK, end), f"{found(value)} is no end of a range", "write a whole number")
            return "1"
        return str(value)

    def unused(self) -> None:
        for name in self._values:
            if name not in self._used:
                hint = f"use it as ${{{name}}}, or as the end of a range of nodes, or remove it"
                self._report((BLOCK, name), f"parameter '{shorten(name)}' is used nowhere", hint)

    def _report(self, keys: Keys, message: str, hint: str) -> None:
        self._problems.append(tree.problem(self._root, keys, message, hint))

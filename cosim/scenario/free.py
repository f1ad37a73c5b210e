"""The free values of a calibration: from the entries of `calibrate.free` to the fields that take each value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from cosim.contract.errors import Problem
from cosim.contract.hints import did_you_mean
from cosim.contract.selector import name_matcher
from cosim.scenario import tree
from cosim.scenario.block import leaf
from cosim.scenario.calibrate import CalibrateBlock, FreeBlock
from cosim.scenario.form import Form, between
from cosim.scenario.gather import split, unknown, unknown_option
from cosim.scenario.model import Scenario
from cosim.scenario.resolve import ResolvedNodes
from cosim.scenario.tree import Item, Keys
from cosim.scenario.wording import problems_of, shorten

Configs = Mapping[str, BaseModel]
_PATTERN = re.compile(r"[*?\[]|^(kind|tier):")
_FIXED = ("sweep", "include", "name", "apiVersion", "kind", "calibrate", "calibrated")
_RANGE = re.compile(r"\[(\d+)\.\.(\d+)\]", re.ASCII)
_DOTS = "\0"  # stands for the dots of a range while a path is cut at dots


@dataclass(frozen=True, slots=True)
class Free:
    """One free value: the number (or the position of the choice) that all `members` take."""

    name: str
    members: tuple[Keys, ...]  # the fields
    form: Form
    low: float = 0.0
    high: float = 1.0
    kind: Literal["real", "integer", "boolean", "category"] = "real"
    scale: Literal["linear", "log"] = "linear"
    prior: tuple[float, float] | None = None  # mean and sd of a normal one; on a log scale of the logarithm
    choices: tuple[Any, ...] = ()
    start: float | None = None  # None: not set in the scenario
    varies: float = 0.0  # standard deviation over value, from one time to another

    def written(self, number: float) -> Any:  # noqa: ANN401 - YAML data
        """The value as the fields have it."""
        if self.choices:
            return self.choices[round(number)]
        return self.form.text(round(number) if self.kind == "integer" else number)

    def overrides(self, number: float) -> list[str]:
        """What sets all fields to it, for `load`."""
        value = json.dumps(self.written(number))
        return [f"{tree.dotted(keys)}={value}" for keys in self.members]


class FreeValues:
    """Reads `calibrate.free` of a scenario whose other parts are right; mistakes go to `problems`."""

    def __init__(
        self, scenario: Scenario, root: Item, world: ResolvedNodes, configs: Configs, problems: list[Problem]
    ) -> None:
        self._scenario, self._root, self._world, self._configs = scenario, root, world, configs
        self._problems = problems

    def read(self, block: CalibrateBlock) -> list[Free]:
        """All free values, in the order of the file."""
        found: list[Free] = []
        taken: dict[Keys, str] = {}
        for path, declared in block.free.items():
            at: Keys = ("calibrate", "free", path)
            groups = self._groups(path, declared, at)
            for name, members in groups.items():
                twice = next((keys for keys in members if keys in taken), None)
                if twice is not None:
                    self._report(at, f"{tree.dotted(twice)} is free already, in '{taken[twice]}'")
                    continue
                taken.update(dict.fromkeys(members, path))
                value = self._value(name, members, declared, at)
                if value is not None:
                    found.append(value)
        return found

    def _report(self, at: Keys, message: str, hint: str = "") -> None:
        self._problems.append(tree.problem(self._root, at, message, hint))

    def _groups(self, path: str, declared: FreeBlock, at: Keys) -> dict[str, tuple[Keys, ...]]:
        """Name of a parameter -> the fields that share it."""
        members = list(self._members(path, at))
        selects = any(part for part in _cut(path) if _PATTERN.search(part))
        if not members:
            return {}
        if not selects or declared.share == "all":
            return {path: tuple(dict.fromkeys(keys for keys, _ in members))}
        if declared.share == "kind":
            if members[0][0][0] != "nodes":
                self._report((*at, "share"), "'share: kind' is for paths to nodes", "write 'share: each'")
                return {}
            kinds = dict.fromkeys(kind for _, kind in members)
            rest = tree.dotted(members[0][0][2:])
            return {
                f"nodes.kind:{kind}.{rest}": tuple(dict.fromkeys(keys for keys, own in members if own == kind))
                for kind in kinds
            }
        shared = {keys for keys, _ in members if [other for other, _ in members].count(keys) > 1}
        for keys in sorted(shared, key=str):
            hint = "write the nodes one by one, or take 'share: all'"
            self._report((*at, "share"), f"nodes.{keys[1]} stands for several nodes, which have one value", hint)
        return {} if shared else {tree.dotted(keys): (keys,) for keys, _ in members}

    def _members(self, path: str, at: Keys) -> Iterator[tuple[Keys, str]]:
        """The fields that `path` names, once per node in it, with the node's kind."""
        parts = _cut(path)
        ways: list[tuple[Keys, str]] = [((), "")]
        if not any(_PATTERN.search(part) for part in parts):
            ways = [(split(self._root, path), "")]
        else:
            for index, part in enumerate(parts):
                ways = [new for way in ways for new in self._below(way, part, at, last=index == len(parts) - 1)]
        good = []
        for keys, kind in ways:
            wrong = unknown(self._root, keys, type(self._scenario)) or unknown_option(keys, self._configs)
            if wrong is None and (len(keys) < 2 or keys[0] in _FIXED):
                wrong = f"'{shorten(tree.dotted(keys))}' cannot be free", "name a value inside a block"
            if wrong is None and isinstance(self._plain(keys), dict):
                inside = ", ".join(map(str, self._plain(keys)))
                wrong = f"'{tree.dotted(keys)}' is a block, not a value", f"name one of its keys: {inside}"
            if wrong is not None:
                self._report(at, f"cannot free '{shorten(path)}': {wrong[0]}", wrong[1])
                return
            good.append((keys, kind))
        yield from good

    def _below(self, way: tuple[Keys, str], part: str, at: Keys, *, last: bool) -> list[tuple[Keys, str]]:
        """`way` and one part more: a key, or all that a selector selects."""
        keys, kind = way
        if keys == ("nodes",) and _PATTERN.search(part):
            for _, _, hint in self._world.empty_parts(part):
                self._report(at, f"'{shorten(part)}' selects no node", hint)
            return [((*keys, node.key), node.kind) for node in self._world.select(part)]
        entries = self._plain(keys)
        if isinstance(entries, list):
            if _PATTERN.search(part):
                return [((*keys, index), kind) for index in range(len(entries))]
            return [((*keys, int(part) if part.isdecimal() else part), kind)]
        if _PATTERN.search(part) and not last:
            known = entries if isinstance(entries, dict) else {}
            hits = [name for name in known if name_matcher(part)(name)]
            if not hits:
                self._report(at, f"'{shorten(part)}' selects nothing", did_you_mean(part, known, otherwise="there"))
            return [((*keys, name), kind) for name in hits]
        return [((*keys, part), kind)]

    def _plain(self, keys: Keys) -> Any:  # noqa: ANN401 - YAML data
        item = tree.at(self._root, keys)
        return tree.plain(item) if item is not None else None

    def _value(self, name: str, members: tuple[Keys, ...], declared: FreeBlock, at: Keys) -> Free | None:
        before = len(self._problems)
        read = self._number if declared.choices is None else self._category
        free = read(name, members, declared, at)
        return free if len(self._problems) == before else None

    def _category(self, name: str, members: tuple[Keys, ...], declared: FreeBlock, at: Keys) -> Free | None:
        choices = declared.choices or []
        right = [self._try(members, choice, (*at, "choices", index)) for index, choice in enumerate(choices)]
        now = declared.start if declared.start is not None else self._now(members)
        start = None
        if now is not None:
            start = next((float(k) for k, choice in enumerate(choices) if choice == now), None)
            if start is None and all(right):
                self._report(at, f"the value now, {now!r}, is none of the choices", "add it, or write 'start:'")
        two = len(choices) == 2 and all(isinstance(choice, bool) for choice in choices) and choices == [False, True]
        kind: Literal["boolean", "category"] = "boolean" if two else "category"
        return Free(name, members, Form(), 0.0, float(len(choices) - 1), kind, choices=tuple(choices), start=start)

    def _number(self, name: str, members: tuple[Keys, ...], declared: FreeBlock, at: Keys) -> Free | None:
        assert declared.bounds is not None
        low, high = declared.bounds
        right = [self._try(members, bound, (*at, "bounds", k)) for k, bound in enumerate((low, high))]
        if not all(right):
            return None
        try:
            form, least, most = between(low, high)
            prior = _prior(declared.prior, form, declared.scale)
        except ValueError as error:
            message, _, hint = str(error).partition("; ")
            self._report((*at, "prior") if "prior" in message else (*at, "bounds"), message, hint)
            return None
        if least >= most:
            self._report((*at, "bounds"), "the bounds hold nothing", "write the smaller one first")
        elif declared.scale == "log" and least <= 0.0:
            self._report((*at, "scale"), f"a log scale cannot begin at {least:g}", "take a bound above 0")
        now = declared.start if declared.start is not None else self._now(members)
        start = form.read(now)
        if start is None and declared.start is not None:
            self._report((*at, "start"), f"'{now}' is not written as the bounds are", f"for example '{low}'")
        elif start is None and isinstance(now, str):
            hint = "write bounds of the same form, or 'start:'"
            self._report(at, f"the value now, '{shorten(now)}', has not the form of the bounds '{low}'", hint)
        elif start is not None and not least <= start <= most:
            hint = "widen the bounds, or write 'start:'"
            self._report((*at, "bounds"), f"the value now, {form.text(start)}, lies outside the bounds", hint)
        whole = least.is_integer() and most.is_integer()
        between_them = math.floor((least + most) / 2) + 0.5
        kind: Literal["real", "integer"] = "real"
        if whole and not self._fits(members[0], form.text(between_them)):
            kind = "integer"
        return Free(
            name, members, form, least, most, kind=kind, scale=declared.scale, prior=prior, start=start,
            varies=declared.varies,
        )  # fmt: skip

    def _try(self, members: tuple[Keys, ...], value: object, at: Keys) -> bool:
        """Whether every field can have `value`, written at `at`; what is wrong is reported."""
        for keys in members:
            wrong = self._wrong(keys, value, tree.place(self._root, at))
            if wrong:
                path = tree.dotted(at)
                self._problems += [Problem(p.message, path, p.file, p.line, p.column, p.hint) for p in wrong[:1]]
                return False
        return True

    def _fits(self, keys: Keys, value: object) -> bool:
        return not self._wrong(keys, value, self._root.place)

    def _wrong(self, keys: Keys, value: object, place: tree.SourcePlace) -> list[Problem]:
        """What is wrong with the field at `keys` when it has `value`, which was written at `place`."""
        root = tree.put(self._root, keys, Item(value, place))
        model: type[BaseModel] = type(self._scenario)
        prefix: Keys = ()
        data: Any = tree.plain(root)
        if keys[0] == "adapters" and keys[1] in self._configs:
            model, prefix = type(self._configs[str(keys[1])]), keys[:2]
            data = data["adapters"][keys[1]]
        elif keys[0] != "adapters":  # the other blocks are known to be right
            needed = ("apiVersion", "kind", "name", "run", "adapters", "nodes", keys[0])
            data = {key: child for key, child in data.items() if key in needed}
        try:
            model.model_validate(data)
        except ValidationError as error:
            return problems_of(error, model, root, prefix)
        return []

    def _now(self, members: tuple[Keys, ...]) -> object:
        """The present value of the first field, as text with a unit; None when it is set nowhere."""
        keys = members[0]
        written = self._plain(keys)
        if written is not None:
            return written
        if keys[0] == "adapters":
            return leaf(self._configs.get(str(keys[1])), keys[2:]) if keys[1] in self._configs else None
        if keys[0] in ("nodes", "kinds"):  # what the node has from its kind, its groups and the defaults
            for node in self._world.everything:
                if keys[1] == (node.key if keys[0] == "nodes" else node.kind):
                    return leaf(node.block, keys[2:])
        return leaf(self._scenario, keys)


def free_values(
    scenario: Scenario, root: Item, world: ResolvedNodes, configs: Configs
) -> tuple[list[Free], list[Problem]]:
    """The free values of a scenario with a block `calibrate`, and the mistakes in it."""
    problems: list[Problem] = []
    if scenario.calibrate is None:
        return [], problems
    return FreeValues(scenario, root, world, configs, problems).read(scenario.calibrate), problems


def _cut(path: str) -> list[str]:
    """The parts of a dotted path; the dots of ranges `[1..3]` cut nothing."""
    hidden = _RANGE.sub(lambda match: f"[{match[1]}{_DOTS}{match[2]}]", path)
    return [part.replace(_DOTS, "..") for part in hidden.split(".")]


def _prior(text: str | None, form: Form, scale: str) -> tuple[float, float] | None:
    """Mean and standard deviation of a normal prior, the latter of the logarithm on a log scale; None: uniform."""
    if text is None or text.strip() == "uniform":
        return None
    word, _, rest = text.strip().partition(" ")
    parts = re.split(r"\+-|±", rest)
    example = f"normal {form.text(2.0)} +- {form.text(0.5)}"
    if word != "normal" or len(parts) != 2:
        raise ValueError(f"'{shorten(text)}' is not a prior; write 'uniform' or '{example}'")

    def number(part: str) -> float | None:
        return form.read(float(part) if form.bare and re.fullmatch(r"\s*[-+.\deE]+\s*", part) else part.strip())

    mean = number(parts[0])
    share = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*%\s*", parts[1], re.ASCII)
    spread = abs(mean or 0.0) * float(share[1]) / 100 if share and form.unit != "%" else number(parts[1])
    if mean is None or spread is None or spread <= 0.0:
        raise ValueError(f"prior '{shorten(text)}' is not written as the bounds are; write for example '{example}'")
    if scale == "log":
        if mean <= 0.0:
            raise ValueError(f"the prior '{shorten(text)}' has no place on a log scale; take a mean above 0")
        spread /= mean
    return mean, spread

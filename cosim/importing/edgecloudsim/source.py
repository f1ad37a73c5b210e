"""The three files while they are read: numbers with their place, and all mistakes and notices so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from cosim.contract.errors import Problem, ScenarioError
from cosim.importing.imported import Level, Notice
from cosim.importing.properties import Property
from cosim.importing.xml import Element


@dataclass(slots=True)
class Findings:
    """What was found while reading; `check` raises all mistakes together."""

    problems: list[Problem] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def wrong(self, file: Path, line: int | None, key: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(message, key, file, line, hint=hint))

    def tell(self, level: Level, file: Path, line: int | None, key: str, text: str) -> None:
        self.notices.append(Notice(level, file, line, key, text))

    def check(self) -> None:
        if self.problems:
            raise ScenarioError(self.problems)


def number(text: str, whole: bool, least: float, most: float) -> float | str:
    """The number in `text`, or what is wrong with it."""
    try:
        value = float(int(text)) if whole else float(text)
    except (ValueError, OverflowError):
        return f"'{text[:40]}' is not a {'whole ' if whole else ''}number"
    if not math.isfinite(value):
        return f"'{text[:40]}' is not a finite number"
    if not least <= value <= most:
        return f"{text[:40]} is {'less than' if value < least else 'more than'} {least if value < least else most:g}"
    return value


class Values:
    """Single values by key; the classes below say where they are."""

    file: Path
    findings: Findings

    def value(self, key: str) -> tuple[str, int] | None:
        """The text of `key` and its line, if it is there; it counts as read from now on."""
        raise NotImplementedError

    def absent(self, key: str) -> None:
        """Report that `key`, which is mandatory, is missing."""
        raise NotImplementedError

    def path_of(self, key: str) -> str:
        """How the key is called in messages."""
        return key

    def text(self, key: str, default: str | None = None) -> str:
        """The value of `key`; without a default the key is mandatory."""
        found = self.value(key)
        if found is not None:
            return found[0]
        if default is None:
            self.absent(key)
        return default or ""

    def number(
        self, key: str, default: float | None = None, *, whole: bool = False, least: float = 0.0, most: float = 1e15
    ) -> float:
        """The value of `key` as a number between `least` and `most`; 0 after reporting that it is none."""
        found = self.value(key)
        if found is None:
            if default is None:
                self.absent(key)
            return default or 0.0
        value = number(found[0], whole, least, most)
        if isinstance(value, str):
            self.findings.wrong(self.file, found[1], self.path_of(key), value)
            return 0.0
        return value


@dataclass(slots=True)
class Settings(Values):
    """A property file; remembers which keys were asked for."""

    file: Path
    properties: dict[str, Property]
    findings: Findings
    asked: set[str] = field(default_factory=set)

    def line(self, key: str) -> int | None:
        entry = self.properties.get(key)
        return entry.line if entry else None

    def value(self, key: str) -> tuple[str, int] | None:
        self.asked.add(key)
        entry = self.properties.get(key)
        return None if entry is None else (entry.value.strip(), entry.line)

    def absent(self, key: str) -> None:
        self.findings.wrong(self.file, None, key, "is missing", "EdgeCloudSim does not start without it either")

    def words(self, key: str) -> list[str]:
        """The comma list of `key`."""
        found = [word.strip() for word in self.text(key).split(",") if word.strip()]
        if not found and key in self.properties:
            self.findings.wrong(self.file, self.line(key), key, "names nothing", "list one or more, with commas")
        return found


@dataclass(slots=True)
class Branch(Values):
    """An XML element whose children are single values."""

    file: Path
    element: Element
    path: str
    findings: Findings
    known: set[str] = field(default_factory=set)

    def value(self, key: str) -> tuple[str, int] | None:
        self.known.add(key)
        child = self.element.first(key)
        return None if child is None else (child.text.strip(), child.line)

    def absent(self, key: str) -> None:
        self.findings.wrong(self.file, self.element.line, self.path_of(key), "is missing")

    def path_of(self, key: str) -> str:
        return f"{self.path}.{key}"

    def branches(self, key: str) -> list[Branch]:
        """The children `key`, numbered in their paths."""
        self.known.add(key)
        return [
            Branch(self.file, child, f"{self.path}.{key}[{at}]", self.findings)
            for at, child in enumerate(self.element.all(key))
        ]

    def finish(self) -> None:
        """Report the children that nobody reads, and those given twice."""
        seen: set[str] = set()
        for child in self.element.children:
            if child.name not in self.known:
                text = "EdgeCloudSim does not read it, and nothing here does"
                self.findings.tell("ignored", self.file, child.line, f"{self.path}.{child.name}", text)
            elif child.name in seen and not child.children:
                text = "is given twice; the first one holds"
                self.findings.tell("ignored", self.file, child.line, f"{self.path}.{child.name}", text)
            seen.add(child.name)

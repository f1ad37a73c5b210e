"""The three files while they are read: numbers with their place, and all mistakes and notices so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from cosim.errors import Problem, ScenarioError
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


@dataclass(slots=True)
class Settings:
    """A property file; remembers which keys were asked for."""

    file: Path
    properties: dict[str, Property]
    findings: Findings
    asked: set[str] = field(default_factory=set)

    def line(self, key: str) -> int | None:
        entry = self.properties.get(key)
        return entry.line if entry else None

    def text(self, key: str, default: str | None = None) -> str:
        """The value of `key`; without a default the key is mandatory."""
        self.asked.add(key)
        entry = self.properties.get(key)
        if entry is not None:
            return entry.value.strip()
        if default is None:
            self.findings.wrong(self.file, None, key, "is missing", "EdgeCloudSim does not start without it either")
            return ""
        return default

    def number(
        self, key: str, default: float | None = None, *, whole: bool = False, least: float = 0.0, most: float = 1e15
    ) -> float:
        """The value of `key` as a number between `least` and `most`; 0 after reporting that it is none."""
        text = self.text(key, None if default is None else repr(default))
        if key not in self.properties:
            return default or 0.0
        value = number(text, whole, least, most)
        if isinstance(value, str):
            self.findings.wrong(self.file, self.line(key), key, value)
            return 0.0
        return value

    def words(self, key: str) -> list[str]:
        """The comma list of `key`."""
        found = [word.strip() for word in self.text(key).split(",") if word.strip()]
        if not found and key in self.properties:
            self.findings.wrong(self.file, self.line(key), key, "names nothing", "list one or more, with commas")
        return found


@dataclass(slots=True)
class Branch:
    """An XML element whose children are single values."""

    file: Path
    element: Element
    path: str
    findings: Findings
    known: set[str] = field(default_factory=set)

    def text(self, key: str, default: str | None = None) -> str:
        self.known.add(key)
        child = self.element.first(key)
        if child is not None:
            return child.text.strip()
        if default is None:
            self.findings.wrong(self.file, self.element.line, f"{self.path}.{key}", "is missing")
            return ""
        return default

    def number(
        self, key: str, default: float | None = None, *, whole: bool = False, least: float = 0.0, most: float = 1e15
    ) -> float:
        """The child `key` as a number between `least` and `most`; 0 after reporting that it is none."""
        text = self.text(key, None if default is None else repr(default))
        child = self.element.first(key)
        if child is None:
            return default or 0.0
        value = number(text, whole, least, most)
        if isinstance(value, str):
            self.findings.wrong(self.file, child.line, f"{self.path}.{key}", value)
            return 0.0
        return value

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

"""Values of a source while it is read: numbers with their place, and all mistakes and notices so far."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from cosim.contract.delimited import plain_of, text_of
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.hints import nearest
from cosim.sources.importing.imported import Level, Notice

MOST_BYTES = 4_000_000  # no configuration of people is larger
_DECODER = json.JSONDecoder()
_DEEPEST = 32  # levels of a file; those read here have four
_SCALAR = re.compile(r"[^\s,\]}]+")


def read_bytes(file: Path) -> bytes:
    """The content of an input file, unpacked. Raises `ScenarioError` when it is not there or far too large."""
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ScenarioError(Problem(f"cannot be read: {error.strerror or error}", file=file)) from error
    content = plain_of(content, file) if len(content) <= MOST_BYTES else content
    if len(content) > MOST_BYTES:
        raise ScenarioError(Problem(f"is larger than {MOST_BYTES:,} B", file=file, hint="is it the right file?"))
    return content


@dataclass(slots=True)
class Findings:
    """What was found while reading; `check` raises all mistakes together."""

    problems: list[Problem] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def wrong(self, file: Path, line: int | None, key: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(message, key, file, line, hint=hint))

    def report(self, level: Level, file: Path, line: int | None, key: str, text: str) -> None:
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
    """Single values by key; the subclass of each source locates them."""

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


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A value of a JSON or YAML file: its text, its items or its fields; None for null."""

    content: str | list[LocatedValue] | dict[str, LocatedValue] | None
    line: int  # 1-based
    twice: tuple[str, ...] = ()  # keys that are there more than once; the last one counts


@dataclass(slots=True)
class Fields(Values):
    """A mapping in a JSON or YAML file whose fields are asked for by name, or by the other names that files use."""

    file: Path
    placed: LocatedValue
    path: str  # dotted, "" at the top
    findings: Findings
    known: set[str] = field(default_factory=set)

    @property
    def line(self) -> int:
        return self.placed.line

    def find(self, key: str, *also: str) -> LocatedValue | None:
        """The field `key`, or the first of `also` that is there; null counts as absent."""
        self.known |= {key, *also}
        content = self.placed.content
        assert isinstance(content, dict)
        for name in (key, *also):
            if name in content and content[name].content is not None:
                return content[name]
        return None

    def value(self, key: str) -> tuple[str, int] | None:
        found = self.find(*key.split("|"))
        if found is None:
            return None
        if not isinstance(found.content, str):
            self.findings.wrong(self.file, found.line, self.path_of(key), "is a list or a mapping, not one value")
            return None
        return found.content, found.line

    def absent(self, key: str) -> None:
        found = self.find(*key.split("|"))
        if found is None:
            self.findings.wrong(self.file, self.line, self.path_of(key), "is missing")

    def path_of(self, key: str) -> str:
        """`key` may be `pes|numOfPes`: the name in the file counts, else the first."""
        content = self.placed.content
        assert isinstance(content, dict)
        names = key.split("|")
        name = next((name for name in names if name in content), names[0])
        return f"{self.path}.{name}" if self.path else name

    def line_of(self, key: str) -> int:
        """Of the field, or of the mapping without it."""
        found = self.find(*key.split("|"))
        return self.line if found is None else found.line

    def wrong(self, key: str, message: str, hint: str = "") -> None:
        """Note a mistake in the field `key`."""
        self.findings.wrong(self.file, self.line_of(key), self.path_of(key), message, hint)

    def report(self, level: Level, key: str, text: str) -> None:
        """Note something about the field `key`."""
        self.findings.report(level, self.file, self.line_of(key), self.path_of(key), text)

    def mappings(self, key: str, *, empty: bool = False) -> list[Fields]:
        """The mappings in the list `key`, which is mandatory; what is none is a mistake, and so is an `empty` list."""
        found = self.find(*key.split("|"))
        path = self.path_of(key)
        if found is None:
            self.absent(key)
            return []
        if not isinstance(found.content, list):
            self.findings.wrong(self.file, found.line, path, "is not a list")
            return []
        if not found.content and not empty:
            self.findings.wrong(self.file, found.line, path, "is empty")
        made = []
        for number, item in enumerate(found.content):
            if isinstance(item.content, dict):
                made.append(Fields(self.file, item, f"{path}[{number}]", self.findings))
            else:
                self.findings.wrong(self.file, item.line, f"{path}[{number}]", "is not a mapping")
        return made

    def ignore(self, why: str, *keys: str) -> None:
        """Report fields that have no effect."""
        for key in keys:
            if self.find(*key.split("|")) is not None:
                self.report("ignored", key, why)

    def know_all(self) -> None:
        """Count all fields as asked for."""
        content = self.placed.content
        assert isinstance(content, dict)
        self.known |= set(content)

    def finish(self, reader: str) -> None:
        """Report fields that were not read or are given twice; `reader` is the program whose format it is."""
        content = self.placed.content
        assert isinstance(content, dict)
        for key, item in content.items():
            path = f"{self.path}.{key}" if self.path else key
            if key in self.placed.twice:
                self.findings.report("ignored", self.file, item.line, path, "is given twice; this one holds")
            if key in self.known:
                continue
            close = nearest(key, sorted(self.known - set(content)), cutoff=0.75)
            text = f"{reader} does not read it, and nothing here does" + (f"; did you mean {close}?" if close else "")
            self.findings.report("misspelt" if close else "ignored", self.file, item.line, path, text)


def merged(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Notices by file and line; equal ones about items of a list are merged, with their number."""
    groups: dict[tuple[str, str, str], list[Notice]] = {}
    for notice in sorted(notices, key=lambda one: (str(one.file), one.line or 0)):
        groups.setdefault((notice.level, re.sub(r"\[\d+\]", "", notice.key), notice.text), []).append(notice)
    return tuple(
        same[0] if len(same) == 1 else replace(same[0], text=f"{same[0].text} (and {len(same) - 1} more)")
        for same in groups.values()
    )


def read_json(file: Path) -> LocatedValue:
    """The value in a JSON file. Raises `ScenarioError` when it cannot be read or is no JSON."""
    text = text_of(read_bytes(file), file)
    try:
        json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ScenarioError(Problem(f"is not JSON: {error.msg}", file=file, line=error.lineno)) from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError(Problem(f"is not JSON that can be read: {error}", file=file)) from None
    return _Json(text, file).value(0)


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


class _Json:
    """Reads text that is known to be JSON once more, for the lines."""

    def __init__(self, text: str, file: Path) -> None:
        self._text, self._file = text, file
        self._at, self._line, self._counted = 0, 1, 0

    def value(self, depth: int) -> LocatedValue:
        if depth > _DEEPEST:
            raise ScenarioError(Problem(f"is nested deeper than {_DEEPEST}", file=self._file, line=self._line))
        first = self._peek()
        line = self._line
        if first == '"':
            return LocatedValue(self._string(), line)
        if first not in "[{":
            word = _SCALAR.match(self._text, self._at)
            assert word is not None
            self._at = word.end()
            return LocatedValue(None if word[0] == "null" else word[0], line)
        self._at += 1
        items: list[LocatedValue] = []
        fields: dict[str, LocatedValue] = {}
        twice = []
        while self._peek() not in "]}":
            if first == "[":
                items.append(self.value(depth + 1))
            else:
                key = self._string()
                self._peek()
                self._at += 1  # the colon
                twice += [key] if key in fields else []
                fields[key] = self.value(depth + 1)
            if self._peek() == ",":
                self._at += 1
        self._at += 1
        return LocatedValue(items if first == "[" else fields, line, tuple(twice))

    def _string(self) -> str:
        text, self._at = _DECODER.raw_decode(self._text, self._at)
        return str(text)

    def _peek(self) -> str:
        """The next character that is no white space; keeps the line."""
        while self._text[self._at] in " \t\r\n":
            self._at += 1
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._text[self._at]


def read_yaml(file: Path) -> list[LocatedValue]:
    """The documents of a YAML file, tags left out. Raises `ScenarioError` when it cannot be read or is no YAML."""
    made: dict[int, LocatedValue] = {}
    return [_placed(node, file, 0, made) for node in yaml_nodes(file)]


def yaml_nodes(file: Path) -> list[Node]:
    """The documents of a YAML file as nodes. Raises `ScenarioError` when it cannot be read or is no YAML."""
    text = text_of(read_bytes(file), file)
    try:
        return [node for node in YAML(typ="safe", pure=True).compose_all(text) if node is not None]
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        line = None if mark is None else int(mark.line) + 1
        raise ScenarioError(Problem(f"is not YAML: {said}", file=file, line=line)) from None
    except (ValueError, RecursionError, AttributeError, IndexError, AssertionError, TypeError) as error:
        # what the parser lets through on odd input: it has no error of its own for these
        raise ScenarioError(Problem(f"is not YAML that can be read: {type(error).__name__}", file=file)) from None


def _placed(node: Node, file: Path, depth: int, made: dict[int, LocatedValue]) -> LocatedValue:
    """`node` as a value; `made` are those of nodes that aliases may name again."""
    if id(node) not in made:
        made[id(node)] = _new(node, file, depth, made)
    return made[id(node)]


def _new(node: Node, file: Path, depth: int, made: dict[int, LocatedValue]) -> LocatedValue:
    line = int(node.start_mark.line) + 1
    if depth > _DEEPEST:
        raise ScenarioError(Problem(f"is nested deeper than {_DEEPEST}", file=file, line=line))
    if isinstance(node, ScalarNode):
        text = str(node.value).strip()
        return LocatedValue(None if node.style is None and text in ("", "~", "null") else text, line)
    if isinstance(node, SequenceNode):
        return LocatedValue([_placed(item, file, depth + 1, made) for item in node.value], line)
    assert isinstance(node, MappingNode)
    fields: dict[str, LocatedValue] = {}
    twice = []
    for key, value in node.value:
        name = str(key.value) if isinstance(key, ScalarNode) else "?"
        twice += [name] if name in fields else []
        below = _placed(value, file, depth + 1, made)
        fields[name] = replace(below, line=int(key.start_mark.line) + 1)  # a block stands below its key
    return LocatedValue(fields, line, tuple(twice))

"""YAML text -> `Item` tree, with limits on everything that a hostile or broken file could blow up.

The YAML parser delivers events; the tree is built here, so that depth, number of values, aliases,
tags and repeated keys are checked before anything large exists. Scalars follow the YAML 1.2 core
schema: `yes`, `on` and `12:30` are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from cosim.contract.errors import Problem
from cosim.contract.seals import check_text
from cosim.scenario.tree import Item, SourcePlace

LARGEST_FILE = 4_000_000  # bytes
MOST_VALUES = 400_000  # after aliases are followed
DEEPEST = 48  # nested lists and mappings
_KEPT = 32  # documents, the last that were read: sweeps and calibrations read theirs for every set of values
_KEPT_SIZE = 65_536  # characters of a kept document at most, a tree of some MB

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}|0o[0-7]{1,20}|0x[0-9a-fA-F]{1,15}", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_UNFIT = re.compile("[\0\ud800-\udfff]")  # cannot be part of a path or be written as UTF-8
_CORE = "tag:yaml.org,2002:"


class _Mark(Protocol):
    line: int
    column: int


class _Halt(Exception):  # noqa: N818 - it carries a problem, it is none itself
    """The document cannot be read any further."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def read_file(file: Path, problems: list[Problem]) -> Item | None:
    """The document in `file`, or None after adding to `problems` why there is none.

    Mistakes that leave a readable tree (a repeated key, an unknown tag) are added to `problems` too. Raises
    `DamagedError` for what `cosim calibrate` wrote and somebody has changed.
    """
    try:
        with file.open("rb") as stream:
            raw = stream.read(LARGEST_FILE + 1)
    except OSError as error:
        problems.append(Problem(f"cannot be read: {error.strerror or error}", file=file))
        return None
    if len(raw) > LARGEST_FILE:
        hint = "keep large data in files of their own"
        problems.append(Problem(f"is larger than {LARGEST_FILE // 1_000_000} MB", file=file, hint=hint))
        return None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        utf_16 = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
        hint = f"{'the file is UTF-16; ' if utf_16 else ''}save it as UTF-8"
        problems.append(Problem(f"byte 0x{raw[error.start]:02x} is not UTF-8", "", file, line, column, hint))
        return None
    check_text(text, file)
    return read_text(text, file, problems)


def read_text(text: str, file: Path | None, problems: list[Problem]) -> Item | None:
    """The document in `text`; `file` is what problems name."""
    root, found = (_read if len(text) <= _KEPT_SIZE else _read.__wrapped__)(text, file)
    problems.extend(found)
    return root


@lru_cache(_KEPT)
def _read(text: str, file: Path | None) -> tuple[Item | None, list[Problem]]:
    problems: list[Problem] = []
    try:
        return _Reader(file, problems).document(_events(text, file)), problems
    except _Halt as stop:
        return None, [*problems, stop.problem]


def _events(text: str, file: Path | None) -> Iterator[Any]:  # Any: ruamel.yaml's events have no common base
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        unclosed = error.problem == "found unexpected end of stream" and error.context_mark  # a quote: where it opens
        mark = unclosed or error.problem_mark or error.context_mark
        message, hint = _wording(error.problem or str(error.context), text, mark)
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise _Halt(Problem(message, "", file, line, column, hint)) from None
    except YAMLError as error:
        position = getattr(error, "position", None)
        line = text.count("\n", 0, position) + 1 if isinstance(position, int) else None
        reason = getattr(error, "reason", None) or str(error).splitlines()[0]
        column = position - text.rfind("\n", 0, position) if isinstance(position, int) else None
        if reason == "special characters are not allowed" and isinstance(position, int):
            reason = f"control character {text[position]!r}"
        raise _Halt(Problem(f"is not YAML: {reason}", "", file, line, column)) from None
    except Exception as error:  # noqa: BLE001 - the parser's own slips on broken input are still the input's fault
        raise _Halt(Problem(f"is not YAML: the parser gave up ({type(error).__name__})", "", file)) from None


def _wording(reason: str, text: str, mark: _Mark | None) -> tuple[str, str]:
    """The parser's complaint in words for an author, and what to do."""
    line = text.split("\n", mark.line + 1)[mark.line] if mark and mark.line <= text.count("\n") else ""
    if "\t" in line[: mark.column + 1 if mark else 0] or "'\\t'" in reason:
        return "a tab is used for indentation", "YAML allows spaces only"
    if "expected <block end>" in reason or "mapping values are not allowed" in reason:
        return f"is not YAML: {reason}", "check the indentation, and quote text that holds ': '"
    if "undefined alias" in reason:
        return f"is not YAML: {reason}", "define it before with &name"
    if "could not find expected ':'" in reason:
        return f"is not YAML: {reason}", "write a space after ':'"
    if "unexpected end of stream" in reason:
        return "is not YAML: a quote is not closed", ""
    if "expected ',' or" in reason and mark and line[mark.column - 1 : mark.column + 1] == "${":
        return f"is not YAML: {reason}", "put text with ${...} in quotes"
    if "expected ',' or" in reason:
        return f"is not YAML: {reason}", "a comma is missing, or a bracket is not closed"
    return f"is not YAML: {reason}", ""


class _Reader:
    """Builds the tree of one document."""

    def __init__(self, file: Path | None, problems: list[Problem]) -> None:
        self.file = file
        self.problems = problems
        self.anchors: dict[str, Item | None] = {}  # None while the anchored value is not complete

    def document(self, events: Iterator[Any]) -> Item:
        from ruamel.yaml import events as kinds

        root: Item | None = None
        for event in events:
            if isinstance(event, kinds.DocumentStartEvent):
                if root is not None:
                    raise self._stop(event, "a second document starts here", "a scenario is one document; remove '---'")
                root = self._value(next(events), events, 0)
        return root if root is not None else Item(None, SourcePlace(self.file, 1, 1))

    def _value(self, event: Any, events: Iterator[Any], depth: int) -> Item:  # noqa: ANN401 - see _events
        from ruamel.yaml import events as kinds

        if depth > DEEPEST:
            raise self._stop(event, f"more than {DEEPEST} levels of nesting")
        if isinstance(event, kinds.AliasEvent):
            return self._alias(event)
        anchor = event.anchor
        if anchor:
            self.anchors[anchor] = None
        if isinstance(event, kinds.ScalarEvent):
            item = Item(self._scalar(event), self._place(event))
        elif isinstance(event, kinds.SequenceStartEvent):
            self._check_tag(event, ("seq",))
            item = self._list(event, events, depth)
        else:
            self._check_tag(event, ("map",))
            item = self._mapping(event, events, depth)
        if anchor:
            self.anchors[anchor] = item
        return item

    def _list(self, start: Any, events: Iterator[Any], depth: int) -> Item:  # noqa: ANN401
        from ruamel.yaml import events as kinds

        children: list[Item] = []
        item = Item(children, self._place(start))
        while not isinstance(event := next(events), kinds.SequenceEndEvent):
            children.append(self._value(event, events, depth + 1))
            self._grow(item, children[-1], event)
        return item

    def _mapping(self, start: Any, events: Iterator[Any], depth: int) -> Item:  # noqa: ANN401
        from ruamel.yaml import events as kinds

        entries: dict[str, Item] = {}
        item = Item(entries, self._place(start))
        inherited: list[Item] = []
        while not isinstance(event := next(events), kinds.MappingEndEvent):
            name = self._key(event, events, depth)
            child = self._value(next(events), events, depth + 1)
            self._grow(item, child, event)
            if name == "<<" and event.style is None:
                inherited += child.value if isinstance(child.value, list) else [child]
            elif name is not None and name in entries:
                first = item.keys[name].line
                self._add(event, f"key '{name}' appears twice", f"the first one is in line {first}")
            elif name is not None:
                entries[name] = child
                item.keys[name] = self._place(event)
        for source in inherited:
            if not isinstance(source.value, dict):
                self._add(start, "'<<' takes a mapping or a list of mappings", "write '<<: *name'")
                continue
            for name, child in source.value.items():
                if name not in entries:
                    entries[name] = child
                    item.keys[name] = source.keys[name]
        return item

    def _key(self, event: Any, events: Iterator[Any], depth: int) -> str | None:  # noqa: ANN401
        from ruamel.yaml import events as kinds

        if isinstance(event, kinds.ScalarEvent):
            self._check_tag(event, ("str",))
            return self._text(event)
        self._value(event, events, depth + 1)
        self._add(event, "a key must be text", "put it in quotes if it starts with [, { or *")
        return None

    def _alias(self, event: Any) -> Item:  # noqa: ANN401
        if event.anchor not in self.anchors:
            raise self._stop(event, f"alias '*{event.anchor}' has no anchor", f"define '&{event.anchor}' before")
        item = self.anchors[event.anchor]
        if item is None:
            raise self._stop(event, f"alias '*{event.anchor}' stands inside the value that it refers to")
        return item

    def _grow(self, item: Item, child: Item, event: Any) -> None:  # noqa: ANN401
        item.size += child.size
        if item.size > MOST_VALUES:
            raise self._stop(event, f"more than {MOST_VALUES:,} values, aliases included")

    def _scalar(self, event: Any) -> str | int | float | bool | None:  # noqa: ANN401
        text = self._text(event)
        tag = self._check_tag(event, ("str", "int", "float", "bool", "null"))
        if event.style is not None or tag == "str":  # quoted
            return text
        return resolve(text)

    def _text(self, event: Any) -> str:  # noqa: ANN401
        text = str(event.value)
        if _UNFIT.search(text):
            self._add(event, "text holds a zero or half a character", "write it out, without \\0 and \\ud800")
            return ""
        return text

    def _check_tag(self, event: Any, allowed: tuple[str, ...]) -> str:  # noqa: ANN401
        tag = str(event.tag or "")
        if tag in ("", "!"):
            return "str" if tag else ""
        short = tag.removeprefix(_CORE)
        if short == tag or short not in allowed:
            self._add(event, f"tag '{tag.replace(_CORE, '!!')}' is not allowed here", "a scenario holds plain values")
        return short

    def _place(self, event: Any) -> SourcePlace:  # noqa: ANN401
        return SourcePlace(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _problem(self, event: Any, message: str, hint: str = "") -> Problem:  # noqa: ANN401
        where = self._place(event)
        return Problem(message, "", where.file, where.line, where.column, hint)

    def _add(self, event: Any, message: str, hint: str = "") -> None:  # noqa: ANN401
        self.problems.append(self._problem(event, message, hint))

    def _stop(self, event: Any, message: str, hint: str = "") -> _Halt:  # noqa: ANN401
        return _Halt(self._problem(event, message, hint))


def resolve(text: str) -> str | int | float | bool | None:
    """What an unquoted YAML scalar stands for."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= 64:
        if _INTEGER.fullmatch(text):
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text

"""What the values of a scenario can reach: an allow-list for scenarios of untrusted authors.

A scenario is code when it runs: it may name programs to start and functions to import. If its author is not trusted
(`cosim run --untrusted`), or if another user's run asks a worker for its adapter, only values whose field is marked as
harmless are taken. The mark stands where the field is declared, in its annotation:

    PlainText()   plain data, never a module, a command, an address or a file
    NoCode()      a name of a closed list, where `module:function` would be code
    DataFile()    a file or folder of the scenario's folder, read as data
    Trusted(WHY)  code, a command, an address or an output

Numbers and literals need no mark, and text without one is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from cosim.contract import environment

if TYPE_CHECKING:
    from pydantic import BaseModel

Keys = tuple[str | int, ...]
_MODE = "COSIM_UNTRUSTED"

_FILE_OF = re.compile(r"^\s*(?:trace|points)\s+(?=\S)")  # words before the name of a file
_NAME = re.compile(r"[\w.+@=()/ -]+")  # of a file that an untrusted scenario may bring


def distrust(wanted: bool = True) -> None:
    """Take scenarios as data from now on, in the processes that this one starts too, if it is `wanted`.

    Their interpreters import nothing from the working folder, which may be the scenario's.
    """
    if wanted:
        os.environ |= {_MODE: "1", "PYTHONSAFEPATH": "1"}


def distrusting() -> bool:
    """Whether scenarios are taken as data alone."""
    return environment.text(_MODE) not in ("", "0")


class PlainText:
    """What a text may hold: here plain data, which names nothing outside the scenario."""

    def problem(self, text: object, folder: Path) -> str:
        """Why an untrusted scenario in `folder` may not have `text` here; "" if it may."""
        return ""


Words = Annotated[str, PlainText()]
Values = Annotated[Any, PlainText()]


@dataclass(frozen=True)
class Trusted(PlainText):
    """Reaches beyond the scenario; `what` completes "it ...". Only the default is allowed.

    ``Annotated[str | None, Trusted("runs a program")]``
    """

    what: str

    def problem(self, text: object, folder: Path) -> str:
        return self.what


@dataclass(frozen=True)
class NoCode(PlainText):
    """A name of a closed list, or a condition, in whose place `module:function` would be code."""

    def problem(self, text: object, folder: Path) -> str:
        return f"names '{str(text)[:60]}', which is code" if ":" in str(text) else ""


@dataclass(frozen=True)
class DataFile(PlainText):
    """A file or folder that is read as data, seen from the scenario's folder.

    Where the text begins with the word `after`, the rest is the name, and no other text is one. `unsafe` returns why
    a file acts when it is read, "" if it does not; files of installed packages (`package:NAME/PATH`) are not asked.
    """

    after: str = ""
    unsafe: Callable[[Path], str] | None = None

    def problem(self, text: object, folder: Path) -> str:
        words = str(text).split(None, 1)
        if self.after and (len(words) < 2 or words[0] != self.after):
            return ""
        name = words[1].strip() if self.after else str(text)
        path, quoted = folder / name, f"names '{name[:60]}', "
        if name.startswith("package:") and ".." not in name:
            return ""
        if is_outside(name, folder):
            return f"{quoted}which is outside the scenario's folder"
        if _NAME.fullmatch(name) is None or name != name.strip():  # programs split lists of files, and expand patterns
            return f"{quoted}which has other characters than letters, digits, blanks and _ . + @ = ( ) / -"
        if not (path.is_file() or path.is_dir()):
            return f"{quoted}which is no file of the scenario's folder"
        if any(is_outside(str(one.relative_to(folder)), folder) for one in path.rglob("*")):
            return f"{quoted}in which a link leads out of the scenario's folder"
        return self.unsafe(path) if self.unsafe is not None else ""


@dataclass(frozen=True)
class InputFile(DataFile):
    """Marks a configuration field, ``Annotated[str, InputFile()]``, that names files to be read, in whatever block.

    The scenario is refused when such a file is not there, seen from the scenario's folder. Not looked
    for are files inside packages (``package:...``) and those of an adapter that runs elsewhere.
    """


FileName = Annotated[str, DataFile()]


def files_in(annotation: Any, value: object, at: Keys = (), named: bool = False) -> Iterator[tuple[Keys, str]]:  # noqa: ANN401 - a type
    """The files (`InputFile`) that `value`, held by a field of this type, names: where and which."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from files_in(parts[0], value, at, named or any(isinstance(mark, InputFile) for mark in parts[1:]))
    elif origin in (Union, UnionType):
        for part in () if _is_word(parts, value) else parts:
            yield from files_in(part, value, at, named)
    elif fields := getattr(type(value), "model_fields", None):
        for key, field in fields.items():
            marked = any(isinstance(mark, InputFile) for mark in field.metadata)
            yield from files_in(field.annotation, getattr(value, key), (*at, field.alias or key), marked)
    elif isinstance(value, Mapping | list | tuple) and parts:
        for key, child in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from files_in(parts[-1] if isinstance(value, Mapping) else parts[0], child, (*at, key), named)
    elif named and isinstance(value, str) and annotation is str:
        yield at, value


def refused(
    annotation: Any,  # noqa: ANN401 - a type, or what stands in its brackets
    value: object,
    folder: Path,
    at: Keys = (),
    marks: tuple[object, ...] = (),
) -> Iterator[tuple[Keys, str]]:
    """What of `value`, written for a field of this type, an untrusted scenario in `folder` may not have, and why."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from refused(parts[0], value, folder, at, (*marks, *parts[1:]))
    elif value is None or origin is Literal:
        yield from ((at, mark.what) for mark in marks if isinstance(mark, Trusted) and value is not None)
    elif trusted := next((mark for mark in marks if isinstance(mark, Trusted)), None):
        yield at, trusted.what
    elif origin in (Union, UnionType):
        for part in () if _is_word(parts, value) else parts:
            yield from refused(part, value, folder, at, marks)
    elif isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        yield from _in_block(annotation, value, folder, at)
    elif origin is not None:
        key, inner = (parts[0], parts[-1]) if isinstance(value, Mapping) else (str, parts[0])
        if isinstance(value, Mapping):
            for word, child in value.items():
                yield from refused(key, word, folder, (*at, word), marks)
                yield from refused(inner, child, folder, (*at, word), marks)
        for index, child in enumerate(value if isinstance(value, list | tuple) else ()):
            yield from refused(inner, child, folder, (*at, index), marks)
    elif isinstance(value, str) if annotation is str else may_name(annotation) and not isinstance(value, int | float):
        known = [mark for mark in marks if isinstance(mark, PlainText)]
        yield from ((at, why) for mark in known if (why := mark.problem(value, folder)))
        if not known:
            yield at, "holds text whose reach is not declared"


def _is_word(parts: tuple[Any, ...], value: object) -> bool:
    """Whether `value` is one of the words that a union of these types lists."""
    return any(get_origin(part) is Literal and value in get_args(part) for part in parts)


def may_name(annotation: Any) -> bool:  # noqa: ANN401 - a type
    """Whether values of this type, which has no parts, may be text that names something."""
    return annotation not in (int, float, bool, type(None), ...)


def _in_block(model: type[BaseModel], value: object, folder: Path, at: Keys) -> Iterator[tuple[Keys, str]]:
    for kind, short in ((str, "TEXT"), (list, "LIST")):
        if isinstance(value, kind) and (key := getattr(model, short, "")):
            value = {key: value}
    fields = {**model.model_fields}
    fields |= {field.alias: field for field in model.model_fields.values() if field.alias is not None}
    for key, child in value.items() if isinstance(value, Mapping) else ():
        field = fields.get(key)  # unknown keys are errors of the ordinary check
        if field is not None and child != field.default:
            yield from refused(field.annotation, child, folder, (*at, key), tuple(field.metadata))


def path_in(text: str) -> str:
    """The name of a file in `text`, without the words before it, as of `trace tasks.csv`."""
    return _FILE_OF.sub("", text, count=1).strip()


def is_outside(text: str, folder: Path) -> bool:
    """Whether the path `text`, seen from `folder`, leads elsewhere, be it by a link."""
    if text.startswith(("/", "~", "file:")) or "://" in text or ".." in text.split("/"):
        return True
    try:
        there = folder / text
        return there.exists() and not there.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # too long for a path, or a loop of links
        return True

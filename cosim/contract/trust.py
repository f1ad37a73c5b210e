"""Values of a scenario that reach beyond it: code, commands, addresses, files elsewhere.

A scenario is code when it runs: it may name programs to start and functions to import. If its author is not trusted
(`cosim run --untrusted`), or if another user's run asks a worker for its adapter, these values are refused, or must
have been given by the owner of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from cosim.contract.block import parts_of

Keys = tuple[str | int, ...]

_CODE = re.compile(r"(?!(?:kind|tier|package):)[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)
_FILE_OF = re.compile(r"^\s*(?:trace|points)\s+(?=\S)")  # words before the name of a file
_WORDS = ("title", "description")  # keys whose values are text for people


@dataclass(frozen=True, slots=True)
class Trusted:
    """Marks a configuration field that reaches beyond the scenario; `what` completes "it ...".

    ``Annotated[str | None, Trusted("runs a program")]``
    """

    what: str


def reaching(model: type[BaseModel], data: object, at: Keys = ()) -> Iterator[tuple[Keys, str]]:
    """The values in `data`, a block of `model`, that are marked `Trusted`: where they are, and what they do."""
    if not isinstance(data, Mapping):
        return
    for name, field in model.model_fields.items():
        key = field.alias if field.alias is not None and field.alias in data else name
        value = data.get(key)
        if value in (None, "", [], {}):
            continue
        for mark in field.metadata:
            if isinstance(mark, Trusted):
                yield (*at, key), mark.what
        inner = [part for part in parts_of(field.annotation) if isinstance(part, type) and issubclass(part, BaseModel)]
        for part in inner:
            if isinstance(value, Mapping):
                yield from reaching(part, value, (*at, key))
                for word, child in value.items():
                    yield from reaching(part, child, (*at, key, word))
            for index, child in enumerate(value if isinstance(value, list) else ()):
                yield from reaching(part, child, (*at, key, index))


def code(data: object, at: Keys = ()) -> Iterator[tuple[Keys, str]]:
    """The texts in `data` that name a function or class to import, module:name, and where they are."""
    return ((keys, text) for keys, text in _texts(data, at) if _CODE.fullmatch(text))


def outside(data: object, folder: Path, at: Keys = ()) -> Iterator[tuple[Keys, str]]:
    """The texts in `data` that name files outside `folder`, and where they are."""
    return ((keys, text) for keys, text in _texts(data, at) if is_outside(text, folder))


def path_in(text: str) -> str:
    """The name of a file in `text`, without the words before it, as of `trace tasks.csv`."""
    return _FILE_OF.sub("", text, count=1).strip()


def is_outside(text: str, folder: Path) -> bool:
    """Whether `text`, as a path seen from `folder`, leads elsewhere, be it by a link."""
    text = path_in(text)
    if text.startswith(("/", "~", "file:")) or ".." in text.split("/"):
        return True
    try:
        there = folder / text
        return there.exists() and not there.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # too long for a path, or a loop of links
        return False


def _texts(data: object, at: Keys) -> Iterator[tuple[Keys, str]]:
    if isinstance(data, str):
        if not at or at[-1] not in _WORDS:
            yield at, data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _texts(value, (*at, key))
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            yield from _texts(value, (*at, index))

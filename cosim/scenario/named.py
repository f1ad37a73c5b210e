"""The files that the texts of a scenario name: data, what a SUMO configuration names, modules with policies."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cosim.contract.trust import path_in

_FUNCTION = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_]\w*", re.ASCII)


def texts(value: object) -> Iterator[str]:
    """Every text in a tree of mappings and lists, in the order of the keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from texts(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts(item)


def files_named(folder: Path, text: str) -> list[Path]:
    """The files that `text` of a scenario in `folder` names; of a function all modules beside the scenario."""
    if len(text) > 1024 or "\0" in text:
        return []
    module = _FUNCTION.fullmatch(text)
    if module:
        place = folder / module[1].split(".")[0]
        if place.with_suffix(".py").is_file() or place.is_dir():
            return sorted({*folder.glob("*.py"), *(place.rglob("*.py") if place.is_dir() else ())})
    name = path_in(text)
    try:
        if not name or not (folder / name).is_file():
            return []
    except OSError:
        return []
    path = Path(os.path.normpath(folder / name))
    if path.suffix != ".sumocfg":
        return [path]
    named = re.findall(r'value="([^"]+)"', path.read_text(encoding="utf-8", errors="replace"))
    beside = [path.parent / part.strip() for value in named for part in value.split(",")]
    return [path, *(Path(os.path.normpath(file)) for file in beside if file.is_file())]

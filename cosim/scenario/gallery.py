"""The scenarios that come with this package and with other installed ones, to look through and to copy."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cosim.contract.errors import SetupError
from cosim.contract.functions import without_extension
from cosim.contract.hints import did_you_mean
from cosim.contract.plugins import installed
from cosim.scenario.gather import FILE, shipped
from cosim.scenario.reading import read_file
from cosim.scenario.tree import plain

SCHEMA = "scenario.v1.json"  # beside the folders of copied scenarios, for editors
_LINE = re.compile(r"\A# yaml-language-server: [^\n]*\n")
_TIME = re.compile(r"[^.;,:()`]*\b(?:seconds?|minutes?)\b[^.;,:()`]*")
_LEFT_OUT = ("__pycache__", "expected.json")  # the figures that our tests expect


@dataclass(frozen=True)
class Example:
    """A scenario of the gallery."""

    name: str
    folder: Path

    @cached_property
    def _readme(self) -> str:
        return (self.folder / "README.md").read_text(encoding="utf-8")

    def paragraph(self, head: str) -> str:
        """The paragraph of its README that begins with `head` in bold, as one line; "" if there is none."""
        match = re.search(rf"^\*\*{head}\.\*\*(.*?)(?:\n\s*\n|\Z)", self._readme, re.M | re.S)
        return " ".join(match[1].split()) if match else ""

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        root = read_file(self.folder / FILE, [])
        found = {} if root is None else plain(root)
        return found if isinstance(found, dict) else {}

    @property
    def title(self) -> str:
        return str(self._data.get("title", ""))

    @property
    def question(self) -> str:
        return self.paragraph("Question")

    @property
    def needs(self) -> str:
        return self.paragraph("Needs")

    @property
    def time(self) -> str:
        """How long a run takes, in the words of its README; "" if it does not state this."""
        found = [match[0].strip() for match in _TIME.finditer(self.needs) if "first" not in match[0]]
        return found[0].removeprefix("It takes ").removeprefix("and ") if found else ""

    def as_dict(self) -> dict[str, str]:
        return {
            "name": self.name,
            "title": self.title,
            "question": self.question,
            "time": self.time,
            "needs": self.needs,
            "folder": str(self.folder),
        }


def examples() -> list[Example]:
    """The scenarios that come with this package and with other installed ones, by name."""
    return [Example(name, folder) for name, folder in shipped().items()]


def example(name: str) -> Example:
    """The scenario `name` of the gallery. Raises `SetupError` when there is none."""
    known = shipped()
    if name in known:
        return Example(name, known[name])
    why = without_extension(installed("scenarios").get(name, "")) or did_you_mean(name, known, otherwise="there")
    raise SetupError(f"there is no scenario '{name}' to start from ({why})")


def copy(one: Example, folder: Path, name: str) -> list[Path]:
    """Copy `one` to `folder` under the name `name`; the files. Raises `SetupError` when the folder is there."""
    if folder.exists():
        raise SetupError(f"{folder} is there already; choose another name or remove it")
    shutil.copytree(one.folder, folder, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    file = folder / FILE
    text = _LINE.sub("", file.read_text(encoding="utf-8"))
    if name != one.name:
        text = re.sub(r"^name: \S+", f"name: {name}", text, count=1, flags=re.M)
    file.write_text(editor_line(folder.parent) + text, encoding="utf-8")
    containers = folder / "compose.yaml"
    if containers.is_file():  # of an extension's folder in a checkout; the copy is two folders below one, not four
        containers.write_text(containers.read_text(encoding="utf-8").replace("../../../..", "../.."), encoding="utf-8")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def editor_line(parent: Path) -> str:
    """The first line of scenario files in folders under `parent`, by which editors find the schema, written there."""
    near = parent.parent / "docs" / "schema" / SCHEMA
    if near.is_file():  # a checkout
        return f"# yaml-language-server: $schema=../../docs/schema/{SCHEMA}\n"
    target = parent / SCHEMA
    if not target.is_file():
        from cosim.scenario.schema import schema

        parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")
    return f"# yaml-language-server: $schema=../{SCHEMA}\n"

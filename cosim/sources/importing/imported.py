"""What an importer returns: a scenario as text, files beside it, and notices about the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cosim.contract.errors import Problem, ScenarioError

Level = Literal["note", "ignored", "misspelt", "inverted"]


@dataclass(frozen=True, slots=True)
class Notice:
    """One remark about a source file.

    `ignored`: the key has no effect; `misspelt`: it is written otherwise than the reader of the
    source expects; `inverted`: a lower bound above its upper bound; `note`: something to know.
    """

    level: Level
    file: Path | None
    line: int | None  # 1-based
    key: str
    text: str

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        parts = (f"{where}:" if where else "", f"{self.key}:" if self.key else "", self.text)
        return " ".join(filter(None, parts))

    def as_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "level": self.level,
            "file": str(self.file) if self.file else None,
            "line": self.line,
            "key": self.key,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Imported:
    """A scenario made from a source.

    `beside` names files that belong in the scenario's folder, each with the function that writes it
    to a path. `facts` are figures for people and `--json`, for example counts.
    """

    text: str  # of scenario.cosim.yaml
    notices: tuple[Notice, ...] = ()
    beside: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def refuse_doubtful(notices: Iterable[Notice]) -> None:
    """Raise `ScenarioError` when any notice is more than a note."""
    doubtful = [notice for notice in notices if notice.level != "note"]
    if doubtful:
        raise ScenarioError(
            [
                Problem(notice.text, notice.key, notice.file, notice.line, hint=f"{notice.level}, refused by --strict")
                for notice in doubtful
            ]
        )

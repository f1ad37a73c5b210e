"""`cosim import SOURCE`: a scenario from another simulator's input files or from a trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.console import count, emit, note

if TYPE_CHECKING:
    from cosim.sources.importing.imported import Imported

# Each source is a command, that of an entry point.
app = typer.Typer(no_args_is_help=True, help="Make a scenario from another simulator's files or from a trace.")

Out = Annotated[
    Path, typer.Option("--out", "-o", help="The scenario file to write, or a folder for scenario.cosim.yaml.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse files with keys that are ignored, misspelt or inverted.")
]


def finish(imported: Imported, out: Path, *, force: bool, strict: bool, as_json: bool) -> None:
    """Write `imported`, print its notices and what was made. Call it inside `errors(as_json)`."""
    from cosim.sources.importing.imported import refuse_doubtful
    from cosim.sources.importing.write import write_scenario

    if strict:
        refuse_doubtful(imported.notices)
    path = write_scenario(out, imported, force=force)
    if not as_json:
        for notice in imported.notices:
            note(f"{notice.level}: {notice}")
    levels = Counter(notice.level for notice in imported.notices)
    reported = ", ".join(f"{number} {level}" for level, number in sorted(levels.items()))
    shown = {key.replace("_", " "): _shown(value) for key, value in imported.facts.items()}
    took = ", ".join(f"{key} {text}" for key, text in shown.items() if text)
    emit(
        {
            "scenario": str(path),
            "files": [str(path.parent / name) for name in imported.beside],
            **imported.facts,
            "notices": [notice.as_dict() for notice in imported.notices],
        },
        as_json,
        (f"took      {took}\n" if took else "")
        + f"scenario  {path} - {count(len(imported.notices), 'notice')}{f' ({reported})' if reported else ''}",
    )


def _shown(value: object) -> str:
    """A figure of an import for people; "" for what is more than one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if isinstance(value, float) else value

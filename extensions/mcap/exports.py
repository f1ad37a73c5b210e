"""`cosim export mcap`: a run as MCAP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, count, emit, errors
from cosim.cli.exporting import Force


def mcap(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file; default: NAME.mcap.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a run as MCAP, for Foxglove and other robotics tools: positions, signals, tasks, events."""
    with errors(as_json):
        from cosim.extensions.mcap.writer import export

        made = export(run, out, force=force)
        data = {"file": str(made.path), "messages": made.messages, "topics": dict(made.topics)}
        emit(data, as_json, f"{made.path}  {count(made.messages, 'message')} on {count(len(made.topics), 'topic')}")

"""`cosim report`: write the report of a run or a sweep again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, emit, errors


def report(
    folder: Annotated[Path, typer.Argument(help="A run folder or a sweep folder.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write it; default: in the folder.")] = None,
    as_json: Json = False,
) -> None:
    """Write the report of a run or a sweep: one HTML file that needs no network."""
    with errors(as_json):
        from cosim.report import write_report, write_sweep_report

        write = write_sweep_report if (folder / "sweep.json").exists() else write_report
        path = write(folder, out)
        emit({"report": str(path)}, as_json, str(path))

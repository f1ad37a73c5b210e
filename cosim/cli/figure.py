"""`cosim figure`: a figure and a table for a paper, out of a sweep."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.arguments import names_in
from cosim.cli.console import Json, emit, errors
from cosim.contract.errors import SetupError


def figure(
    folders: Annotated[list[Path], typer.Argument(help="Sweep folders, or run folders.")],
    y: Annotated[str, typer.Option(help="The figure, as late_share; see metrics.json.")],
    x: Annotated[str, typer.Option(help="The parameter along the axis: its path, or the last part of that.")],
    by: Annotated[str, typer.Option(help="The parameter with a line for each value.")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Path without a suffix; default: Y-over-X.")] = None,
    formats: Annotated[str, typer.Option("--format", help="Which files to write.")] = "pdf,svg,png,csv,tex,parquet",
    as_json: Json = False,
) -> None:
    """Draw a figure of many runs over a parameter, with 95 % intervals, and write its table."""
    with errors(as_json):
        from cosim.report import figure as drawing
        from cosim.results.load import load_all

        wanted = names_in(formats)
        unknown = sorted(set(wanted) - {*drawing.DRAWN, *drawing.WRITTEN})
        if unknown or not wanted:
            known = ", ".join((*drawing.DRAWN, *drawing.WRITTEN))
            raise SetupError(f"--format: {', '.join(unknown) or 'nothing'} is not known; there are {known}")
        with closing(load_all(folders)) as runs:
            rows = [dict(row) for row in runs.table("figures").to_arrow_table().to_pylist()]
            unit, warned = runs.unit(y), runs.warnings
            found = drawing.points(rows, x, y, by, runs.entries)
        goal = out or Path(
            "-".join(filter(None, (y, "over", x.rsplit(".", 1)[-1], by and "by", by.rsplit(".", 1)[-1])))
        )
        files = drawing.write(found, goal, wanted, x=x, y=y, by=by, unit=unit)
        points = [drawing.plain(point) for point in found]
        data = {"files": [str(file) for file in files], "points": points, "warnings": warned}
        lines = [f"warning: {run}: {text}" for run, texts in warned.items() for text in texts]
        emit(data, as_json, "\n".join([*map(str, files), *lines]))

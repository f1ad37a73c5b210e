"""`cosim compare`: two or more runs side by side, or bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, emit, errors
from cosim.errors import SetupError


def compare(
    folders: Annotated[list[Path], typer.Argument(help="Run folders or sweep folders.")],
    exact: Annotated[bool, typer.Option("--exact", help="Exit 0 only if all recorded columns are bit-equal.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the comparison.")] = Path("comparison.html"),
    as_json: Json = False,
) -> None:
    """Compare runs: figures with effect sizes as one HTML file, or bit-equality with --exact."""
    with errors(as_json):
        if len(folders) < 2:
            raise SetupError("give at least two run folders to compare")
        if exact:
            _compare_exactly(folders, as_json)
            return
        from cosim.report import write_comparison

        path = write_comparison(folders, out)
        emit({"comparison": str(path)}, as_json, str(path))


def _compare_exactly(folders: list[Path], as_json: bool) -> None:
    from cosim.results.compare import exact

    first, *others = folders
    differences = {str(other): exact(first, other) for other in others}
    equal = not any(differences.values())
    lines = [
        f"{first} and {other}: " + ("bit-equal" if not found else f"{len(found)} differences")
        for other, found in differences.items()
    ]
    lines += [f"  {difference}" for found in differences.values() for difference in found]
    emit({"equal": equal, "differences": differences}, as_json, "\n".join(lines))
    if not equal:
        raise typer.Exit(1)

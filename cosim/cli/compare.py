"""`cosim compare`: two or more runs side by side, or bit by bit."""

from __future__ import annotations

from contextlib import ExitStack
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.console import Json, emit, errors
from cosim.errors import SetupError

if TYPE_CHECKING:
    from cosim.results.compare import Effect


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
        groups = _effects(folders)
        same = [] if groups else ["the runs are replications of one configuration: they differ in the seed at most"]
        data = [{"group": name, "effects": [effect.as_dict() for effect in found]} for name, found in groups]
        emit(
            {"comparison": str(path), "differences": data},
            as_json,
            "\n".join(
                [*(line for name, found in groups for line in _table(name, found)), *same, f"comparison  {path}"]
            ),
        )


def _effects(folders: list[Path]) -> list[tuple[str, list[Effect]]]:
    """Name and differences of every configuration but the first, against which they are."""
    from cosim.report.folder import Folder
    from cosim.report.groups import group
    from cosim.results.compare import effects

    with ExitStack() as stack:
        groups = group([stack.enter_context(Folder(folder)) for folder in folders])
        metrics = [[run.metrics for run in each.runs if run.metrics] for each in groups]
        names = [each.label or each.key for each in groups]
    first, *others = metrics
    return [
        (f"{name} against {names[0]}", effects(first, other)) for name, other in zip(names[1:], others, strict=True)
    ]


def _table(name: str, found: list[Effect]) -> list[str]:
    """The differences of the main figures, as lines of text."""
    from cosim.report.text import is_share, label, quantity
    from cosim.results.replications import MAIN

    rows = [["", "first", "other", "difference", "relative", "95 % interval"]]
    for effect in sorted((e for e in found if e.figure in MAIN), key=lambda e: MAIN.index(e.figure)):
        both = all(is_share(effect.figure, value, effect.unit) for value in (effect.base, effect.mean))
        unit = "%" if both else effect.unit
        spread = f"{quantity(effect.low, unit)} .. {quantity(effect.high, unit)}" if isfinite(effect.low) else "-"
        relative = f"{effect.relative:+.1%}" if isfinite(effect.relative) else "-"
        shown = [quantity(value, unit) for value in (effect.base, effect.mean, effect.difference)]
        rows.append([label(effect.figure), *shown, relative, spread])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    return [name, *lines, ""]


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

"""`cosim compare`: two or more runs side by side, or bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.arguments import names_in
from cosim.cli.console import Json, count, emit, errors
from cosim.contract.errors import SetupError

_LEVEL = 0.05

if TYPE_CHECKING:
    from cosim.results.compare import Effect
    from cosim.results.pairing import Pairing


def compare(
    folders: Annotated[list[Path], typer.Argument(help="Run folders or sweep folders.")],
    exact: Annotated[bool, typer.Option("--exact", help="Exit 0 only if all recorded columns are bit-equal.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the comparison.")] = Path("comparison.html"),
    chosen: Annotated[
        str, typer.Option("--figures", help="Columns of the table, as late_share,energy_total; default: what differs.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Compare runs: figures with effect sizes as one HTML file, or bit-equality with --exact."""
    with errors(as_json):
        from cosim.results.compare import run_folders_of

        runs = run_folders_of(folders)
        if len(runs) < 2:
            raise SetupError("give at least two run folders to compare, or a sweep")
        if exact:
            _compare_exactly(runs, as_json)
            return
        from cosim.api import compare as differences
        from cosim.report import write_comparison
        from cosim.results.pairing import pair

        found = differences(*runs)
        columns = names_in(chosen)
        known = dict.fromkeys(one.figure for some in found.effects.values() for one in some)
        if unknown := [name for name in columns if name not in known]:
            raise SetupError(f"no two configurations have the figure '{unknown[0]}'; there are {', '.join(known)}")
        path = write_comparison(runs, out, columns)
        paired = pair(*runs) if len(runs) == 2 else None
        groups = [(f"{name} against {found.base}", some) for name, some in found.effects.items()]
        same = [] if groups else ["the runs are replications of one configuration: they differ in the seed at most"]
        data = [{"group": name, "effects": [effect.as_dict() for effect in some]} for name, some in groups]
        emit(
            {
                "comparison": str(path),
                "tests": found.tests,
                "warnings": dict(found.warnings),
                "differences": data,
                "tasks": paired.as_dict() if paired else None,
            },
            as_json,
            "\n".join(
                [
                    *(line for name, some in groups for line in _table(name, some, columns)),
                    *_made(groups, found.tests),
                    *(f"warning: {name}: {text}" for name, texts in found.warnings.items() for text in texts),
                    *_pairs(paired),
                    *same,
                    f"comparison  {path}",
                ]
            ),
        )


def _pairs(found: Pairing | None) -> list[str]:
    """How far two runs are apart task by task."""
    if found is None or not found.paired:
        return []
    from cosim.report.text import quantity

    sizes, hosts = found.same_size / found.paired, found.same_host / found.paired
    first, other = found.tasks
    same = f"{found.paired:,} of {first:,} and {other:,} tasks are the same (workload, source, instant)"
    lines = [f"task by task: {same}; sizes equal in {sizes:.1%}, hosts in {hosts:.1%}"]
    if found.completed:
        low, mean, high = (quantity(value, "s") for value in (found.low, found.difference, found.high))
        lines.append(f"              response of the other minus the first: mean {mean}, 5 % to 95 % {low} to {high}")
    if found.starved:
        lines.append(
            f"              {found.starved:,} of them at a node that waited for its machine; mean of the others "
            f"{quantity(found.fed, 's')}"
        )
    return [*lines, ""]


def _made(groups: Sequence[tuple[str, Sequence[Effect]]], tests: int) -> list[str]:
    """Which tests were made, and how many."""
    if not tests:
        return []
    kinds = sorted({effect.test for _, found in groups for effect in found if isfinite(effect.p)})
    words = {"paired t": "Student's t over pairs of runs with equal seeds", "Welch t": "Welch's t (no equal seeds)"}
    clear = sum(effect.adjusted < _LEVEL for _, found in groups for effect in found)
    chance = (
        f"{tests} comparisons were made: about {max(1, round(tests * _LEVEL))} of their intervals may leave out 0 by "
        f"chance; {clear} differ at 5 % after Holm's correction for all of them"
    )
    return [f"intervals by {' and '.join(words[kind] for kind in kinds)}", chance, ""]


def _table(name: str, found: Sequence[Effect], chosen: Sequence[str]) -> list[str]:
    """The differences of the main figures, as lines of text."""
    from cosim.report.text import is_share, label, quantity
    from cosim.results.replications import MAIN

    rows = [["", "first", "other", "difference", "relative", "95 % interval", "p", "pairs"]]
    order = chosen or [key for key in MAIN if any(e.figure == key and e.test != "equal" for e in found)]
    for effect in sorted((e for e in found if e.figure in order), key=lambda e: order.index(e.figure)):
        both = all(is_share(effect.figure, value, effect.unit) for value in (effect.base, effect.mean))
        unit, apart = ("%", "pp") if both else (effect.unit, effect.unit)
        spread = f"{quantity(effect.low, apart)} .. {quantity(effect.high, apart)}" if isfinite(effect.low) else "-"
        relative = f"{effect.relative:+.1%}" if isfinite(effect.relative) else "-"
        sides = zip((effect.base, effect.mean), effect.at_least, strict=True)
        means = [f"{'≥ ' if bound else ''}{quantity(value, unit)}" for value, bound in sides]
        shown = [*means, quantity(effect.difference, apart)]
        p = "-" if not isfinite(effect.p) else "< 0.001" if effect.p < 0.001 else f"{effect.p:.3f}"
        pairs = str(effect.runs[0]) if effect.test == "paired t" else "-"
        rows.append([label(effect.figure), *shown, relative, spread, p, pairs])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    return [name, *lines, ""]


def _compare_exactly(folders: list[Path], as_json: bool) -> None:
    from cosim.results.compare import exact

    first, *others = folders
    differences = {str(other): exact(first, other) for other in others}
    equal = not any(differences.values())
    lines = [
        f"{first} and {other}: " + ("bit-equal" if not found else count(len(found), "difference"))
        for other, found in differences.items()
    ]
    lines += [f"  {difference}" for found in differences.values() for difference in found]
    emit({"equal": equal, "differences": differences}, as_json, "\n".join(lines))
    if not equal:
        raise typer.Exit(1)

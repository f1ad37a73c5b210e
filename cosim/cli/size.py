"""`cosim size`: the smallest number for which a scenario meets what is asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.arguments import Overrides, ScenarioPath, limit_of
from cosim.cli.console import Json, count, emit, errors, note
from cosim.cli.console import table as aligned
from cosim.contract.errors import SetupError
from cosim.contract.units import parse

if TYPE_CHECKING:
    from cosim.results.size import Sizing


def size(
    scenario: ScenarioPath,
    vary: Annotated[str, typer.Option(help="What to vary, the smallest first: N=1..20, a parameter or any key.")],
    until: Annotated[
        list[str], typer.Option(help="What the mean of a figure must be: 'late_share < 1 %'. Repeatable.")
    ],
    confidence: Annotated[str, typer.Option(help="That no verdict is wrong.")] = "95 %",
    least: Annotated[int, typer.Option(help="Runs of a value before it is judged.", min=2)] = 5,
    most: Annotated[int, typer.Option(help="Runs of a value after which it stays undecided.", min=2)] = 40,
    monotone: Annotated[
        bool, typer.Option("--monotone", help="Take it that a larger value never does worse: try fewer values.")
    ] = False,
    price: Annotated[str | None, typer.Option(help="What one more costs, as '0.12 /h'.")] = None,
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder that the runs' folder is made in.")] = Path("runs"),
    executor: Annotated[str, typer.Option(help="Where the runs are made: local, ray, or ray:ADDRESS.")] = "local",
    workers: Annotated[int, typer.Option(help="Runs at the same time; 0: one per core.", min=0)] = 0,
    timeout: Annotated[str | None, typer.Option(help="Wall-clock limit of each run, as '10 min'.")] = None,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: Json = False,
) -> None:
    """Find the smallest value for which goals are met, with replications and an interval."""
    with errors(as_json):
        from cosim.results.executor import make_executor
        from cosim.results.size import size as find

        sizing = find(
            scenario,
            vary,
            until,
            confidence=_share(confidence),
            least=least,
            most=most,
            monotone=monotone,
            price=price,
            overrides=overrides or (),
            executor=make_executor(executor, workers),
            base=out,
            limit=limit_of(timeout),
            progress=None if quiet or as_json else note,
        )
        page = None
        if with_report:
            from cosim.report.size import write_sizing

            page = write_sizing(sizing)
        data = {**sizing.as_dict(), "report": str(page) if page else None}
        emit(data, as_json, lambda: "\n".join([*_lines(sizing), *([f"report   {page}"] if page else [])]))
        if sizing.answer is None:
            raise typer.Exit(1)


def _share(text: str) -> float:
    try:
        return parse(text, "fraction") if "%" in text else float(text)
    except ValueError:
        raise SetupError(f"--confidence: '{text[:30]}' is no share; write '95 %'") from None


def _lines(sizing: Sizing) -> list[str]:
    from cosim.report.size import contrary, cost_words, table, warnings

    found = table(sizing)
    rows = [found.heads, *(tuple(cell.text for cell in row) for row in found.rows)]
    return [
        *aligned(rows),
        "",
        sizing.sentence(),
        *cost_words(sizing),
        *(f"not monotone: {one}" for one in contrary(sizing)),
        *(f"warning: {one}" for one in warnings(sizing)),
        f"{count(sizing.runs, 'run')}, {sizing.wall_seconds:.0f} s of run time",
        f"results  {sizing.folder}",
    ]

"""`cosim sweep`: all runs that a scenario's `sweep` block asks for."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cosim.cli.arguments import Overrides, ScenarioPath
from cosim.cli.console import Json, emit, errors, note

Driver = Literal["mosaik", "loop"]

if TYPE_CHECKING:
    from cosim.results.executor import Result
    from cosim.results.sweep import Progress
    from cosim.scenario.sweep import Variant


def sweep(
    scenario: ScenarioPath,
    overrides: Overrides = None,
    seed: Annotated[str | None, typer.Option(help="Seeds to repeat every run with, as 1..20 or 3,5,9.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder that the sweep's folder is made in.")] = Path("runs"),
    executor: Annotated[str, typer.Option(help="Where the runs are made: local, ray, or ray:ADDRESS.")] = "local",
    workers: Annotated[int, typer.Option(help="Runs at the same time; 0: one per core.", min=0)] = 0,
    driver: Annotated[Driver, typer.Option(help="Who coordinates a run.")] = "loop",
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    dry: Annotated[bool, typer.Option("--dry-run", help="List the runs and make none.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: Json = False,
) -> None:
    """Run every combination of the scenario's `sweep` block; runs that are there already are kept."""
    from cosim.scenario.load import load
    from cosim.scenario.sweep import expand, repeated, seeds

    with errors(as_json):
        loaded = load(scenario, overrides or ())
        variants = [*expand(loaded)] if seed is None else repeated(expand(loaded), seeds(seed))
        if dry:
            emit(
                {"runs": [dict(variant.assignments) for variant in variants]},
                as_json,
                "\n".join(variant.label or "as it is" for variant in variants) + f"\n{len(variants)} runs",
            )
            return
        _carry_out(loaded.path, variants, overrides or [], out, executor, workers, driver, with_report, quiet, as_json)


def replicate(
    scenario: Path,
    overrides: list[str],
    chosen: Sequence[int],
    out: Path,
    driver: Driver,
    workers: int,
    with_report: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """The runs of `cosim run --seed 1..20`: one scenario, many seeds."""
    from cosim.scenario.load import load
    from cosim.scenario.sweep import Variant

    loaded = load(scenario, overrides)
    variants = [Variant({"run.seed": value}) for value in chosen]
    _carry_out(loaded.path, variants, overrides, out, "local", workers, driver, with_report, quiet, as_json)


def _carry_out(
    scenario: Path,
    variants: Sequence[Variant],
    overrides: list[str],
    out: Path,
    executor: str,
    workers: int,
    driver: Driver,
    with_report: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from cosim.results.executor import make_executor
    from cosim.results.sweep import run_sweep

    folder = run_sweep(
        scenario,
        variants,
        make_executor(executor, workers or os.cpu_count() or 1),
        base=out,
        overrides=overrides,
        driver=driver,
        progress=None if quiet or as_json else _progress(),
    )
    path = None
    if with_report:
        from cosim.report import write_sweep_report

        path = write_sweep_report(folder.path)
    results = folder.results()
    failed = [result for result in results if result.status != "complete"]
    emit(
        {
            "folder": str(folder.path),
            "report": str(path) if path else None,
            "runs": len(results),
            "failed": [
                {"assignment": dict(r.assignment), "status": r.status, "error": r.error, "folder": r.folder}
                for r in failed
            ],
        },
        as_json,
        "\n".join(
            [
                f"{len(results) - len(failed)} of {len(results)} runs complete",
                *(f"  {_name(r)}: {r.status}: {r.error}" for r in failed),
                f"results  {folder.path}",
                *([f"report   {path}"] if path else []),
            ]
        ),
    )
    if failed:
        raise typer.Exit(1)


def _progress() -> Progress:
    begun = time.monotonic()
    kept: list[int] = []

    def show(done: int, _failed: int, total: int, result: Result | None) -> None:
        if result is None:
            kept.append(done)
            note(f"{total} runs, {done} of them there already" if done else f"{total} runs")
            return
        made = done - kept[0]
        left = (time.monotonic() - begun) / made * (total - done)
        mark = "" if result.status == "complete" else f"  {result.status}: {result.error}"
        note(f"{done}/{total}  {_name(result)}  {left:.0f} s left{mark}")

    return show


def _name(result: Result) -> str:
    from cosim.scenario.sweep import Variant

    return Variant(result.assignment).label or "as it is"

"""`cosim sweep`: all runs that a scenario's `sweep` block asks for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from cosim.cli.arguments import Overrides, ScenarioPath, Untrusted, names_in, time_of
from cosim.cli.console import Json, count, emit, errors, note, table
from cosim.contract.errors import CosimError
from cosim.contract.trust import distrust
from cosim.report.text import duration, estimated, label

Driver = Literal["mosaik", "loop"]

_EVERY = 1.0  # s between two lines of progress
_ROWS = 40  # most rows of a printed table
_PAGES = 100  # most runs that get a page of their own, half a second each
_SHOWN = 20  # most failed runs that are listed; all of them are in the report

if TYPE_CHECKING:
    from cosim.results.executor import JobResult
    from cosim.results.replications import Group
    from cosim.results.sweep import Progress
    from cosim.scenario.load import Loaded
    from cosim.scenario.sweep import Variant


def sweep(
    scenario: ScenarioPath,
    *,
    overrides: Overrides = None,
    untrusted: Untrusted = False,
    seed: Annotated[str | None, typer.Option(help="Seeds to repeat every run with, as 1..20 or 3,5,9.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder that the sweep's folder is made in.")] = Path("runs"),
    executor: Annotated[str, typer.Option(help="Where the runs are made: local, ray, or ray:ADDRESS.")] = "local",
    workers: Annotated[int, typer.Option(help="Runs at the same time; 0: one per core.", min=0)] = 0,
    timeout: Annotated[str | None, typer.Option(help="Wall-clock limit of each run, as '10 min'.")] = None,
    driver: Annotated[Driver, typer.Option(help="Who coordinates a run.")] = "loop",
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    chosen: Annotated[
        str, typer.Option("--figures", help="Columns of the table, as late_share,energy_total; default: what differs.")
    ] = "",
    dry: Annotated[bool, typer.Option("--dry-run", help="List the runs and make none.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: Json = False,
) -> None:
    """Run every combination of the scenario's `sweep` block; runs that are there already are kept."""
    from cosim.scenario.load import load
    from cosim.scenario.plan.variants import runs_of

    with errors(as_json):
        distrust(untrusted)
        loaded = load(scenario, overrides or ())
        variants = runs_of(loaded, seed)
        if dry:
            emit(
                {"runs": [dict(variant.assignments) for variant in variants]},
                as_json,
                "\n".join(variant.label or "as it is" for variant in variants) + f"\n{count(len(variants), 'run')}",
            )
            return
        options = SweepOptions(
            out=out, driver=driver, executor=executor, workers=workers, timeout=timeout, with_report=with_report,
            quiet=quiet, as_json=as_json, chosen=names_in(chosen),
        )  # fmt: skip
        _carry_out(loaded, variants, overrides or [], options)


class SweepOptions(NamedTuple):
    """How several runs are made."""

    out: Path
    driver: Driver
    workers: int
    timeout: str | None
    with_report: bool
    quiet: bool
    as_json: bool
    executor: str = "local"
    chosen: Sequence[str] = ()


def replicate(scenario: Path, overrides: list[str], chosen: Sequence[int], options: SweepOptions) -> None:
    """The runs of `cosim run --seed 1..20`: one scenario, many seeds."""
    from cosim.scenario.load import load
    from cosim.scenario.sweep import Variant

    loaded = load(scenario, overrides)
    variants = [Variant({"run.seed": value}) for value in chosen]
    _carry_out(loaded, variants, overrides, options)


def _carry_out(loaded: Loaded, variants: Sequence[Variant], overrides: list[str], options: SweepOptions) -> None:
    from cosim.results.executor import make_executor
    from cosim.results.replications import groups_of_sweep, main_figures
    from cosim.results.sweep import run_sweep

    scenario, usual = loaded.path, loaded.scenario.run.nodes
    workers, silent = options.workers, options.quiet or options.as_json
    worlds = {str(variant.assignments.get("run.nodes", usual)): variant.overrides for variant in variants}
    if "containers" in worlds:
        from cosim.cli.containers import images_for

        images_for(scenario, [*overrides, *worlds["containers"]], quiet=silent)
    if not workers and worlds.keys() - {"process"}:
        workers = 1  # real nodes compute: of two runs at a time each would find the machine busy
    folder = run_sweep(
        scenario, variants, make_executor(options.executor, workers), base=options.out, overrides=overrides,
        driver=options.driver, limit=None if options.timeout is None else time_of(options.timeout, "timeout"),
        progress=None if silent else _progress(),
    )  # fmt: skip
    path, results = None, folder.results()
    if options.with_report:
        from cosim.report import write_sweep_report

        _write_reports([folder.path / one.run for one in results if one.status == "complete" and one.run], silent)
        path = write_sweep_report(folder.path, chosen=options.chosen)
    failed = [result for result in results if result.status != "complete"]
    groups = groups_of_sweep(folder.path, results)
    main_figures(groups, options.chosen)  # refuses those that no run has
    emit(
        {
            "folder": str(folder.path),
            "report": str(path) if path else None,
            "runs": len(results),
            "failed": [
                {"parameters": dict(r.parameters), "status": r.status, "error": r.error, "folder": r.run, "log": r.log}
                for r in failed
            ],
            "groups": [
                {
                    "parameters": dict(some.assignment),
                    "runs": len(some.runs),
                    "figures": {key: asdict(estimate) for key, estimate in some.estimates().items()},
                    "warnings": some.warnings,
                }
                for some in groups
            ],
        },
        options.as_json,
        lambda: "\n".join(
            [
                *_table(groups, options.chosen),
                f"{len(results) - len(failed)} of {len(results)} runs complete",
                *(f"  {_name(r)}: {r.status}: {r.error}{f' (log: {r.log})' if r.log else ''}" for r in failed[:_SHOWN]),
                *([f"  and {len(failed) - _SHOWN} more"] if len(failed) > _SHOWN else []),
                f"results  {folder.path}",
                *([f"report   {path}"] if path else []),
            ]
        ),
    )
    if failed:
        raise typer.Exit(1)


def _write_reports(runs: Sequence[Path], quiet: bool) -> None:
    """A page for each of the runs that has none; for the first ones only of very many."""
    from cosim.report import write_report

    left = [run for run in runs[:_PAGES] if not (run / "report.html").is_file()]
    if left and not quiet:
        note(f"writing {count(len(left), 'report')}")
        if len(runs) > _PAGES:
            note(f"the other {len(runs) - _PAGES} runs have one when you ask for it: cosim report RUN")
    for run in left:
        try:
            write_report(run)
        except CosimError as refused:  # the sweep's page reports it as well
            note(f"no report of {run.name}: {refused}")


def _table(groups: Sequence[Group], chosen: Sequence[str]) -> list[str]:
    """Mean ± half the 95 % confidence interval of the main figures, one line per combination."""
    from cosim.results.replications import main_figures

    if not groups:
        return []
    keys = main_figures(groups, chosen)
    paths = list(dict.fromkeys(path for some in groups for path in some.assignment))
    rows = [[*(path.rsplit(".", 1)[-1] for path in paths), "runs", *(label(key) for key in keys)]]
    for some in groups[:_ROWS]:
        estimates = some.estimates()
        shown = [estimated(key, estimates.get(key)) for key in keys]
        rows.append([*(str(some.assignment.get(path, "–")) for path in paths), str(len(some.runs)), *shown])
    lines = table(rows)
    if len(groups) > _ROWS:
        lines.append(f"and {len(groups) - _ROWS} more combinations, in the report")
    note = ["mean ± half of the 95 % confidence interval"] if any(len(some.runs) > 1 for some in groups) else []
    warned = []
    for some in groups[:_ROWS]:
        name = ", ".join(f"{path.rsplit('.', 1)[-1]} {value}" for path, value in some.assignment.items())
        warned += [f"warning: {f'{name}: ' if name else ''}{text}" for text in some.warnings]
    return [*lines, *note, *warned, ""]


def _progress() -> Progress:
    begun = shown = time.monotonic()
    kept = 0

    def show(done: int, failed: int, total: int, result: JobResult | None) -> None:
        nonlocal kept, shown
        now = time.monotonic()
        if result is None:
            kept = done
            note(f"{count(total, 'run')}, {done} of them there already" if done else count(total, "run"))
            return
        if result.status == "complete" and done < total and now - shown < _EVERY:
            return
        shown = now
        left = (now - begun) / (done - kept) * (total - done)
        mark = "" if result.status == "complete" else f"  {result.status}: {result.error}"
        failures = f" ({failed} failed)" if failed else ""
        note(f"{done}/{total}{failures}  {_name(result)}  {duration(round(left))} left{mark}")

    return show


def _name(result: JobResult) -> str:
    from cosim.scenario.sweep import Variant

    return Variant(result.parameters).label or "as it is"

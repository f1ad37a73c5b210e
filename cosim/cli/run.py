"""`cosim run`: run a scenario, write its folder and its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from cosim.cli.arguments import Overrides, ScenarioPath
from cosim.cli.console import Json, emit, errors, note
from cosim.errors import CosimError, Problem, RunError, ScenarioError

Driver = Annotated[
    Literal["mosaik", "loop"],
    typer.Option(help="Who coordinates: mosaik, or the plain loop; the results are bit-equal."),
]
Base = Annotated[Path, typer.Option("--out", "-o", help="Folder that the run's folder is made in.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")]


def run(
    scenario: ScenarioPath,
    overrides: Overrides = None,
    seed: Annotated[
        str | None, typer.Option(help="The root seed; several, as 1..20 or 3,5,9, make replications.")
    ] = None,
    out: Base = Path("runs"),
    driver: Driver = "mosaik",
    workers: Annotated[
        int, typer.Option(help="Runs at the same time, with several seeds; 0: one per core.", min=0)
    ] = 0,
    timeout: Annotated[str | None, typer.Option(help="Wall-clock limit of each of several runs, as '10 min'.")] = None,
    publish: Annotated[bool, typer.Option(help="Publish the frames for observers and print the address.")] = False,
    publish_at: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Publish there, as tcp://0.0.0.0:5556.")
    ] = None,
    control: Annotated[
        bool, typer.Option(help="Publish, and take commands (pause, pace, events, stop); prints address and token.")
    ] = False,
    control_at: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Take commands there; the token may come in COSIM_TOKEN.")
    ] = None,
    nodes: Annotated[
        Literal["process", "netns", "containers"] | None,
        typer.Option(help="Where nodes with `runs` are: simulated, in network namespaces, or in containers."),
    ] = None,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a scenario and print its results folder and the report's path."""
    from cosim.scenario.sweep import seeds

    with errors(as_json):
        chosen = seeds(seed) if seed is not None else []
        if len(chosen) > 1:
            if publish or publish_at or control or control_at:
                option = "--control" if control or control_at else "--publish"
                raise ScenarioError(Problem("only a single run can be watched", option, hint="give one --seed"))
            from cosim.cli.sweep import replicate

            replicate(scenario, overrides or [], chosen, out, driver, workers, timeout, with_report, quiet, as_json)
            return
        if timeout is not None:
            raise ScenarioError(Problem("only several runs can be limited", "timeout", hint="give --seed 1..5"))
        settings = [*(overrides or []), *(f"run.seed={value}" for value in chosen)]
        if nodes is not None:
            settings.append(f"run.nodes={nodes}")
        _run_once(
            scenario, settings, out, driver, publish_at or publish, control_at or control, with_report, quiet, as_json
        )


def _run_once(
    scenario: Path,
    overrides: list[str],
    out: Path,
    driver: Literal["mosaik", "loop"],
    publish: bool | str,
    control: bool | str,
    with_report: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from cosim.cli.progress import RunProgress
    from cosim.plan.compile import compile_plan
    from cosim.results.folder import outside
    from cosim.results.session import run_plan
    from cosim.scenario.load import load

    plan = compile_plan(load(scenario, overrides))
    with RunProgress(plan, quiet=quiet or as_json) as progress:
        outcome = run_plan(
            plan, out, driver=driver, publish=publish, control=control, progress=progress.tick, say=progress.say
        )
    path, error = None, outcome.error
    if with_report:
        from cosim.report import write_report

        try:
            path = write_report(outcome.folder)
        except (CosimError, OSError) as refused:  # the disk may be full; the results are there all the same
            error = error or RunError(f"the report cannot be written: {refused}")
    emit(
        {
            "scenario": plan.name,
            "status": outcome.status,
            "folder": str(outcome.folder),
            "report": str(path) if path else None,
            "error": str(error) if error else None,
            "figures": outcome.figures,
        },
        as_json,
        "\n".join(
            filter(
                None,
                [
                    f"{plan.name}: {outcome.status}, {outcome.summary}",
                    outcome.lateness,
                    f"results  {outside(outcome.folder)}",
                    f"report   {outside(path)}" if path else "",
                ],
            )
        ),
    )
    if error is not None:
        if not as_json:
            note(f"error: {error}")
            trace = getattr(error, "remote_traceback", "")
            if trace:
                note(trace.rstrip())
        raise typer.Exit(error.exit_code)

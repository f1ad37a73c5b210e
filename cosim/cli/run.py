"""`cosim run`: run a scenario, write its folder and its report."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cosim.cli.arguments import SCENARIO, Force, Overrides, Untrusted
from cosim.cli.console import Json, emit, errors, note
from cosim.contract import environment
from cosim.contract.errors import CosimError, Problem, RunError, ScenarioError, SetupError
from cosim.contract.trust import distrust

if TYPE_CHECKING:
    from cosim.cli.progress import RunProgress
    from cosim.results.session import Outcome
    from cosim.scenario.plan.plan import Plan

Driver = Annotated[
    Literal["mosaik", "loop"],
    typer.Option(help="Who coordinates: mosaik, or the plain loop; the results are bit-equal."),
]
Base = Annotated[Path, typer.Option("--out", "-o", help="Folder that the run's folder is made in.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")]


def run(
    scenario: Annotated[Path | None, SCENARIO] = None,
    *,
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
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Make a killed run whole; give its folder and no scenario.")
    ] = None,
    count_faults: Annotated[
        bool, typer.Option("--count-faults", help="Count values out of their bounds, do not end the run for them.")
    ] = False,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    untrusted: Untrusted = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a scenario and print its results folder and the report's path."""
    from cosim.scenario.sweep import seeds

    with _afterwards(), errors(as_json):
        distrust(untrusted)
        if resume is not None:
            if scenario is not None or overrides or seed is not None or nodes is not None:
                raise SetupError("a run that is resumed has its scenario and settings already; give --resume RUN alone")
            _resume(resume, publish_at or publish, control_at or control, count_faults, with_report, quiet, as_json)
            return
        if scenario is None:
            raise SetupError(
                "give a scenario: a file, a folder that holds scenario.cosim.yaml, or a name of `cosim scenarios`"
            )
        chosen = seeds(seed) if seed is not None else []
        if len(chosen) > 1:
            if publish or publish_at or control or control_at:
                option = "--control" if control or control_at else "--publish"
                raise ScenarioError(Problem("only a single run can be watched", option, hint="give one --seed"))
            from cosim.cli.sweep import SweepOptions, replicate

            settings = [*(overrides or []), *([f"run.nodes={nodes}"] if nodes is not None else [])]
            replicate(scenario, settings, chosen, SweepOptions(
                out=out, driver=driver, workers=workers, timeout=timeout, with_report=with_report, quiet=quiet,
                as_json=as_json,
            ))  # fmt: skip
            return
        if timeout is not None:
            raise ScenarioError(Problem("only several runs can be limited", "timeout", hint="give --seed 1..5"))
        settings = [*(overrides or []), *(f"run.seed={value}" for value in chosen)]
        if nodes is not None:
            settings.append(f"run.nodes={nodes}")
        _run_once(
            scenario, settings, out, driver, publish=publish_at or publish, control=control_at or control,
            count_faults=count_faults, with_report=with_report, force=force, quiet=quiet, as_json=as_json,
        )  # fmt: skip


@contextmanager
def _afterwards() -> Iterator[None]:
    """In a compose project, report at the end what becomes of the other containers, unless they are being stopped."""
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) != signal.SIG_IGN and (text := environment.text("COSIM_AFTERWARDS")):
            typer.echo(text)  # behind the result, not beside it


def _run_once(
    scenario: Path,
    overrides: list[str],
    out: Path,
    driver: Literal["mosaik", "loop"],
    *,
    publish: bool | str,
    control: bool | str,
    count_faults: bool,
    with_report: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from cosim.results.session import run_plan
    from cosim.scenario.plan.compile import checked
    from cosim.scenario.sweep import size

    loaded, plan = checked(scenario, overrides, force=force)
    if plan.scene.real == "containers":
        from cosim.testbed.launch.require import has_containers

        if not has_containers(plan, os.environ):
            if publish or control:
                hint = "leave it out: a dashboard is started with the containers; to steer a run, take --nodes netns"
                option = "--control" if control else "--publish"
                raise ScenarioError(Problem("a run in containers publishes inside them only", option, hint=hint))
            options = [
                *(() if driver == "mosaik" else ("--driver", driver)),
                *(("--count-faults",) if count_faults else ()),
                *(() if with_report else ("--no-report",)),
            ]
            _run_containers(plan, loaded.path, overrides, out, options, quiet or as_json, as_json)
            return

    def carry_out(progress: RunProgress) -> Outcome:
        if (runs := size(loaded)) > 1:
            progress.say(f"one run, without the sweep; cosim sweep makes its {runs:,} runs")
        return run_plan(
            plan, out, driver=driver, publish=publish, control=control, progress=progress.tick, say=progress.say,
            counting=count_faults,
        )  # fmt: skip

    _run_and_print(plan, carry_out, with_report, quiet, as_json)


def _resume(
    path: Path, publish: bool | str, control: bool | str, count_faults: bool, with_report: bool, quiet: bool,
    as_json: bool,
) -> None:  # fmt: skip
    from cosim.results.resume import interrupted
    from cosim.results.session import run_plan

    again = interrupted(path)

    def carry_out(progress: RunProgress) -> Outcome:
        progress.say(f"making the run again, of which {again.reached:g} s had been recorded")
        return run_plan(
            again.plan, path.parent.parent, driver=again.driver, publish=publish, control=control,
            progress=progress.tick, say=progress.say, counting=count_faults, again=again,
        )  # fmt: skip

    _run_and_print(again.plan, carry_out, with_report, quiet, as_json)


def _run_and_print(
    plan: Plan, carry_out: Callable[[RunProgress], Outcome], with_report: bool, quiet: bool, as_json: bool
) -> None:
    """Carry out a run with its progress on the terminal, and report how it ended."""
    from cosim.cli.progress import RunProgress
    from cosim.results.folder import outside

    aside = redirect_stdout(sys.stderr) if as_json else nullcontext()  # adapters of others print
    with aside, RunProgress(plan, quiet=quiet or as_json) as progress:
        outcome = carry_out(progress)
    path, error = None, outcome.error
    if with_report:
        from cosim.results.ending import report_first

        try:
            with report_first(lambda text: None if as_json else note(text)):
                from cosim.report import write_report

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
            "warnings": outcome.warnings,
        },
        as_json,
        "\n".join(filter(None, [
            f"{plan.name}: {outcome.status}, {outcome.summary}",
            outcome.lateness,
            *(f"warning: {text}" for text in outcome.warnings),
            f"results  {outside(outcome.folder)}",
            f"report   {outside(path)}" if path else "",
        ])),
    )  # fmt: skip
    if error is not None:
        if not as_json:
            note(f"error: {error}")
            trace = getattr(error, "remote_traceback", "")
            if trace:
                note(trace.rstrip())
        raise typer.Exit(error.exit_code)


def _run_containers(
    plan: Plan, scenario: Path, overrides: list[str], out: Path, options: list[str], quiet: bool, as_json: bool
) -> None:
    from cosim.cli.containers import run_in_containers
    from cosim.testbed.launch.programs import programs

    if not programs(plan.scene):
        raise ScenarioError(Problem("no node has 'runs', so none can be real", "nodes"))
    found = run_in_containers(plan, scenario, overrides, out, options, quiet=quiet)
    lines = [f"{found['scenario']}: {found['status']}", f"results  {found['folder']}", f"report   {found['report']}"]
    said = found.pop("text") or "\n".join(lines if found["report"] else lines[:2])  # killed, it has printed nothing
    reported = found.pop("reported")
    emit(found, as_json, said)
    if found["error"]:
        if not as_json and not reported:
            note(f"error: {found['error']}")
        raise typer.Exit(RunError.exit_code)

"""`cosim calibrate`: move the free values of a scenario until it agrees with what was measured."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosim.cli.arguments import Overrides, Untrusted, time_of
from cosim.cli.console import Json, count, emit, errors, note, table
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.trust import distrust
from cosim.report.text import duration

if TYPE_CHECKING:
    from cosim.scenario.load import Loaded
    from cosim.twin.calibration import Calibration, Judgement
    from cosim.twin.problem import CalibrationProblem
    from cosim.twin.scenario.work import Work
    from cosim.twin.search.meter import Budget, Progress

_EVERY = 2.0  # s between two lines of progress
_ROUNDING = 1e-9  # of a range: a gap that is none
_TELLING = 20  # runs after which their pace gives the time left; the first ones compile


def calibrate(
    scenario: Annotated[
        Path | None, typer.Argument(help="Scenario file, or a folder that holds one; none with --here.")
    ] = None,
    *,
    overrides: Overrides = None,
    here: Annotated[
        bool, typer.Option("--here", help="Measure this machine under three loads first, and make its twin.")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="With --here: measure this HTTP service, such as http://127.0.0.1:8080/ask.")
    ] = None,
    busy: Annotated[
        bool, typer.Option("--busy", help="With --here: measure although other programs use the machine.")
    ] = False,
    requests: Annotated[
        list[Path] | None,
        typer.Option(help="A table of requests to your service, one per load, the last is held back; no SCENARIO."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the data of a job.")] = None,
    held_back: Annotated[Path | None, typer.Option(help="Folder with data of a job for the judgement only.")] = None,
    budget: Annotated[str | None, typer.Option(help="Wall-clock time for the search, as '2 min'.")] = None,
    runs: Annotated[int | None, typer.Option(help="Simulated runs for the search.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the search.", min=0)] = None,
    method: Annotated[str | None, typer.Option(help="Method of the search; auto: by the problem.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("calibrations"),
    workers: Annotated[int, typer.Option(help="Runs at the same time; 0: one per core.", min=0)] = 0,
    truths: Annotated[
        int, typer.Option("--coverage", help="Ask whether intervals hold: calibrate so many simulated truths.", min=0)
    ] = 0,
    screen_only: Annotated[
        bool, typer.Option("--screen-only", help="Say what each free value does; no search.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the last calibration was stopped.")] = False,
    follow: Annotated[
        Path | None, typer.Option(help="Follow this run, going on or finished, and calibrate when it drifts.")
    ] = None,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    untrusted: Untrusted = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: Json = False,
) -> None:
    """Calibrate the values that `calibrate:` frees, and judge them on data that the search has not seen."""
    # Before NumPy: the matrices are small, so that threads would only wait for one another, and the last digits
    # of a product depend on how many there are.
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    with errors(as_json):
        distrust(untrusted)
        from cosim.scenario.load import load

        _together(
            {"--follow": follow, "--screen-only": screen_only, "--coverage": truths, "--resume": resume},
            {"--data": data, "--held-back": held_back, "--budget": budget, "--runs": runs, "--method": method},
        )
        say: Callable[[str], None] = (lambda _: None) if quiet or as_json else note
        if here or requests:
            scenario = _own_service(out, scenario, here, url, busy, requests or [], seed or 1, say)
        elif url is not None or busy:
            option, rest = ("--url", " --url URL") if url is not None else ("--busy", " --busy")
            raise ScenarioError(Problem(f"'{option}' is for '--here'", hint=f"write --here{rest}"))
        if scenario is None:
            hint = "write SCENARIO, --here for this machine, or --requests for tables of your service"
            raise ScenarioError(Problem("no scenario is named", hint=hint))
        loaded = load(scenario, overrides or ())
        block = loaded.scenario.calibrate
        if block is None:
            hint = "say what is free and what was measured; see docs/twin.md"
            raise ScenarioError(loaded.problem("", "has no block 'calibrate'", hint))
        folder = out / loaded.scenario.name
        seed = block.seed if seed is None else seed
        if follow is not None:
            from cosim.cli.following import follow_run

            follow_run(scenario, overrides or [], follow, folder, seed, workers or None, say, as_json)
            return
        from cosim.twin.scenario.work import works
        from cosim.twin.search.meter import Budget

        tasks = works(loaded, overrides or [], folder=folder, data=data, held_back=held_back, workers=workers)
        for work in tasks:
            for source in work.task.sources:
                say(f"took {source}")
            if work.how:
                say(f"simulated {work.how}: about {duration(work.task.cost)} of CPU per run")
        if screen_only:
            _screen(tasks, seed, as_json)
            return
        limit = Budget(**block.budget.limits(runs, None if budget is None else time_of(budget, "budget")))
        if truths:
            _coverage(tasks, truths, limit, seed, method or block.method, say, as_json)
            return
        found = []
        for work in tasks:
            own = folder if len(tasks) == 1 else folder / _file(work.task.name)
            found.append(_carry_out(work, loaded, own, limit, seed, method or block.method, resume, with_report, say))
            if found[-1][1]["stopped"] == "interrupted":
                break
        emit({"calibrations": [data for _, data in found]}, as_json, lambda: "\n\n".join(text for text, _ in found))
        if any(data["stopped"] == "interrupted" for _, data in found):
            raise typer.Exit(1)


def _together(ways: Mapping[str, object], search: Mapping[str, object]) -> None:
    """Raise `ScenarioError` for two of `ways`, and for options of a search where the first of them is given."""
    given = [name for name, value in ways.items() if value]
    if len(given) > 1:
        text = f"'{given[0]}' and '{given[1]}' exclude one another"
        raise ScenarioError(Problem(text, hint="leave one of them out"))
    idle = [name for name, value in search.items() if value is not None]
    if given == list(ways)[:1] and idle:
        text = f"'{idle[0]}' has no effect with '{given[0]}', which calibrates as the scenario says"
        raise ScenarioError(Problem(text, hint="leave it out, or write it in the block 'calibrate'"))


def _own_service(
    out: Path, scenario: Path | None, here: bool, url: str | None, busy: bool, tables: list[Path], seed: int,
    say: Callable[[str], None],
) -> Path:  # fmt: skip
    """The scenario of a service that is measured now, or that `tables` were recorded of."""
    if scenario is not None:
        what = "--here" if here else "--requests"
        raise ScenarioError(Problem(f"'{what}' makes the scenario itself", hint="leave SCENARIO out"))
    if here and tables:
        raise ScenarioError(Problem("'--here' and '--requests' exclude one another", hint="leave one of them out"))
    from cosim.twin.scenario.requests import scenario_of

    folder, held_back = out / "here-measured", 1
    if here:
        from cosim.testbed.measuring.loads import measure

        what = url or "its inference service"
        say(f"measuring this machine: {what} under three loads, about 2 min; leave it in peace meanwhile")
        measured = measure(folder, url=url, seed=seed, busy=busy)
        say(f"a request alone takes {duration(measured.service)}; recorded into {folder}")
        for warning in measured.warnings:
            say(warning)
        for one, first in zip(measured.again, measured.means[-len(measured.again) :], strict=True):
            say(
                f"under {one.load:.0%} the same requests took {duration(first)} on the average, and "
                f"{duration(one.mean)} when they were made again: no prediction can be nearer than that"
            )
        tables = [*measured.tables]
    else:
        folder, held_back = out / f"{tables[0].stem}-service", int(len(tables) > 1)
    found = scenario_of(folder, tables, held_back=held_back, seed=seed)
    for remark in found.notes:
        say(remark)
    station = found.identified.station
    share, times = station.slow_share, station.slow_times
    second = f" ({share:.0%} of them {times:.3g} times as long as the others)" if share > 0.0 else ""
    turn = "all at once" if station.sharing else "in order of arrival"
    say(
        f"found: {station.servers} server{'s' if station.servers > 1 else ''}, {turn}, "
        f"{duration(station.service)} +- {station.spread:.0%} a request{second}, {duration(station.latency)} besides, "
        f"at most {station.capacity:.3g} a second; "
        f"loads {', '.join(f'{load:.0%}' for load in found.loads)}; "
        f"its level varies by {found.identified.levels.deviation:.1%}"
    )
    return found.scenario


def _carry_out(
    work: Work,
    loaded: Loaded,
    folder: Path,
    budget: Budget,
    seed: int,
    method: str,
    resume: bool,
    with_report: bool,
    say: Callable[[str], None],
) -> tuple[str, dict[str, Any]]:
    """Calibrate one problem and write what was found; as text and as data."""
    from cosim.twin.scenario.work import carry_out

    for parameter in work.task.space.parameters:
        bounds = f"{parameter.low:.4g} to {parameter.high:.4g} {_unit(parameter.unit)}".rstrip()
        what = ", ".join(map(str, parameter.choices)) or bounds
        say(f"free: {parameter.name}  {what}")

    def report(task: CalibrationProblem, found: Calibration) -> Path:
        from cosim.report.calibration import write_calibration
        from cosim.twin.fitting.judging import gather

        return write_calibration(found, gather(task, found), folder / "report.html")

    found, files = carry_out(
        work, loaded, folder, budget=budget, seed=seed, method=method, resume=resume,
        progress=_Shown(work.task.name, say), report=report if with_report else None, say=say,
    )  # fmt: skip
    data = {**asdict(found), **{name: str(path) for name, path in files.items()}}
    return "\n".join([*lines(found), *(f"{name.replace('_', ' '):<12} {path}" for name, path in files.items())]), data


def _file(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name)


def _screen(tasks: Sequence[Work], seed: int, as_json: bool) -> None:
    from cosim.twin.fitting.screen import sensitivities

    found = {work.task.name: sensitivities(work.task, seed=seed) for work in tasks}
    for warning in dict.fromkeys(line for work in tasks for line in work.task.warnings):
        note(f"warning: {warning}")

    def text() -> str:
        parts = []
        for work, rows in zip(tasks, found.values(), strict=True):
            header = ["parameter", "effect", *rows[0].signals, "all", "over seeds"]
            cells = [
                [row.name, "yes" if row.effect else "none", *(f"{v:.3g}" for v in row.signals.values()),
                 f"{row.misfit:.3g}", f"{row.noise:.2g}"]
                for row in rows
            ]  # fmt: skip
            parts += [f"{work.task.name}: change of the misfit over the bounds", *table([header, *cells])]
        return "\n".join(parts)

    emit({name: [asdict(row) for row in rows] for name, rows in found.items()}, as_json, text)


def _coverage(
    tasks: Sequence[Work], count: int, budget: Budget, seed: int, method: str, say: Callable[[str], None], as_json: bool
) -> None:
    from cosim.twin.fitting.coverage import coverage

    def reported(done: int, of: int) -> None:
        say(f"{done} of {of} truths")

    found = {
        work.task.name: coverage(work.task, count, budget=budget, seed=seed, method=method, notify=reported)
        for work in tasks
    }

    def text() -> str:
        parts = []
        for name, rows in found.items():
            cells = [
                [row.name, f"{row.held} of {row.of}", " ".join(map(str, row.ranks)), "yes" if row.uniform else "no"]
                for row in rows
            ]
            header = ["parameter", "90 % intervals held", "ranks, low to high", "even"]
            parts += [f"{name}: {count} truths drawn from the prior", *table([header, *cells])]
        return "\n".join(parts)

    emit({name: [{**asdict(row), "share": row.share} for row in rows] for name, rows in found.items()}, as_json, text)


class _Shown:
    """Reports the progress of a search: now and then a line with the time left."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        from cosim.report.text import shorten

        self._name, self._say, self._shown, self._stage = shorten(name, 40), say, 0.0, ""

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.stage == self._stage and now - self._shown < _EVERY:
            return
        self._shown, self._stage = now, progress.stage
        best = f", least misfit {progress.best:.4g}" if math.isfinite(progress.best) else ""
        known = math.isfinite(progress.seconds_left) and progress.runs >= _TELLING
        left = f", at most {duration(progress.seconds_left)} left" if known else ""
        self._say(f"{self._name}: {progress.stage}, {count(progress.runs, 'run')}{best}{left}")


def lines(found: Calibration) -> list[str]:
    """The answer as text: the gaps before and after, the values with intervals, figures, assumptions and warnings."""
    method = "no search" if found.method == "none" else found.method
    text = [f"{found.problem}: {method}, {found.runs:,} runs, {duration(found.cpu_seconds)} of CPU, {found.stopped}"]
    for name, judgement in (("fit", found.fit), ("held back", found.held_back)):
        if judgement is not None:
            text += ["", f"gap on the data {name} (W1 over the measured range)", *_gaps(judgement)]
    if found.held_back is None:
        text += ["", "nothing was held back: how good the values are on other data is unknown"]
    rows = [["parameter", "value", "90 % interval", "before", "unit", "verdict"]]
    for e in found.estimates:
        interval = "" if e.low is None or e.high is None else f"{e.low:.4g} to {e.high:.4g}"
        rows.append([e.name, _value(e.value), interval, _value(e.start), _unit(e.unit), e.verdict])
    text += ["", *table(rows)]
    text += [f"{e.name}: {e.reason}" for e in found.estimates if e.reason]
    text += [f"{name.replace('_', ' ')}: {value:.4g}" for name, value in sorted(found.figures.items())]
    text += [f"assumed: {assumption}" for assumption in found.assumptions]
    text += [f"warning: {warning}" for warning in found.warnings]
    return [*text, ""]


def _gaps(judgement: Judgement) -> list[str]:
    before = {gap.signal: gap for gap in judgement.before}
    rows = [["signal", "before", "after", "floor", "rmse before", "rmse after", "unit"]]
    for gap in judgement.after:
        was = before.get(gap.signal, gap)
        figures = (was.w1, gap.w1, gap.floor, was.rmse, gap.rmse)
        shown = ("" if math.isnan(x) else f"{x if abs(x) > _ROUNDING else 0.0:.4g}" for x in figures)
        rows.append([gap.signal, *shown, gap.unit])
    return table(rows)


def _unit(unit: str) -> str:
    return "" if unit == "1" else unit


def _value(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)

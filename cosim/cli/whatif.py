"""`cosim whatif`: candidates for the next minutes of a run, with bands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.arguments import Overrides, ScenarioPath, limit_of
from cosim.cli.console import Json, emit, errors, note, table
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.seals import unsealed

if TYPE_CHECKING:
    from cosim.results.again import AdapterState
    from cosim.twin.prediction.predict import Band
    from cosim.twin.prediction.whatif import WhatIfAnswer


def whatif(
    scenario: ScenarioPath,
    run: Annotated[Path | None, typer.Option("--run", help="Folder of the run that goes on, or has ended.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            help="A candidate: 'NAME: path=value; path=value', or an event: 'NAME: do=fail; node=edge-1; for=20 s'. "
            "May be given several times."
        ),
    ] = None,
    overrides: Overrides = None,
    twin: Annotated[
        Path | None, typer.Option(help="Folder that 'cosim calibrate' wrote: values are drawn from what it found.")
    ] = None,
    horizon: Annotated[str, typer.Option(help="How far ahead.")] = "5 min",
    now: Annotated[str | None, typer.Option(help="Time of the run to begin at; default: its end so far.")] = None,
    warm: Annotated[
        str | None, typer.Option(help="How much of the past is made again first, in batches; default: 1 min.")
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs of each candidate in batches; default: 40.", min=5)] = None,
    level: Annotated[float, typer.Option(help="Share of the runs within a band.", min=0.5, max=0.99)] = 0.9,
    hosts: Annotated[bool, typer.Option("--hosts", help="Power and utilisation of the hosts as well.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the runs.", min=0)] = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for what is made again.")] = Path("predictions"),
    exact: Annotated[
        bool, typer.Option("--exact", help="Branch the run itself, also of the continuum alone: no bands, only events.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only list how candidates get each adapter's state.")] = False,
    as_json: Json = False,
) -> None:
    """Say what changes would do to a run in its next minutes, from its present state on."""
    with errors(as_json):
        from cosim.twin.prediction.whatif import states_of, what_if

        if check:
            states = states_of(scenario, overrides or (), hosts=hosts)
            emit({"adapters": [asdict(one) for one in states]}, as_json, lambda: _states(states))
            return
        if run is None:
            raise ScenarioError(Problem("it is missing", "run", hint="give the run's folder with --run"))
        found = what_if(
            scenario, run, candidates(change or []), folder=out / "whatif",
            horizon=limit_of(horizon, "horizon", "ahead") or 0.0, warm=limit_of(warm, "warm", "ahead"),
            now=limit_of(now, "now", "ahead"),
            draws=posterior(twin) if twin else (), count=runs, level=level, seed=seed, overrides=overrides or (),
            hosts=hosts, exact=exact,
        )  # fmt: skip
        if _exact(found) and (warm or runs):
            note("a coupled run is branched from its one state: --warm and --runs have no effect")
        emit({"level": level, "candidates": [asdict(one) for one in found]}, as_json, lambda: _text(found, level))


def candidates(changes: list[str]) -> dict[str, list[str]]:
    """Overrides by the names of the candidates. Raises `ScenarioError` for what changes nothing."""
    found: dict[str, list[str]] = {}
    for text in changes:
        name, mark, rest = text.partition(":")
        if not mark or "=" in name:
            name, rest = text, text
        settings = [part.strip() for part in rest.split(";") if part.strip()]
        wrong = next((part for part in settings if "=" not in part), None)
        if wrong is not None or not settings:
            hint = "write --change 'more cores: nodes.edge-1.cpu=8 x 2 GHz'"
            raise ScenarioError(Problem(f"'{wrong or text}' changes nothing", "change", hint=hint))
        found[name.strip()] = settings
    return found


def posterior(folder: Path) -> list[Mapping[str, float]]:
    """The draws of a calibration as numbers by parameter."""
    path = folder / "calibration.json"
    try:
        data = unsealed(path, must="format")
        names = [one["name"] for one in data["estimates"]]
        found: list[Mapping[str, float]] = [dict(zip(names, row, strict=True)) for row in data["draws"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ScenarioError(Problem(f"no calibration can be read there: {error}", "twin", path)) from None
    if not found:
        hint = "calibrate with enough runs for intervals"
        raise ScenarioError(Problem("the calibration has no draws", "twin", path, hint=hint))
    return found


def _text(found: list[WhatIfAnswer], level: float) -> str:
    from cosim.report.tables import unit_of
    from cosim.report.text import quantity

    def shown(name: str, value: float, sign: str = "") -> str:
        return (sign if value > 0 else "") + quantity(value, unit_of(name, {}))

    exact, figures = _exact(found), list(found[0].bands)

    def band(name: str, b: Band) -> str:
        if exact:
            return shown(name, b.middle)
        return f"{shown(name, b.middle)} ({shown(name, b.low)} to {shown(name, b.high)})"

    def change(name: str, b: Band) -> str:
        return shown(name, b.low, "+") + ("" if exact else f" to {shown(name, b.high, '+')}")

    rows = [["candidate", *figures], *([one.name, *(band(n, b) for n, b in one.bands.items())] for one in found)]
    changes = [["difference", *figures]]
    changes += [[one.name, *(change(n, b) for n, b in one.differences.items())] for one in found[1:]]
    head = "the run itself under each candidate" if exact else f"{level:.0%} of the runs within each band"
    return "\n".join([head, *table(rows), "", *table(changes)])


def _exact(found: list[WhatIfAnswer]) -> bool:
    """Whether the answers are of the run itself."""
    return all(band.runs <= 1 for one in found for band in one.bands.values())


def _states(states: list[AdapterState]) -> str:
    return "\n".join(table([["adapter", "state", "why"], *([one.adapter, one.how, one.why] for one in states)]))

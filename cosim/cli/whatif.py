"""`cosim whatif`: candidates for the next minutes of a run, with bands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.arguments import Overrides, ScenarioPath
from cosim.cli.console import Json, emit, errors
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.units import parse

if TYPE_CHECKING:
    from cosim.twin.prediction.whatif import Answer


def whatif(
    scenario: ScenarioPath,
    run: Annotated[Path, typer.Option("--run", help="Folder of the run that goes on, or has ended.")],
    change: Annotated[
        list[str] | None, typer.Option(help="A candidate: 'NAME: path=value; path=value'. May be given several times.")
    ] = None,
    overrides: Overrides = None,
    twin: Annotated[
        Path | None, typer.Option(help="Folder that 'cosim calibrate' wrote: values are drawn from what it found.")
    ] = None,
    horizon: Annotated[str, typer.Option(help="How far ahead.")] = "5 min",
    warm: Annotated[str, typer.Option(help="How much of the past is made again first.")] = "1 min",
    runs: Annotated[int, typer.Option(help="Runs of each candidate.", min=5)] = 40,
    level: Annotated[float, typer.Option(help="Share of the runs within a band.", min=0.5, max=0.99)] = 0.9,
    hosts: Annotated[bool, typer.Option("--hosts", help="Power and utilisation of the hosts as well.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the runs.", min=0)] = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for what is made again.")] = Path("predictions"),
    as_json: Json = False,
) -> None:
    """Say what changes would do to a run in its next minutes, from its present state on."""
    with errors(as_json):
        from cosim.twin.prediction.whatif import what_if

        found = what_if(
            scenario, run, candidates(change or []), folder=out / "whatif", horizon=_seconds("horizon", horizon),
            warm=_seconds("warm", warm), draws=posterior(twin) if twin else (), count=runs, level=level, seed=seed,
            overrides=overrides or (), hosts=hosts,
        )  # fmt: skip
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


def _seconds(name: str, text: str) -> float:
    try:
        value = parse(text, "time")
    except ValueError as error:
        raise ScenarioError(Problem(str(error), name, hint="write it as '5 min'")) from None
    if not value > 0.0:
        raise ScenarioError(Problem(f"'{text}' is no time ahead", name, hint="write a time above 0"))
    return value


def posterior(folder: Path) -> list[Mapping[str, float]]:
    """The draws of a calibration as numbers by parameter."""
    path = folder / "calibration.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        names = [one["name"] for one in data["estimates"]]
        found: list[Mapping[str, float]] = [dict(zip(names, row, strict=True)) for row in data["draws"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ScenarioError(Problem(f"no calibration can be read there: {error}", "twin", path)) from None
    if not found:
        hint = "calibrate with enough runs for intervals"
        raise ScenarioError(Problem("the calibration has no draws", "twin", path, hint=hint))
    return found


def _text(found: list[Answer], level: float) -> str:
    from cosim.cli.calibrate import table
    from cosim.report.tables import unit_of
    from cosim.report.text import quantity

    def shown(name: str, value: float, sign: str = "") -> str:
        return (sign if value > 0 else "") + quantity(value, unit_of(name, {}))

    figures = list(found[0].bands)
    rows = [["candidate", *figures]]
    rows += [
        [one.name, *(f"{shown(n, b.middle)} ({shown(n, b.low)} to {shown(n, b.high)})" for n, b in one.bands.items())]
        for one in found
    ]
    changes = [["difference", *figures]]
    changes += [
        [one.name, *(f"{shown(n, b.low, '+')} to {shown(n, b.high, '+')}" for n, b in one.differences.items())]
        for one in found[1:]
    ]
    return "\n".join([f"{level:.0%} of the runs within each band", *table(rows), "", *table(changes)])

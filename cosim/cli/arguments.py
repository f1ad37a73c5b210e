"""Arguments that several verbs share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from cosim.contract.errors import Problem, ScenarioError

SCENARIO = typer.Argument(
    help="A scenario file, a folder that holds scenario.cosim.yaml, or a name of `cosim scenarios`."
)
ScenarioPath = Annotated[Path, SCENARIO]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value, for example run.duration='2 min'. Repeatable."),
]
Untrusted = Annotated[
    bool, typer.Option("--untrusted", help="Refuse commands, code and addresses in it, and files outside its folder.")
]
Force = Annotated[bool, typer.Option("--force", help="Also what this machine cannot hold, or not in a month.")]


def names_in(text: str) -> list[str]:
    """The names in a list with commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def time_of(text: str, option: str) -> float:
    """Seconds of `text`, the value of `--option`. Raises `ScenarioError` for none above 0."""
    from cosim.contract.units import parse

    try:
        found = parse(text, "time")
    except ValueError as error:
        raise ScenarioError(Problem(str(error), option, hint="write it as '90 s' or '10 min'")) from None
    if not 0.0 < found < math.inf:
        raise ScenarioError(Problem(f"'{text}' leaves no time", option, hint="write a time above 0"))
    return found

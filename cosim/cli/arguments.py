"""Arguments that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ScenarioPath = Annotated[Path, typer.Argument(help="A scenario file, or a folder that holds scenario.cosim.yaml.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value, for example run.duration='2 min'. Repeatable."),
]

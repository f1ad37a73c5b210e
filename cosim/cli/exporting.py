"""`cosim export FORMAT`: runs and scenarios in the files of other tools. Each format is a command of an extension."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Write a run or a scenario in the files of other tools.")

Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]

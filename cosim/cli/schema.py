"""`cosim schema`: the JSON schema of scenario files, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import errors, note


def schema(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write it to this file instead of printing it.")
    ] = None,
) -> None:
    """Print the JSON schema of scenario files with the installed adapters' blocks."""
    import json

    from cosim.scenario import schema as made

    with errors():
        if out is None:
            typer.echo(json.dumps(made.schema(), indent=2))
        else:
            made.write(out)
            note(f"schema written to {out}")

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

    from cosim.scenario.schema import scenario_schema

    with errors():
        text = json.dumps(scenario_schema(), indent=2) + "\n"
        if out is None:
            typer.echo(text, nl=False)
        else:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(text, encoding="utf-8")
            note(f"schema written to {out}")

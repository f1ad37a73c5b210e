"""`cosim import mlsysops`: a scenario from the framework's descriptors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, errors
from cosim.cli.importing import Force, Out, Strict, finish


def mlsysops(
    files: Annotated[list[Path], typer.Argument(help="Descriptors (YAML), or folders of them.")],
    out: Out,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import descriptors of the MLSysOps framework: nodes, clusters, datacentres, continuum, applications."""
    with errors(as_json):
        from cosim.extensions.mlsysops.importing import read

        finish(read(files), out, force=force, strict=strict, as_json=as_json)

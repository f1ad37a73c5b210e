"""`cosim import ifogsim|cloudsim`: a scenario from one description file of another simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, errors
from cosim.cli.importing import Force, Out, Strict, finish

_Work = Annotated[
    list[str] | None, typer.Option(help="Of a tuple: '2 Mcycles' (default), or by type: 'EEG=2 Mcycles'.")
]
_Input = Annotated[list[str] | None, typer.Option("--input", help="Of a tuple: '500 B' (default), or by type.")]
_Output = Annotated[list[str] | None, typer.Option("--output", help="Of an answer: '500 B' (default), or by type.")]


def ifogsim(
    source: Annotated[Path, typer.Argument(help="A topology as iFogSim's editor writes it (JSON).")],
    *,
    out: Out,
    work: _Work = None,
    inputs: _Input = None,
    outputs: _Output = None,
    scheduler: Annotated[str, typer.Option(help="Who computes: nearest, cloud, or another scheduler.")] = "nearest",
    duration: Annotated[str, typer.Option(help="Of a run.")] = "10 s",
    seed: Annotated[int, typer.Option(min=0, help="Of gaps that are not constant, and of the run.")] = 1,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import a topology of iFogSim: fog devices, sensors, links; the application is said by options."""
    with errors(as_json):
        from cosim.extensions.importers.ifogsim import read

        imported = read(
            source, work=work or (), inputs=inputs or (), outputs=outputs or (),
            scheduler=scheduler, duration=duration, seed=seed,
        )  # fmt: skip
        finish(imported, out, force=force, strict=strict, as_json=as_json)


def cloudsim(
    source: Annotated[Path, typer.Argument(help="A scenario of CloudSim Automation (YAML).")],
    out: Out,
    environment: Annotated[int, typer.Option(min=1, help="Which of the documents in the file.")] = 1,
    duration: Annotated[str | None, typer.Option(help="Of a run; default: long enough for all cloudlets.")] = None,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import a scenario of CloudSim Automation: datacenters, hosts, customers, VMs, cloudlets."""
    with errors(as_json):
        from cosim.extensions.importers.cloudsim import read

        imported = read(source, environment=environment, duration=duration)
        finish(imported, out, force=force, strict=strict, as_json=as_json)

"""`cosim import planetlab|bitbrains|google|azure|alibaba`: a scenario from a trace of a data centre."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cosim.cli.console import Json, errors
from cosim.cli.importing import Force, Out, Strict, finish

Source = Annotated[Path, typer.Argument(help="File or folder, plain or gzipped.")]
Vms = Annotated[int | None, typer.Option(min=1, help="At most so many machines, the first of the trace.")]
Periods = Annotated[int | None, typer.Option(min=1, help="At most so many periods, the first of the trace.")]
Hosts = Annotated[int | None, typer.Option(min=1, help="Default: as many as the machines need.")]


def _make(
    name: str,
    source: Path,
    out: Path,
    force: bool,
    strict: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> None:
    with errors(as_json):
        from cosim.importing.traces import read

        finish(read(name, source, **options), out, force=force, strict=strict, as_json=as_json)


def planetlab(
    source: Source,
    out: Out,
    full: Annotated[float, typer.Option(help="Value of a machine fully used; 1 for files of fractions.")] = 100.0,
    vms: Vms = None,
    periods: Periods = None,
    hosts: Hosts = None,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import a PlanetLab day: a folder with a file per machine, or one table."""
    _make("planetlab", source, out, force, strict, as_json, full=full, vms=vms, periods=periods, hosts=hosts)


def bitbrains(
    source: Source,
    out: Out,
    table: Annotated[Path | None, typer.Option(help="VM table of the packed form; default: ..._vms.csv.")] = None,
    vms: Vms = None,
    periods: Periods = None,
    hosts: Hosts = None,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import Bitbrains (GWA-T-12): raw files, or the packed tables."""
    _make("bitbrains", source, out, force, strict, as_json, table=table, vms=vms, periods=periods, hosts=hosts)


def google(
    source: Source,
    out: Out,
    vms: Vms = None,
    periods: Periods = None,
    hosts: Hosts = None,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import Google's task_usage of 2011."""
    _make("google", source, out, force, strict, as_json, vms=vms, periods=periods, hosts=hosts)


def azure(
    source: Source,
    out: Out,
    table: Annotated[Path | None, typer.Option("--vmtable", help="vmtable, for cores and memory.")] = None,
    vms: Vms = None,
    periods: Periods = None,
    hosts: Hosts = None,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import Azure's vm_cpu_readings (V2)."""
    _make("azure", source, out, force, strict, as_json, table=table, vms=vms, periods=periods, hosts=hosts)


def alibaba(
    source: Source,
    out: Out,
    containers: Annotated[bool, typer.Option("--containers", help="It is container_usage.")] = False,
    vms: Vms = None,
    periods: Periods = None,
    hosts: Hosts = None,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import Alibaba's machine_usage or container_usage (2018)."""
    _make("alibaba", source, out, force, strict, as_json, containers=containers, vms=vms, periods=periods, hosts=hosts)


def add(app: typer.Typer) -> None:
    """Make the commands of this module commands of `app`."""
    for command in (planetlab, bitbrains, google, azure, alibaba):
        app.command()(command)

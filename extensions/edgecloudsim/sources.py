"""`cosim import edgecloudsim`: a scenario from EdgeCloudSim's input files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, errors
from cosim.cli.importing import Force, Out, Strict, finish


class Physics(StrEnum):
    """Whose behaviour an imported model has."""

    compatible = "compatible"
    corrected = "corrected"


class Model(StrEnum):
    """EdgeCloudSim's sample applications, by whose model the files are read."""

    app1 = "app1"
    app2 = "app2"
    app3 = "app3"
    app4 = "app4"
    app5 = "app5"
    app6 = "app6"
    tutorial5 = "tutorial5"


def edgecloudsim(
    *,
    out: Out,
    properties: Annotated[Path, typer.Option("--properties", help="default_config.properties")],
    edge_devices: Annotated[Path, typer.Option("--edge-devices", help="edge_devices.xml")],
    applications: Annotated[Path, typer.Option("--applications", help="applications.xml")],
    devices: Annotated[int | None, typer.Option(help="Number of devices; default: the least of the file.")] = None,
    scenario: Annotated[str | None, typer.Option(help="One of simulation_scenarios; default: the first.")] = None,
    policy: Annotated[str | None, typer.Option(help="One of orchestrator_policies; default: the first.")] = None,
    model: Annotated[Model | None, typer.Option(help="Default: inferred from the policies and keys.")] = None,
    physics: Annotated[
        Physics, typer.Option(help="compatible: EdgeCloudSim's own behaviour; corrected: without its faults.")
    ] = Physics.compatible,
    logs: Annotated[bool, typer.Option("--logs", help="Let runs write EdgeCloudSim's log files too.")] = False,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import EdgeCloudSim's three input files, unmodified; the UNICAL extension's keys too."""
    with errors(as_json):
        from cosim.extensions.edgecloudsim.importing import read

        imported = read(
            properties, edge_devices, applications,
            devices=devices, scenario=scenario, policy=policy, model=model.value if model else None,
            physics=physics.value, logs=logs,
        )  # fmt: skip
        finish(imported, out, force=force, strict=strict, as_json=as_json)

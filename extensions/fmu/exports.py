"""`cosim export fmu`: a scenario as a Functional Mock-up Unit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.arguments import Overrides, ScenarioPath
from cosim.cli.console import Json, count, emit, errors
from cosim.cli.exporting import Force


def fmu(
    scenario: ScenarioPath,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file; default: NAME.fmu.")] = None,
    value: Annotated[
        list[str] | None, typer.Option("--value", help="Outputs SIGNAL.NODE.COLUMN, with * and ?; default: all.")
    ] = None,
    switch: Annotated[
        list[str] | None, typer.Option("--switch", help="Nodes, with * and ?, that an input lets fail and recover.")
    ] = None,
    overrides: Overrides = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a scenario as a Functional Mock-up Unit (FMI 3, co-simulation), for tools that couple such units."""
    with errors(as_json):
        from cosim.extensions.fmu import write_fmu

        target = out or Path(f"{scenario.resolve().name.removesuffix('.yaml').removesuffix('.cosim')}.fmu")
        made = write_fmu(
            scenario, target, overrides=overrides or (), values=value or ("*",), switches=switch or (), force=force
        )
        data = {"file": str(made.path), "outputs": made.outputs, "inputs": made.inputs, "parameters": made.parameters}
        words = f"{count(len(made.outputs), 'output')}, {count(len(made.inputs), 'input')}"
        emit(data, as_json, f"{made.path}  {words}, {count(len(made.parameters) + 1, 'parameter')}")

"""`cosim export FORMAT`: runs and scenarios in the files of other tools."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.arguments import Overrides, ScenarioPath
from cosim.cli.console import Json, count, emit, errors
from cosim.contract.errors import SetupError

app = typer.Typer(no_args_is_help=True, help="Write a run or a scenario in the files of other tools.")

EPOCH = datetime(1970, 1, 1)  # logs have no zone
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]


@app.command()
def mcap(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file; default: NAME.mcap.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a run as MCAP, for Foxglove and other robotics tools: positions, signals, tasks, events."""
    with errors(as_json):
        from cosim.results.mcap_file import export

        made = export(run, out, force=force)
        data = {"file": str(made.path), "messages": made.messages, "topics": dict(made.topics)}
        emit(data, as_json, f"{made.path}  {count(made.messages, 'message')} on {count(len(made.topics), 'topic')}")


Epoch = Annotated[
    datetime, typer.Option("--epoch", formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"], help="When simulated time 0 is.")
]


@app.command()
def srsran(
    run: Annotated[Path, typer.Argument(help="A run folder, of a radio with 'log: true'.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the logs.")],
    epoch: Epoch = EPOCH,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the text logs of a run's base stations and phones as srsRAN's gNB and srsUE write them."""
    with errors(as_json):
        from cosim.results.srsran import export

        made = export(run, out, epoch=epoch, force=force)
        kinds = {kind: sum(name.startswith(kind) for name in made.lines) for kind in ("gnb-", "ue-")}
        text = f"{made.folder}  {count(kinds['gnb-'] // 2, 'base station')}, {count(kinds['ue-'], 'phone')}"
        emit({"folder": str(made.folder), "lines": dict(made.lines)}, as_json, text)


@app.command()
def open5gs(
    run: Annotated[Path, typer.Argument(help="A run folder, of a radio with 'log: true'.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the log.")],
    epoch: Epoch = EPOCH,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the log of a 5G core as Open5GS writes it: registrations, sessions, and how many there are."""
    with errors(as_json):
        from cosim.results.open5gs import export

        made = export(run, out, epoch=epoch, force=force)
        text = f"{made.folder}  {count(made.lines['open5gs.log'], 'line')}, "
        text += count(made.lines["subscribers.csv"] - 1, "phone")
        emit({"folder": str(made.folder), "lines": dict(made.lines)}, as_json, text)


@app.command()
def mlsysops(
    scenario: ScenarioPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the descriptors.")],
    overrides: Overrides = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a scenario's nodes, cluster and workloads as descriptors of the MLSysOps framework."""
    with errors(as_json):
        from ruamel.yaml import YAML

        from cosim.scenario.plan.compile import plan_of
        from cosim.schedulers.mlsysops.descriptors import descriptors

        plan = plan_of(scenario, overrides or (), force=True)
        found = {out / name: document for name, document in descriptors(plan.scene, plan.name).items()}
        there = [str(path) for path in found if path.exists()]
        if there and not force:
            raise SetupError(f"{there[0]} is there already; name another folder with --out, or replace it with --force")
        out.mkdir(parents=True, exist_ok=True)
        writer = YAML(typ="safe", pure=True)
        writer.default_flow_style = False
        writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
        for path, document in found.items():
            with path.open("w", encoding="utf-8") as file:
                writer.dump(document, file)
        left = [fleet.name for fleet in plan.scene.fleets]
        text = f"{out}  {count(len(found), 'descriptor')}"
        text += f"; left out: fleets {', '.join(left)}" if left else ""
        emit({"files": [str(path) for path in found], "left_out": left}, as_json, text)


@app.command()
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
        from cosim.results.fmu import write_fmu

        target = out or Path(f"{scenario.resolve().name.removesuffix('.yaml').removesuffix('.cosim')}.fmu")
        made = write_fmu(
            scenario, target, overrides=overrides or (), values=value or ("*",), switches=switch or (), force=force
        )
        data = {"file": str(made.path), "outputs": made.outputs, "inputs": made.inputs, "parameters": made.parameters}
        words = f"{count(len(made.outputs), 'output')}, {count(len(made.inputs), 'input')}"
        emit(data, as_json, f"{made.path}  {words}, {count(len(made.parameters) + 1, 'parameter')}")

"""`cosim export srsran|open5gs`: the text logs of a run's 5G network."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, count, emit, errors
from cosim.cli.exporting import Force
from cosim.extensions.radio_logs import EPOCH

Epoch = Annotated[
    datetime, typer.Option("--epoch", formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"], help="When simulated time 0 is.")
]


def srsran(
    run: Annotated[Path, typer.Argument(help="A run folder, of a radio with 'log: true'.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the logs.")],
    epoch: Epoch = EPOCH,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the text logs of a run's base stations and phones as srsRAN's gNB and srsUE write them."""
    with errors(as_json):
        from cosim.extensions.radio_logs.srsran import export

        made = export(run, out, epoch=epoch, force=force)
        kinds = {kind: sum(name.startswith(kind) for name in made.lines) for kind in ("gnb-", "ue-")}
        text = f"{made.folder}  {count(kinds['gnb-'] // 2, 'base station')}, {count(kinds['ue-'], 'phone')}"
        emit({"folder": str(made.folder), "lines": dict(made.lines)}, as_json, text)


def open5gs(
    run: Annotated[Path, typer.Argument(help="A run folder, of a radio with 'log: true'.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the log.")],
    epoch: Epoch = EPOCH,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the log of a 5G core as Open5GS writes it: registrations, sessions, and how many there are."""
    with errors(as_json):
        from cosim.extensions.radio_logs.open5gs import export

        made = export(run, out, epoch=epoch, force=force)
        text = f"{made.folder}  {count(made.lines['open5gs.log'], 'line')}, "
        text += count(made.lines["subscribers.csv"] - 1, "phone")
        emit({"folder": str(made.folder), "lines": dict(made.lines)}, as_json, text)

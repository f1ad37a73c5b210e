"""`cosim export mcap`: a run as MCAP; `cosim foxglove`: a run under way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, count, emit, errors, note
from cosim.cli.exporting import Force
from cosim.contract.errors import require


def mcap(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file; default: NAME.mcap.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a run as MCAP, for Foxglove, Rerun and other robotics tools: positions, pictures, signals, events."""
    with errors(as_json):
        require("foxglove", "foxglove", "google.protobuf")
        from cosim.extensions.foxglove.writer import export

        made = export(run, out, force=force)
        data = {"file": str(made.path), "messages": made.messages, "topics": dict(made.topics)}
        emit(data, as_json, f"{made.path}  {count(made.messages, 'message')} on {count(len(made.topics), 'topic')}")


def foxglove(
    address: Annotated[str, typer.Argument(help="The address that a run publishes at.")],
    port: Annotated[int, typer.Option(help="0: a free one.", min=0, max=65535)] = 8765,
    host: Annotated[str, typer.Option(help="Interface to serve at; 0.0.0.0 for all.")] = "127.0.0.1",
    token: Annotated[str | None, typer.Option(help="The run's token; default: COSIM_TOKEN.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="The run's folder, if it is on this machine: for pictures of cameras.")
    ] = None,
) -> None:
    """Show a run under way in Foxglove: what it publishes, as a Foxglove WebSocket, until it ends."""
    with errors():
        require("foxglove", "foxglove", "google.protobuf")
        from cosim.extensions.foxglove.server import serve

        given = os.environ.get("COSIM_TOKEN", "") if token is None else token
        try:
            serve(address, typer.echo, host=host, port=port, folder=folder, token=given.strip())
        except KeyboardInterrupt:
            note("stopped; the run goes on")
        else:
            note("the run has ended")

"""`cosim view`: a live map and charts of a run in the browser."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.console import errors, note
from cosim.contract.errors import SetupError

if TYPE_CHECKING:
    from cosim.web.source import Source


def view(
    run: Annotated[
        str | None,
        typer.Argument(help="A run folder, or the address that a run publishes at; default: the newest run."),
    ] = None,
    port: Annotated[int, typer.Option(help="0: a free one.", min=0, max=65535)] = 8008,
    host: Annotated[str, typer.Option(help="Interface to serve at; 0.0.0.0 for all.")] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(help="The token of a run under --control; default: COSIM_TOKEN. Without: read-only.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of a live run, if it is on this machine: for pictures of drones.")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="A name besides localhost that browsers call this machine by. Repeatable.")
    ] = None,
    map_files: Annotated[
        list[Path] | None, typer.Option("--map", help="GeoJSON lines and polygons to draw under the map. Repeatable.")
    ] = None,
) -> None:
    """Show a run in the browser: a live map, charts and events, or the replay of a finished run."""
    with errors():
        for module in ("fastapi", "uvicorn", "websockets"):
            if importlib.util.find_spec(module) is None:
                raise SetupError(f"module '{module}' is not installed: pip install 'continuum-cosim[web]'")
        from cosim.web.app import make_app
        from cosim.web.serve import bind, serve

        given = os.environ.get("COSIM_TOKEN", "") if token is None else token
        with bind(host, port) as listener:
            app = make_app(_source(run, map_files or [], folder), token=given.strip(), hosts=[host, *(name or ())])
            serve(app, listener, typer.echo, os.environ.get("COSIM_PUBLISHED", "").strip())
        note("the dashboard has ended")


def _source(run: str | None, maps: Sequence[Path] = (), beside: Path | None = None) -> Source:
    from cosim.results.folder import RunFolder, latest
    from cosim.web.finished import FinishedRun
    from cosim.web.live import LiveSource

    if run is not None and run.startswith(("tcp://", "ipc://")):
        _readable(maps)
        return LiveSource(run, maps, beside)
    folder = RunFolder.open(run) if run is not None else latest(Path("runs"))
    note(f"showing {folder.path}")
    if folder.alive:
        note(
            "this run goes on: here is what it has written so far; to follow it, give the address that --publish prints"
        )
    return FinishedRun(folder.path, maps)


def _readable(maps: Sequence[Path]) -> None:
    """Raise `SetupError` for a file that is none; whether its run has an origin is known when the run publishes."""
    from cosim.results.layers import file_lines

    for file in maps:
        file_lines(file, (0.0, 0.0))

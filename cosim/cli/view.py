"""`cosim view`: a live map and charts of a run in the browser."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosim.cli.console import errors, note
from cosim.contract.errors import Problem, ScenarioError, require

if TYPE_CHECKING:
    from cosim.report.web.candidates import Candidates
    from cosim.report.web.source import RunSource

_RUNS = 20  # of each candidate


def view(
    run: Annotated[
        str | None,
        typer.Argument(help="A run folder, or the address that a run publishes at; default: the newest run."),
    ] = None,
    *,
    port: Annotated[int, typer.Option(help="0: a free one.", min=0, max=65535)] = 8008,
    host: Annotated[str, typer.Option(help="Interface to serve at; 0.0.0.0 for all.")] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(help="The token of a run under --control; default: COSIM_TOKEN. Without: read-only.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of a live run, if it is on this machine: for pictures of cameras.")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="A name besides localhost that browsers call this machine by. Repeatable.")
    ] = None,
    map_files: Annotated[
        list[Path] | None, typer.Option("--map", help="GeoJSON lines and polygons to draw under the map. Repeatable.")
    ] = None,
    scenario: Annotated[
        Path | None, typer.Option(help="Scenario of the run: the page answers what each --change would do.")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option(help="A candidate: 'NAME: path=value; path=value'. Repeatable.")
    ] = None,
    twin: Annotated[
        Path | None, typer.Option(help="Folder that 'cosim calibrate' wrote: values of candidates are drawn from it.")
    ] = None,
) -> None:
    """Show a run in the browser: a live map, charts and events, or the replay of a finished run."""
    with errors():
        require("web", "fastapi", "uvicorn", "websockets")
        from cosim.report.web.app import make_app
        from cosim.report.web.serve import bind, serve

        given = os.environ.get("COSIM_TOKEN", "") if token is None else token
        published = os.environ.get("COSIM_PUBLISHED", "").strip()
        password = _password(host, published)
        with bind(host, port) as listener, TemporaryDirectory(prefix="cosim-what-if-") as work:
            source = _source(run, map_files or [], folder, given.strip())
            asked = _candidates(folder or getattr(source, "folder", None), scenario, change or [], twin, Path(work))
            app = make_app(
                source, token=given.strip(), hosts=[host, *(name or ())], candidates=asked, password=password
            )
            serve(app, listener, typer.echo, published)
        note("the dashboard has ended")


def _password(host: str, published: str) -> str:
    """What browsers must give, "" for nothing: needed beyond loopback, which a container's port is not by itself."""
    given = os.environ.get("COSIM_PASSWORD", "").strip()
    if given or published or host in ("127.0.0.1", "::1", "localhost"):
        return given
    import secrets

    made = secrets.token_urlsafe(12)
    note(f"others can reach this dashboard: it asks for the password {made} (COSIM_PASSWORD sets another)")
    return made


def _source(run: str | None, maps: Sequence[Path] = (), beside: Path | None = None, token: str = "") -> RunSource:
    from cosim.report.web.finished import FinishedRun
    from cosim.report.web.live import LiveSource
    from cosim.results.folder import RunFolder, latest

    if run is not None and run.startswith(("tcp://", "ipc://")):
        _readable(maps)
        return LiveSource(run, maps, beside, token)
    folder = RunFolder.open(run) if run is not None else latest(Path("runs"))
    note(f"showing {folder.path}")
    if folder.alive:
        note(
            "this run goes on: here is what it has written so far; to follow it, give the address that --publish prints"
        )
    return FinishedRun(folder.path, maps)


def _candidates(
    run: Path | None, scenario: Path | None, changes: list[str], twin: Path | None, work: Path
) -> Candidates | None:
    """What the page may ask, None without changes."""
    if scenario is None or not changes:
        if scenario is not None or changes or twin is not None:
            hint = "write --scenario FILE --change 'more cores: nodes.edge-1.cpu=8 x 2 GHz'"
            raise ScenarioError(Problem("candidates need the scenario and at least one change", "change", hint=hint))
        return None
    if run is None:
        hint = "give the run's folder on this machine with --folder"
        raise ScenarioError(Problem("of a live run candidates need what it has recorded", "folder", hint=hint))
    from dataclasses import asdict

    from cosim.cli.whatif import candidates, posterior
    from cosim.report.web.candidates import Candidates
    from cosim.twin.prediction.whatif import what_if

    known, draws = candidates(changes), posterior(twin) if twin is not None else ()

    def answer(names: Sequence[str], horizon: float, now: float | None) -> list[dict[str, Any]]:
        chosen = {name: known[name] for name in names}
        found = what_if(scenario, run, chosen, folder=work, horizon=horizon, now=now, draws=draws, count=_RUNS)
        return [asdict(one) for one in found]

    return Candidates(tuple(known), answer)


def _readable(maps: Sequence[Path]) -> None:
    """Raise `SetupError` for a file that is none; whether its run has an origin is known when the run publishes."""
    from cosim.results.layers import file_lines

    for file in maps:
        file_lines(file, (0.0, 0.0))

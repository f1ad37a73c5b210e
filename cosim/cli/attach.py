"""`cosim attach` and `cosim live-key`: a real machine takes a node's place in a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.console import Json, emit, errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from cosim.live.agent import Options
    from cosim.live.meters import Model
    from cosim.live.protocol import Body

Folder = Annotated[Path, typer.Option("--keys", help="Folder of the gateway's keys.")]


def live_key(
    name: Annotated[str, typer.Argument(help="Name of the key, as `live.key` says in the scenario.")],
    folder: Folder = Path("keys"),
    as_json: Json = False,
) -> None:
    """Make a key for a machine: NAME.key for the machine, NAME.pub for the gateway, beside the gateway's own."""
    from cosim.live import keys

    with errors(as_json):
        server = keys.server_key(folder)
        private, public = keys.write(keys.make(name, server.public), folder)
        emit(
            {"name": name, "private": str(private), "public": str(public)},
            as_json,
            f"{public} lets it in\n{private} belongs on the machine: move it there, it is not needed here",
        )


def attach(
    key: Annotated[Path | None, typer.Option(help="Private key file of this machine.")] = None,
    server: Annotated[str, typer.Option(help="The gateway: tcp://HOST:PORT.")] = "",
    node: Annotated[str, typer.Option(help="The node to be; not needed when the key has one slot.")] = "",
    server_key: Annotated[
        Path | None, typer.Option(help="The gateway's server.pub, when the key file does not hold it.")
    ] = None,
    position: Annotated[str, typer.Option(help="fixed:LAT,LON,ALT, gpsd[:HOST:PORT] or mavlink:udp://HOST:PORT.")] = "",
    concurrency: Annotated[int, typer.Option(min=0, help="Tasks at once; 0: one per core.")] = 0,
    tasks: Annotated[bool, typer.Option("--tasks/--no-tasks", help="Run tasks.")] = True,
    forward: Annotated[str, typer.Option(help="http:// address on loopback for tasks of the kind 'forward'.")] = "",
    clock: Annotated[str, typer.Option(help="Clock of a core, as '1.5 GHz'; default: what the machine says.")] = "",
    power_model: Annotated[
        str, typer.Option(help="Power when idle and under full load, as '2.7 W,6.4 W', for want of a meter.")
    ] = "",
    allow_shaping: Annotated[
        str, typer.Option(metavar="MODULE:FUNCTION", help="Function that may shape the network; default: none may.")
    ] = "",
    new_key: Annotated[str, typer.Option(metavar="NAME", help="Make a key in this folder and leave.")] = "",
    systemd: Annotated[bool, typer.Option("--systemd", help="Print a unit file with these options and leave.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be reported and leave.")] = False,
    as_json: Json = False,
) -> None:
    """Let this machine take a node's place in a run; goes on until Ctrl-C or SIGTERM."""
    from cosim.errors import SetupError
    from cosim.live import agent, keys

    with errors(as_json):
        if new_key:
            private, public = keys.write(keys.make(new_key), Path())
            emit(
                {"private": str(private), "public": str(public)},
                as_json,
                f"{private} stays here; {public} goes into the gateway's folder of keys",
            )
            return
        if key is None or not server:
            raise SetupError("a key and a server are needed: cosim attach --key NAME.key --server tcp://HOST:PORT")
        options = agent.Options(
            key, server, node,
            server_key=keys.read(server_key, private=False).public if server_key else "",
            position=position, concurrency=concurrency, tasks=tasks, forward=forward,
            clock=_clock(clock), power=_model(power_model), shape=_shaper(allow_shaping), version=_version(),
        )  # fmt: skip
        if systemd:
            typer.echo(_unit(options), nl=False)
        elif dry_run:
            import json

            found = agent.survey(options)
            emit(found, as_json, lambda: json.dumps(found, indent=2))
        else:
            _log()
            code = agent.run(options)
            if code:
                raise typer.Exit(code)


def _version() -> str:
    from cosim import version

    return version()


def _log() -> None:
    """The agent's log goes to the error stream, where systemd takes it."""
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")


def _clock(text: str) -> float:
    from cosim import units
    from cosim.errors import SetupError

    try:
        return units.parse(text, "frequency") if text else 0.0
    except ValueError as error:
        raise SetupError(f"--clock: {error}") from error


def _model(text: str) -> Model | None:
    from cosim import units
    from cosim.errors import SetupError
    from cosim.live.meters import Model

    if not text:
        return None
    try:
        idle, most = (units.parse(part.strip(), "power") for part in text.split(","))
    except ValueError as error:
        raise SetupError(f"--power-model: '{text}' is not two powers, as '2.7 W,6.4 W': {error}") from error
    return Model(idle, most)


def _shaper(name: str) -> Callable[[Body], None] | None:
    """The function that this machine's owner lets shape its network."""
    import importlib

    from cosim.errors import SetupError

    if not name:
        return None
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise SetupError(f"--allow-shaping: '{name}' cannot be imported: {error}") from error
    if not callable(found):
        raise SetupError(f"--allow-shaping: '{name}' is no function")
    shaper: Callable[[Body], None] = found
    return shaper


def _unit(options: Options) -> str:
    import shutil
    import sys

    from cosim.live import agent
    from cosim.live.unit import unit

    key, _ = agent.prepare(options)
    program = shutil.which("cosim") or f"{Path(sys.executable).parent}/cosim"
    arguments = ["--server", options.server]
    pairs = {
        "--node": options.node, "--position": options.position, "--forward": options.forward,
        "--concurrency": str(options.concurrency or ""),
        "--clock": f"{options.clock:g} Hz" if options.clock else "",
        "--power-model": f"{options.power.idle:g} W,{options.power.max:g} W" if options.power else "",
    }  # fmt: skip
    for name, value in pairs.items():
        arguments += [name, value] if value else []
    arguments += [] if options.tasks else ["--no-tasks"]
    return unit(f"cosim-{key.name}", program, str(options.key.resolve()), arguments)

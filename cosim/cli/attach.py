"""`cosim attach` and `cosim live-key`: a real machine takes a node's place in a run."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.console import Json, emit, errors

if TYPE_CHECKING:
    import ipaddress

    from cosim.testbed.live.agent import Options
    from cosim.testbed.live.meters import PowerLine
    from cosim.testbed.live.shaper import KernelShaper
    from cosim.testbed.live.shaping import Function

Folder = Annotated[Path, typer.Option("--keys", help="Folder of the gateway's keys.")]


def live_key(
    name: Annotated[str, typer.Argument(help="Name of the key, as `live.key` says in the scenario.")],
    folder: Folder = Path("keys"),
    as_json: Json = False,
) -> None:
    """Make a key for a machine: NAME.key for the machine, NAME.pub for the gateway, beside the gateway's own."""
    from cosim.talk import keys

    with errors(as_json):
        key = keys.make(name)
        private, public = keys.write(replace(key, server=keys.server_key(folder).public), folder)
        emit(
            {"name": name, "private": str(private), "public": str(public)},
            as_json,
            f"{public} lets it in\n{private} belongs on the machine: move it there, it is not needed here",
        )


def attach(
    *,
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
        str,
        typer.Option(
            metavar="INTERFACE|MODULE:FUNCTION",
            help="Interface whose links the run may shape, or a function of yours that does it; default: none.",
        ),
    ] = "",
    shape_within: Annotated[
        str, typer.Option(metavar="CIDR,...", help="Networks that may be shaped; default: that of the interface.")
    ] = "",
    new_key: Annotated[str, typer.Option(metavar="NAME", help="Make a key in this folder and leave.")] = "",
    systemd: Annotated[bool, typer.Option("--systemd", help="Print a unit file with these options and leave.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be reported and leave.")] = False,
    as_json: Json = False,
) -> None:
    """Let this machine take a node's place in a run; goes on until Ctrl-C or SIGTERM."""
    from cosim.contract.errors import SetupError
    from cosim.talk import keys
    from cosim.testbed.live import agent

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
        within = _networks(shape_within)
        options = agent.Options(
            key, server, node,
            server_key=keys.read(server_key, private=False).public if server_key else "",
            position=position, concurrency=concurrency, tasks=tasks, forward=forward,
            clock=_clock(clock), power=_model(power_model), version=_version(),
        )  # fmt: skip
        if systemd:
            typer.echo(_unit(options, allow_shaping, shape_within), nl=False)
        elif dry_run:
            import json

            found = {**agent.survey(options), **_possible(allow_shaping, within, server)}
            emit(found, as_json, lambda: json.dumps(found, indent=2))
        else:
            _log()
            with contextlib.ExitStack() as stack:
                shaper = _shaper(allow_shaping, within, server)
                if shaper is not None:
                    stack.callback(shaper.close)
                    shaper.open()
                code = agent.run(replace(options, shaper=shaper))
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
    from cosim.contract import units
    from cosim.contract.errors import SetupError

    try:
        return units.parse(text, "frequency") if text else 0.0
    except ValueError as error:
        raise SetupError(f"--clock: {error}") from error


def _model(text: str) -> PowerLine | None:
    from cosim.contract import units
    from cosim.contract.errors import SetupError
    from cosim.testbed.live.meters import PowerLine

    if not text:
        return None
    try:
        idle, most = (units.parse(part.strip(), "power") for part in text.split(","))
    except ValueError as error:
        raise SetupError(f"--power-model: '{text}' is not two powers, as '2.7 W,6.4 W': {error}") from error
    return PowerLine(idle, most)


def _networks(text: str) -> tuple[ipaddress.IPv4Network, ...]:
    from cosim.contract.errors import SetupError
    from cosim.testbed.live.shaping import networks

    try:
        return networks(text)
    except ValueError as error:
        raise SetupError(f"--shape-within: {error}; write networks as 192.168.7.0/24, by commas") from error


def _shaper(name: str, within: tuple[ipaddress.IPv4Network, ...], server: str) -> KernelShaper | Function | None:
    """What this machine's owner lets shape its links."""

    from cosim.contract.errors import SetupError
    from cosim.contract.functions import function
    from cosim.testbed.live.shaper import KernelShaper, is_interface
    from cosim.testbed.live.shaping import Function

    if not name:
        if within:
            raise SetupError("--shape-within needs --allow-shaping INTERFACE")
        return None
    if is_interface(name):
        return KernelShaper(name, within, server)
    try:
        return Function(function(name), within)
    except ValueError as error:
        raise SetupError(f"--allow-shaping: {error}") from error


def _possible(name: str, within: tuple[ipaddress.IPv4Network, ...], server: str) -> dict[str, object]:
    """The report of --dry-run about shaping."""
    from cosim.contract.errors import SetupError

    try:
        shaper = _shaper(name, within, server)
    except SetupError as error:
        return {"shaping": "none", "shaper": {"refused": str(error)}}
    if shaper is None:
        return {}
    shaper.close()
    within_text = [str(network) for network in shaper.within]
    return {"shaping": shaper.ability, "shaper": {"within": within_text, "lacks": shaper.lacks}}


def _unit(options: Options, shaping: str, within: str) -> str:
    import shutil
    import sys

    from cosim.testbed.live import agent
    from cosim.testbed.live.shaper import is_interface
    from cosim.testbed.live.unit import unit

    key, _ = agent.prepare(options)
    program = shutil.which("cosim") or f"{Path(sys.executable).parent}/cosim"
    arguments = ["--server", options.server]
    pairs = {
        "--node": options.node, "--position": options.position, "--forward": options.forward,
        "--concurrency": str(options.concurrency or ""),
        "--clock": f"{options.clock:g} Hz" if options.clock else "",
        "--power-model": f"{options.power.idle:g} W,{options.power.max:g} W" if options.power else "",
        "--allow-shaping": shaping, "--shape-within": within,
    }  # fmt: skip
    for name, value in pairs.items():
        arguments += [name, value] if value else []
    arguments += [] if options.tasks else ["--no-tasks"]
    interface = shaping if is_interface(shaping) else ""
    return unit(
        f"cosim-{key.name}", program, str(options.key.resolve()), arguments, interface=interface, python=sys.executable
    )

"""`cosim shell`: a shell inside a real node of a run under way."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.console import errors
from cosim.contract.errors import SetupError
from cosim.contract.hints import did_you_mean

if TYPE_CHECKING:
    from cosim.results.folder import RunFolder


def shell(
    node: Annotated[str, typer.Argument(help="A real node: one with 'runs', in a container or a network namespace.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND]...", help="What to run there; default: a shell.")
    ] = None,
    run: Annotated[str, typer.Option(metavar="RUN", help="The run's folder; default: the newest under way.")] = "",
) -> None:
    """Open a shell, or run a command, inside a real node of a run under way; its exit code is that of cosim."""
    with errors():
        words = _entering(node, _under_way(run), command or [])
        program = shutil.which(words[0])
        if program is None:
            raise SetupError(
                f"there is no program '{words[0]}'; install {'iproute2' if words[0] == 'ip' else words[0]}"
            )
        sys.stdout.flush()
        os.execv(program, words)  # the terminal, Ctrl-C and the exit code are the command's


def _under_way(run: str) -> RunFolder:
    """The folder of a run that goes on."""
    from cosim.results.folder import RunFolder

    if run:
        folder = RunFolder.open(run)
        if not folder.alive:
            raise SetupError(f"the run in {run} has ended, and its nodes with it")
        return folder
    locks = sorted(Path("runs").glob("*/*/frames/.lock"), key=lambda path: path.parents[1].name, reverse=True)
    alive = (folder for path in locks if (folder := RunFolder.open(path.parents[1])).alive)
    if (found := next(alive, None)) is None:
        raise SetupError("no run is under way below 'runs'; name its folder with --run")
    return found


def _entering(node: str, folder: RunFolder, command: list[str]) -> list[str]:
    """The command line that starts `command`, or a shell, inside `node`."""
    from cosim.contract.entities import computer_names
    from cosim.results.convert import read_plan

    scene, run = read_plan(folder.path)["scene"], folder.origin
    boards = {fleet["name"]: fleet for fleet in scene["fleets"] if fleet["template"]["runs"] is not None}
    real = [one["id"] for one in scene["nodes"] if one["runs"] is not None]
    real += [name for fleet, one in boards.items() for name in computer_names(fleet, one["capacity"])]
    if not scene["real"]:
        hint = (
            "start the run with --nodes netns or containers" if real else "give nodes 'runs', and start it with --nodes"
        )
        raise SetupError(f"all nodes of {folder.path} are simulated, so there is nothing to enter: {hint}")
    if node not in real:
        simulated = any(node == one["id"] for one in scene["nodes"])
        what = f"node '{node}' is simulated: it has no 'runs'" if simulated else f"there is no node '{node}'"
        raise SetupError(f"{what}; {did_you_mean(node, real, otherwise='real nodes')}")
    if scene["real"] == "containers":
        tty = [] if sys.stdin.isatty() and sys.stdout.isatty() else ["-T"]
        inside = command or ["sh", "-c", "exec $(command -v bash || echo sh)"]
        project = run["project"] or folder.manifest["scenario"]  # as in the compose file
        return ["docker", "compose", "--project-name", project, "exec", *tty, node, *inside]
    if os.geteuid():
        raise SetupError("network namespaces need root: `sudo` with the whole path of cosim")
    return ["ip", "netns", "exec", f"cosim-{run['run']}-{node}", *(command or [os.environ.get("SHELL", "/bin/sh")])]

"""What the real nodes of a run leave behind when it is killed, and how it is removed.

A run that ends in any other way cleans up itself. Beside every run with nodes in network namespaces, and every
deployment of containers, there is a *keeper*, a process that waits for the end of the run and then cleans up in its
place; if the keeper is killed as well, the next run does it. The run's name identifies what belongs to it
(`cosim.testbed.emulation.netns.run_of`): it is part of the names of namespaces and of the folder of sockets, and
is in the environment of programs. Containers belong to a compose project, whose file is in a folder that the run
holds.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from time import monotonic, sleep

from cosim.contract.errors import SetupError
from cosim.testbed.emulation import netns
from cosim.testbed.launch.engine import call
from cosim.testbed.launch.held import left

VARIABLE = "COSIM_RUN"  # of the programs' environment: the run that they belong to
LIMIT = 5.0  # s for killed processes to be gone
RUN = "orchestrator"  # the service that is the run itself
GRACE = 60  # s for it to write what it has, as in the compose file; a run takes what it needs of it
PROJECTS = "cosim-*-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]"  # their names
_ENGINE = ("DOCKER_HOST", "DOCKER_CONTEXT")  # which engine it is
_ENGINE_FILE, _COMPOSE_FILE = "engine.json", "compose.yaml"
_FOLDER = re.compile(r"cosim-([0-9a-f]+x[0-9a-f]+)-[^/]+")


def folder_for(run: str) -> Path:
    """A new folder for the sockets of a run; short, since a socket's path has 107 characters at most."""
    return Path(tempfile.mkdtemp(prefix=f"cosim-{run}-"))


def keeper(run: str, *projects: str) -> Popen[bytes]:
    """Start the keeper of this process, which is `run`, and of its compose projects.

    It is to be ended after everything has been cleared.
    """
    command = [sys.executable, "-m", "cosim.testbed.launch.cleanup", str(os.getpid()), run, *projects]
    return Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)


def dead() -> list[str]:
    """Runs that are over and have left namespaces or folders."""
    spaces = {name.split("-")[1] for name in netns.leftovers()}
    folders = {match[1] for path in _temporary().iterdir() if (match := _FOLDER.fullmatch(path.name))}
    return sorted(spaces | {run for run in folders if netns.run_of(int(run.partition("x")[0], 16)) != run})


def clear(run: str) -> None:
    """Kill the programs of a run that is over, and take its namespaces and folders away."""
    end = monotonic() + LIMIT
    while (left := members(run)) and monotonic() < end:
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        sleep(0.02)
    for path in netns.FOLDER.glob(f"cosim-{run}-*"):
        with contextlib.suppress(SetupError):  # another process was faster
            netns.delete(path.name)
    for path in _temporary().glob(f"cosim-{run}-*"):
        shutil.rmtree(path, ignore_errors=True)


def members(run: str) -> list[int]:
    """Processes that were started for a run, by their environment; those of others cannot be seen without root."""
    wanted, found = f"{VARIABLE}={run}".encode(), []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
    return found


def note_project(folder: Path, text: str) -> Path:
    """Write what `remove_left` needs into the folder of a compose project; the compose file."""
    engine = {name: os.environ.get(name, "") for name in _ENGINE}
    (folder / _ENGINE_FILE).write_text(json.dumps(engine), encoding="utf-8")
    (folder / _COMPOSE_FILE).write_text(text, encoding="utf-8")
    return folder / _COMPOSE_FILE


def remove_left(projects: str = PROJECTS, say: Callable[[str], None] = lambda _text: None) -> None:
    """End the runs of this user's deployments whose process was killed, and remove their containers.

    The runs write their reports first. What is on another engine than this process talks to stays, and so does what
    cannot be removed now.
    """
    for folder in left(projects):
        name, file = folder.path.name, folder.path / _COMPOSE_FILE
        try:
            engine = json.loads((folder.path / _ENGINE_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # killed before there was anything to be removed
            engine = None
        if engine is not None and engine != {variable: os.environ.get(variable, "") for variable in _ENGINE}:
            folder.let_go()
            continue
        if file.is_file():
            say(f"removing the containers of project {name}, whose run was killed")
            compose = ["docker", "compose", "--project-name", name, "--file", str(file)]
            quiet = {**os.environ, "COMPOSE_PROGRESS": "quiet"}
            stop(compose, quiet)
            if _done([*compose, "down", "--volumes", "--timeout", "1"], quiet):
                say(f"they cannot be removed now; `docker compose -p {name} down -v` tries again")
                folder.let_go()
                continue
        folder.remove()


def stop(compose: Sequence[str], environment: Mapping[str, str]) -> None:
    """End the run of a compose project, and wait until it has written what it has, for `GRACE` s at most."""
    _done([*compose, "stop", "--timeout", str(GRACE), RUN], environment)


def _done(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code of a command that is given time to end; not 0 when it takes longer."""
    try:
        return call(command, environment).returncode
    except TimeoutExpired:
        return 1


def main(process: int, run: str, *projects: str) -> None:
    """Wait until the run is gone, then clear what is left of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process)
        if netns.run_of(process) == run:
            select.select([descriptor], [], [])
    clear(run)
    for project in projects:
        remove_left(project)


def _temporary() -> Path:
    return Path(tempfile.gettempdir())


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

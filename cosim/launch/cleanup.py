"""What the real nodes of a run leave behind when it is killed, and how it is cleared away.

A run that ends in any other way clears up itself. Beside every run with nodes in network namespaces there is
a *keeper*, a process that waits for the run to be gone and then does it in its place; should that be killed as
well, the next run does it. What belongs to a run can be told by the run's name (`cosim.emulation.netns.run_of`):
it is part of the names of namespaces and of the folder of sockets, and stands in the environment of programs.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from subprocess import DEVNULL, Popen
from time import monotonic, sleep

from cosim.contract.errors import SetupError
from cosim.emulation import netns

VARIABLE = "COSIM_RUN"  # of the programs' environment: the run that they belong to
LIMIT = 5.0  # s for killed processes to be gone
_FOLDER = re.compile(r"cosim-([0-9a-f]+x[0-9a-f]+)-[^/]+")


def folder_for(run: str) -> Path:
    """A new folder for the sockets of a run; short, since a socket's path has 107 characters at most."""
    return Path(tempfile.mkdtemp(prefix=f"cosim-{run}-"))


def keeper(run: str) -> Popen[bytes]:
    """Start the keeper of this process, which is `run`. It is to be ended after everything has been cleared."""
    command = [sys.executable, "-m", "cosim.launch.cleanup", str(os.getpid()), run]
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
        with contextlib.suppress(SetupError):  # somebody else was faster
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


def main(process: int, run: str) -> None:
    """Wait until the run is gone, then clear what is left of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process)
        if netns.run_of(process) == run:
            select.select([descriptor], [], [])
    clear(run)


def _temporary() -> Path:
    return Path(tempfile.gettempdir())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

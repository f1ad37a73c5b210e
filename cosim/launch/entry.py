"""The first program of the orchestrator's container: `python -m cosim.launch.entry ARGUMENTS...`.

What a run writes belongs to whoever started it. The container starts as root without any right but
to change owners, takes the user from the folder that the scenario lies in, gives up root for good and
becomes `cosim ARGUMENTS...`. Where root of the container is the user anyhow, as with a rootless
engine, it stays what it is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SCENARIO, RESULTS = Path("/scenario"), Path("/results")


def become(scenario: Path, results: Path) -> None:
    """Hand `results` to the owner of `scenario` and go on as that user."""
    if os.getuid() != 0:
        return
    owner = scenario.stat()
    if results.is_dir() and (results.stat().st_uid, results.stat().st_gid) != (owner.st_uid, owner.st_gid):
        os.chown(results, owner.st_uid, owner.st_gid)
    os.setgroups([])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


def main() -> None:
    """Change the user, then become the command."""
    become(SCENARIO, RESULTS)
    os.environ["HOME"] = "/tmp"  # of this container alone
    command = [sys.executable, "-m", "cosim", *sys.argv[1:]]
    os.execv(command[0], command)


if __name__ == "__main__":
    main()

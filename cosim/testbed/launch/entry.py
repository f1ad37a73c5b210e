"""The first program of the orchestrator's container: `python -m cosim.testbed.launch.entry ARGUMENTS...`.

The files that a run writes belong to the user who started it. The container starts as root with no
right but to change owners, takes the user from the folder that contains the scenario, gives up root
for good and becomes `cosim ARGUMENTS...`. Where root of the container is that user anyhow, as with a
rootless engine, it stays root.

COSIM_SET holds values that override the scenario for one run, KEY=VALUE as for `--set`, written as in a shell:
`run.duration='2 min' run.seed=3`.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from cosim.contract.errors import Problem, ScenarioError

SCENARIO, RESULTS = Path("/scenario"), Path("/results")


def become(scenario: Path, results: Path) -> None:
    """Hand `results`, if the engine has just made it, to the owner of `scenario`, and go on as that user.

    A folder that was there before keeps its owner: who names one of the system's by mistake must not own it afterwards.
    """
    if os.getuid() != 0:
        return
    owner = scenario.stat()
    if results.is_dir() and results.stat().st_uid == 0 != owner.st_uid and not any(results.iterdir()):
        os.chown(results, owner.st_uid, owner.st_gid)
    os.setgroups([])
    os.setgid(owner.st_gid)
    os.setuid(owner.st_uid)


def overrides(environment: Mapping[str, str]) -> list[str]:
    """Arguments for what COSIM_SET overrides. Raises `ScenarioError` for quotes that are not closed."""
    text = environment.get("COSIM_SET", "")
    try:
        words = shlex.split(text)
    except ValueError as error:
        hint = "write it as in a shell: COSIM_SET=\"run.duration='2 min' run.seed=3\""
        raise ScenarioError(Problem(f"cannot read '{text}': {error}", "COSIM_SET", hint=hint)) from error
    return [part for word in words for part in ("--set", word)]


def main() -> None:
    """Change the user, then become the command."""
    try:
        given = overrides(os.environ)
    except ScenarioError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    become(SCENARIO, RESULTS)
    os.environ["HOME"] = "/tmp"  # of this container alone
    command = [sys.executable, "-m", "cosim", *sys.argv[1:], *given]
    os.execv(command[0], command)


if __name__ == "__main__":
    main()

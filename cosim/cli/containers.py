"""`cosim run --nodes containers`: start the scenario's containers, follow the run inside, remove them."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from cosim.cli.console import count, note
from cosim.contract.errors import RunError
from cosim.launch.compose import checkout
from cosim.launch.deployment import CLEARED, RUN, Deployment, require_engine
from cosim.launch.sources import brings_sources
from cosim.plan.plan import Plan

Ended = dict[str, Any]  # status, folder, report, error, figures: as `cosim run --json` prints them


def run_in_containers(plan: Plan, scenario: Path, overrides: Sequence[str], out: Path, *, quiet: bool) -> Ended:
    """Run the scenario with its nodes as containers, and tell how it ended.

    Ctrl-C ends the run, which writes its results and report first. Raises `SetupError` where there is no container
    engine and `RunError` when something does not start; nothing is left running.
    """
    values = [value for value in overrides if not value.startswith("run.nodes=")]
    builds = checkout(scenario) is not None or brings_sources()
    deployment = Deployment(plan, scenario, runs=out, values=values, build=builds)
    require_engine()
    if not quiet:
        note("building images, which takes minutes the first time" if builds else "starting containers")
    code: int | None = None
    with contextlib.suppress(KeyboardInterrupt), deployment:
        if not quiet:
            note(f"{count(len(deployment.services), 'container')} of project {deployment.name} are up")
            _dashboard(deployment)
        with _copied(deployment, quiet):
            code = deployment.wait()
    return _outcome(deployment, plan.name, code)


def _dashboard(deployment: Deployment) -> None:
    with contextlib.suppress(RunError):
        note(f"dashboard  http://{deployment.address('dashboard', 8080)}/")


@contextlib.contextmanager
def _copied(deployment: Deployment, quiet: bool) -> Any:  # noqa: ANN401 - a context manager
    """Write what the run says to the error stream while the block lasts."""
    if quiet:
        yield
        return
    process = deployment.follow(RUN)
    assert process.stdout is not None
    reader = threading.Thread(target=_copy, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            reader.join(timeout=2.0)
        process.terminate()
        process.wait()


def _copy(source: IO[str]) -> None:
    with source:
        for line in source:
            sys.stderr.write(line.removeprefix(CLEARED))
            sys.stderr.flush()


def _outcome(deployment: Deployment, name: str, code: int | None) -> Ended:
    """What the run left in its folder. Raises `RunError` when it left none."""
    folder = deployment.folder
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    report = folder / "report.html"
    figures: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, KeyError):
        found = json.loads((folder / "metrics.json").read_text("utf-8"))["figures"]
        figures = {key: figure["value"] for key, figure in found.items()}
    error = manifest.get("error") or (f"the run ended with exit code {code}" if code else None)
    if code is None and not error:
        error = "interrupted"
    return {
        "scenario": name,
        "status": manifest["status"],
        "folder": str(folder),
        "report": str(report) if report.is_file() else None,
        "error": error,
        "figures": figures,
    }

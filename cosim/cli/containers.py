"""`cosim run --nodes containers`: start the scenario's containers, follow the run inside, remove them."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from cosim.cli.console import count, note
from cosim.cli.progress import Waiting
from cosim.contract.errors import RunError
from cosim.scenario.plan.plan import Plan
from cosim.testbed.launch.cleanup import RUN
from cosim.testbed.launch.compose import checkout
from cosim.testbed.launch.contained import ended_by_signals, outcome
from cosim.testbed.launch.deployment import Deployment
from cosim.testbed.launch.sources import brings_sources

# Status, folder, report, error and figures, as `cosim run --json` prints them; also `text` for people, and `reported`:
# whether the error was shown to them.
Ended = dict[str, Any]
_LAST_WORDS = 5.0  # s for the last output of the run to arrive


def run_in_containers(
    plan: Plan, scenario: Path, overrides: Sequence[str], out: Path, options: Sequence[str], *, quiet: bool
) -> Ended:
    """Run the scenario with its nodes as containers, and return how it ended.

    `options` are arguments for the `cosim run` in the container, such as --no-report.

    Ctrl-C, SIGTERM or the end of the terminal ends the run, which writes its results and report first. Raises
    `SetupError` where there is no container engine and `RunError` when something does not start; nothing is left
    running.
    """
    values = [value for value in overrides if not value.startswith("run.nodes=")]
    builds = checkout(scenario) is not None or brings_sources()
    code: int | None = None
    said: list[str] = []
    restarts: tuple[str, ...] = ()
    heard = _Shown()
    with ended_by_signals(), Waiting(quiet=quiet) as waiting:
        deployment = Deployment(
            plan, scenario, runs=out, values=values, options=options, build=builds, progress=waiting.show,
            say=_ignore if quiet else note,
        )  # fmt: skip
        with contextlib.suppress(KeyboardInterrupt), deployment:
            waiting.done()
            if not quiet:
                note(f"{count(len(deployment.services), 'container')} of project {deployment.name} are up")
                _dashboard(deployment)
            with _heard(deployment, quiet, heard) as said:
                try:
                    code = deployment.wait()
                    restarts = deployment.restarts
                except KeyboardInterrupt:
                    if not quiet:
                        note("ending the run, which writes what it has")
                    deployment.stop()
                    raise
    if not quiet:
        for text in restarts:
            note(text)
    return {"scenario": plan.name, **outcome(deployment, code), "text": "".join(said).strip(), "reported": heard.error}


def _dashboard(deployment: Deployment) -> None:
    with contextlib.suppress(RunError):
        note(f"dashboard  http://{deployment.address('dashboard', 8080)}/")


@contextlib.contextmanager
def _heard(deployment: Deployment, quiet: bool, shown: _Shown) -> Iterator[list[str]]:
    """The lines that the run prints as its result; its other output goes to the error stream meanwhile."""
    process = deployment.follow(RUN)
    assert process.stdout is not None
    assert process.stderr is not None
    result: list[str] = []
    readers = [
        threading.Thread(target=_copy, args=(process.stdout, result.append), daemon=True),
        threading.Thread(target=_copy, args=(process.stderr, _ignore if quiet else shown.show), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        yield result
    finally:
        end = time.monotonic() + _LAST_WORDS
        for reader in readers:
            reader.join(timeout=max(0.0, end - time.monotonic()))
        process.terminate()
        process.wait()


def _copy(source: IO[str], to: Callable[[str], object]) -> None:
    with source:
        for line in source:
            to(line)


class _Shown:
    """Copies the run's other output to the error stream; notes whether it contained the reason for the end."""

    def __init__(self) -> None:
        self.error = False

    def show(self, line: str) -> None:
        """Write a line."""
        self.error = self.error or line.startswith("error: ")
        sys.stderr.write(line)
        sys.stderr.flush()


def _ignore(_line: str) -> None:
    pass


def images_for(scenario: Path, overrides: Sequence[str], *, quiet: bool) -> None:
    """Build the images of the scenario's nodes, where they can be built, before several runs need them."""
    from cosim.scenario.load import load
    from cosim.scenario.plan.compile import compile_plan

    loaded = load(scenario, overrides)
    if checkout(loaded.path) is None and not brings_sources():
        return
    with ended_by_signals(), Waiting(quiet=quiet) as waiting:
        Deployment(compile_plan(loaded), loaded.path, build=True, progress=waiting.show).provide_images()

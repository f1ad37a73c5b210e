"""Errors, split by who has to act: the author, the adapter's developer, or the operator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class CosimError(Exception):
    """Base of every error that continuum-cosim raises on purpose.

    `exit_code` is what the command line returns for it: 2 when the user must change
    something before the run can start, 1 when a run that had started failed.
    """

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a scenario: where it is, what was found, what is expected, what to do."""

    message: str
    path: str = ""  # dotted path inside the scenario, for example "nodes.uav-1.battery"
    file: Path | None = None
    line: int | None = None  # 1-based
    column: int | None = None  # 1-based
    hint: str = ""

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        text = " ".join(part for part in (f"{where}:" if where else "", f"{self.path}:" if self.path else "") if part)
        text = f"{text} {self.message}" if text else self.message
        return f"{text} ({self.hint})" if self.hint else text


class ScenarioError(CosimError):
    """The scenario is wrong; its author acts. Carries every problem found, not only the first."""

    exit_code = 2

    def __init__(self, problems: list[Problem] | Problem | str) -> None:
        if isinstance(problems, str):
            problems = [Problem(problems)]
        elif isinstance(problems, Problem):
            problems = [problems]
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class AdapterError(CosimError):
    """An adapter misbehaved; its developer acts.

    `adapter` is its name in the scenario, `phase` one of start, step, finish, close, and
    `remote_traceback` the far end's traceback when the adapter runs in another process.
    """

    def __init__(
        self, message: str, *, adapter: str, phase: str, time: float | None = None, remote_traceback: str = ""
    ) -> None:
        self.adapter = adapter
        self.phase = phase
        self.time = time
        self.remote_traceback = remote_traceback
        at = f" at {time:g} s" if time is not None else ""
        super().__init__(f"adapter '{adapter}' failed in {phase}{at}: {message}")


class RunError(CosimError):
    """The run could not continue for a reason outside scenario and adapters; the operator acts."""


class SetupError(RunError):
    """Something that the run needs is not installed or not reachable; nothing was started."""

    exit_code = 2

"""Errors, split by who has to act: the author, the adapter's developer, or the operator."""

from __future__ import annotations

import importlib.util
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cosim.contract.extras import how_to_install

_LONGEST = 2000  # characters of a foreign error's text that are shown


class CosimError(Exception):
    """Base of every error that continuum-cosim raises on purpose.

    `exit_code` is what the command line returns for it: 2 when the user must change
    something before the run can start, 1 when a run that had started failed.
    """

    exit_code = 1
    adapter = ""  # whose call it came from, if it did
    phase = ""  # of that adapter: build, start, step, finish, close

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[CosimError], args: tuple[Any, ...], state: dict[str, Any]) -> CosimError:
    """An error that came from another process, whatever it is made from."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a scenario: where it is, what was found, what is expected, what to do."""

    message: str
    path: str = ""  # dotted path inside the scenario, for example "nodes.uav-1.battery"
    file: Path | None = None
    line: int | None = None  # 1-based
    column: int | None = None  # 1-based
    hint: str = ""
    fatal: bool = True  # False: a warning, the scenario can be run
    note: bool = False  # with `fatal` False: no warning, but what was taken of a file
    memory: float = 0.0  # with `note`: B that it needs while the run lasts
    members: int = 0  # with `note`: of the adapter's fleet, at most; 0: not known

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


def refuse(problems: Sequence[Problem]) -> None:
    """Raise `ScenarioError` with all `problems` that are fatal, if there are any."""
    if fatal := [problem for problem in problems if problem.fatal]:
        raise ScenarioError(fatal)


def refusals(act: Callable[[], object]) -> list[Problem]:
    """The problems of the `ScenarioError` that `act` raises; none when it raises none."""
    try:
        act()
    except ScenarioError as error:
        return error.problems
    return []


class Interruption(BaseException):
    """What handlers of signals in this package raise, as no adapter does."""


def by_signal(error: BaseException) -> bool:
    """Whether `error` is somebody's wish to end this process, as by Ctrl-C, and no failure of the code that ran."""
    if isinstance(error, KeyboardInterrupt):
        return isinstance(error, Interruption) or signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return isinstance(error, Interruption)


def blamed(error: BaseException, adapter: str, phase: str, time: float | None = None) -> BaseException:
    """`error`, raised in a call of `adapter`, as an error that names it, of whatever class it is.

    What libraries raise need not be an `Exception`, and a foreign adapter may raise the errors of this package. Those
    that mean something to the command line (`SetupError`, `ScenarioError`, `RunError`) keep their class.
    """
    if by_signal(error) or (isinstance(error, AdapterError) and error.adapter == adapter):
        return error
    if isinstance(error, ProtocolError) or not isinstance(error, (RunError, ScenarioError)):
        text = str(error) if isinstance(error, CosimError) else error_line(error)
        return AdapterError(text, adapter=adapter, phase=phase, time=time)
    name = f"adapter '{adapter}'"
    error.adapter, error.phase = adapter, phase
    if isinstance(error, ScenarioError):
        problems = [p if name in str(p) else replace(p, message=f"{name}: {p.message}") for p in error.problems]
        error.problems, error.args = problems, ("\n".join(map(str, problems)),)
    elif name not in str(error):
        error.args = (f"{name} in {phase}{_at(time)}: {error}",)
    return error


def error_line(error: BaseException) -> str:
    """`error` in one line: its type, its message, and the line of code outside this installation that raised it.

    That line locates a function of the user's own (a scheduler, a policy, a rule); errors from installed code have
    none.
    """
    said = _said(error)
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    root = Path(__file__).resolve().parents[2]
    ours = (str(root / name) for name in ("cosim", "adapters", "extensions"))  # in a checkout the others are beside
    installed = (*ours, sys.prefix, sys.base_prefix, "<")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = str(Path(frame.filename).resolve()) if not frame.filename.startswith("<") else frame.filename
        if not file.startswith(installed) and "site-packages" not in file:
            return f"{text} ({frame.filename}:{frame.lineno}, in {frame.name})"
    return text


def _said(error: BaseException) -> str:
    """The message of `error`, fit for a terminal; "" if it has none that can be read."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - foreign code
        return ""
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return "".join(mark if mark.isprintable() or mark in "\n\t" else ascii(mark)[1:-1] for mark in text)


class AdapterError(CosimError):
    """An adapter misbehaved; its developer acts.

    `adapter` is its name in the scenario, `phase` one of build, start, step, finish, close, and
    `remote_traceback` the far end's traceback when the adapter runs in another process.
    """

    def __init__(
        self, message: str, *, adapter: str, phase: str, time: float | None = None, remote_traceback: str = ""
    ) -> None:
        self.adapter = adapter
        self.phase = phase
        self.time = time
        self.remote_traceback = remote_traceback
        super().__init__(f"adapter '{adapter}' failed in {phase}{_at(time)}: {message}")


def _at(time: float | None) -> str:
    return f" at {time:g} s" if time is not None else ""


class RunError(CosimError):
    """The run could not continue for a reason outside scenario and adapters; the operator acts."""


class ProtocolError(RunError):
    """What arrived is no message of ours, or what is to be sent would be none."""


class SetupError(RunError):
    """Something that the run needs is not installed or not reachable; nothing was started."""

    exit_code = 2


def lacking(module: str, extra: str) -> str:
    """That a module is not installed and which extra brings it, "" where it is."""
    try:
        there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # nor what it is a part of
        there = False
    return "" if there else f"module '{module}' is not installed: {how_to_install(extra)}"


def require(extra: str, *modules: str) -> None:
    """Raise `SetupError` unless the modules, which an extra brings, are installed."""
    for module in modules:
        if problem := lacking(module, extra):
            raise SetupError(problem)

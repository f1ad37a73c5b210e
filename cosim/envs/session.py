"""A scenario whose decisions are taken outside: it runs until it asks, and continues after the answer."""

from __future__ import annotations

import contextvars
import queue
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cosim.bus.runtime import Runtime
from cosim.contract.errors import CosimError, Problem, ScenarioError
from cosim.results.session import build_adapters
from cosim.scenario.load import load
from cosim.scenario.plan.catalogue import signals_of
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.plan.plan import Plan
from cosim.schedulers.state import Decision, Ended, State, decides

KEYS = {"continuum": "scheduler", "interval": "policy"}  # adapter -> the key of its block that names who decides


class _Stopped(BaseException):
    """The session has been closed while the scenario waited."""


class _Line:
    """Questions one way, answers the other."""

    def __init__(self) -> None:
        self.questions: queue.Queue[State | BaseException | None] = queue.Queue(1)
        self.answers: queue.Queue[ArrayLike | None] = queue.Queue(1)
        self.ended: list[Ended] = []


_line: contextvars.ContextVar[_Line] = contextvars.ContextVar("line")


class _Asking:
    """A policy that passes the question on."""

    def __init__(self) -> None:
        self._known = _line.get(None)  # none while a scenario is only checked

    @property
    def _line(self) -> _Line:
        if self._known is None:
            raise RuntimeError("this policy passes questions on and works in an environment only")
        return self._known

    def __call__(self, state: State) -> ArrayLike:
        self._line.questions.put(state)
        answer = self._line.answers.get()
        if answer is None:
            raise _Stopped
        return answer

    def learn(self, ended: Ended) -> None:
        """Keep which tasks ended, for the one who decides."""
        self._line.ended.append(ended)


@decides("task")
class TaskQuestions(_Asking):
    """Asks about each task."""


@decides("interval")
class IntervalQuestions(_Asking):
    """Asks at the beginning of each interval."""


def asking(scenario: str | Path, decision: Decision, seed: int, overrides: Sequence[str] = ()) -> Plan:
    """The plan of a scenario whose decisions are asked for. Raises `ScenarioError` if no adapter asks."""
    overrides = [overrides] if isinstance(overrides, str) else list(overrides)
    found = load(Path(scenario), [*overrides, f"run.seed={seed}"])
    named = found.scenario.adapters
    takes = ("continuum", "interval") if decision == "interval" else ("continuum",)
    name = next((name for name in takes if name in named), None)
    if name is None:
        hint = f"use one of {', '.join(takes)}"
        raise ScenarioError(Problem(f"no adapter asks per {decision}", path="adapters", hint=hint))
    target = f"cosim.envs.session:{'TaskQuestions' if decision == 'task' else 'IntervalQuestions'}"
    chosen = [*overrides, f"run.seed={seed}", f"adapters.{name}.{KEYS[name]}={target}"]
    if name == "continuum" and decision == "interval" and "decide" not in named[name]:
        chosen.append(f"adapters.{name}.decide={named[name].get('step') or f'{found.scenario.run.step} s'}")
    return compile_plan(load(Path(scenario), chosen))


class Session:
    """One run of a scenario file. `ask` advances to the next question, `answer` takes the decision.

    The scenario runs in a thread, which stands still while the caller decides, so results do not depend
    on how long that takes. The adapter `continuum` asks per task or per interval, the adapter `interval`
    per interval. Nothing is recorded. Raises `ScenarioError` for a scenario with neither; `ask` raises
    any error that ends the run early.
    """

    def __init__(self, scenario: str | Path, decision: Decision, seed: int, overrides: Sequence[str] = ()) -> None:
        self.plan = asking(scenario, decision, seed, overrides)
        self._line = _Line()
        self._scratch = tempfile.TemporaryDirectory(prefix="cosim-env-")
        self._asked = False
        self._over = False
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), daemon=True, name="scenario")
        self._thread.start()

    def ask(self) -> State | None:
        """The next question; None when the scenario has come to its end."""
        if self._over:
            return None
        found = self._line.questions.get()
        self._asked = isinstance(found, State)
        if isinstance(found, BaseException):
            self._over = True
            raise found
        self._over = found is None
        return found

    def answer(self, destinations: ArrayLike) -> None:
        """Decide about the question that was asked last: (T,) hosts, `KEEP` or `LOCAL`."""
        if not self._asked:
            raise ValueError("there is no open question; call ask first")
        self._asked = False
        self._line.answers.put(np.asarray(destinations, np.int64))

    def ended(self) -> list[Ended]:
        """What has ended since the last call (continuum, per task)."""
        rows, self._line.ended = self._line.ended, []
        return rows

    def close(self) -> None:
        """End the run, wherever it is."""
        while self._thread.is_alive():
            if self._asked:
                self._asked = False
                self._line.answers.put(None)
            with suppress(queue.Empty):
                found = self._line.questions.get(timeout=0.05)
                self._asked = isinstance(found, State)
        self._over = True
        self._scratch.cleanup()

    def _run(self) -> None:
        _line.set(self._line)
        end: BaseException | None = None
        try:
            adapters = build_adapters(self.plan)
            runtime = Runtime(self.plan, adapters, signals_of(self.plan), scratch=Path(self._scratch.name))
            try:
                runtime.start()
                for tick in range(self.plan.ticks + 1):
                    runtime.tick(tick)
                runtime.finish()
            finally:
                runtime.close()
        except _Stopped:
            pass
        except (CosimError, Exception) as failure:  # noqa: BLE001 - the thread's boundary: the caller gets it
            end = failure
        self._line.questions.put(end)

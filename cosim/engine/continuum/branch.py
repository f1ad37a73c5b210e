"""What becomes of the present under each of many decisions: K copies advanced in one compiled call.

    figures = branch(engine, [Decisions(task, hosts) for hosts in candidates], horizon=5.0)
    best = figures["response"].argmin()

Every candidate begins at the engine's present instant, carries out its decisions as `Engine.step`
would, and runs `horizon` seconds further. Its figures are bit-equal to those of a snapshot that is
restored into another engine and stepped; the engine itself does not change. All candidates meet the
same arrivals, so their differences have no noise of their own.

A `Brancher` keeps its copy between the calls. Threads may run Branchers side by side, one each: the
compiled call does not hold the interpreter's lock.

The interface, for models that branch as well: `branch(model, candidates, horizon) -> Figures`, where
a candidate is what the model's own `step` takes, and `Figures` maps names to one value per candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Records
from cosim.engine.continuum import kernel, memory
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.layout import State
from cosim.engine.continuum.regions import line_up
from cosim.engine.continuum.stepping import Decisions, rows_of
from cosim.engine.continuum.system import link_up

# What a run does not write. `links` may change by events, so they are copied.
_FIXED: Final = (
    "kinds", "power", "access", "infra", "workloads", "stages", "afters", "befores", "trace", "points", "radio",
    "billed",
)  # fmt: skip
# Written only when routes are found anew, which the compiled loop leaves to its caller.
_ROUTES: Final = (
    "next_hop", "distance", "reach", "part", "exit", "hub", "toll", "near", "second", "members", "first_member",
    "order",
)  # fmt: skip
_PER_TASK: Final = ("tasks", "due")  # copied as far as rows of tasks have ever been in use
NAMES: Final = ("created", "completed", "late", "failed", "in_flight", "response", "energy", "busy", "events")


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What each candidate led to within the horizon: `columns[name]` is (candidates,).

    `created`, `completed`, `late`, `failed` and `in_flight` count tasks (of graphs, jobs); `response`
    is the mean s of those that completed, NaN without any; `energy` J of all nodes' processors and
    accelerators, `busy` s of cores in use, `events` how many were handled.
    """

    columns: Mapping[str, NDArray[np.float64]]

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        if name not in self.columns:
            raise KeyError(f"there is no figure '{name}'; there are {', '.join(self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class Brancher:
    """Advances copies of an engine's present state."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._copy = Engine.__new__(Engine)
        self._copy.__dict__.update(engine.__dict__)

    def run(self, candidates: Sequence[Decisions], horizon: float) -> Figures:
        """The figures of each candidate after `horizon` (s). Raises `ValueError` for a decision that cannot be."""
        base = self._engine.state
        line_up(base)
        if base.meta["undecided"][0] >= 0:
            raise ValueError("the engine waits for its scheduler's answer; branch between two steps")
        if not horizon >= 0.0:
            raise ValueError(f"cannot branch over {horizon:g} s")
        rows = [rows_of(base, candidate) for candidate in candidates]
        offsets = np.cumsum([0, *(len(one) for one in rows)])
        asked = np.concatenate([*rows, np.empty((0, 2), np.int64)])
        until = self._engine.now + horizon
        found = np.full((1 + len(rows), len(NAMES)), np.nan)
        work = self._fresh(base)
        template = self._template(base, work)
        table = self._table(base, work, template)
        first = 0
        while first <= len(rows):  # candidate 0 is the present itself, from which figures are counted
            plan = np.concatenate([
                [[first, len(table)]], [[len(rows), 0]], table.reshape(-1, 2),
                np.stack([offsets, offsets], axis=1), asked,
            ]).astype(np.int64)  # fmt: skip
            answer = kernel.act(memory.world(work.meta), kernel.BRANCH, until, plan, found)
            first = int(plan[0, 0])
            if answer == kernel.DONE:
                break
            self._finish(work, answer, rows[first - 1], until, found[first])
            first += 1
            work = self._copy.state
            if answer == kernel.MOVED or len(work.tasks) != len(base.tasks) or len(work.ended) != len(base.ended):
                work = self._fresh(base)
                template = self._template(base, work)
                table = self._table(base, work, template)
        return _figures(found)

    def _fresh(self, base: State) -> State:
        """Arrays to run in: copies of what a run writes."""
        arrays = {name: getattr(base, name) for name in State._fields}
        for name in State._fields:
            if name not in _FIXED:
                arrays[name] = arrays[name].copy()
        self._copy.state = link_up(State(**arrays))
        self._copy.state.meta["done"] = 0
        return self._copy.state

    def _template(self, base: State, work: State) -> Records:
        """META as it is at the beginning of every candidate."""
        meta = base.meta.copy()
        for name in State._fields:
            if name != "meta":
                meta[name] = work.meta[name]
        meta["self"], meta["done"], meta["events"] = work.meta["self"], 0, 0
        return meta

    def _table(self, base: State, work: State, template: Records) -> NDArray[np.int64]:
        """(n, 4) source and target address, B always, B per row of tasks that has been in use."""
        meta = base.meta[0]
        used = {
            "heap": int(meta["queued"]), "ended": 0,
            "chunks": int(meta["chunks_used"]) * 8, "due": int(meta["first_event"]), "tasks": 0,
        }  # fmt: skip
        per_task = {"tasks": base.tasks.itemsize, "due": 16}
        rows = [(template.ctypes.data, work.meta.ctypes.data, template.nbytes, 0)]
        for name in State._fields:
            if name in _FIXED or name in _ROUTES or name == "meta":
                continue
            source: NDArray[Any] = getattr(base, name)
            size = used.get(name, len(source)) * (source.nbytes // max(1, len(source)))
            rows.append((source.ctypes.data, getattr(work, name).ctypes.data, size, per_task.get(name, 0)))
        return np.array(rows, np.int64)

    def _finish(
        self, work: State, answer: int, decisions: NDArray[np.int64], until: float, row: NDArray[np.float64]
    ) -> None:
        """Bring a candidate that stopped on its way to its end, and read its figures."""
        self._copy.state = work
        if answer == kernel.FULL:
            self._copy._tell(kernel.PLACE, decisions)
            answer = kernel.GROW
        self._copy._resume(answer, until)
        found = row[None, :]
        kernel.act(memory.world(self._copy.state.meta), kernel.FIGURES, until, np.empty((0, 2), np.int64), found)


def _figures(found: NDArray[np.float64]) -> Figures:
    columns = {name: found[1:, c].copy() for c, name in enumerate(NAMES)}
    for name in ("created", "energy", "busy", "late", "failed", "completed"):
        columns[name] -= found[0, NAMES.index(name)]
    with np.errstate(divide="ignore", invalid="ignore"):
        done = columns["completed"]
        columns["response"] = np.where(done > 0.0, columns["response"] / done, np.nan)
    return Figures(columns)


def branch(engine: Engine, candidates: Sequence[Decisions], horizon: float) -> Figures:
    """The figures of each candidate after `horizon` (s); see `Brancher` to call it again and again."""
    return Brancher(engine).run(candidates, horizon)


__all__ = ["NAMES", "Brancher", "Figures", "branch"]

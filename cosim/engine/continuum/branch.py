"""What becomes of the present under each of many decisions: K copies advanced in one compiled call.

    figures = branch(engine, [Decisions(task, hosts) for hosts in candidates], horizon=5.0)
    best = figures["response"].argmin()

Every candidate begins at the engine's present instant, carries out its decisions as `Engine.step`
would, and runs `horizon` seconds further. Its figures are bit-equal to those of a snapshot that is
restored into another engine and stepped; the engine itself does not change. All candidates meet the
same arrivals, so their differences have no noise of their own. Those are the arrivals that will really come: a
policy, which does not know the future, branches without `arrivals`. Then no source makes tasks, and stages of graphs
that become ready within the horizon go where the scheduler `hybrid` sends them.

A `Brancher` keeps its copy between the calls. Threads may run Branchers side by side, one each: the
compiled call does not hold the interpreter's lock.

`Figures` (`cosim.contract.branching`): `created`, `completed`, `late`, `failed` and `in_flight` count tasks (of graphs,
jobs); `response` is the mean s of those that completed, NaN without any; `energy` J of all nodes' processors and
accelerators, `busy` s of cores in use, `events` how many were handled, `spare` the s from the end of each that
completed to the end of the horizon, in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cosim.contract.branching import Figures
from cosim.contract.records import Records
from cosim.engine.continuum import kernel
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.indices import HYBRID
from cosim.engine.continuum.layout import KernelState
from cosim.engine.continuum.regions import line_up
from cosim.engine.continuum.stepping import Decisions, rows_of
from cosim.engine.continuum.system import link_up

# What a run does not write. `links` may change by events, so they are copied.
_FIXED: Final = (
    "kinds", "power", "access", "infra", "workloads", "stages", "afters", "befores", "trace", "points", "radio",
    "billed", "allowed", "bonds",
)  # fmt: skip
# Written only when routes are found anew, which the compiled loop leaves to its caller.
_ROUTES: Final = (
    "next_hop", "distance", "reach", "part", "exit", "hub", "toll", "near", "second", "members", "first_member",
    "order",
)  # fmt: skip
_PER_TASK: Final = ("tasks", "due")  # copied as far as rows of tasks have ever been in use
NAMES: Final = ("created", "completed", "late", "failed", "in_flight", "response", "energy", "busy", "events", "spare")


class Brancher:
    """Advances copies of an engine's present state, which go on with their `arrivals` or without."""

    def __init__(self, engine: Engine, *, arrivals: bool = True) -> None:
        self._engine, self._arrivals = engine, arrivals
        self._held: KernelState | None = None
        self._copy = Engine.__new__(Engine)
        self._copy.__dict__.update(engine.__dict__)

    def hold(self) -> None:
        """Keep the present for all calls up to the next one of this, as nothing changes; for those without arrivals."""
        line_up(self._engine.state)
        self._held = self._halted(self._engine.state)

    @property
    def copied(self) -> int:
        """B that a candidate copies, about."""
        s = self._engine.state
        whole = sum(
            getattr(s, n).nbytes for n in KernelState._fields if n not in (*_FIXED, *_ROUTES, *_PER_TASK, "ended")
        )
        return int(whole + s.meta["peak"][0] * (s.tasks.itemsize + 16))

    def run(self, candidates: Sequence[Decisions], horizon: float) -> Figures:
        """The figures of each candidate after `horizon` (s). Raises `ValueError` for a decision that cannot be."""
        return self._run([rows_of(self._engine.state, candidate) for candidate in candidates], horizon)

    def tried(self, tasks: NDArray[np.int64], hosts: NDArray[np.int64], horizon: float) -> Figures:
        """As `run`, of candidates (K, T) about the same tasks (T,): hosts, -2 the device itself, -1 stays as it is.

        Raises `ValueError` for hosts that there are not. That each task can go where it is sent is the caller's matter.
        """
        count = len(self._engine.state.hosts)
        if hosts.size and not -2 <= hosts.min() <= hosts.max() < count:
            raise ValueError(f"candidates name hosts {hosts.min()} to {hosts.max()}; there are 0..{count - 1}, -1, -2")
        rows = rows_of(self._engine.state, Decisions(tasks, np.zeros(len(tasks), np.int64)), check=False)[:, 0]
        return self._run([np.stack([rows[one != -1], one[one != -1]], axis=1) for one in hosts], horizon)

    def _run(self, rows: list[NDArray[np.int64]], horizon: float) -> Figures:
        base = self._engine.state
        line_up(base)
        if base.meta["undecided"][0] >= 0 and self._arrivals:
            raise ValueError("the engine waits for its scheduler's answer; branch between two steps")
        if not horizon >= 0.0:
            raise ValueError(f"cannot branch over {horizon:g} s")
        if not self._arrivals:
            base = self._held or self._halted(base)
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
            answer = kernel.act(work.meta, kernel.BRANCH, until, plan, found)
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

    def _halted(self, base: KernelState) -> KernelState:
        """A copy in which sources make no tasks, and nothing waits for the caller's scheduler."""
        copy = self._fresh(base)
        copy.meta["undecided"], copy.meta["scheduler"] = -1, HYBRID
        kernel.act(copy.meta, kernel.HALT, 0.0, np.empty((0, 1), np.int64), np.empty((0, 3)))
        return copy

    def _fresh(self, base: KernelState) -> KernelState:
        """Arrays to run in: copies of what a run writes."""
        arrays = {name: getattr(base, name) for name in KernelState._fields}
        for name in KernelState._fields:
            if name not in _FIXED:
                arrays[name] = arrays[name].copy()
        self._copy.state = link_up(KernelState(**arrays))
        self._copy.state.meta["done"] = 0
        return self._copy.state

    def _template(self, base: KernelState, work: KernelState) -> Records:
        """META as it is at the beginning of every candidate."""
        meta = base.meta.copy()
        for name in KernelState._fields:
            if name != "meta":
                meta[name] = work.meta[name]
        meta["self"], meta["done"], meta["events"] = work.meta["self"], 0, 0
        return meta

    def _table(self, base: KernelState, work: KernelState, template: Records) -> NDArray[np.int64]:
        """(n, 4) source and target address, B always, B per row of tasks that has been in use."""
        meta = base.meta[0]
        used = {
            "heap": int(meta["queued"]), "ended": 0,
            "chunks": int(meta["chunks_used"]) * 8, "due": int(meta["first_event"]), "tasks": 0,
        }  # fmt: skip
        per_task = {"tasks": base.tasks.itemsize, "due": 16}
        rows = [(template.ctypes.data, work.meta.ctypes.data, template.nbytes, 0)]
        for name in KernelState._fields:
            if name in _FIXED or name in _ROUTES or name == "meta":
                continue
            source: NDArray[Any] = getattr(base, name)
            size = used.get(name, len(source)) * (source.nbytes // max(1, len(source)))
            rows.append((source.ctypes.data, getattr(work, name).ctypes.data, size, per_task.get(name, 0)))
        return np.array(rows, np.int64)

    def _finish(
        self, work: KernelState, answer: int, decisions: NDArray[np.int64], until: float, row: NDArray[np.float64]
    ) -> None:
        """Bring a candidate that stopped on its way to its end, and read its figures."""
        self._copy.state = work
        if answer == kernel.FULL:
            self._copy._command(kernel.PLACE, decisions)
            answer = kernel.GROW
        self._copy._resume(answer, until)
        found = row[None, :]
        kernel.act(self._copy.state.meta, kernel.FIGURES, until, np.empty((0, 2), np.int64), found)


def _figures(found: NDArray[np.float64]) -> Figures:
    columns = {name: found[1:, c].copy() for c, name in enumerate(NAMES)}
    for name in ("created", "energy", "busy", "late", "failed", "completed", "spare"):
        columns[name] -= found[0, NAMES.index(name)]
    with np.errstate(divide="ignore", invalid="ignore"):
        done = columns["completed"]
        columns["response"] = np.where(done > 0.0, columns["response"] / done, np.nan)
    return Figures(columns)


def branch(engine: Engine, candidates: Sequence[Decisions], horizon: float) -> Figures:
    """The figures of each candidate after `horizon` (s); see `Brancher` to call it again and again."""
    return Brancher(engine).run(candidates, horizon)


__all__ = ["NAMES", "Brancher", "Figures", "branch"]

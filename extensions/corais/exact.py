"""The problem as a mixed-integer linear program, solved by HiGHS (extra `opt`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from cosim.contract.errors import require
from cosim.extensions.corais.problem import Decision, Instance, makespan


@dataclass(frozen=True, slots=True)
class Solution:
    """What the solver found within its time; `bound` is what no decision can be below."""

    decision: Decision | None  # None: it found none
    makespan: float  # s, inf without a decision
    bound: float  # s
    seconds: float  # wall clock

    @property
    def gap(self) -> float:
        """How far the solver's own decision may be from the optimum, relative."""
        return self.makespan / self.bound - 1.0 if self.bound > 0 else float("inf")


def solve(instance: Instance, limit: float, *, start: Decision | None = None, threads: int = 1) -> Solution:
    """Solve eqs. 6 to 15 within `limit` s, from the decision `start` if given.

    Variables are one binary per request and edge and, per edge, the arrival of the last input, the later of that and
    the own work, and the last result; the objective is the makespan above all of them. Raises `SetupError` without
    highspy.
    """
    require("opt", "highspy")
    import highspy

    n, edges = instance.requests, instance.edges

    class Silent(cast(Any, highspy).Highs):  # type: ignore[misc]
        """Prints nothing: since 1.16 the constructor prints the version, by this call, before options can be set."""

        def enableCallbacks(self) -> None:  # noqa: N802
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    model: Any = Silent()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("time_limit", float(limit))
    model.setOptionValue("threads", threads)
    binary = n * edges
    infinity = highspy.kHighsInf
    lower = np.concatenate([np.zeros(binary), instance.coming, np.zeros(edges), instance.leaving, [instance.floor]])
    upper = np.concatenate([np.ones(binary), np.full(3 * edges + 1, infinity)])
    cost = np.zeros(len(lower))
    cost[-1] = 1.0
    model.addVars(len(lower), lower, upper)
    model.changeColsCost(len(cost), np.arange(len(cost)), cost)
    model.changeColsIntegrality(binary, np.arange(binary), np.full(binary, highspy.HighsVarType.kInteger))
    for low, columns, values in _rows(instance):
        high = low if values[0] == 1.0 and low == 1.0 and len(columns) == edges and columns[-1] < binary else infinity
        model.addRow(low, high, len(columns), np.array(columns, np.int32), np.array(values, np.float64))
    if start is not None:
        _hand_over(model, instance, start)
    model.run()
    info = model.getInfo()
    found = np.array(model.getSolution().col_value)
    bound = max(instance.floor, float(info.mip_dual_bound)) if np.isfinite(info.mip_dual_bound) else instance.floor
    if len(found) < binary or not np.isfinite(info.objective_function_value) or info.primal_solution_status != 2:
        return Solution(None, float("inf"), bound, model.getRunTime())
    decision = np.argmax(found[:binary].reshape(n, edges), axis=1).astype(np.int64)
    return Solution(decision, makespan(instance, decision), bound, model.getRunTime())


def _rows(instance: Instance) -> list[tuple[float, list[int], list[float]]]:
    """(lower bound, columns, coefficients) of every row; one request has one edge, all others are >= rows."""
    n, edges = instance.requests, instance.edges
    arrival, begin, last, top = n * edges, n * edges + edges, n * edges + 2 * edges, n * edges + 3 * edges
    rows: list[tuple[float, list[int], list[float]]] = [
        (1.0, [z * edges + q for q in range(edges)], [1.0] * edges) for z in range(n)
    ]
    apart = np.hypot(*(instance.place[:edges, None] - instance.place[None, :]).transpose(2, 0, 1))  # (edges, all)
    for q in range(edges):
        work = (instance.slope[q] * instance.input + instance.offset[q]) / instance.replicas[q]
        own = np.flatnonzero(instance.source == q)
        other = np.flatnonzero(instance.source != q)
        travel = instance.transfer * instance.input * apart[q, instance.source]
        back = instance.transfer * instance.output * apart[q, instance.target]
        rows += [
            (0.0, [arrival + q, int(z) * edges + q], [1.0, -float(travel[z])])
            for z in other if travel[z] > instance.coming[q]
        ]  # fmt: skip
        rows += [
            (0.0, [last + q, z * edges + q], [1.0, -float(back[z])]) for z in range(n) if back[z] > instance.leaving[q]
        ]
        rows.append((0.0, [begin + q, arrival + q], [1.0, -1.0]))
        rows.append((
            float(instance.own_work[q]),
            [begin + q, *(int(z) * edges + q for z in own)], [1.0, *(-float(work[z]) for z in own)],
        ))  # fmt: skip
        rows.append((
            float(instance.coming_work[q]),
            [top, begin + q, last + q, *(int(z) * edges + q for z in other)],
            [1.0, -1.0, -1.0, *(-float(work[z]) for z in other)],
        ))  # fmt: skip
    return rows


def _hand_over(model: object, instance: Instance, start: Decision) -> None:
    """Give the solver a decision to start from; it finds the values of the other variables itself."""
    import highspy

    chosen = np.zeros(instance.requests * instance.edges)
    chosen[np.arange(instance.requests) * instance.edges + start] = 1.0
    solution = highspy.HighsSolution()
    full = np.zeros(instance.requests * instance.edges + 3 * instance.edges + 1)
    full[: len(chosen)] = chosen
    solution.col_value = list(full)
    model.setSolution(solution)  # type: ignore[attr-defined]

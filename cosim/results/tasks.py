"""Figures of tasks: counts, ratios and times, from ledgers and rows or statistics.

Response time of a completed task = ended - created, and splits into upload (uploaded - created),
queue (started - uploaded; 0 where hosts share their cores among all tasks), compute
(computed - started) and download (ended - computed). A part covers the tasks that have both its times. A job of a graph
has the first two times of its stage that starts first, and `computed` of the last one.

Quantiles interpolate between neighbours (Hyndman and Fan's type 7). For tasks recorded as statistics, they are those of
`cosim.results.summary`, within its error.

A task that had not ended when the run did counts: the completion ratio is over all that were created, and response
times take its age as a censored time (`cosim.results.lifetimes`). Where too few have ended for a figure, or more than
`UNFINISHED` of all tasks have not, the figure is a lower bound, and has `at_least` beside its value. What the
unfinished tasks can make of it is between `low` and `high` (None: nothing limits it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from cosim.contract.errors import CosimError
from cosim.contract.records import Floats
from cosim.contract.unfinished import restored
from cosim.results.figures import UNFINISHED, Figure, figure, keyed, ratio, row_of
from cosim.results.lifetimes import Lifetimes
from cosim.results.summary import middles

if TYPE_CHECKING:
    from cosim.results.load import Run

_SPLIT = {
    "response": ("ended - created", "from creation to the output's return"),
    "upload": ("uploaded - created", "from creation to the input at the host"),
    "queue": ("started - uploaded", "from the input at the host to the first core"),
    "compute": ("computed - started", "from the first core to the end of the computation"),
    "download": ("ended - computed", "from the end of the computation to the output's return"),
}
_TIMED = {"status", "created", "uploaded", "started", "computed", "ended"}
_STATISTICS = {
    "mean": ("avg({})", "mean"),
    "median": ("median({})", "median"),
    "p95": ("quantile_cont({}, 0.95)", "95th percentile"),
    "p99": ("quantile_cont({}, 0.99)", "99th percentile"),
}


def task_figures(
    run: Run, ledgers: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Figure], dict[str, Any], dict[str, Any]]:
    """The figures of all tasks, and rows of figures by workload and by host."""
    figures: dict[str, Figure] = {}
    workloads, hosts = dict[str, Any](), dict[str, Any]()
    columns = set(run.table("task").columns) if "task" in run.signals else set[str]()
    counted = _counted(run, ledgers, columns)
    if counted:
        figures |= _tasks(run, counted[""])
    if columns >= _TIMED | {"late"}:
        figures |= _times(run) | _value_kept(run, counted, columns)
        workloads = _grouped_tasks(run, "workload") if "workload" in columns else {}
        hosts = _grouped_tasks(run, "host") if "host" in columns else {}
    if "task_bins" in run.signals:
        figures |= _times_of_bins(run)
        workloads = _workloads_of_bins(run)
    for name, one in counted.items():
        if not len(one.ages):
            continue
        before = workloads.setdefault(name, {}) if name else {key: entry["value"] for key, entry in figures.items()}
        found = one.figures() | (_responses(run, one, name, before) if "response_mean" in before else {})
        if not name:
            figures |= found
            continue
        bounds = [key for key, entry in found.items() if entry.get("at_least")]
        workloads[name] |= {key: entry["value"] for key, entry in found.items()} | {"in_flight": float(len(one.ages))}
        workloads[name] |= {"at_least": ", ".join(bounds)} if bounds else {}
    return figures, workloads, hosts


@dataclass(frozen=True, slots=True, eq=False)
class TaskCounts:
    """Tasks by what became of them."""

    created: int
    completed: int
    late: int
    failed: Mapping[str, int]
    ages: Floats  # s, of each unfinished one
    overdue: int  # of the unfinished, those older than their deadline
    undecided: int  # of the unfinished, those that may still be in time or late

    @property
    def many(self) -> bool:
        """Whether so many are unfinished that what ended does not stand for all."""
        return len(self.ages) > UNFINISHED * self.created

    def figures(self) -> dict[str, Figure]:
        """Ratios of tasks; the late share is a bound where that of the unfinished is open and they are many."""
        known, flight = self.completed + self.overdue, len(self.ages)
        late, decided = self.late + self.overdue, self.completed + flight
        share = figure(
            ratio(late, known),
            "1",
            "completed after their deadline or overdue at the end, of all completed or overdue",
        )
        if flight:
            low, high = ratio(late, decided), ratio(late + self.undecided, decided)
            share = _bounded(share, low, high, at_least=self.many and self.undecided > 0)
        return {
            "completion_ratio": figure(ratio(self.completed, self.created), "1", "completed, of all that were created"),
            "late_share": share,
            "unfinished_share": figure(
                ratio(flight, self.created), "1", "under way at the end, of all that were created"
            ),
        }


def _counted(run: Run, ledgers: Sequence[Mapping[str, Any]], columns: set[str]) -> dict[str, TaskCounts]:
    """All tasks (under "") and those of each workload, from the ledgers, which know tasks in flight; else the table."""
    books = [ledger for ledger in ledgers if "tasks" in ledger]
    if not books:
        if not {"status", "late"} <= columns:
            return {}
        rows = keyed(run, "SELECT status, count(*) n, count(*) FILTER (late) late FROM task GROUP BY status")
        done = {key: int(rows.get("completed", {}).get(key) or 0) for key in ("n", "late")}
        failed = {cause: int(row["n"] or 0) for cause, row in rows.items() if cause != "completed"}
        none = np.empty(0)
        return {"": TaskCounts(done["n"] + sum(failed.values()), done["n"], done["late"], failed, none, 0, 0)}
    deadlines: dict[str, float] = {}
    if any(book["tasks"]["in_flight"] for book in books):
        with suppress(CosimError, KeyError, TypeError):  # a run without its plan: no deadline is known
            listed = run.plan["scene"]["workloads"]
            deadlines = {one["name"]: inf if one["deadline"] is None else float(one["deadline"]) for one in listed}
    found = {"": [_one(book["tasks"], inf) for book in books if not book.get("workloads")]}
    for book in books:
        for name, entry in (book.get("workloads") or {}).items():
            found.setdefault(name, []).append(_one(entry, deadlines.get(name, inf)))
    parts = [one for same in found.values() for one in same]
    return {"": _sum(parts), **{name: _sum(same) for name, same in found.items() if name}}


def _one(entry: Mapping[str, Any], deadline: float) -> TaskCounts:
    ages = restored(entry.get("ages") or [], entry["in_flight"])
    overdue = int((ages > deadline).sum())
    undecided = len(ages) - overdue if deadline < inf else 0
    return TaskCounts(entry["created"], entry["completed"], entry["late"], entry["failed"], ages, overdue, undecided)


def _sum(parts: Sequence[TaskCounts]) -> TaskCounts:
    failed: dict[str, int] = {}
    for one in parts:
        for cause, count in one.failed.items():
            failed[cause] = failed.get(cause, 0) + count
    ages = np.concatenate([one.ages for one in parts])
    created, completed, late, overdue, undecided = (
        sum(getattr(one, name) for one in parts) for name in ("created", "completed", "late", "overdue", "undecided")
    )
    return TaskCounts(created, completed, late, failed, ages, overdue, undecided)


def _tasks(run: Run, counted: TaskCounts) -> dict[str, Figure]:
    """Counts and ratios of all tasks."""
    lost = sum(counted.failed.values())
    figures = {
        "tasks_created": figure(counted.created, "1", "tasks that devices made"),
        "tasks_completed": figure(counted.completed, "1", "tasks whose output came back"),
        "tasks_failed": figure(lost, "1", "tasks that failed, for any cause"),
        "tasks_in_flight": figure(len(counted.ages), "1", "tasks under way when the run ended"),
        **counted.figures(),
        "throughput": figure(
            ratio(counted.completed, run.manifest["reached"]), "1/s", "completed tasks per simulated second"
        ),
    }
    for cause in sorted(counted.failed):
        figures[f"failed_{cause}"] = figure(counted.failed[cause], "1", f"tasks that failed with cause '{cause}'")
    return figures


def _responses(run: Run, counted: TaskCounts, workload: str, known: Mapping[str, float | None]) -> dict[str, Figure]:
    """Response times that count the unfinished; `known` are those of the completed ones alone."""
    of, given = (" AND workload = ?", [workload]) if workload else ("", [])
    if "task_bins" in run.signals:
        query = (
            f"SELECT bin b, sum(tally)::BIGINT n FROM task_bins WHERE quantity = 'response'{of} GROUP BY b ORDER BY b"
        )
    else:
        done = "status = 'completed' AND isfinite(ended - created)"
        query = f"SELECT ended - created b, count(*) n FROM task WHERE {done}{of} GROUP BY b ORDER BY b"
    rows = run.execute(query, given).fetchnumpy()
    times = middles(rows["b"].astype("i8")) if "task_bins" in run.signals else rows["b"].astype("f8")
    lives = Lifetimes(times, rows["n"].astype("i8"), counted.ages)
    least = lives.mean_at_least()
    found = {"response_mean": (known.get("response_mean"), least, inf, counted.many)}
    for statistic, q in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
        value, low, high = lives.quantile(q)
        found[f"response_{statistic}"] = (value, low, high, isnan(value) or (counted.many and high == inf))
    return {
        key: _bounded(
            figure(value, "s", f"{_STATISTICS[key.removeprefix('response_')][1]} of the time {_SPLIT['response'][1]}"),
            low, high, at_least=bound,
        )
        for key, (value, low, high, bound) in found.items()
    }  # fmt: skip


def _value_kept(run: Run, counted: Mapping[str, TaskCounts], columns: set[str]) -> dict[str, Figure]:
    """What results were worth when they came back, of what they would have been worth at once.

    Failed tasks keep nothing. Unfinished ones keep between nothing and what their age has left of their value.
    """
    loads: list[Mapping[str, Any]] = []
    with suppress(CosimError, KeyError, TypeError):  # a run without its plan, or of a version without values
        loads = [one for one in run.plan["scene"]["workloads"] if one["value"]]
    if not loads or not columns >= {"value", "workload"}:
        return {}
    rows = keyed(run, "SELECT workload, count(*) n, sum(value) kept FROM task GROUP BY workload")
    kept = offered = left = unfinished = 0.0
    for load in loads:
        row, one = rows.get(load["name"], {}), counted.get(load["name"])
        kept, offered = kept + (row.get("kept") or 0.0), offered + load["value"] * (row.get("n") or 0.0)
        if one is not None:
            left += load["value"] * float((0.5 ** (one.ages / (load["half_life"] or inf))).sum())
            unfinished += load["value"] * len(one.ages)
    meaning = "worth of the results when they came back, of their worth at once; a failed task keeps none"
    found = figure(ratio(kept, offered), "1", meaning)
    if unfinished:
        low, high = (ratio(most, offered + unfinished) for most in (kept, kept + left))
        found = _bounded(found, low, high, at_least=counted[""].many)
    return {"value_kept": found}


def _bounded(figure: Figure, low: float | None, high: float | None, *, at_least: bool) -> Figure:
    """`figure` with what it can be; with `at_least` its value is the lower bound."""
    low, high = (None if value is None or not isfinite(value) else float(value) for value in (low, high))
    found = {**figure, "low": low, "high": high}
    return {**found, "value": low, "at_least": True} if at_least else found


def _times(run: Run) -> dict[str, Figure]:
    """Response time and its parts over all completed tasks."""
    sql = ", ".join(
        f"{formula.format(expression)} FILTER (isfinite({expression})) AS {part}_{statistic}"
        for part, (expression, _) in _SPLIT.items()
        for statistic, (formula, _) in _STATISTICS.items()
    )
    row = row_of(run, f"SELECT {sql} FROM task WHERE status = 'completed'")
    figures = {}
    for part, (_, meaning) in _SPLIT.items():
        for statistic, (_, word) in _STATISTICS.items():
            key = f"{part}_{statistic}"
            figures[key] = figure(row[key], "s", f"{word} of the time {meaning}, completed tasks")
    return figures


def _times_of_bins(run: Run) -> dict[str, Figure]:
    """The figures of `_times` from statistics."""
    figures = {}
    for part, (_, meaning) in _SPLIT.items():
        for statistic, value in _statistics(run, part).items():
            word = _STATISTICS[statistic][1]
            figures[f"{part}_{statistic}"] = figure(value, "s", f"{word} of the time {meaning}, completed tasks")
    return figures


def _statistics(run: Run, part: str, workload: str = "") -> dict[str, float | None]:
    """Mean, median, p95 and p99 of a part of the response time, of all tasks or of one workload's."""
    from cosim.results.summary import quantile  # loads what few runs need

    of = f"quantity = '{part}'" + (" AND workload = ?" if workload else "")
    given = [workload] if workload else []
    counted = run.execute(f"SELECT bin, tally FROM task_bins WHERE {of}", given).fetchnumpy()
    ((mean,),) = run.execute(f"SELECT sum(sum) / nullif(sum(count), 0) FROM task_summary WHERE {of}", given).fetchall()
    numbers, tally = counted["bin"].astype("i8"), counted["tally"].astype("i8")
    found = {"mean": mean}
    for statistic, q in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
        found[statistic] = quantile(numbers, tally, q)
    return found


def _workloads_of_bins(run: Run) -> dict[str, Any]:
    """Counts and times per workload, where the statistics are grouped by it."""
    if "workload" not in run.table("task_summary").columns:
        return {}
    counts = keyed(run, "SELECT workload, sum(count) FILTER (quantity = 'late') ended, "
                         "coalesce(sum(count) FILTER (quantity = 'response'), 0) completed, "
                         "sum(sum) FILTER (quantity = 'late') late "
                         "FROM task_summary GROUP BY workload ORDER BY workload")  # fmt: skip
    for name, row in counts.items():
        ended, completed, late = row["ended"], row["completed"] or 0.0, row.pop("late")
        if ended is not None and late is not None:  # the column is among the kept ones
            row |= {"failed": ended - completed, "completion_ratio": ratio(completed, ended)}
            row["late_share"] = ratio(late, completed)
        for part in _SPLIT:
            for statistic, value in _statistics(run, part, name).items():
                if statistic == "mean" or part == "response":
                    row[f"{part}_{statistic}"] = value if value is not None and isfinite(value) else None
    return counts


def _grouped_tasks(run: Run, column: str) -> dict[str, Any]:
    """Counts and times of tasks per value of `column`; tasks that never got to a host have none."""
    done = "FILTER (status = 'completed')"
    times = ", ".join(
        f"{_STATISTICS[statistic][0].format(expression)} FILTER (status = 'completed' AND isfinite({expression})) "
        f"AS {part}_{statistic}"
        for part, (expression, _) in _SPLIT.items()
        for statistic in (_STATISTICS if part == "response" else ("mean",))
    )
    rows = keyed(run, f"SELECT {column}, count(*) ended, count(*) {done} completed, "
                       f"count(*) FILTER (status <> 'completed') failed, "
                       f"(count(*) {done}) / count(*) completion_ratio, "
                       f"count(*) FILTER (late) / nullif(count(*) {done}, 0) late_share, {times} "
                       f"FROM task WHERE {column} IS NOT NULL GROUP BY {column} ORDER BY {column}")  # fmt: skip
    causes = run.sql(
        f"SELECT {column}, status, count(*) FROM task WHERE status <> 'completed' AND {column} IS NOT NULL "
        f"GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    for name, cause, count in causes:
        rows[name][f"failed_{cause}"] = float(count)
    return rows

"""The measured side of a scenario's calibration: rows of a recorded run or of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.hints import did_you_mean
from cosim.contract.units import DIMENSIONS
from cosim.scenario.calibrate import TASK_DURATIONS, ObservedBlock
from cosim.sources.tables.cells import failures, numbered, numbers, same_clock, stamps
from cosim.sources.tables.findings import Finding
from cosim.sources.tables.table import Table, time_column
from cosim.twin.problem import Floats
from cosim.twin.telemetry.quantities import Codes, Quantity, Rows

if TYPE_CHECKING:
    from cosim.results.load import Run


def run_table(run: Run, quantity: Quantity, nodes: Codes, workloads: Codes) -> dict[str, NDArray[Any]]:
    """The columns of a recorded run that `quantity` needs. Raises `ScenarioError` for what it has not."""
    from cosim.results.load import QueryError

    try:
        names = run.table(quantity.table).columns
    except QueryError as error:
        raise ScenarioError(Problem(str(error), "calibrate.observed")) from None
    wanted = [name for name in quantity.columns if name in names]
    missing = [name for name in quantity.columns if name not in names]
    if missing:
        raise ScenarioError(
            Problem(f"{run.path} has not recorded '{quantity.table}.{missing[0]}'", "calibrate.observed",
                    hint=did_you_mean(missing[0], names, otherwise="recorded"))
        )  # fmt: skip
    more = ["created", "workload::VARCHAR AS workload", "status = 'completed' AS completed"]
    keys = ["node::VARCHAR AS node", *(more if quantity.of_tasks else ["time"])]
    picked = dict.fromkeys([*keys, *(f'"{name}"::DOUBLE AS "{name}"' for name in wanted if name != "created")])
    order = "created, node" if quantity.of_tasks else "time, node"
    table = run.sql(f'SELECT {", ".join(picked)} FROM "{quantity.table}" ORDER BY {order}').fetchnumpy()
    found = {name: np.ma.filled(np.ma.asarray(column, dtype=None), _gap(column)) for name, column in table.items()}
    found["node"] = nodes(found["node"])
    if quantity.of_tasks:
        found["workload"] = workloads(found["workload"])
    return found


def _gap(column: NDArray[Any]) -> Any:  # noqa: ANN401 - of the column's own type
    return np.nan if column.dtype.kind == "f" else ("" if column.dtype.kind in "OU" else 0)


@dataclass(frozen=True, slots=True, eq=False)
class RecordedSeries:
    """What was measured of one signal: its rows, and what of the simulation stands opposite."""

    quantity: Quantity
    rows: Rows  # in order of time
    at: str  # where it is declared
    timed: bool = True
    absolute: bool = False  # times count from 1970 until the recording's origin is known
    from_file: bool = False
    loads: Floats | None = None  # (m,) of the node beside each value

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes with rows; none where rows name none."""
        return tuple(k for k in np.unique(self.rows.nodes).tolist() if k >= 0)

    def only(self, kept: NDArray[np.bool_]) -> RecordedSeries:
        return replace(self, rows=self.rows.only(kept), loads=None if self.loads is None else self.loads[kept])


def table_rows(
    table: Table, how: ObservedBlock, unit: str, quantity: Quantity, at: str, nodes: Codes, workloads: Codes,
    findings: list[Finding],
) -> RecordedSeries:  # fmt: skip
    """The rows of a table for `quantity`, a signal in `unit`. Raises `ScenarioError` that names column and remedy.

    `nodes` and `workloads` know the scenario's names; a name in the table that is none of them is refused.
    """

    def wrong(message: str, hint: str = "") -> ScenarioError:
        return ScenarioError(Problem(message, at, file=table.path, hint=hint))

    subject = at.rpartition(".")[2]
    value, factor = how.column or quantity.column, factor_of(how.unit, f"{at}.unit", unit)
    wanted = [*(how.between or (value,)), *(name for name in (how.node, how.load) if name)]
    for name in wanted:
        if name not in table.columns:
            hint = did_you_mean(name, table.columns, otherwise="columns")
            raise wrong(f"there is no column '{name}'", hint)
    name_of_time = time_column(table, how.time)
    count = len(table)
    times, absolute = np.full(count, np.nan), False
    if name_of_time is not None:
        times, absolute, *_ = stamps(table.column(name_of_time), name_of_time, how.time_unit, findings)
    if how.between:
        begin, end = (stamps(table.column(name), name, how.time_unit, findings) for name in how.between)
        same_clock((how.between[0], begin), (how.between[1], end), table.path)
        values = end.seconds - begin.seconds
    else:
        values = numbers(table.column(value), subject, findings) * factor
    if count and not np.isfinite(values).any():
        raise wrong(f"column '{value}' holds no number")
    kept = np.isfinite(values) if table.sparse else np.ones(count, np.bool_)
    numbers_of, named = node_numbers(table, how.node, how.names, nodes, at, findings)
    kept &= named
    if numbers_of is None:
        only = quantity.nodes if quantity.nodes is not None and len(quantity.nodes) == 1 else (-1,)
        numbers_of = np.full(count, only[0], np.int64)
    elif quantity.nodes is not None:
        kept &= np.isin(numbers_of, quantity.nodes)
    loads = numbers(table.column(how.load), how.load, findings) if how.load else None
    tasks = _workloads(table, how, workloads, at) if quantity.of_tasks else np.full(count, -1, np.int64)
    if quantity.of_tasks:
        kept &= ~failures(table, subject, findings)
        numbered(table, subject, findings)
    if quantity.of_tasks and quantity.workloads is not None:
        kept &= np.isin(tasks, (*quantity.workloads, -1))
    rows = Rows(values, times, numbers_of, tasks)
    order = np.flatnonzero(kept)
    back = _back(rows, order, quantity)
    if back:
        findings.append(Finding("time order", subject, f"time goes back {back} times; rows are put in order", back))
    order = order[np.argsort(times[order], kind="stable")]
    order = _once(rows, order, quantity, subject, findings)
    timed, beside = name_of_time is not None, None if loads is None else loads[order]
    return RecordedSeries(quantity, rows.only(order), at, timed, absolute, True, beside)


def _back(rows: Rows, order: NDArray[np.int64], quantity: Quantity) -> int:
    """How often the time of a node goes back; 0 for tasks in the order of their ends, as services log them."""
    found = 0
    for node in np.unique(rows.nodes[order]):
        own = order[rows.nodes[order] == node]
        back = int((np.diff(rows.times[own]) < 0.0).sum())
        ends = rows.times[own] + rows.values[own]
        if back and not (quantity.duration and (np.diff(ends[np.isfinite(ends)]) >= -1e-6).all()):
            found += back
    return found


def node_numbers(
    table: Table, name: str | None, names: Mapping[str, str | None], nodes: Codes, at: str, findings: list[Finding]
) -> tuple[NDArray[np.int64] | None, NDArray[np.bool_]]:
    """The numbers of the rows' nodes, by column `name`, and which rows have one.

    Raises `ScenarioError` for names that are no node's."""
    name = name or ("node" if "node" in table.columns else None)
    if name is None:
        return None, np.ones(len(table), np.bool_)
    said = np.array([str(cell).strip() for cell in table.column(name)], dtype=object)
    left_out = {one for one, target in names.items() if target is None}
    reported = np.array([names.get(one, one) or "" for one in said], dtype=object)
    known = set(nodes.names)
    unknown = sorted({one for one in reported if one and one not in known})
    if unknown:
        hint = did_you_mean(unknown[0], sorted(known), otherwise="nodes of the scenario")
        hint += f"; or say whose it is: names: {{{unknown[0]}: NODE}}, null to leave it out"
        message = f"column '{name}' names '{', '.join(unknown[:4])}', which is no node of the scenario"
        raise ScenarioError(Problem(message, at, file=table.path, hint=hint))
    kept = reported != ""
    nameless = int((~kept & ~np.isin(said, sorted(left_out))).sum()) if len(said) else 0
    if nameless == len(said) and nameless:
        return None, np.ones(len(table), np.bool_)
    if nameless:
        subject = at.rpartition(".")[2]
        findings.append(Finding("names", subject, f"{nameless} rows name no node; they are left out", nameless))
    numbered = np.full(len(reported), -1, np.int64)
    numbered[kept] = nodes(reported[kept])
    return numbered, kept


def _workloads(table: Table, how: ObservedBlock, workloads: Codes, at: str) -> NDArray[np.int64]:
    """The numbers of the rows' workloads; -1 where several are possible and none is named."""
    count, known = len(table), workloads.names
    if len(how.workloads or ()) == 1 and "workload" not in table.columns:
        return np.full(count, workloads(how.workloads or ())[0], np.int64)
    if "workload" in table.columns:
        said = [str(cell) for cell in table.column("workload")]
        unknown = sorted({*said} - {*known})
        if unknown:
            hint = did_you_mean(unknown[0], known, otherwise="workloads of the scenario")
            message = f"column 'workload' names '{unknown[0]}', which is no workload of the scenario"
            raise ScenarioError(Problem(message, at, file=table.path, hint=hint))
        return workloads(said)
    return np.full(count, 0 if len(known) == 1 else -1, np.int64)


def _once(
    rows: Rows, order: NDArray[np.int64], quantity: Quantity, subject: str, findings: list[Finding]
) -> NDArray[np.int64]:
    """The rows without exact repetitions: of series always, of tasks where many are double."""
    keys = np.stack([rows.times[order], rows.nodes[order], rows.workloads[order], rows.values[order]], axis=1)
    if not len(order) or np.isnan(rows.times[order]).all():
        return order
    _, first = np.unique(keys, axis=0, return_index=True)
    double = len(order) - len(first)
    if double == 0:
        return order
    kept = order[np.sort(first)]
    what = "they are taken once"
    if quantity.of_tasks and double < 0.1 * len(order):
        kept, what = order, "kept: tasks at once, or copies"
    findings.append(Finding("duplicates", subject, f"{double} rows say the same as others; {what}", double))
    return kept


def factor_of(unit: str | None, at: str, wanted: str = "") -> float:
    """What turns a value in `unit` into SI, or into `wanted` units of SI.

    Raises `ScenarioError` for a unit that is not known, and for one of something else than `wanted`.
    """
    if unit is None:
        return 1.0
    fitting = [units for units in DIMENSIONS.values() if wanted in units and units[wanted] == 1.0]
    for units in fitting or DIMENSIONS.values():
        if unit in units:
            return units[unit]
    if fitting and any(unit in units for units in DIMENSIONS.values()):
        what = f"'{unit}' is no unit of a signal in {wanted}"
        raise ScenarioError(Problem(what, at, hint=f"write one of {', '.join(fitting[0])}"))
    known = sorted({one for units in DIMENSIONS.values() for one in units})
    raise ScenarioError(Problem(f"unknown unit '{unit}'", at, hint=did_you_mean(unit, known)))


def unit_of(signal: str, units: Mapping[str, str]) -> str:
    """The unit of `table.column`; `units` are those of the signals' columns."""
    table, _, column = signal.partition(".")
    if table == "task" and column in TASK_DURATIONS:
        return "s"
    return units.get(signal, "")


def recorded(folder: Path, at: str) -> Run:
    """The run in `folder`, or the youngest one below it. Raises `ScenarioError` when there is none."""
    from cosim.contract.errors import SetupError
    from cosim.results.load import load

    if not (folder / "manifest.json").is_file():
        below = sorted((path.parent for path in folder.glob("**/manifest.json")), key=lambda path: path.name)
        folder = below[-1] if below else folder
    try:
        return load(folder)
    except SetupError as error:
        raise ScenarioError(Problem(str(error), at, hint="record one with 'cosim run'")) from None


def origins(run: Run, table: str) -> Sequence[str]:
    """How the writers of a signal of a recorded run came by their values: simulated, emulated, measured."""
    return [str(a["origin"]) for a in run.plan["adapters"] if table in a["writes"]]

"""The measured side of a scenario's calibration: rows of a recorded run or of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosim.errors import Problem, ScenarioError
from cosim.scenario.calibrate import TASK_DURATIONS, ObservedBlock
from cosim.scenario.wording import did_you_mean
from cosim.twin.quantities import Codes, Quantity, Rows
from cosim.units import DIMENSIONS

if TYPE_CHECKING:
    from cosim.results.load import Run

Table = Mapping[str, NDArray[Any]]


def run_table(run: Run, quantity: Quantity, nodes: Codes, workloads: Codes) -> Table:
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


def file_rows(path: Path, block: ObservedBlock, quantity: Quantity, at: str, nodes: Codes) -> Rows:
    """The rows of a table (CSV, .gz too, or Parquet). Raises `ScenarioError` that names column and remedy."""
    import duckdb

    def wrong(message: str, hint: str = "") -> ScenarioError:
        return ScenarioError(Problem(message, at, file=path, hint=hint))

    reader = "read_parquet" if path.suffix == ".parquet" else "read_csv"
    literal = str(path).replace("'", "''")
    column = block.column or quantity.column
    with duckdb.connect(":memory:") as connection:
        try:
            relation = connection.sql(f"SELECT * FROM {reader}('{literal}')")
            names = relation.columns
        except duckdb.Error as error:
            raise wrong(f"cannot be read: {str(error).splitlines()[0]}", "a CSV with a header, or Parquet") from error
        if column not in names:
            raise wrong(f"there is no column '{column}'", did_you_mean(column, names, otherwise="columns"))
        quoted = column.replace('"', '""')
        picked = [f'TRY_CAST("{quoted}" AS DOUBLE) AS value', f'"{quoted}" IS NOT NULL AS given']
        for key, name in (("time", block.time), ("node", block.node)):
            if name in names:
                kind = "DOUBLE" if key == "time" else "VARCHAR"
                picked.append(f'TRY_CAST("{name}" AS {kind}) AS "{key}"')
        table = connection.sql(f"SELECT {', '.join(picked)} FROM {reader}('{literal}')").fetchnumpy()
    values = np.ma.filled(np.ma.asarray(table["value"], np.float64), np.nan)
    if len(values) and not np.isfinite(values).any():
        raise wrong(f"column '{column}' holds no number")
    count = len(values)
    times = (
        np.ma.filled(np.ma.asarray(table["time"], np.float64), np.nan) if "time" in table else np.full(count, np.nan)
    )
    if "node" in table:
        numbers = nodes(np.ma.filled(table["node"], ""))
    else:
        only = quantity.nodes if quantity.nodes is not None and len(quantity.nodes) == 1 else (-1,)
        numbers = np.full(count, only[0], np.int64)
    rows = Rows(values * factor_of(block, at), times, numbers, np.full(count, -1, np.int64))
    kept = (
        np.isin(rows.nodes, quantity.nodes) if quantity.nodes is not None and "node" in table else np.full(count, True)
    )
    return rows.only(kept)


def factor_of(block: ObservedBlock, at: str) -> float:
    """What turns a value of the file into SI. Raises `ScenarioError` for a unit that nobody knows."""
    if block.unit is None:
        return 1.0
    for units in DIMENSIONS.values():
        if block.unit in units:
            return units[block.unit]
    known = sorted({unit for units in DIMENSIONS.values() for unit in units})
    raise ScenarioError(Problem(f"unknown unit '{block.unit}'", f"{at}.unit", hint=did_you_mean(block.unit, known)))


def unit_of(signal: str, units: Mapping[str, str]) -> str:
    """The unit of `table.column`; `units` are those of the signals' columns."""
    table, _, column = signal.partition(".")
    if table == "task" and column in TASK_DURATIONS:
        return "s"
    return units.get(signal, "")


def recorded(folder: Path, at: str) -> Run:
    """The run in `folder`, or the youngest one below it. Raises `ScenarioError` when there is none."""
    from cosim.errors import SetupError
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

"""The conditions under which values are calibrated: overlays keep them, and runs are checked against them.

Conditions on a scenario's text are checked before a run (`cosim.scenario.extrapolation`). Conditions on a signal, such
as `host.utilisation`, are compared with what the run recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.signals import CATALOGUE
from cosim.contract.units import show
from cosim.scenario import tree
from cosim.scenario.calibrate import SPACING, TASK_DURATIONS
from cosim.scenario.extrapolation import quantity
from cosim.scenario.reading import read_text
from cosim.twin.telemetry.measured import recorded

if TYPE_CHECKING:
    from cosim.scenario.load import Loaded

Query = Callable[[str], Sequence[tuple[Any, ...]]]
_TELLING = {"host": ("utilisation", "running"), "link": ("snr",), "cell": ("utilisation",)}  # what loads and links are


def seen(loaded: Loaded, run: Path | None = None) -> dict[str, tuple[object, object]]:
    """The conditions of a scenario with a block `calibrate`: path or SIGNAL.COLUMN -> lowest and highest.

    Of every workload the rate and the sizes that the scenario gives, unless they are free or replayed, and of every
    recorded run that it is compared with the range of sizes, loads and link qualities. `run` takes the place of these.
    """
    block = loaded.scenario.calibrate
    if block is None:
        return {}
    found: dict[str, tuple[object, object]] = {}
    for name, workload in (loaded.data.get("workloads") or {}).items():
        for key in ("arrivals", "input", "output", "work"):
            path, value = f"workloads.{name}.{key}", workload.get(key)
            replayed = block.replay is not None and key == "arrivals"
            if value is not None and not replayed and quantity(value) is not None and path not in block.free:
                found[path] = value, value
    ranges: dict[str, tuple[float, float]] = {}
    named = [one.run for one in (*block.observed.values(), block.replay, *block.recordings.values()) if one is not None]
    for folder in dict.fromkeys(loaded.path.parent / one for one in named if one) if run is None else [run]:
        for condition, (low, high) in _recorded_ranges(folder, loaded.scenario.workloads).items():
            before = ranges.get(condition, (low, high))
            ranges[condition] = min(low, before[0]), max(high, before[1])
    for condition, ends in ranges.items():
        sizes = condition.startswith("workloads.")
        found[condition] = (show(ends[0], "bytes"), show(ends[1], "bytes")) if sizes else ends
    return found


def _recorded_ranges(folder: Path, workloads: Iterable[str]) -> dict[str, tuple[float, float]]:
    """The ranges of sizes, loads and links in a recorded run; nothing for a run that cannot be read now."""
    found: dict[str, tuple[float, float]] = {}
    try:
        run = recorded(folder, "calibrate")
    except ScenarioError:
        return found
    with closing(run):
        for name in workloads if "task" in run.signals else ():
            for field in ("input", "output"):
                query = f'SELECT min("{field}"), max("{field}") FROM task WHERE workload = ?'
                low, high = run.execute(query, [name]).fetchall()[0]
                if low is not None and high > 0.0:
                    found[f"workloads.{name}.{field}"] = float(low), float(high)
        for table, columns in _TELLING.items():
            there = run.table(table).columns if table in run.signals else ()
            for column in columns:
                if column in there:
                    query = f'SELECT min("{column}"), max("{column}") FROM "{table}" WHERE isfinite("{column}"::DOUBLE)'
                    low, high = run.sql(query).fetchall()[0]
                    if low is not None:
                        found[f"{table}.{column}"] = float(low), float(high)
    return found


def beyond(resolved: str, has: Callable[[str], bool], rows: Query) -> tuple[str, ...]:
    """Warnings: one for each calibration and recorded signal with rows outside of the calibrated range.

    `resolved` is the scenario of the run as YAML, `has` returns whether a table was recorded, and `rows` answers SQL
    over the tables (`tasks` for the tasks).
    """
    if "calibrated:" not in resolved:
        return ()
    problems: list[Problem] = []
    root = read_text(resolved, None, problems)
    data = tree.plain(root) if root is not None and not problems else {}
    warnings = []
    for name, block in (data.get("calibrated") or {}).items():
        for condition, (low, high) in (block.get("conditions") or {}).items():
            table, _, column = str(condition).partition(".")
            least, most = quantity(low), quantity(high)
            columns = _columns(table, column)
            stored = "tasks" if table == "task" else table
            if not columns or least is None or most is None or not _recorded(stored, columns, has, rows):
                continue
            term = " - ".join(f'"{one}"' for one in columns)
            outside, first, last = rows(
                f"SELECT avg(({term} NOT BETWEEN '{least[0]!r}'::DOUBLE AND '{most[0]!r}'::DOUBLE)::INT), "
                f'min({term}), max({term}) FROM "{stored}" WHERE isfinite(({term})::DOUBLE)'
            )[0]
            if outside:
                warnings.append(
                    f"{condition} went from {first:.4g} to {last:.4g}, and calibration '{name}' has seen "
                    f"{low} to {high}: {outside:.1%} of the rows are extrapolated"
                )
    return tuple(warnings)


def _columns(table: str, column: str) -> tuple[str, ...]:
    """The column of the catalogue, or the later and the earlier time of a task's duration; none for other words."""
    if table == "task" and column in TASK_DURATIONS and column != SPACING:
        return TASK_DURATIONS[column][::-1]
    known = CATALOGUE[table].columns if table in CATALOGUE else ()
    return (column,) if any(c.name == column and c.role in ("value", "counter") for c in known) else ()


def _recorded(table: str, columns: Sequence[str], has: Callable[[str], bool], rows: Query) -> bool:
    """Whether the table has rows and all of the columns: a scenario may record fewer."""
    if not has(table):
        return False
    there = {name for (name,) in rows(f"SELECT column_name FROM duckdb_columns() WHERE table_name = '{table}'")}
    return there >= set(columns)

"""The conditions under which values are calibrated: overlays keep them, and runs are checked against them.

Conditions on a scenario's text are checked before a run (`cosim.scenario.extrapolation`). Conditions on a signal, such
as `host.utilisation`, are compared with what the run recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import Problem, SetupError
from cosim.contract.signals import CATALOGUE
from cosim.scenario import tree
from cosim.scenario.calibrate import SPACING, TASK_DURATIONS
from cosim.scenario.extrapolation import quantity
from cosim.scenario.reading import read_text

if TYPE_CHECKING:
    from cosim.scenario.load import Loaded

Query = Callable[[str], Sequence[tuple[Any, ...]]]
_TELLING = {"host": ("utilisation", "running"), "link": ("snr",), "cell": ("utilisation",)}  # what loads and links are


def seen(loaded: Loaded) -> dict[str, tuple[object, object]]:
    """The conditions of a scenario with a block `calibrate`: path or SIGNAL.COLUMN -> lowest and highest.

    Of every workload the rate and the sizes that the scenario gives, unless they are free or replayed,
    and of every recorded run that it is compared with the range of loads and of link qualities.
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
    for folder in dict.fromkeys(one.run for one in block.observed.values() if one.run is not None):
        for condition, (low, high) in _recorded_ranges(loaded.path.parent / folder).items():
            before = ranges.get(condition, (low, high))
            ranges[condition] = min(low, before[0]), max(high, before[1])
    return {**found, **ranges}


def _recorded_ranges(folder: Path) -> dict[str, tuple[float, float]]:
    """The ranges of loads and links in a recorded run; nothing for a run that cannot be read now."""
    from cosim.results.load import load

    found: dict[str, tuple[float, float]] = {}
    try:
        run = load(folder)
    except SetupError:
        return found
    with closing(run):
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

"""Recorded signals outside of the range that the run's calibrations have seen.

Conditions on a scenario's text are checked before a run (`cosim.scenario.extrapolation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cosim.contract.errors import Problem
from cosim.contract.signals import CATALOGUE
from cosim.scenario import tree
from cosim.scenario.calibrate import SPACING, TASK_DURATIONS
from cosim.scenario.extrapolation import quantity
from cosim.scenario.reading import read_text

Query = Callable[[str], Sequence[tuple[Any, ...]]]


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

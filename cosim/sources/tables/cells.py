"""Columns of tables as numbers and times, and the rows of tasks that failed, with what is wrong in them as findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.reading import columns as files
from cosim.contract.reading.columns import Stamps, plain_name
from cosim.contract.records import Flags, Floats
from cosim.sources.tables.findings import Finding
from cosim.sources.tables.table import Table

_OUTCOMES = {"status", "outcome", "state", "result", "code", "status_code", "http_status", "http_code",
             "response_code", "error", "failed"}  # fmt: skip
_SUCCESSES = {"success", "successful", "succeeded", "ok", "expected_response"}  # true or false
_YES, _NO = frozenset({"true", "yes"}), frozenset({"false", "no", "0", "0.0"})
_FAILED = {"failed", "fail", "failure", "error", "timeout", "timed out", "timed-out", "cancelled", "canceled",
           "rejected", "dropped", "lost", "aborted"}  # fmt: skip
_IDS = {"id", "task", "task_id", "request", "request_id", "job", "job_id", "trace_id", "seq", "sequence"}


def numbers(column: NDArray[Any], name: str, findings: list[Finding]) -> Floats:
    """(m,) numbers of a column; NaN, with a finding, where it holds something else."""
    found = files.numbers(column)
    if found.wrong:
        message = f"{found.wrong} cells are not numbers, such as '{found.example[:40]}'"
        findings.append(Finding("missing values", name, message, found.wrong))
    return found.values


def stamps(column: NDArray[Any], name: str, unit: str | None, findings: list[Finding]) -> Stamps:
    """Times in s of a column, as `contract.reading.columns.stamps`, with findings where cells are none or of no
    zone."""
    found = files.stamps(column, name, unit)
    if found.wrong:
        message = f"{found.wrong} cells are no times, such as '{found.example}'"
        findings.append(Finding("missing values", name, message, found.wrong))
    if 0 < found.local < len(column) - found.wrong:
        message = f"{found.local} dates name no time zone, and others do: they are taken as UTC"
        findings.append(Finding("time order", name, message, found.local))
    if found.clocks:
        seconds, midnights = files.past_midnight(found.seconds)
        if midnights:
            message = f"{midnights} times of day pass midnight: the rows behind are of the next day"
            findings.append(Finding("time order", name, message, midnights))
        return found._replace(seconds=seconds)
    return found


def same_clock(begin: tuple[str, Stamps], end: tuple[str, Stamps], path: Path) -> None:
    """Raise `ScenarioError` for two columns of times, by their names, of which no difference can be taken."""
    (one, first), (other, second) = begin, end
    if first.absolute != second.absolute:
        raise ScenarioError(Problem(f"'{one}' and '{other}' do not count from the same time", "calibrate", path))
    if bool(first.local) != bool(second.local):
        message = f"'{one if first.local else other}' names no time zone, and '{other if first.local else one}' does"
        hint = "write both in UTC, as 2030-01-31T12:00:00Z"
        raise ScenarioError(Problem(message, "calibrate", path, hint=hint))


def failures(table: Table, subject: str, findings: list[Finding]) -> Flags:
    """(m,) rows of tasks that failed, by a column such as `status`: how long these took is no response.

    Raises `ScenarioError` where all of them failed.
    """
    failed = np.zeros(len(table), np.bool_)
    for name, column in table.columns.items():
        said = plain_name(name)
        if said not in _OUTCOMES | _SUCCESSES or not len(table):
            continue
        words = np.array([str(cell).strip().lower() for cell in column], dtype=object)
        yes = _NO if said in _SUCCESSES else _YES if said in ("error", "failed") else frozenset()
        lost = np.array([_failed(word) or word in yes for word in words], np.bool_)
        if lost.all():
            message = f"every row is of a task that failed ('{name}' is '{words[0]}')"
            raise ScenarioError(Problem(message, "calibrate", table.path))
        if lost.any():
            failed |= lost
            count = int(lost.sum())
            some = f"{count} rows are of tasks that failed ('{name}' is '{words[lost][0]}'); they are left out"
            findings.append(Finding("failed", subject, some, count))
    return failed


def _failed(word: str) -> bool:
    code = word.removesuffix(".0")
    return word in _FAILED or (len(code) == 3 and code.isdigit() and code[0] in "45")


def numbered(table: Table, subject: str, findings: list[Finding]) -> None:
    """Add to `findings` what columns of numbers or names of tasks show: tasks that appear twice, and missing ones."""
    for name, column in table.columns.items():
        if plain_name(name) not in _IDS or len(table) < 12:
            continue
        said = np.array([str(cell).strip() for cell in column], dtype=object)
        said = said[said != ""]
        different = len(set(said.tolist()))
        if not 0.6 * len(said) <= different:
            continue
        if different < len(said):
            what = f"{len(said) - different} rows have the '{name}' of another row: tasks that were tried again?"
            findings.append(Finding("duplicates", subject, what, len(said) - different))
        if all(one.isdigit() and len(one) < 16 for one in said):
            places = sorted({int(one) for one in said})
            missing = places[-1] - places[0] + 1 - len(places)
            if 0 < missing <= len(places):
                what = (
                    f"{missing} of the numbers in '{name}' are missing: rows were left out, such as tasks that failed"
                )
                findings.append(Finding("missing values", subject, what, missing))

"""Tables with the times of requests and answers, as load generators and services write them.

    found = requests(Path("low.csv"))
    found.created, found.ended, found.rate

The times of a request are in a column `created` (or sent, arrival, start) and `ended` (or answered, finished, end), or
its duration in `duration` (or response, latency, elapsed). A name may end with a unit, as `start_ms` or `startTimeMs`;
tables of JMeter, hey and k6 are read as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.hints import did_you_mean
from cosim.contract.reading.columns import head, plain_name, spellings
from cosim.contract.records import Floats
from cosim.sources.tables.cells import failures, numbers, same_clock, stamps
from cosim.sources.tables.findings import Finding
from cosim.sources.tables.table import read

CAME = ("created", "sent", "arrival", "arrived", "start", "begin", "start_time", "offset")
ANSWERED = ("ended", "answered", "finished", "end", "completed", "departure", "end_time")
LASTED = ("duration", "response", "response_time", "latency", "elapsed", "took")
_JMETER = ("timeStamp", "elapsed")  # both in ms
K6 = ("time", "http_req_duration")  # when a request ended, in s since 1970, and ms that it took
# Columns of what was asked.
_KINDS = frozenset({"label", "name", "url", "endpoint", "path", "route", "operation", "method", "group", "scenario",
                    "service", "host", "hostname", "node", "instance", "server"})  # fmt: skip
LEAST = 40  # requests of a table
_MANY = 0.1  # of the rows: fewer may be requests at once, in times that are rounded
_OF_SPAN = 0.5  # of the time in which all came: no service is measured whose requests take longer


@dataclass(frozen=True, slots=True)
class RequestTable:
    """One table, in order of coming. Times in s since the first request."""

    file: Path
    came: str  # the columns
    answered: str  # or how long it took
    lasted: bool  # the latter
    units: tuple[str | None, str | None]  # of both, where their names include them
    created: Floats
    ended: Floats
    notes: tuple[str, ...] = ()  # what was taken as one, and left out

    @property
    def rate(self) -> float:
        """Requests per s."""
        return (len(self.created) - 1) / float(self.created[-1] - self.created[0])


def requests(path: Path) -> RequestTable:
    """The requests of a table. Raises `ScenarioError` that names what it lacks."""
    table = read(path)
    since: str | None
    unit: str | None
    of_k6 = {*K6} <= {*table.columns}
    if {*_JMETER} <= {*table.columns}:
        (came, answered), (since, unit), lasted = _JMETER, ("ms", "ms"), True
    elif of_k6:
        (came, answered), (since, unit), lasted = K6, (None, "ms"), True
    else:
        came, since = _column(path, table.columns, CAME)
        lasted = _named(table.columns, ANSWERED) is None and _named(table.columns, LASTED) is not None
        answered, unit = _column(path, table.columns, LASTED if lasted else ANSWERED)
    findings: list[Finding] = []
    taken = f"'{came}' and '{answered}' are taken for the two times"
    if lasted:
        taken = f"'{came}' is taken for when they came, '{answered}' for how long they took"
    begin = stamps(table.column(came), came, since, findings)
    if lasted:
        took_each = numbers(table.column(answered), answered, findings) * spellings("time")[unit or "s"]
        begin = begin._replace(seconds=begin.seconds - took_each) if of_k6 else begin
        ends = begin.seconds + took_each
    elif unit != since:
        raise ScenarioError(Problem("the two times have different units", file=path, hint=taken))
    else:
        end = stamps(table.column(answered), answered, unit, findings)
        same_clock((came, begin), (answered, end), path)
        ends = end.seconds
    known = np.isfinite(begin.seconds) & np.isfinite(ends)
    kept = known & (ends >= begin.seconds)
    kept &= ~failures(table, "requests", findings)
    if kept.sum() < LEAST:
        text = f"{int(kept.sum())} requests have an answer that does not come before them; {LEAST} are needed"
        taken += f": are they in one unit?{''.join(f' {finding.message}.' for finding in findings)}"
        raise ScenarioError(Problem(text, file=path, hint=taken))
    notes = [*table.left_out, *(finding.message for finding in findings)]
    if early := int((known & (ends < begin.seconds)).sum()):
        notes.append(f"{early} rows have an answer before the request; they are left out")
    there = np.flatnonzero(kept)
    if len(there) - len(np.unique([begin.seconds[there], ends[there]], axis=1)[0]) > _MANY * len(there):
        rows = np.stack([np.asarray(column)[there].astype(str) for column in table.columns.values()], axis=1)
        _, once = np.unique(rows, axis=0, return_index=True)
        if (double := len(there) - len(once)) > _MANY * len(there):
            notes.append(f"{double} rows are equal to others in every cell: they are taken once")
            kept[np.delete(there, once)] = False
    for name, column in table.columns.items():
        kinds = np.unique(np.asarray(column).astype(str)[kept]) if plain_name(name) in _KINDS else ()
        if 1 < len(kinds) < 0.5 * kept.sum():  # else it names the requests
            text = f"requests of {len(kinds)} kinds ('{name}') are taken as one service"
            notes.append(f"{text}: {', '.join(kinds[:6])}")
    order = np.flatnonzero(kept)[np.argsort(begin.seconds[kept], kind="stable")]
    span, took = float(np.ptp(begin.seconds[order])), float(np.median(ends[order] - begin.seconds[order]))
    if took > _OF_SPAN * span:
        text = f"a request took {took:.4g} s, and all of them came within {span:.4g} s"
        raise ScenarioError(Problem(text, file=path, hint=f"{taken}; name the unit in the column, as '{answered}_ms'"))
    if of_k6 and (np.round(ends[order], 3) % 1.0 == 0.0).all():
        hint = "run k6 with the variable K6_CSV_TIME_FORMAT=unix_micro"
        raise ScenarioError(Problem("its times are whole seconds, which show no queue", file=path, hint=hint))
    first = begin.seconds[order[0]] if begin.absolute else min(0.0, float(begin.seconds[order[0]]))
    times = begin.seconds[order] - first, ends[order] - first
    return RequestTable(path, came, answered, lasted, (since, unit), *times, tuple(notes))


def _column(path: Path, columns: Iterable[str], names: Sequence[str]) -> tuple[str, str | None]:
    """A column and the unit that its name ends with."""
    found = _named(columns, names)
    if found is None:
        others = f", nor {', '.join(LASTED)}" if names == ANSWERED else ""
        hint = f"{did_you_mean(names[0], columns, otherwise='columns')}; or write the scenario: docs/twin.md"
        raise ScenarioError(Problem(f"no column is called {', '.join(names)}{others}", file=path, hint=hint))
    return found


def _named(columns: Iterable[str], names: Sequence[str]) -> tuple[str, str | None] | None:
    known = frozenset(names)
    heads = {head(column, "time", known): column for column in reversed([*columns])}
    found = {one.word: (column, one.unit or None) for one, column in heads.items() if one.factor == one.factor}
    return next((found[name] for name in names if name in found), None)

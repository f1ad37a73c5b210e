"""A finished run as an MCAP file, with the topics of `topics`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import foxglove
from foxglove.mcap import MCAPWriteOptions, MCAPWriter

from cosim.contract.errors import SetupError
from cosim.contract.signals import CATALOGUE
from cosim.extensions.foxglove import topics as messages
from cosim.extensions.foxglove.signals import SignalMessage
from cosim.report.web.finished import FinishedRun
from cosim.results.load import Run, load

_AT_ONCE = 200_000  # rows that are sorted at a time
_TYPES = {"BOOLEAN": "bool", "TINYINT": "int64", "SMALLINT": "int64", "INTEGER": "int64", "BIGINT": "int64",
          "DOUBLE": "double", "FLOAT": "double"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class McapFile:
    """What was written."""

    path: Path
    messages: int
    topics: Mapping[str, int]  # topic -> messages


def write_mcap(run: Run, out: Path, *, force: bool = False) -> McapFile:
    """Write `run` to `out`, all of it or nothing.

    Raises `SetupError` when `out` is there already, unless `force`.
    """
    if out.exists() and not force:
        raise SetupError(f"{out} is there already; name another file with --out, or replace it with --force")
    if not out.parent.is_dir():
        raise SetupError(f"there is no folder {out.parent}")
    part = out.with_name(f".{out.name}.part")
    try:
        options = MCAPWriteOptions(compression_threads=0)  # the same bytes wherever it is written
        with (
            ExitStack() as opened,
            closing(_topics(run, opened)) as topics,
            foxglove.open_mcap(part, allow_overwrite=True, context=topics.context, writer_options=options) as writer,
        ):
            _describe(writer, run)
            _write(topics, run)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return McapFile(out, topics.counts.total(), dict(sorted(topics.counts.items())))


def _describe(writer: MCAPWriter, run: Run) -> None:
    """What the run was, and its scenario."""
    words = ("scenario", "title", "seed", "status", "started", "digest")
    writer.write_metadata(
        "cosim", {word: str(run.manifest[word]) for word in words if run.manifest.get(word) is not None}
    )
    scenario = run.path / "scenario.resolved.yaml"
    if scenario.is_file():
        writer.attach(
            log_time=0, create_time=0, name=scenario.name, media_type="application/yaml", data=scenario.read_bytes()
        )


def _topics(run: Run, opened: ExitStack) -> messages.Topics:
    """The topics of `run`; `opened` closes what pictures are rendered from, which is read for the first of them."""

    @cache
    def source() -> FinishedRun:
        return opened.enter_context(closing(FinishedRun(run.path)))

    def picture(node: str, at: float) -> bytes | None:
        return source().picture(numbers[node], at) if node in numbers else None

    numbers = {node["id"]: number for number, node in enumerate(run.plan["scene"]["nodes"])}
    fleets = {node: fleet for node, fleet in run.sql("SELECT node, fleet FROM nodes").fetchall() if fleet}
    names = {fleets.get(node, node) for (node,) in run.sql("SELECT DISTINCT node FROM nodes").fetchall()}
    geo = run.plan["scene"]["geo"]
    place = (geo["latitude"], geo["longitude"], geo["height"]) if geo else None
    signals = {name: _message(run, name) for name in run.signals}
    return messages.Topics(place, signals, fleets, picture, apart=len(names) <= messages.MOST_NODES)


def _write(topics: messages.Topics, run: Run) -> None:
    """Everything, by time."""
    moving = set[str]()
    if "mobility" in run.signals:
        moving.update(row[0] for row in run.sql("SELECT DISTINCT node FROM mobility").fetchall())
    known = run.sql("SELECT node, x, y, z FROM nodes WHERE x IS NOT NULL ORDER BY slot, generation").fetchall()
    topics.places(0.0, [(*row, 0.0, 90.0) for row in known if row[0] not in moving])
    for first, last in _windows(run):
        rows: list[tuple[float, str, tuple[Any, ...]]] = []
        for name in [*run.signals, "events"]:
            cursor = run.execute(f'SELECT * FROM "{name}" WHERE time >= ? AND time < ? ORDER BY ALL', [first, last])
            rows += [(row[0], name, row) for row in cursor.fetchall()]
        rows.sort(key=lambda row: row[0])  # stable: signals by name, rows by their columns
        for time, group in groupby(rows, key=lambda row: row[0]):
            now: dict[str, list[tuple[Any, ...]]] = {}
            for _, name, row in group:
                now.setdefault(name, []).append(row)
            happened = now.pop("events", ())
            topics.moment(time, now)
            for event in happened:
                topics.event(time, *event[1:4])


def _windows(run: Run) -> Iterator[tuple[float, float]]:
    """Spans of time with not too many rows each."""
    reported = [run.sql(f'SELECT count(*), max(time) FROM "{name}"').fetchall()[0] for name in run.signals]
    rows, end = sum(int(count) for count, _ in reported), max((last or 0.0 for _, last in reported), default=0.0)
    count = max(1, math.ceil(rows / _AT_ONCE))
    edges = [k * end / count for k in range(count)]
    yield from zip(edges, [*edges[1:], math.inf], strict=True)


def _message(run: Run, signal: str) -> SignalMessage:
    """The message of a signal's rows."""
    table = run.table(signal)
    units = run.manifest.get("signals", {}).get(signal, {}).get("columns", {})
    catalogued = CATALOGUE.get(signal)
    meanings = {column.name: column.meaning for column in catalogued.columns} if catalogued else {}
    columns = {
        name: (_TYPES.get(str(kind), "string"), ", ".join(filter(None, (meanings.get(name, ""), units.get(name, "")))))
        for name, kind in zip(table.columns, table.types, strict=True)
    }
    return SignalMessage(signal, {**columns, "time": ("double", "simulated time, s")})


def export(folder: Path, out: Path | None, *, force: bool = False) -> McapFile:
    """The run in `folder` as an MCAP file, by default NAME.mcap here."""
    with closing(load(folder)) as run:
        return write_mcap(run, out or Path(f"{run.path.name}.mcap"), force=force)

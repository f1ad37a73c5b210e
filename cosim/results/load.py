"""Read runs back: `load(folder)` for one, `load_all(folders)` for many, as DuckDB tables.

    run = cosim.load("runs/hello/20260101-120000-1a2b3c4d")
    run.table("mobility").df()                  # or .pl(), .fetchnumpy(), .fetchall()
    run.sql("select tier, count(*) from task join nodes using (node) group by tier")

Every signal is a view of its own name, besides `tasks` (the same as `task`), `nodes` and `events`.
A run that was killed, or still runs, is read from its stream files up to the last whole batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from cosim.errors import CosimError, SetupError
from cosim.results.convert import assemble, read_members, read_plan, read_stream, stream_files, survey
from cosim.results.events import JOURNAL, events_table, nodes_table
from cosim.results.folder import RunFolder, Status
from cosim.results.folder import latest as newest


class QueryError(CosimError):
    """A table or column that a run does not have."""

    exit_code = 2


class _Tables:
    """Named views in a DuckDB connection of their own."""

    def __init__(self) -> None:
        threads = os.environ.get("OMP_NUM_THREADS", "")  # the runs of a sweep share the cores; DuckDB does not read it
        self._connection = duckdb.connect(":memory:", config={"threads": int(threads)} if threads.isdecimal() else {})
        self._names: set[str] = set()

    def table(self, name: str) -> duckdb.DuckDBPyRelation:
        """All rows of signal `name`, or of `nodes`, `events`, `tasks`, in the order of recording."""
        if name not in self._names:
            raise QueryError(f"there is no table '{name}' in {self._what()}; it has {', '.join(sorted(self._names))}")
        return self._connection.sql(f"SELECT * FROM {_quoted(name)}")

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """The result of `query` over the views. Raises `QueryError` that lists the tables there are."""
        try:
            return self._connection.sql(query)
        except duckdb.CatalogException as error:
            raise QueryError(f"{error}\n{self._what()} has the tables {', '.join(sorted(self._names))}") from error
        except duckdb.Error as error:
            raise QueryError(f"the query failed: {error}") from error

    def execute(self, query: str, values: Sequence[object] = ()) -> duckdb.DuckDBPyConnection:
        """The connection after `query`, with `values` for its question marks; one at a time."""
        return self._connection.execute(query, list(values))

    def close(self) -> None:
        self._connection.close()

    def _view(self, name: str, select: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE VIEW {_quoted(name)} AS {select}")
        self._names.add(name)

    def _views(self, selects: dict[str, str]) -> None:
        for name, select in selects.items():
            self._view(name, select)
        if "task" in selects:
            self._view("tasks", 'SELECT * FROM "task"')

    def _what(self) -> str:
        return "this run"


class Run(_Tables):
    """One run: what it was (`manifest`, `plan`), what came out (`metrics`), and its tables."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.path = folder.path
        self.manifest = folder.manifest
        self.status: Status = folder.status
        self._views(_selects(folder, self._connection, ""))

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.status}, tables={', '.join(sorted(self._names))})"

    @property
    def signals(self) -> list[str]:
        """The names of the recorded signals."""
        return sorted(self._names - {"tasks", "nodes", "events"})

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan as plain data (SI units; null where the plan has an infinity)."""
        return read_plan(self.path)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The key figures as they were written, or computed now when the run has none."""
        try:
            found: dict[str, Any] = json.loads((self.path / "metrics.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            from cosim.results.metrics import measure

            found = measure(self)
        return found

    @property
    def tasks(self) -> duckdb.DuckDBPyRelation:
        return self.table("tasks")

    @property
    def nodes(self) -> duckdb.DuckDBPyRelation:
        return self.table("nodes")

    @property
    def events(self) -> duckdb.DuckDBPyRelation:
        return self.table("events")

    def _what(self) -> str:
        return str(self.path)


class Runs(_Tables):
    """Several runs: the same tables with a column `run` (the folder's path below the common one) in front."""

    def __init__(self, folders: list[RunFolder]) -> None:
        super().__init__()
        self.paths = {name: folder.path for name, folder in zip(_short(folders), folders, strict=True)}
        self.manifests = {name: folder.manifest for name, folder in zip(self.paths, folders, strict=True)}
        united: dict[str, list[str]] = {}
        for i, (name, folder) in enumerate(zip(self.paths, folders, strict=True)):
            for table, select in _selects(folder, self._connection, f"run_{i}_").items():
                united.setdefault(table, []).append(f"SELECT {_text(name)} AS run, * FROM ({select})")
        self._views({table: " UNION ALL BY NAME ".join(parts) for table, parts in united.items()})

    def __len__(self) -> int:
        return len(self.paths)


def load(run: str | Path) -> Run:
    """The run in folder `run`. Raises `SetupError` that says why it is not one."""
    return Run(RunFolder.open(run))


def latest(scenario: str | None = None, base: str | Path = "runs") -> Run:
    """The newest run below `base`, of `scenario` or of any. Raises `SetupError` when there is none."""
    return Run(newest(Path(base), scenario))


def load_all(runs: str | Path | Iterable[str | Path]) -> Runs:
    """Several runs: their folders, or one folder with run folders anywhere below it (a sweep)."""
    if isinstance(runs, (str, Path)):
        found = sorted(file.parent for file in Path(runs).rglob("manifest.json"))
        if not found:
            raise SetupError(f"there is no run folder below {runs}")
        runs = found
    folders = [RunFolder.open(path) for path in runs]
    if not folders:
        raise SetupError("there are no runs to load: the list is empty")
    return Runs(folders)


def _selects(folder: RunFolder, connection: Any, prefix: str) -> dict[str, str]:  # noqa: ANN401 - duckdb has no types
    """Table name -> SELECT over its Parquet files, or over what its stream files hold."""
    files: dict[str, list[Path]] = {}
    for path in sorted((folder.path / "frames").glob("*/*.parquet")):
        files.setdefault(path.parent.name, []).append(path)
    for name, file in (("task", "tasks.parquet"), ("nodes", "nodes.parquet"), ("events", "events.parquet")):
        if (folder.path / file).exists():
            files[name] = [folder.path / file]
    selects = {name: _read(paths) for name, paths in files.items()}
    for name, table in _unconverted(folder).items():
        if name not in selects:
            connection.register(prefix + name + "_rows", table)
            selects[name] = f"SELECT * FROM {_quoted(prefix + name + '_rows')}"
    return selects


def _unconverted(folder: RunFolder) -> dict[str, pa.Table]:
    """The tables of a run that was not closed, in memory."""
    streams = stream_files(folder.path)
    if not streams and not (folder.path / JOURNAL).exists():
        return {}
    plan = read_plan(folder.path)
    members = read_members(folder.path, plan)
    ids = pa.array([member.id for member in members], pa.string())
    parts: dict[str, list[pa.Table]] = {}
    for path in streams:
        stream = read_stream(path)
        if stream is not None:
            table = assemble(stream[0], list(stream[1]), ids)
            parts.setdefault(stream[0].signal, []).append(table)
    tables = {name: pa.concat_tables(found).unify_dictionaries() for name, found in parts.items()}
    found = survey(folder.path)
    tables["nodes"] = nodes_table(plan, members, found.last_seen, found.reached)
    tables["events"] = events_table(folder.path)
    return tables


def _read(paths: list[Path]) -> str:
    return f"SELECT * FROM read_parquet([{', '.join(_text(str(path)) for path in paths)}], hive_partitioning = false)"


def _short(folders: list[RunFolder]) -> list[str]:
    """A name for each run: its folder's, or the path when that is not unique."""
    names = [folder.path.name for folder in folders]
    return names if len(set(names)) == len(names) else [str(folder.path) for folder in folders]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

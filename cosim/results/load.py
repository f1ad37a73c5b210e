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
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from cosim.contract.errors import CosimError, SetupError, require
from cosim.contract.seals import DamagedError
from cosim.contract.signals import TASK
from cosim.results.arrays import numbers, texts
from cosim.results.convert import assemble, read_members, read_plan, read_stream, stream_files, survey, target
from cosim.results.events import JOURNAL, events_table, nodes_table
from cosim.results.figures import Figure, measured, warnings
from cosim.results.folder import RunFolder, Status
from cosim.results.folder import latest as newest
from cosim.results.stream import Spec

if TYPE_CHECKING:
    import pandas as pd

    from cosim.contract.frame import Frame
    from cosim.scenario.plan.plan import Plan


# columns of tasks that figures of all tasks are made of, and with `workload` what they were worth
_MEASURED = ("status", "created", "uploaded", "started", "computed", "ended", "value", "late")


class QueryError(CosimError):
    """A table or column that a run does not have."""

    exit_code = 2


class _Tables:
    """Named views in a DuckDB connection of their own."""

    def __init__(self, threads: str = "") -> None:
        # the runs of a sweep share the cores; DuckDB does not read it
        threads = threads or os.environ.get("OMP_NUM_THREADS", "")
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
    """One run: what it was (`manifest`, `plan`), what came out (`metrics`), and its tables, or `only` some."""

    def __init__(self, folder: RunFolder, only: Container[str] | None = None) -> None:
        super().__init__()
        self.path = folder.path
        self.manifest = folder.manifest
        self.status: Status = folder.status
        with _undamaged(folder):
            selects = _selects(folder, self._connection, "")
            self._views({name: text for name, text in selects.items() if only is None or name in only})

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
        except (OSError, ValueError, RecursionError):
            from cosim.results.metrics import measure

            found = measure(self)
        return found

    @property
    def warnings(self) -> list[str]:
        """What has to be known of the figures, as that many tasks had not ended."""
        return warnings(self.metrics["figures"])

    def _repr_html_(self) -> str:
        """What notebooks show: the run, how it ended, and its figures."""
        figures = [(key, entry) for key, entry in self.metrics["figures"].items() if entry["value"] is not None]
        rows = "".join(
            f"<tr title='{escape(str(e['meaning']), quote=True)}'><td>{escape(key)}</td>"
            f"<td style='text-align:right'>{'≥ ' if e.get('at_least') else ''}{e['value']:.6g}</td>"
            f"<td>{escape('' if e['unit'] == '1' else str(e['unit']))}</td></tr>"
            for key, e in figures
        )
        head = (
            f"{self.manifest['scenario']}: {self.status}, {self.manifest['reached']:g} s, seed {self.manifest['seed']}"
        )
        warned = "".join(f"<p><b>{escape(text)}</b></p>" for text in self.warnings)
        heads = "<tr><th>figure</th><th>value</th><th></th></tr>"
        return f"<table><caption>{escape(head)}</caption>{heads}{rows}</table>{warned}"

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


class ComputedRun(Run):
    """Runs of one adapter that wrote no folder, one after another, for the figures of `cosim.results.metrics.measure`.

    Columns that tasks are grouped by are left out: rows of figures by workload and by host take half of the time.
    """

    def __init__(self) -> None:
        _Tables.__init__(self, "1")  # as runs of a sweep: sums are added up in the order of the rows
        self.path, self.status = Path(), "complete"

    def take(self, plan: Plan, tasks: Frame, summary: Mapping[str, Any]) -> None:
        """Hold this run instead of the one before."""
        loads = plan.scene.workloads
        kept = (*_MEASURED, "workload") if any(load.value for load in loads) else _MEASURED
        spec = Spec.of(TASK, plan.adapters[0].name, kept, tuple(load.name for load in loads))
        columns = [numbers(tasks[column.name].astype(spec.stored(column))) for column in spec.columns]
        batch = pa.RecordBatch.from_arrays([numbers(tasks.slot), *columns], schema=spec.schema())
        part = batch, np.array([tasks.time]), np.array([len(tasks)])
        self._connection.register("rows", assemble(spec, [part], texts([node.id for node in plan.scene.nodes])))
        self._connection.execute("CREATE OR REPLACE TABLE task AS SELECT * FROM rows")
        self._names = {"task"}
        self.plan = plan.as_dict()
        adapters = [{"name": plan.adapters[0].name, "summary": summary}]
        lag = {"max": 0.0, "mean": 0.0, "late_ticks": 0}
        self.manifest = {"adapters": adapters, "signals": {}, "reached": plan.duration, "lag": lag}


class Runs(_Tables):
    """Several runs: the same tables with a column `run` (the folder's path below the common one) in front.

    The table `figures` has a row per run: `run`, `scenario`, `status`, `seed`, what a sweep had set for it
    (a column per path, as `adapters.continuum.scheduler`) and every figure.
    """

    def __init__(self, folders: list[RunFolder], parameters: Mapping[Path, Mapping[str, Any]] | None = None) -> None:
        super().__init__()
        self.paths = {name: folder.path for name, folder in zip(_short(folders), folders, strict=True)}
        self.manifests = {name: folder.manifest for name, folder in zip(self.paths, folders, strict=True)}
        united: dict[str, list[str]] = {}
        for i, (name, folder) in enumerate(zip(self.paths, folders, strict=True)):
            with _undamaged(folder):
                selects = _selects(folder, self._connection, f"run_{i}_")
            for table, select in selects.items():
                united.setdefault(table, []).append(f"SELECT {_text(name)} AS run, * FROM ({select})")
        self._views({table: " UNION ALL BY NAME ".join(parts) for table, parts in united.items()})
        self._connection.register("figures_rows", _figures(self.paths, folders, parameters or {}))
        self._view("figures", "SELECT * FROM figures_rows")

    @property
    def figures(self) -> pd.DataFrame:
        """Parameters and figures, a row per run, as a pandas data frame; `table("figures")` needs no pandas."""
        require("tables", "pandas")
        return self.table("figures").df()

    def unit(self, figure: str) -> str:
        """The unit of a figure, "" when no run has it."""
        found = (self.entries(run).get(figure) for run in self.paths)
        return next((str(entry["unit"]) for entry in found if entry is not None), "")

    def entries(self, run: str) -> dict[str, Figure]:
        """The figures of a run with unit, meaning and, where tasks were unfinished, bounds; {} of a run without."""
        return measured(self.paths[run])

    @property
    def warnings(self) -> dict[str, list[str]]:
        """What has to be known of the figures, by run; of those runs alone that have a warning."""
        return {run: found for run in self.paths if (found := warnings(self.entries(run)))}

    def __len__(self) -> int:
        return len(self.paths)


def load(run: str | Path, *, verify: bool = True) -> Run:
    """The run in folder `run`. Raises `SetupError` with the reason when it is not one.

    With `verify` its files are compared with the digests that the run wrote, about a second per GB.
    `DamagedError` then names those that differ.
    """
    folder = RunFolder.open(run)
    if verify:
        folder.verify()
    return Run(folder)


def latest(scenario: str | None = None, base: str | Path = "runs") -> Run:
    """The newest run below `base`, of `scenario` or of any, as `load` gives it; `SetupError` when there is none."""
    return load(newest(Path(base), scenario).path)


def load_all(runs: str | Path | Iterable[str | Path]) -> Runs:
    """Several runs: their folders, or folders with run folders anywhere below them (sweeps)."""
    named = [Path(runs)] if isinstance(runs, (str, Path)) else [Path(path) for path in runs]
    if not named:
        raise SetupError("there are no runs to load: the list is empty")
    found: list[Path] = []
    parameters: dict[Path, Mapping[str, Any]] = {}
    for path in named:
        inside = [path] if (path / "manifest.json").is_file() else sorted(f.parent for f in path.rglob("manifest.json"))
        if not inside:
            raise SetupError(f"there is no run folder below {path}")
        found += inside
        parameters |= parameters_of(path)
    folders = [RunFolder.open(path) for path in found]
    for folder in folders:
        folder.verify()
    return Runs(folders, parameters)


def parameters_of(sweep: Path) -> dict[Path, Mapping[str, Any]]:
    """What a sweep has set for each of its runs, by their folders; {} for what is no sweep. Raises `DamagedError`."""
    if not any((sweep / name).is_file() for name in ("sweep.json", "results.jsonl")):
        return {}
    from cosim.results.sweep import SweepFolder  # which compiles plans

    return {(sweep / one.run).resolve(): one.parameters for one in SweepFolder(sweep).results() if one.run}


def _figures(
    paths: Mapping[str, Path], folders: list[RunFolder], parameters: Mapping[Path, Mapping[str, Any]]
) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for (name, path), folder in zip(paths.items(), folders, strict=True):
        manifest = folder.manifest
        row = {"run": name, "scenario": manifest["scenario"], "status": folder.status, "seed": manifest["seed"]}
        row |= {key: value for key, value in parameters.get(path.resolve(), {}).items() if key != "run.seed"}
        row |= {key: entry["value"] for key, entry in measured(path).items()}  # a run that was killed has none yet
        rows.append(row)
    columns: dict[str, list[Any]] = {key: [] for row in rows for key in row}
    for key, values in columns.items():
        values += [row.get(key) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if kinds == {int, float}:
            values[:] = [None if value is None else float(value) for value in values]
        elif len(kinds) > 1 or not kinds <= {bool, int, float, str}:  # lists, or numbers among words
            values[:] = [None if value is None else str(value) for value in values]
    return pa.table(columns)


@contextmanager
def _undamaged(folder: RunFolder) -> Iterator[None]:
    """Raise `DamagedError` for what cannot be read in a run without digests, or in one that was killed."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, ValueError, LookupError, TypeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise DamagedError(f"the results in {folder.path} cannot be read: {reason}") from error


def _selects(folder: RunFolder, connection: Any, prefix: str) -> dict[str, str]:  # noqa: ANN401 - duckdb has no types
    """Table name -> SELECT over its Parquet files, or over what its stream files hold."""
    tables, held = _unconverted(folder)  # before the Parquet files are listed, which may be made from them meanwhile
    files: dict[str, list[Path]] = {}
    for path in sorted(set((folder.path / "frames").glob("*/*.parquet")) - held):
        files.setdefault(path.parent.name, []).append(path)
    for name, file in (("task", "tasks.parquet"), ("nodes", "nodes.parquet"), ("events", "events.parquet")):
        if (path := folder.path / file).exists() and path not in held:
            files[name] = [path]
    selects = {name: _read(paths) for name, paths in files.items()}
    for name, table in tables.items():
        if name in selects and name in ("nodes", "events"):
            continue
        connection.register(prefix + name + "_rows", table)
        rows = f"SELECT * FROM {_quoted(prefix + name + '_rows')}"
        selects[name] = f"{selects[name]} UNION ALL BY NAME {rows}" if name in selects else rows
    return selects


def _unconverted(folder: RunFolder) -> tuple[dict[str, pa.Table], set[Path]]:
    """The tables of a run that was not closed, in memory, and the files that closing it makes of the same rows."""
    streams = stream_files(folder.path)
    if not streams and not (folder.path / JOURNAL).exists():
        return {}, set()
    parts: dict[str, list[pa.Table]] = {}
    held: set[Path] = set()
    try:
        plan = read_plan(folder.path)
        members = read_members(folder.path, plan)
        ids = texts([member.id for member in members])
        for path in streams:
            stream = read_stream(path)
            if stream is not None:
                table = assemble(stream[0], list(stream[1]), ids)
                parts.setdefault(stream[0].signal, []).append(table)
                held.add(target(folder.path, stream[0]))
        tables = {name: pa.concat_tables(found).unify_dictionaries() for name, found in parts.items()}
        found = survey(folder.path)
        tables["nodes"] = nodes_table(plan, members, found.last_seen, found.reached)
        tables["events"] = events_table(folder.path)
    except FileNotFoundError:
        if stream_files(folder.path) == streams:
            raise
    if stream_files(folder.path) != streams:  # the run was closed meanwhile, or has gone on
        return _unconverted(folder)
    return tables, held


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

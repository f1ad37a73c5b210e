"""What a report needs from a run folder: manifest, figures, and SQL over its tables.

Tolerant on purpose: a partial run may lack any file but the manifest, and the report of such a
run is the one that its owner needs most. What could not be read is listed in `unreadable`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb

from cosim.contract.errors import CosimError
from cosim.results.folder import RunFolder
from cosim.results.load import load

_LEDGERS = frozenset({"tasks", "bytes", "energy", "cost"})
_SMALL = 1_000_000  # B of a table that is read once, not for every query
_GLOB = str.maketrans({"[": "[[]", "*": "[*]", "?": "[?]"})


class Folder:
    """A run folder, read lazily; close it when done (it is a context manager)."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        folder = RunFolder.open(self.path)
        folder.verify()
        self.unreadable: list[str] = []
        self._filled: dict[str, bool] = {}  # whether a table has rows
        self.manifest = {**folder.manifest, "status": folder.status, "error": folder.fault}

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if "_tables" in self.__dict__:
            self._tables[0].close()

    def _json(self, name: str) -> dict[str, Any]:
        try:
            data = json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            self.unreadable.append(f"{name}: {error}")
            return {}
        return data if isinstance(data, dict) else {}

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The key figures, measured now for a run that was not closed."""
        found = self._json("metrics.json")
        if not found and not self.manifest.get("ended"):
            try:
                with closing(load(self.path)) as run:
                    found = run.metrics
            except (CosimError, KeyError, TypeError, ValueError) as error:
                self.unreadable.append(f"key figures: {error}")
        return found

    @cached_property
    def name(self) -> str:
        """How the run is called where several are shown: the folder's own name."""
        return self.path.resolve().name

    @cached_property
    def resolved(self) -> str:
        """The scenario as it was run, as YAML text; empty when it was not kept."""
        try:
            return (self.path / "scenario.resolved.yaml").read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    @cached_property
    def _tables(self) -> tuple[duckdb.DuckDBPyConnection, frozenset[str]]:
        # one thread: sums in one order, so that a report repeats to the last digit
        connection = duckdb.connect(":memory:", config={"threads": 1})
        known = set()
        for table, files in self._files():
            try:
                _show(connection, table, files, read=sum(file.stat().st_size for file in files) <= _SMALL)
            except duckdb.Error:
                files = [file for file in files if self._readable(connection, file)]
                if not files:
                    continue
                _show(connection, table, files)
            known.add(table)
        return connection, frozenset(known | self._recover(connection, known))

    def _readable(self, connection: duckdb.DuckDBPyConnection, file: Path) -> bool:
        try:
            connection.read_parquet(str(file).translate(_GLOB))
        except duckdb.Error as error:
            self.unreadable.append(f"{file.relative_to(self.path)}: {str(error).splitlines()[0]}")
            return False
        return True

    def _recover(self, connection: duckdb.DuckDBPyConnection, known: set[str]) -> set[str]:
        """Adds the tables of a run that was killed, or still runs, from what its recorder wrote so far."""
        if self.manifest.get("ended"):
            return set()
        added = set()
        with closing(load(self.path)) as run:
            for name in ("nodes", "events", *run.signals):
                table = "tasks" if name == "task" else name
                if table in known:
                    continue
                try:
                    rows = run.table(name).to_arrow_table()
                except CosimError:  # nothing of this kind was written before the end
                    continue
                connection.register(f"{table}_rows", rows)
                connection.execute(f'CREATE VIEW "{table}" AS SELECT *, \'\' AS filename FROM "{table}_rows"')
                added.add(table)
        return added

    def _files(self) -> Iterator[tuple[str, list[Path]]]:
        frames = self.path / "frames"
        if frames.is_dir():
            for folder in sorted(frames.iterdir()):
                if folder.is_dir() and (files := sorted(folder.glob("*.parquet"))):
                    yield folder.name, files
        for name in ("tasks", "events", "nodes"):
            if (self.path / f"{name}.parquet").is_file():
                yield name, [self.path / f"{name}.parquet"]

    def has(self, *tables: str) -> bool:
        """Whether all of these signals (or tasks, events, nodes) were recorded and have rows."""
        return all(self._has(table) for table in tables)

    def _has(self, table: str) -> bool:
        if table not in self._filled:
            connection, known = self._tables
            row = connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() if table in known else None
            self._filled[table] = row is not None
        return self._filled[table]

    # Every table has a column `filename` besides its own: which adapter's file a row is from.
    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query over the tables (values are duckdb's, whence `Any`)."""
        return self._tables[0].execute(query, list(values)).fetchall()

    def one(self, query: str, *values: object) -> tuple[Any, ...]:
        """The only row of an aggregate query."""
        return self.rows(query, *values)[0]

    @cached_property
    def end(self) -> float:
        """Simulated seconds that the run reached (more than 0)."""
        known = [float(self.manifest.get("reached") or 0.0)]
        if not self.manifest.get("ended"):
            latest = (self.one(f"SELECT max(time) FROM {t}")[0] for t in ("mobility", "host", "link") if self.has(t))
            known += [float(time) for time in latest if time is not None]
        return max(known) or max(float(self.manifest.get("duration") or 0.0), 1e-9)

    @cached_property
    def ledgers(self) -> dict[str, Mapping[str, Any]]:
        """Tasks, bytes, energy and cost by adapter: from the figures, or from the adapters' summaries."""
        kept = self.metrics.get("ledgers")
        summaries = {str(a.get("name")): a.get("summary") for a in self.manifest.get("adapters") or []}
        found = kept if isinstance(kept, dict) and kept else summaries
        if any(isinstance(found.get(key), dict) and "total" in found[key] for key in ("energy", "cost")):
            found = {"continuum": found}
        return {k: v for k, v in found.items() if isinstance(v, dict) and not _LEDGERS.isdisjoint(v)}

    @cached_property
    def tasks(self) -> Mapping[str, Any]:
        """Counts of tasks, `failed` by cause, summed over the adapters that ran some; empty without a ledger."""
        found: dict[str, Any] = {}
        for ledger in self.ledgers.values():
            counts = ledger.get("tasks")
            for name, value in counts.items() if isinstance(counts, dict) else ():
                if isinstance(value, dict):
                    causes = found.setdefault(name, {})
                    for cause, n in value.items():
                        causes[cause] = causes.get(cause, 0) + n
                elif isinstance(value, int | float) and math.isfinite(value):
                    found[name] = found.get(name, 0) + value
        return found


def _show(connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[Path], *, read: bool = False) -> None:
    """Make files a table, or with `read` a table in memory."""
    kind = "TABLE" if read else "VIEW"
    names = ", ".join("'" + str(file).translate(_GLOB).replace("'", "''") + "'" for file in files)
    quoted = table.replace('"', '""')
    connection.execute(
        f'CREATE {kind} "{quoted}" AS FROM read_parquet([{names}], union_by_name = true, filename = true)'
    )

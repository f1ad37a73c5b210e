"""A run folder: any moment of it, read from its Parquet files when it is asked for."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from cosim.bus.describe import describe
from cosim.contract.entities import WorkloadQuantities
from cosim.contract.equipment import PowerStates
from cosim.contract.errors import SetupError
from cosim.contract.frame import Array
from cosim.report.web.figures import FEW, figures_of, split
from cosim.report.web.message import pack, pack_columns
from cosim.report.web.pictures import SEEN, Pictures
from cosim.report.web.source import PARTS, SHORT
from cosim.results.layers import Line, file_lines, flat, map_lines
from cosim.results.load import Run, load
from cosim.scenario.plan.catalogue import signals_of
from cosim.scenario.plan.store import plan_from_dict

# keys of a plan whose null in JSON is an infinity
UNLIMITED = {one.name for of in (WorkloadQuantities, PowerStates) for one in fields(of) if one.default == math.inf}
POINTS = 600  # of a time series
BUCKETS = 200  # of the rates of tasks
LAST = 0.2  # of the tasks of a usual bucket, which the last one must have to be shown
CACHED = 64  # time series kept
EVENTS = 2000  # listed at most
TRAILS = 20_000  # places that the map shows as having been passed


class FinishedRun:
    """The run in `folder`, over lines of GeoJSON files. Raises `SetupError` for what cannot be used."""

    live = False
    serial = 1

    def __init__(self, folder: Path, maps: Sequence[Path] = ()) -> None:
        self.folder = folder
        self._lock = threading.Lock()  # DuckDB's connection answers one question at a time
        self._run: Run = load(folder)
        if not self._run.signals:
            self._run.close()
            raise SetupError(f"the run in {folder} has written nothing yet; if it is still starting, look again soon")
        plan = plan_from_dict(_infinities(self._run.plan), folder)
        self._scene = describe(plan, signals_of(plan))
        self._static = len(self._scene["nodes"])
        self._writers = {
            signal: [a.period * plan.step for a in plan.adapters if signal in a.writes] for signal in self._run.signals
        }
        self._columns_of = {name: self._run.table(name).columns for name in self._run.signals}
        self._times = {name: self._distinct_times(name) for name in self._run.signals}
        last = [times[-1] for times in self._times.values() if len(times)]
        # a run that was killed has not written how far it got
        self._reached = max([float(self._run.manifest["reached"]), *map(float, last)])
        self._names = self._number_nodes()
        geo = self._scene["geo"]
        own = [line for file in maps for line in file_lines(file, geo and (geo[0], geo[1]))]
        self._lines = [*self._map_lines(), *own]
        self._pictures = Pictures(folder)
        self._cached: dict[str, dict[str, Any]] = {}
        self._events = self._rows("SELECT time, kind, node, detail FROM events ORDER BY time LIMIT ?", EVENTS)

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._run.close()

    def listen(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Nothing new comes, so `ring` is never called."""
        return lambda: None

    def scene(self) -> dict[str, Any]:
        """The scene of the run's plan, with the course of the run from its manifest."""
        manifest = self._run.manifest
        return {
            **self._scene,
            "adapters": [
                {**one, "writes": self._written(one["name"], one["writes"])} for one in self._scene["adapters"]
            ],
            "live": False,
            "waiting": False,
            "run": self.folder.name,
            "duration": self._reached or self._scene["duration"],
            "status": self._run.status,
            "interactive": manifest.get("interactive", False),
            "members": self._members,
            "figures": [
                figure
                for figure in figures_of(self._scene["signals"], live=False)
                if figure["name"].startswith("task.") or len(self._times.get(figure["name"].partition(".")[0], ()))
            ],
            "trails": self._trails(),
            "lines": flat(self._lines),
        }

    def frame(self, at: float | None, watch: int) -> bytes:
        """The last values until `at` s."""
        time = self._reached if at is None else at
        with self._lock:
            columns = {}
            for part, (signal, wanted) in PARTS.items():
                columns.update(self._part(part, signal, wanted, time))
            detail = self._detail(watch, time) if 0 <= watch < len(self._names) else None
        happened = sum(event[0] <= time for event in self._events)
        header = {"serial": 1, "run": self.folder.name, "time": time, "state": {}, "events": happened, "detail": detail}
        return pack(header, pack_columns(columns))

    def series(self, figures: Sequence[str], since: float) -> dict[str, Any]:
        """The whole run's `figures`; computed once each."""
        known = {figure["name"]: figure for figure in figures_of(self._scene["signals"], live=False)}
        found = {}
        for name in figures:
            figure = name.partition("@")[0]
            if figure in known:
                if name not in self._cached:
                    with self._lock:
                        about = self._figure(*split(name))
                    self._cached = {**dict(list(self._cached.items())[-CACHED:]), name: {**known[figure], **about}}
                found[name] = self._cached[name]
        return {"run": self.folder.name, "figures": found}

    def events(self) -> list[list[Any]]:
        """Everything that happened."""
        return [list(event) for event in self._events]

    def picture(self, number: int, at: float | None) -> bytes | None:
        """What the node's camera sees at `at` s."""
        columns: dict[str, Array] = {}
        with self._lock:
            for part, (signal, wanted) in SEEN.items():
                if signal in self._columns_of:
                    columns.update(self._part(part, signal, wanted, self._reached if at is None else at))
        return self._pictures.png(number, self._scene["nodes"], columns)

    def find(self, text: str) -> list[list[Any]]:
        """Nodes of the whole run whose name holds `text`."""
        wanted = text.lower()
        return [[number, name] for number, name in enumerate(self._names) if wanted in name.lower()][:20]

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._run.execute(query, values).fetchall()
        return found

    def _written(self, adapter: str, signals: Sequence[str]) -> list[str]:
        """Those of its `signals` that the adapter has rows of, as one for live nodes has not when there were none.

        Tasks of all adapters are in one file; they are not of an adapter that has written nothing else.
        """
        files = {signal: self.folder / "frames" / signal / f"{adapter}.parquet" for signal in signals}
        rows = {signal: pq.read_metadata(file).num_rows for signal, file in files.items() if file.is_file()}
        silent = bool(rows) and not any(rows.values())
        return [] if silent else [signal for signal in signals if rows.get(signal, 1)]

    def _distinct_times(self, signal: str) -> Array:
        return np.array([row[0] for row in self._rows(f'SELECT DISTINCT time FROM "{signal}" ORDER BY time')])

    def _number_nodes(self) -> list[str]:
        """Names by number; static nodes have the numbers of their slots."""
        rows = self._rows("SELECT node::VARCHAR, min(slot), min(kind::VARCHAR), min(first_seen) FROM nodes GROUP BY 1")
        rows.sort(key=lambda row: (row[1] >= self._static, row[3] if row[1] >= self._static else row[1], row[1]))
        kinds = [kind["name"] for kind in self._scene["kinds"]]
        self._members: list[list[int]] = []
        for number, row in enumerate(rows[self._static :], self._static):
            kind = kinds.index(row[2]) if row[2] in kinds else 0
            if self._members and self._members[-1][2] == kind:
                self._members[-1][1] += 1
            else:
                self._members.append([number, 1, kind])
        names = [str(row[0]) for row in rows]
        self._numbers = {name: number for number, name in enumerate(names)}
        return names

    def _when(self, signal: str, time: float) -> tuple[float, float] | None:
        """After and until which times the rows lie that hold at `time`."""
        times = self._times.get(signal, np.zeros(0))
        index = int(np.searchsorted(times, time + 1e-9, "right")) - 1
        if index < 0:
            return None
        until = float(times[index])
        if len(self._writers.get(signal, ())) < 2:
            return float(np.nextafter(until, -np.inf)), until
        return until - max(self._writers[signal]), until

    def _part(self, part: str, signal: str, wanted: dict[str, str], time: float) -> dict[str, Array]:
        span = self._when(signal, time)
        if span is None or not set(wanted.values()) <= set(self._columns_of[signal]):
            return {}
        picked = ", ".join(f'"{name}" AS "{short}"' for short, name in wanted.items())
        query = f'SELECT node, {picked} FROM "{signal}" WHERE time > {span[0]!r} AND time <= {span[1]!r}'
        if len(self._writers.get(signal, ())) > 1:
            row = "node, peer" if "peer" in wanted else "node"
            query += f" QUALIFY row_number() OVER (PARTITION BY {row} ORDER BY time DESC) = 1"
        found = self._run.execute(query).fetchnumpy()
        columns = {f"{part}.node": self._numbers_of(found["node"])}
        for short in wanted:
            data = found[short]
            columns[f"{part}.{short}"] = (
                self._numbers_of(data)
                if short in ("cell", "peer")
                else np.ma.filled(data, 0).astype(SHORT.get(short, "<f4"))
            )
        return columns

    def _numbers_of(self, names: Array) -> Array:
        """The numbers of nodes, -1 for none."""
        known = np.ma.filled(names, "")
        return np.fromiter((self._numbers.get(name, -1) for name in known), np.dtype("<i4"), len(known))

    def _detail(self, number: int, time: float) -> dict[str, Any]:
        signals: dict[str, Any] = {}
        for signal, about in self._scene["signals"].items():
            span = self._when(signal, time)
            if about["rows"] != "node" or span is None:
                continue
            names = [name for name in self._columns_of[signal] if name not in ("time", "node")]
            picked = ", ".join(f'"{name}"' for name in names)
            rows = self._rows(
                f'SELECT {picked} FROM "{signal}" WHERE time > ? AND time <= ? AND node::VARCHAR = ? '
                "ORDER BY time DESC LIMIT 1",
                *span,
                self._names[number],
            )
            if rows:
                signals[signal] = dict(zip(names, rows[0], strict=True))
        return {"node": number, "name": self._names[number], "signals": signals}

    def _figure(self, signal: str, column: str, number: int) -> dict[str, Any]:
        if signal == "task":
            return self._tasks(column)
        if number < 0:
            return self._signal(signal, column)
        if number >= len(self._names) or column not in self._columns_of.get(signal, ()):
            return {"times": [], "lines": {}}
        query = f'SELECT time, "{column}"::DOUBLE FROM "{signal}" WHERE node::VARCHAR = ? ORDER BY time'
        rows = self._rows(query, self._names[number])
        rows = rows[:: max(1, -(-len(rows) // POINTS))]
        return {"times": [row[0] for row in rows], "lines": {self._names[number]: [row[1] for row in rows]}}

    def _tasks(self, column: str) -> dict[str, Any]:
        width = max(self._reached, 1e-9) / BUCKETS
        value = {
            "completed": f"count(*) FILTER (status = 'completed') / {width!r}",
            "failed": f"count(*) FILTER (status <> 'completed') / {width!r}",
            "response": "avg(ended - created) FILTER (status = 'completed')",
        }[column]
        bucket = f"least(floor(ended / {width!r}), {BUCKETS - 1})"
        ended = "count(*) FILTER (status = 'completed')"
        rows = self._rows(f"SELECT {bucket} AS b, {value}, {ended} FROM tasks GROUP BY b ORDER BY b")
        if column == "response" and len(rows) > 2 and rows[-1][2] < LAST * median(row[2] for row in rows):
            rows.pop()  # the mean of the few that ended at the very end does not represent the run
        label = "mean" if column == "response" else "all"
        return {"times": [(row[0] + 0.5) * width for row in rows], "lines": {label: [row[1] for row in rows]}}

    def _signal(self, signal: str, column: str) -> dict[str, Any]:
        if column not in self._columns_of.get(signal, ()):
            return {"times": [], "lines": {}}
        every = max(1, -(-len(self._times[signal]) // POINTS))
        times = self._times[signal][::every].tolist()
        where = f'FROM "{signal}" WHERE time IN (SELECT unnest(?::DOUBLE[]))'
        nodes = [row[0] for row in self._rows(f'SELECT DISTINCT node::VARCHAR FROM "{signal}" LIMIT {FEW + 1}')]
        fixed = {node["id"] for node in self._scene["nodes"]}
        if len(nodes) <= FEW and fixed.issuperset(nodes):
            lines = {}
            for node in sorted(nodes):
                rows = self._rows(f'SELECT time, "{column}"::DOUBLE {where} AND node::VARCHAR = ?', times, node)
                values = dict(rows)
                lines[node] = [values.get(time) for time in times]
            return {"times": times, "lines": lines}
        counter = self._scene["signals"][signal]["columns"][column]["role"] == "counter"
        picked = f'sum("{column}"), 0' if counter else f'avg("{column}"::DOUBLE), max("{column}"::DOUBLE)'
        rows = self._rows(
            f'SELECT time, {picked} {where} AND isfinite("{column}"::DOUBLE) GROUP BY time ORDER BY time', times
        )
        labels = ("all",) if counter else ("mean", "max")
        lines = {label: [float(row[i + 1]) for row in rows] for i, label in enumerate(labels)}
        return {"times": [row[0] for row in rows], "lines": lines}

    def _map_lines(self) -> list[Line]:
        """Streets and other lines under the map, round about where anything has been."""
        places = [node["at"][:2] for node in self._scene["nodes"] if node["at"] is not None]
        if "mobility" in self._run.signals:
            query = "SELECT min(x), min(y), max(x), max(y) FROM mobility WHERE isfinite(x) AND isfinite(y)"
            west, south, east, north = self._rows(query)[0]
            places += [] if west is None else [[west, south], [east, north]]
        if not places:
            return []
        xs, ys = zip(*places, strict=True)
        margin = 0.1 * max(max(xs) - min(xs), max(ys) - min(ys), 1000.0)
        return map_lines(self.folder, (min(xs) - margin, min(ys) - margin, max(xs) + margin, max(ys) + margin))

    def _trails(self) -> list[float]:
        """Places that moving nodes passed, as x, y, x, y, ... in whole steps of the map."""
        if "mobility" not in self._columns_of or not len(self._times["mobility"]):
            return []
        with self._lock:
            rows = self._rows("SELECT min(x), max(x), min(y), max(y) FROM mobility WHERE isfinite(x + y)")
            if rows[0][0] is None:
                return []
            west, east, south, north = rows[0]
            grain = max(max(east - west, north - south) / 400, 0.1)
            found = self._rows(
                f"SELECT DISTINCT round(x / {grain!r}) * {grain!r}, round(y / {grain!r}) * {grain!r} FROM mobility "
                f"WHERE isfinite(x + y) LIMIT {TRAILS}"
            )
        return [round(value, 1) for row in sorted(found) for value in row]


def _infinities(data: Any) -> Any:  # noqa: ANN401 - JSON values
    """A plan as it was before JSON took its infinities away."""
    if isinstance(data, dict):
        return {
            key: math.inf if value is None and key in UNLIMITED else _infinities(value) for key, value in data.items()
        }
    return [_infinities(item) for item in data] if isinstance(data, list) else data

"""One recording of a scenario: what was measured in it, by part of the data, and what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import ScenarioError
from cosim.contract.signals import CATALOGUE
from cosim.contract.signals import Signal as Described
from cosim.contract.units import show
from cosim.scenario.calibrate import SPACING, CalibrateBlock, ObservedBlock, PartBlock, RecordingBlock
from cosim.scenario.load import Loaded
from cosim.sources.tables.findings import Finding, as_warnings
from cosim.sources.tables.table import Table, read
from cosim.sources.tables.timing import apart
from cosim.twin.problem import MeasuredSignal
from cosim.twin.scenario.replay import WHOLE, Span, Tasks, tasks_of_run, tasks_of_table
from cosim.twin.telemetry.hygiene import examine, share_of
from cosim.twin.telemetry.measured import RecordedSeries, factor_of, origins, recorded, run_table, table_rows, unit_of
from cosim.twin.telemetry.quantities import Codes, Quantity, Rows, ValuePairing, spacings

if TYPE_CHECKING:
    from cosim.results.load import Run

Pair = tuple[Quantity, ValuePairing]  # what is compared, and how
Pairs = Mapping[str, Pair]
_FIT, _HELD_BACK = "fit", "held-back"


class EmptyError(ScenarioError):
    """Nothing that could be compared was measured in a span of time."""


class RecordingReader:
    """Reads one recording, examines it and cuts it into parts."""

    def __init__(
        self,
        loaded: Loaded,
        name: str = "",
        block: RecordingBlock | None = None,
        *,
        run: Path | None = None,
        window: Span = WHOLE,
        span: Span = WHOLE,
    ) -> None:
        """`run` takes the place of the runs that the scenario names; of it only `span` counts, from `window` on."""
        self.name, self.loaded = name, loaded
        self._source, self._followed, self._window, self._span = block, run, window, span
        assert loaded.scenario.calibrate is not None
        self.block: CalibrateBlock = loaded.scenario.calibrate
        self._runs: dict[str, Run] = {}
        self.tables: dict[str, Table] = {}
        self.nodes = Codes([node.id for node in loaded.world.nodes])
        self.workloads = Codes(list(loaded.scenario.workloads))
        self.sources: list[str] = []
        self.warnings: list[str] = []
        self.assumptions: list[str] = []
        self._origin: dict[str, Literal["measured", "modelled"]] = {}
        self.unpaired: set[str] = set()  # signals whose pairs would differ by chance
        self._findings: dict[str, list[Finding]] = {}
        self._usual: dict[str, frozenset[str]] = {}
        self._zero = 0.0  # s since 1970 that is time 0
        described: dict[str, Described] = dict(CATALOGUE)
        for used in loaded.adapters.values():
            described.update({signal.name: signal for signal in used.kind.signals_of(used.config)})
        self._units = {f"{s.name}.{c.name}": c.unit for s in described.values() for c in s.columns}
        self.tasks: Tasks | None = None
        self.series = self._read()

    # Reading.

    def run(self, text: str, at: str) -> Run:
        if text not in self._runs:
            self._runs[text] = recorded(self._followed or self.loaded.path.parent / text, at)
        return self._runs[text]

    def placed_run(self) -> Run:
        """The run whose tasks are replayed."""
        assert self.block.replay is not None
        return self.run(self._sourced(self.block.replay.run, None)[0] or "", "calibrate.replay.run")

    @property
    def places(self) -> bool:
        """Whether the placement of tasks is replayed, which only a run knows."""
        replay = self.block.replay
        return replay is not None and replay.placement and self._sourced(replay.run, replay.file)[0] is not None

    def _sourced(self, run: str | None, file: str | None) -> tuple[str | None, str | None]:
        return (run, file) if self._source is None else (self._source.run, self._source.file)

    def _table(self, file: str) -> Table:
        if file not in self.tables:
            self.tables[file] = table = read(self.loaded.path.parent / file)
            self.warnings += [f"{table.path.name}: {what}" for what in table.left_out]
        return self.tables[file]

    def _read(self) -> dict[str, RecordedSeries]:
        found = {name: self._one(name, one) for name, one in self.block.observed.items()}
        replay = self.block.replay
        absolute = [one.absolute for one in found.values() if one.timed]
        if replay is not None:
            _, file = self._sourced(replay.run, replay.file)
            if file is not None:
                findings: list[Finding] = []
                devices = {
                    name: [node.id for node in self.loaded.world.select(load.source)]
                    for name, load in self.loaded.scenario.workloads.items()
                }
                self.tasks, since_1970 = tasks_of_table(self._table(file), replay, devices, self.nodes, findings)
                absolute.append(since_1970)
                self.warnings += as_warnings(findings)
            else:
                self.tasks = tasks_of_run(self.placed_run(), self.loaded.scenario.workloads, replay.sizes, self._window)
        if len(set(absolute)) > 1:
            message = "some tables have times since 1970, others count from a start of their own"
            raise self._wrong("observed", message, "give all of them the same kind of times")
        if absolute and absolute[0]:
            found = self._since_origin(found)
        if self._span != WHOLE:
            begin, end = self._window[0], self._span[1]
            return {
                name: replace(s, rows=replace(s.rows, times=s.rows.times - begin)).only(
                    (s.rows.times >= begin) & (s.rows.times < end)
                )
                for name, s in found.items()
            }
        found = {name: self._examined(name, self._in_time(name, one)) for name, one in found.items()}
        self._periods(found)
        return found

    def _since_origin(self, found: dict[str, RecordedSeries]) -> dict[str, RecordedSeries]:
        """Times count from the earliest row of all tables of the recording."""
        first = [float(np.nanmin(s.rows.times)) for s in found.values() if s.timed and len(s.rows.times)]
        first += [rows[0][0] for rows in (self.tasks or {}).values() if rows]
        self._zero = min(first)
        if self.tasks is not None:
            self.tasks = {n: [(row[0] - self._zero, *row[1:]) for row in rows] for n, rows in self.tasks.items()}
        return {n: replace(s, rows=replace(s.rows, times=s.rows.times - self._zero)) for n, s in found.items()}

    def _one(self, name: str, one: ObservedBlock) -> RecordedSeries:
        at = f"calibrate.observed.{name}"
        table, _, column = one.signal.partition(".")
        chosen = None
        if one.nodes is not None:
            ids = [node.id for node in self.loaded.world.select(one.nodes)]
            chosen = tuple(self.nodes(ids).tolist())
        loads = None if one.workloads is None else tuple(self.workloads(one.workloads).tolist())
        quantity = Quantity(table, column, chosen, loads)
        run_name, file = self._sourced(one.run, one.file)
        if file is not None:
            findings: list[Finding] = []
            source = self._table(file)
            said, wanted = source.units.get(one.column or column), unit_of(one.signal, self._units)
            other = said is not None and one.unit is not None
            if other and factor_of(one.unit, f"{at}.unit", wanted) != factor_of(said, at, wanted):
                text = f"the file says that its values are in {said}"
                raise self._wrong(f"observed.{name}.unit", text, "leave it out")
            how = one if said is None else one.model_copy(update={"unit": said})
            got = table_rows(source, how, wanted, quantity, at, self.nodes, self.workloads, findings)
            self.sources.append(f"{self.label(name)}: {source.source}")
            self.warnings += as_warnings(findings)
            if (got.rows.nodes < 0).any() and not quantity.of_tasks and one.node is None and chosen is None:
                hint = "name one with 'nodes:', or a column of the file with 'node:'"
                raise self._wrong(f"observed.{name}", "the table does not say whose values these are", hint)
            rows = self._of_only_device(quantity, got.rows)
            if quantity.column == SPACING and quantity.of_tasks:
                rows = replace(rows, values=spacings(rows.times, rows.values))
                return replace(got, rows=rows.only(np.isfinite(rows.values)), loads=None)
            return replace(got, rows=rows)
        assert run_name is not None
        run = self.run(run_name, f"{at}.run")
        rows = quantity.of(run_table(run, quantity, self.nodes, self.workloads))
        self.sources.append(f"{self.label(name)}: {run_name}, {len(rows.values)} rows of {one.signal}")
        if "measured" not in origins(run, table):
            self._origin[name] = "modelled"
            self.warnings.append(f"'{self.label(name)}' of {run_name} was simulated, not measured")
        return RecordedSeries(quantity, rows, at)

    def _of_only_device(self, quantity: Quantity, rows: Rows) -> Rows:
        """Tasks of a table that names no devices belong to the only one that makes any."""
        if not quantity.of_tasks or not (rows.nodes < 0).all():
            return rows
        only = self._devices
        return replace(rows, nodes=np.full(len(rows.nodes), self.nodes([*only])[0])) if len(only) == 1 else rows

    @property
    def _devices(self) -> set[str]:
        """The nodes that make tasks."""
        loads = self.loaded.scenario.workloads.values()
        return {node.id for load in loads for node in self.loaded.world.select(load.source)}

    # Examination.

    def _in_time(self, name: str, one: RecordedSeries) -> RecordedSeries:
        """The rows within the simulated time; others are reported. Raises `ScenarioError` when most are outside."""
        if not one.from_file or not one.timed or not len(one.rows.times):
            return one
        end = self.loaded.scenario.run.duration + self.loaded.scenario.run.step
        outside = np.isfinite(one.rows.times) & ((one.rows.times < 0.0) | (one.rows.times > end))
        if not outside.any():
            return one
        count, reach = int(outside.sum()), float(np.nanmax(one.rows.times))
        lasts = show(self.loaded.scenario.run.duration, "time")
        where = f"{count} of {len(outside)} rows lie outside of the run, which lasts {lasts}: the last at {reach:g} s"
        if 2 * count > len(outside) and (self._cut or self.block.observed[name].paired):
            unit = "ms" if reach / 1000.0 <= end else "us"
            hint = f"write 'time-unit: {unit}' if times are such, or let the run last as long"
            raise self._wrong(f"observed.{name}", where, hint)
        of = {self.nodes.name(k) for k in np.unique(one.rows.nodes[outside]).tolist() if k >= 0}
        whose = f" (of {', '.join(sorted(of)[:4])})" if of and len(of) < len(one.nodes) else ""
        if not self._cut and not self.block.observed[name].paired:
            self.warnings.append(f"{self.label(name)}: {where}{whose}: another clock, or another length of time")
            return one
        self.warnings.append(f"{self.label(name)}: {where}{whose}; they are not compared: another clock?")
        return one.only(~outside)

    @property
    def _cut(self) -> bool:
        """Whether parts are cut by time."""
        return any(part is not None and part.timed for part in (self.block.fit, self.block.held_back))

    def _examined(self, name: str, one: RecordedSeries) -> RecordedSeries:
        """The rows without what cannot be true; a node that is left out leaves the simulated side as well."""
        rows = one.rows
        if not len(rows.values) or not np.isfinite(rows.values).any():
            return one  # reported where parts are cut
        signal = self._signal(name, rows, one.timed)
        label = self.label(name)
        loads = {label: one.loads} if one.loads is not None else None
        if one.loads is not None and np.isfinite(one.loads).any() and (share := share_of(one.loads)) != 1.0:
            what = "is a percentage" if share else "is no share of a node's time: only how it rises and falls counts"
            self.assumptions.append(f"{label}: its load goes up to {np.nanmax(one.loads):.4g} and {what}")
        cleaned, findings = examine({label: signal}, loads=loads)
        about_node = {"lying node", "no values", "constant"}
        self._findings[name] = [f for f in findings if one.from_file or f.kind in about_node]
        self.warnings += as_warnings(self._findings[name])
        values = cleaned[label].values
        out = [k for k in one.nodes if not np.isfinite(values[rows.nodes == k]).any()]
        one = replace(one, rows=replace(rows, values=values)).only(~np.isin(rows.nodes, out))
        if out and one.nodes:
            one = self.without(one, out)
        if one.quantity.of_tasks or not one.nodes:
            return one
        lacking = [k for k in one.quantity.nodes or () if k not in one.nodes]  # requested, and no rows of them
        if lacking:
            names = ", ".join(self.nodes.name(k) for k in lacking[:6])
            self.warnings.append(f"{label}: no rows of {names}; left out of the simulated side too")
        return replace(one, quantity=replace(one.quantity, nodes=one.nodes))

    def without(self, one: RecordedSeries, out: Sequence[int]) -> RecordedSeries:
        """The series without these nodes, on both sides."""
        every = tuple(range(len(self.nodes.names))) if one.quantity.of_tasks else one.nodes
        have = one.quantity.nodes or every
        quantity = replace(one.quantity, nodes=tuple(k for k in have if k not in out))
        return replace(one, quantity=quantity).only(~np.isin(one.rows.nodes, out))

    def _periods(self, found: Mapping[str, RecordedSeries]) -> None:
        """Signals of one recording cover the same time; one that does not has another clock, or a gap."""
        spans = {
            self.label(name): one.rows.times[np.isfinite(one.rows.times)]
            for name, one in found.items()
            if one.timed and one.from_file and len(one.rows.times)
        }
        self.warnings += [f"{name}: {message}" for name, message in apart(spans, 3.0, "signals").items()]

    # Parts.

    def parts(self, held_back: bool | None) -> dict[str, Pairs]:
        """Part of the data -> signal -> what it is compared with; a given `held_back` puts all of it into one part.

        Raises `ScenarioError` for an empty part.
        """
        windows: tuple[Span | None, Span | None]
        if held_back is not None:
            windows = (None, WHOLE) if held_back else (WHOLE, None)
        elif self._span != WHOLE:
            windows = (self._span[0] - self._window[0], math.inf), None
        else:
            windows = self._windows(self.block.fit, self.block.held_back)
        apart_nodes, chosen_nodes = self._nodes_of(self.block.held_back), self._nodes_of(self.block.fit)
        found: dict[str, Pairs] = {}
        for part, window in zip((_FIT, _HELD_BACK), windows, strict=True):
            if window is None:
                continue
            pairs: dict[str, Pair] = {}
            for name, one in self.series.items():
                if apart_nodes is not None and not one.quantity.of_tasks:
                    inside = np.isin(one.rows.nodes, apart_nodes)
                    one = self._of_nodes(one, inside if part == _HELD_BACK else ~inside)
                if chosen_nodes is not None and part == _FIT and not one.quantity.of_tasks:
                    one = self._of_nodes(one, np.isin(one.rows.nodes, chosen_nodes))
                pairs |= self._pairs(name, one, window, part)
            if pairs:
                found[part] = pairs
        return found

    def _nodes_of(self, part: PartBlock | None) -> list[int] | None:
        if part is None or part.nodes is None:
            return None
        ids = [node.id for node in self.loaded.world.select(part.nodes)]
        if not ids:
            raise self._wrong("held-back.nodes", f"'{part.nodes}' selects no node", "")
        return [int(k) for k in self.nodes(ids)]

    def _of_nodes(self, one: RecordedSeries, kept: NDArray[np.bool_]) -> RecordedSeries:
        left = one.only(kept)
        return replace(left, quantity=replace(left.quantity, nodes=left.nodes or (-1,)))

    def _pairs(self, name: str, one: RecordedSeries, window: Span, part: str) -> dict[str, Pair]:
        declared = self.block.observed[name]
        paired = self.block.replay is not None if declared.paired is None else declared.paired
        paired = paired and name not in self.unpaired
        rows = one.rows
        if not one.timed:
            if declared.paired:
                hint = "name the column of the times with 'time:', or leave 'paired' out"
                raise self._wrong(f"observed.{name}", "has no times, so nothing can be paired", hint)
            if self._cut and part == _FIT:
                self.warnings.append(f"{self.label(name)}: the table has no times; all of it is fitted")
            if part == _HELD_BACK and self._cut:
                return {}
            rows, paired = replace(rows, times=np.full(len(rows.times), max(window[0], 0.0))), False
        if paired:
            self._can_pair(name, one)
        made: dict[str, Pair] = {}
        groups = self._split(name, replace(one, rows=rows), paired)
        for label, quantity, own in groups:
            quantity = replace(quantity, since=window[0], until=window[1])
            pairing = ValuePairing(quantity, own, paired=paired)
            if pairing.count:
                made[label] = quantity, pairing
            elif len(groups) > 1:
                self.warnings.append(f"{label}: nothing was measured in the part '{part}'; left out of it")
        if not made:
            if self._span != WHOLE:
                raise EmptyError(f"nothing was measured of '{name}' from {self._span[0]:g} to {self._span[1]:g} s")
            raise self._wrong(
                f"observed.{name}", f"nothing was measured in the part '{part}'", "look at 'fit' and 'held-back'"
            )
        return made

    def _split(self, name: str, one: RecordedSeries, paired: bool) -> list[tuple[str, Quantity, Rows]]:
        """A distribution for each node, where values are free by node or it is asked for; else all in one."""
        declared = self.block.observed[name]
        by_node = declared.by == "node" or (declared.by is None and self._by_node and not one.quantity.of_tasks)
        label = self.label(name)
        if not by_node or paired or self._span != WHOLE:
            return [(label, one.quantity, one.rows)]
        if not one.nodes:
            hint = "name its column with 'node:', or share the value: 'share: kind' or 'share: all'"
            raise self._wrong(f"observed.{name}", "values are free by node, and its rows name no node", hint)
        return [
            (f"{label} {self.nodes.name(k)}", replace(one.quantity, nodes=(k,)), one.rows.only(one.rows.nodes == k))
            for k in one.nodes
        ]

    @property
    def _by_node(self) -> bool:
        return any(
            free.share == "node" or (free.share == "each" and path.startswith("nodes."))
            for path, free in self.block.free.items()
        )

    def _can_pair(self, name: str, one: RecordedSeries) -> None:
        """Raises `ScenarioError` for tasks that the simulation does not make again."""
        if not one.quantity.of_tasks or self.block.replay is not None:
            if self.block.replay is None and self.block.observed[name].paired:
                drawn = [n for n, w in self.loaded.scenario.workloads.items() if not w.arrivals.file]
                if drawn:
                    text = f"{self.label(name)}: paired by time, but the arrivals of '{drawn[0]}' are drawn by chance"
                    self.warnings.append(f"{text} and not replayed: different loads are compared")
            return
        drawn = [n for n, w in self.loaded.scenario.workloads.items() if w.arrivals.law != "trace"]
        if drawn:
            hint = "add 'replay: {file: TABLE}', or leave 'paired' out to compare distributions"
            message = f"tasks are paired, but those of workload '{drawn[0]}' are drawn by chance: none is the same"
            raise self._wrong(f"observed.{name}", message, hint)
        if (one.rows.workloads < 0).any():
            raise self._wrong(f"observed.{name}", "the table does not say of which workload its tasks are",
                              "write 'workloads: [NAME]', or a column 'workload'")  # fmt: skip
        if (one.rows.nodes < 0).any() and len(self._devices) > 1:
            raise self._wrong(f"observed.{name}", "the table does not say which device made its tasks",
                              "name the column with 'node:'")  # fmt: skip

    def _windows(self, fit: PartBlock, held_back: PartBlock | None) -> tuple[Span, Span | None]:
        """(from, until) in s of what is fitted and what is held back. Raises `ScenarioError` when they overlap."""
        known = [s.rows.times[np.isfinite(s.rows.times)] for s in self.series.values() if s.timed]
        end = max((float(times.max()) for times in known if len(times)), default=0.0)
        fitted = (fit.since or 0.0, np.inf if fit.until is None else fit.until)
        if fit.share is not None:
            fitted = 0.0, fit.share * end
        if held_back is not None:
            if held_back.nodes is not None and not held_back.timed:
                return fitted, fitted
            kept = (held_back.since or 0.0, np.inf if held_back.until is None else held_back.until)
            if held_back.share is not None:
                kept = (1.0 - held_back.share) * end, np.inf
        elif fitted[1] < end:
            kept = fitted[1], np.inf
        else:
            return fitted, None
        if max(fitted[0], kept[0]) < min(fitted[1], kept[1]):
            if not fit.timed:
                return (0.0, kept[0]), kept
            hint = "the result must be judged on data that the search has not seen"
            raise self._wrong("held-back", "overlaps with 'fit'", hint)
        return fitted, kept

    # Answers.

    def signals(self, pairs: Pairs) -> dict[str, MeasuredSignal]:
        found = {}
        for label, (_, pairing) in pairs.items():
            name = self.declared(label)
            split = sum(self.declared(other) == name for other in pairs)
            one = self._signal(name, pairing.measured, True, paired=pairing.paired)
            found[label] = replace(one, weight=self.block.observed[name].weight / split)
        return found

    def _signal(self, name: str, rows: Rows, timed: bool, paired: bool = False) -> MeasuredSignal:
        bags = len(rows.times) > len(np.unique(np.column_stack([rows.times, rows.nodes]), axis=0))
        # None for tasks made at once (a clock that stands still looks alike), and for spacings, which only a server
        # that is busy has.
        spaced = self.block.observed[name].signal == f"task.{SPACING}"
        times = None if bags or spaced or not timed else rows.times
        groups = None if (rows.nodes < 0).any() else tuple(self.nodes.name(k) for k in rows.nodes.tolist())
        unit = unit_of(self.block.observed[name].signal, self._units)
        origin, usual = self._origin.get(name, "measured"), self._usual.get(name, frozenset())
        return MeasuredSignal(rows.values, unit, paired, 1.0, origin, times, groups, usual)

    def label(self, name: str) -> str:
        """The signal's name, after that of the recording where there are several."""
        return f"{self.name} {name}" if self.name else name

    def declared(self, label: str) -> str:
        """The name under `observed` of a signal."""
        return next(name for name in self.block.observed if f"{label} ".startswith(f"{self.label(name)} "))

    def excuse(self, name: str, kinds: frozenset[str]) -> None:
        """Drop the findings of these kinds about a signal: simulations of it show them as well."""
        for line in as_warnings(self._findings.get(name, [])):
            self.warnings.remove(line)
        self._findings[name] = [f for f in self._findings.get(name, []) if f.kind not in kinds]
        self.warnings += as_warnings(self._findings[name])
        self._usual[name] = kinds

    def _wrong(self, at: str, message: str, hint: str) -> ScenarioError:
        where = f"recording '{self.name}': " if self.name else ""
        return ScenarioError(self.loaded.problem(f"calibrate.{at}", where + message, hint))

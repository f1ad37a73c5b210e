"""A scenario with a block `calibrate` as a calibration problem.

Scenarios of the continuum alone are run in batches of thousands per second (`cosim.twin.batched`) as
far as the free fields allow; all others are run whole (`cosim.twin.whole`).
"""

from __future__ import annotations

import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cosim.errors import Problem as Mistake
from cosim.errors import ScenarioError
from cosim.scenario.calibrate import ObservedBlock, PartBlock
from cosim.scenario.free import Free, free_values
from cosim.scenario.load import Loaded, load
from cosim.telemetry.signals import CATALOGUE
from cosim.telemetry.signals import Signal as Described
from cosim.twin.batched import BatchedRuns, Pairs
from cosim.twin.effects import NotBatchableError
from cosim.twin.hygiene import vetted
from cosim.twin.measured import file_rows, origins, recorded, run_table, unit_of
from cosim.twin.problem import Case, Problem, Signal
from cosim.twin.quantities import Codes, Pairing, Quantity, Rows
from cosim.twin.replay import WHOLE, Placed, Span, shifted, traces
from cosim.twin.space import Parameter, Prior, Space, Value
from cosim.twin.whole import WholeRuns
from cosim.units import show

if TYPE_CHECKING:
    from cosim.results.load import Run

Floats = NDArray[np.float64]
Simulator = Callable[[Floats, int, Pairs], dict[str, Floats]]
_KEPT = 8  # answers that are kept: fit and held-back data are simulated by the same runs
_WHOLE = 2.0  # s of CPU that a run of its own is taken to cost until one was made


class EmptyError(ScenarioError):
    """Nothing that could be compared was measured in a span of time."""


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """A scenario's calibration: the problem, and what its answer means in the scenario."""

    problem: Problem
    free: tuple[Free, ...]
    how: str  # in batches, or run by run and why
    conditions: Mapping[str, tuple[str, str]]  # dotted path -> between which values it lay in what was recorded
    simulator: Simulator

    @property
    def failures(self) -> list[str]:
        """Why runs gave nothing so far, each once."""
        return self.simulator.failures if isinstance(self.simulator, WholeRuns) else []

    def settings(self, told: Mapping[str, Value]) -> dict[str, Any]:
        """Dotted path -> value as the scenario has it, for the values of an answer."""
        found: dict[str, Any] = {}
        for one in self.free:
            value = told[one.name]
            written = value if one.choices else one.form.text(float(value))
            for keys in one.members:
                found[".".join(map(str, keys))] = written
        return found


def study(
    scenario: Path, overrides: Sequence[str] = (), *, folder: Path, workers: int | None = None, whole: bool = False,
    run: Path | None = None, span: Span = WHOLE, warm: float = 0.0,
) -> Study:  # fmt: skip
    """The calibration that `scenario` declares; `folder` keeps traces and what runs gave.

    `run` takes the place of the recorded runs that the scenario names, and of it only the times of
    `span` (s) are fitted, after `warm` s that are simulated before; nothing is held back then. `whole`
    runs it run by run in any case. Raises `ScenarioError` with everything that is wrong.
    """
    loaded = load(scenario, overrides)
    block = loaded.scenario.calibrate
    if block is None or block.job is not None:
        raise ScenarioError(loaded.problem("", "has no block 'calibrate' with free values", "see 'cosim calibrate -h'"))
    configs = {name: used.config for name, used in loaded.adapters.items()}
    free, _ = free_values(loaded.scenario, loaded.root, loaded.world, configs)
    window = (max(span[0] - warm, 0.0), span[1]) if span != WHOLE else WHOLE
    measured = _Measured(loaded, run, window, span)
    settings = list(overrides)
    if span != WHOLE:
        settings += _moved(loaded, window)
    place = None
    if block.replay is not None:
        recording = measured.run(block.replay.run, "calibrate.replay.run")
        settings += traces(loaded, recording, block.replay.sizes, folder / "traces", window)
        if block.replay.placement:  # a scheduler is made when its system is known
            place = lambda prepared: Placed(recording, prepared, window[0])  # noqa: E731
    parts = measured.parts()
    tables = sorted({quantity.table for pairs in parts.values() for quantity, _ in pairs.values()})
    simulator: Simulator
    try:
        if whole:
            raise NotBatchableError("asked for")
        simulator = BatchedRuns(loaded.path, settings, free, tables=tables, place=place, workers=workers)
        how = "in batches"
    except NotBatchableError as error:
        if place is not None:
            hint = "write 'placement: false': then the scenario's own scheduler decides"
            message = f"the placement can only be replayed in batches, which cannot be: {error}"
            raise ScenarioError(loaded.problem("calibrate.replay", message, hint)) from None
        simulator = WholeRuns(
            loaded.path, settings, free, folder=folder, nodes=measured.nodes, workloads=measured.workloads,
            workers=workers or 0,
        )  # fmt: skip
        how = f"run by run, as {error}"
    shared = _Shared(simulator, parts)
    space = Space([_parameter(one) for one in free])
    cost = _cost(shared, space, simulator) if span == WHOLE else _WHOLE
    cases = {name: Case(measured.signals(pairs), shared.part(name), _times(pairs)) for name, pairs in parts.items()}
    paired = all(signal.paired for signal in cases["fit"].observed.values())
    problem = Problem(
        loaded.scenario.name,
        space,
        cases["fit"],
        cases.get("held-back"),
        deterministic=paired and block.replay is not None and all(one.kind == "real" for one in free),
        cost=cost,
        assumptions=_assumptions(loaded, how),
        sources=tuple(measured.sources),
        warnings=tuple(measured.warnings),
    )
    if span != WHOLE:  # a whole one is examined when it is calibrated
        try:
            problem = vetted(problem)
        except ScenarioError as error:
            raise EmptyError(str(error)) from None
    return Study(problem, tuple(free), how, measured.conditions(), simulator)


def _moved(loaded: Loaded, window: Span) -> list[str]:
    """Overrides that let a run be of a span of time only. Raises `ScenarioError` for what has no part."""
    step = loaded.scenario.run.step
    length = math.ceil((window[1] - window[0]) / step - 1e-9) * step
    events = loaded.data.get("events") or []
    return [f"run.duration={json.dumps(show(length, 'time'))}", f"events={json.dumps(shifted(events, window))}"]


def _parameter(free: Free) -> Parameter:
    prior = Prior() if free.prior is None else Prior("normal", *free.prior)
    unit = free.form.unit if not free.choices else ""
    names = tuple(".".join(map(str, keys)) for keys in free.members)
    return Parameter(
        free.name, free.low, free.high, free.kind, free.scale, unit, free.start, prior, free.choices, names
    )


def _cost(shared: _Shared, space: Space, simulator: Simulator) -> float:
    """s of CPU per run, measured. Raises `ScenarioError` when the scenario as it stands cannot be simulated."""
    start = space.start[None]
    found = shared.run(start, 0)
    if not all(np.isfinite(rows).any() for rows in found.values()):
        failures = simulator.failures if isinstance(simulator, WholeRuns) else []
        empty = next(name for name, rows in found.items() if not np.isfinite(rows).any())
        why = failures[0] if failures else f"no value of '{empty.partition(' ')[2]}' came out"
        raise ScenarioError(
            Mistake(f"the scenario with its values before calibration gives nothing: {why}", "calibrate")
        )
    if isinstance(simulator, WholeRuns):
        return max(simulator.seconds, default=_WHOLE)
    begun = time.process_time()
    shared.run(np.repeat(start, 4, axis=0), 1)
    return (time.process_time() - begun) / 4


def _assumptions(loaded: Loaded, how: str) -> tuple[str, ...]:
    block = loaded.scenario.calibrate
    assert block is not None
    found = ["everything but the free values is as the scenario says", f"simulated {how}"]
    if block.replay is not None:
        what = ", ".join(["arrivals", *block.replay.sizes, *(["placement"] if block.replay.placement else [])])
        found.append(f"replayed from {block.replay.run}: {what}")
    return tuple(found)


def _times(pairs: Mapping[str, tuple[Quantity, Pairing]]) -> str:
    """Which part of the time signals are of."""
    since, until = next(((one.since, one.until) for one, _ in pairs.values()), (0.0, math.inf))
    if math.isfinite(until):
        return f"{since:g} to {until:g} s"
    return f"from {since:g} s on" if since > 0.0 else "all times"


class _Shared:
    """Simulates once what several parts of the data ask for."""

    def __init__(self, simulator: Simulator, parts: Mapping[str, Pairs]) -> None:
        self._simulator = simulator
        self._parts = parts
        self._pairs = {f"{part} {name}": pair for part, pairs in parts.items() for name, pair in pairs.items()}
        self._kept: OrderedDict[tuple[bytes, int], dict[str, Floats]] = OrderedDict()

    def run(self, values: Floats, seed: int) -> dict[str, Floats]:
        values = np.ascontiguousarray(np.atleast_2d(values), np.float64)
        key = values.tobytes(), seed
        if key not in self._kept:
            self._kept[key] = self._simulator(values, seed, self._pairs)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def part(self, name: str) -> Callable[[Floats, int], Mapping[str, Floats]]:
        """The `simulate` of one part."""

        def simulate(values: Floats, seed: int) -> Mapping[str, Floats]:
            found = self.run(values, seed)
            return {signal: found[f"{name} {signal}"] for signal in self._parts[name]}

        return simulate


class _Measured:
    """Reads what was measured; collects what is to be said about it."""

    def __init__(self, loaded: Loaded, run: Path | None = None, window: Span = WHOLE, span: Span = WHOLE) -> None:
        self._loaded, self._followed, self._window, self._span = loaded, run, window, span
        self._runs: dict[str, Run] = {}
        self.nodes = Codes([node.id for node in loaded.world.nodes])
        self.workloads = Codes(list(loaded.scenario.workloads))
        self.sources: list[str] = []
        self.warnings: list[str] = []
        self._origin: dict[str, Literal["measured", "modelled"]] = {}
        described: dict[str, Described] = dict(CATALOGUE)
        for used in loaded.adapters.values():
            described.update({signal.name: signal for signal in used.kind.signals_of(used.config)})
        self._units = {f"{s.name}.{c.name}": c.unit for s in described.values() for c in s.columns}

    def run(self, text: str, at: str) -> Run:
        if text not in self._runs:
            self._runs[text] = recorded(self._followed or self._loaded.path.parent / text, at)
        return self._runs[text]

    def conditions(self) -> dict[str, tuple[str, str]]:
        """The sizes of the tasks that were recorded, by the field of their law."""
        found: dict[str, tuple[str, str]] = {}
        for run in self._runs.values():
            if "task" not in run.signals:
                continue
            for name in self._loaded.scenario.workloads:
                for field in ("input", "output"):
                    query = f'SELECT min("{field}"), max("{field}") FROM task WHERE workload = ?'
                    row = run.execute(query, [name]).fetchone()
                    if row is not None and row[0] is not None and row[1] > 0.0:
                        found[f"workloads.{name}.{field}"] = show(row[0], "bytes"), show(row[1], "bytes")
        return found

    def parts(self) -> dict[str, dict[str, tuple[Quantity, Pairing]]]:
        """Part of the data -> signal -> what it is compared with. Raises `ScenarioError` for an empty part."""
        block = self._loaded.scenario.calibrate
        assert block is not None
        rows = {name: self._rows(name, one) for name, one in block.observed.items()}
        if self._span != WHOLE:
            begin = self._window[0]
            rows = {
                name: (quantity, replace(r, times=r.times - begin).only((r.times >= begin) & (r.times < self._span[1])))
                for name, (quantity, r) in rows.items()
            }
            windows: tuple[Span, Span | None] = (self._span[0] - begin, math.inf), None
        else:
            windows = self._windows(block.fit, block.held_back, rows)
        fit, held_back = windows
        found: dict[str, dict[str, tuple[Quantity, Pairing]]] = {}
        for part, window in (("fit", fit), ("held-back", held_back)):
            if window is None:
                continue
            found[part] = {}
            for name, (quantity, measured) in rows.items():
                one = block.observed[name]
                inside = replace(quantity, since=window[0], until=window[1])
                paired = block.replay is not None if one.paired is None else one.paired
                if np.isnan(measured.times).all():  # a table without times belongs to what is fitted
                    if part == "held-back":
                        continue
                    measured = replace(measured, times=np.full(len(measured.times), max(window[0], 0.0)))
                    paired = False
                pairing = Pairing(inside, measured, paired=paired)
                if pairing.count:
                    found[part][name] = inside, pairing
                elif self._span != WHOLE:
                    raise EmptyError(f"nothing was measured of '{name}' from {self._span[0]:g} to {self._span[1]:g} s")
                else:
                    self._loaded_problem(f"observed.{name}", f"nothing was measured in the part '{part}'")
            if not found[part]:
                del found[part]
        return found

    def signals(self, pairs: Pairs) -> dict[str, Signal]:
        block = self._loaded.scenario.calibrate
        assert block is not None
        found = {}
        for name, (_, pairing) in pairs.items():
            one, rows = block.observed[name], pairing.measured
            values, paired = rows.values, pairing.paired
            bags = len(rows.times) > len(np.unique(np.column_stack([rows.times, rows.nodes]), axis=0))
            times = None if bags else rows.times  # of tasks made at once; a clock that stands still looks the same
            groups = None if (rows.nodes < 0).any() else tuple(self.nodes.name(k) for k in rows.nodes.tolist())
            unit = unit_of(one.signal, self._units)
            origin = self._origin.get(name, "measured")
            found[name] = Signal(values, unit, paired, one.weight, origin, times, groups)
        return found

    def _rows(self, name: str, one: ObservedBlock) -> tuple[Quantity, Rows]:
        at = f"calibrate.observed.{name}"
        table, _, column = one.signal.partition(".")
        chosen = None
        if one.nodes is not None:
            ids = [node.id for node in self._loaded.world.select(one.nodes)]
            chosen = tuple(self.nodes(ids).tolist())
        loads = None if one.workloads is None else tuple(self.workloads(one.workloads).tolist())
        quantity = Quantity(table, column, chosen, loads)
        if one.file is not None:
            rows = file_rows(self._loaded.path.parent / one.file, one, quantity, at, self.nodes)
            self.sources.append(f"{name}: {one.file}, {len(rows.values)} rows")
            if (rows.nodes < 0).any() and not quantity.of_tasks:
                hint = f"name one with 'nodes:', or a column '{one.node}' in the file"
                raise ScenarioError(self._loaded.problem(at, "nobody knows which node these values belong to", hint))
            return quantity, rows
        assert one.run is not None
        run = self.run(one.run, f"{at}.run")
        rows = quantity.of(run_table(run, quantity, self.nodes, self.workloads))
        self.sources.append(f"{name}: {one.run}, {len(rows.values)} rows of {one.signal}")
        if "measured" not in origins(run, table):
            self._origin[name] = "modelled"
            self.warnings.append(f"'{name}' of {one.run} was simulated, not measured")
        return quantity, rows

    def _windows(
        self, fit: PartBlock, held_back: PartBlock | None, rows: Mapping[str, tuple[Quantity, Rows]]
    ) -> tuple[tuple[float, float], tuple[float, float] | None]:
        """(from, until) in s of what is fitted and what is held back. Raises `ScenarioError` when they overlap."""
        known = [r.times[np.isfinite(r.times)] for _, r in rows.values()]
        end = max((float(times.max()) for times in known if len(times)), default=0.0)
        fitted = (fit.since or 0.0, np.inf if fit.until is None else fit.until)
        if fit.share is not None:
            fitted = 0.0, fit.share * end
        if held_back is not None:
            kept = (held_back.since or 0.0, np.inf if held_back.until is None else held_back.until)
            if held_back.share is not None:
                kept = (1.0 - held_back.share) * end, np.inf
        elif fitted[1] < end:
            kept = fitted[1], np.inf
        else:
            return fitted, None
        if max(fitted[0], kept[0]) < min(fitted[1], kept[1]):
            if fit.share is None and fit.since is None and fit.until is None:
                return (0.0, kept[0]), kept
            hint = "the result must be judged on data that the search has not seen"
            raise ScenarioError(self._loaded.problem("calibrate.held-back", "overlaps with 'fit'", hint))
        return fitted, kept

    def _loaded_problem(self, at: str, message: str) -> None:
        raise ScenarioError(self._loaded.problem(f"calibrate.{at}", message, "look at 'fit' and 'held-back'"))

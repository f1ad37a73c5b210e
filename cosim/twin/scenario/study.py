"""A scenario with a block `calibrate` as a calibration problem.

Scenarios of the continuum alone are run in batches of thousands per second (`cosim.twin.scenario.batched`) as
far as the free fields allow; all others are run whole (`cosim.twin.scenario.whole`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError
from cosim.contract.records import Floats
from cosim.engine.continuum.effects import NotBatchableError
from cosim.scenario.free import Free
from cosim.scenario.load import Loaded, load
from cosim.twin.fitting.methods import EXPENSIVE
from cosim.twin.judgement.pairing import JudgedPairing
from cosim.twin.judgement.subject import Judged
from cosim.twin.judgement.table import TABLE
from cosim.twin.problem import CalibrationProblem, Case
from cosim.twin.scenario import checking, rows
from cosim.twin.scenario.batched import BatchedRuns, Pairs, free_of
from cosim.twin.scenario.recording import EmptyError, RecordingReader
from cosim.twin.scenario.replay import WHOLE, ReplayPlacement, Span, moved, traces
from cosim.twin.scenario.whole import WholeRuns
from cosim.twin.space import Parameter, Prior, Space
from cosim.twin.telemetry.hygiene import vetted
from cosim.twin.telemetry.quantities import Quantity, Rows, ValuePairing

Simulator = Callable[[Floats, int, Pairs], dict[str, Floats]]
_POINTS = 24  # of the bounds at which it is asked whether the scenario can make what was measured


@dataclass(frozen=True, slots=True, eq=False)
class ScenarioStudy:
    """A scenario's calibration: the problem, and what its answer means in the scenario."""

    problem: CalibrationProblem
    free: tuple[Free, ...]
    how: str  # in batches, or run by run and why
    simulators: tuple[Simulator, ...]

    @property
    def failures(self) -> list[str]:
        """Why runs gave nothing so far, each once."""
        return [why for one in self.simulators if isinstance(one, WholeRuns) for why in one.failures]


def study(
    scenario: Path, overrides: Sequence[str] = (), *, folder: Path, workers: int | None = None, whole: bool = False,
    run: Path | None = None, span: Span = WHOLE, warm: float = 0.0,
    laws: Mapping[tuple[str, str], Parameter] | None = None,
) -> ScenarioStudy:  # fmt: skip
    """The calibration that `scenario` declares; `folder` keeps traces and what runs gave.

    `run` takes the place of the recorded runs that the scenario names, and of it only the times of
    `span` (s) are fitted, after `warm` s that are simulated before; nothing is held back then. `whole`
    runs it run by run in any case. `laws` are free parameters of the engine (workload, field) beyond those of the
    scenario, which only runs in batches have. Raises `ScenarioError` with everything that is wrong.
    """
    laws = laws or {}
    loaded = load(scenario, overrides)
    block = loaded.scenario.calibrate
    if block is None or block.job is not None:
        raise ScenarioError(loaded.problem("", "has no block 'calibrate' with free values", "see 'cosim calibrate -h'"))
    free = free_of(loaded)
    space = Space([*(_parameter(one) for one in free), *laws.values()])
    window = (max(span[0] - warm, 0.0), span[1]) if span != WHOLE else WHOLE
    names = list(block.recordings) if block.recordings and run is None else [""]
    sides = [
        _Side(
            loaded,
            name,
            overrides,
            free,
            space,
            folder=folder,
            workers=workers,
            whole=whole,
            run=run,
            window=window,
            span=span,
            laws=tuple(laws),
        )
        for name in names
    ]
    recordings = [side.recording for side in sides]
    cases = {}
    for part in ("fit", "held-back"):
        having = [side for side in sides if part in side.parts]
        if having:
            cases[part] = _together(part, having)
    if "fit" not in cases:
        raise ScenarioError(loaded.problem("calibrate.fit", "nothing is left to fit: all recordings are held back"))
    observed = cases["fit"].observed.values()
    paired = all(signal.paired for signal in observed)
    problem = CalibrationProblem(
        loaded.scenario.name,
        space,
        cases["fit"],
        cases.get("held-back"),
        deterministic=paired and block.replay is not None and all(one.kind == "real" for one in free),
        replayed=block.replay is not None,
        cost=sum(side.cost for side in sides),
        distance=block.distance,
        assumptions=(
            *_assumptions(loaded, "; ".join(dict.fromkeys(side.how for side in sides))),
            *(line for one in recordings for line in one.assumptions),
        ),
        sources=tuple(line for one in recordings for line in one.sources),
        warnings=tuple(dict.fromkeys([*_copies(recordings), *(line for one in recordings for line in one.warnings)])),
    )
    if span != WHOLE:  # a whole one is examined when it is calibrated
        try:
            problem = vetted(problem)
        except ScenarioError as error:
            raise EmptyError(str(error)) from None
    how = "; ".join(dict.fromkeys(side.how for side in sides))
    return ScenarioStudy(problem, tuple(free), how, tuple(side.simulator for side in sides))


def _together(part: str, sides: Sequence[_Side]) -> Case:
    """One part of the data of all recordings."""
    observed = {name: signal for side in sides for name, signal in side.recording.signals(side.parts[part]).items()}

    def simulate(values: Floats, seed: int) -> Mapping[str, Floats]:
        return {name: rows for side in sides for name, rows in side.shared.part(part)(values, seed).items()}

    judged = [side.judged(part) for side in sides]

    def figures(draw: Floats, seed: int) -> Floats:
        return np.concatenate([one.simulate(draw, seed) for one in judged])

    names = [side.recording.name for side in sides if side.recording.name]
    times = _times(sides[0].parts[part])
    return Case(
        observed,
        simulate,
        ", ".join([*names, *([times] if times != "all times" or not names else [])]),
        Judged(
            tuple(s for one in judged for s in one.subjects), np.concatenate([one.known for one in judged]), figures
        ),
        frozenset(
            name
            for side in sides
            for name, (quantity, pairing) in side.parts[part].items()
            if quantity.duration and pairing.paired
        ),
    )


def _copies(recordings: Sequence[RecordingReader]) -> list[str]:
    """Recordings that hold the same data."""
    seen: dict[str, str] = {}
    return list(
        dict.fromkeys(
            f"recordings '{seen[digest]}' and '{one.name}' hold the same data: one is a copy"
            for one in recordings
            for digest in (table.digest for table in one.tables.values())
            if seen.setdefault(digest, one.name) != one.name
        )
    )


class _Side:
    """One recording and its simulation: by values of the same parameters, under its own settings."""

    def __init__(
        self, base: Loaded, name: str, overrides: Sequence[str], free: Sequence[Free], space: Space, *, folder: Path,
        workers: int | None, whole: bool, run: Path | None, window: Span, span: Span,
        laws: Sequence[tuple[str, str]],
    ) -> None:  # fmt: skip
        block = base.scenario.calibrate
        assert block is not None
        source = block.recordings.get(name)
        settings = [*overrides, *(f"{path}={json.dumps(v)}" for path, v in (source.settings if source else {}).items())]
        loaded = load(base.path, settings) if source and source.settings else base
        self.recording = RecordingReader(loaded, name, source, run=run, window=window, span=span)
        held = block.held_back.recordings if block.held_back and block.held_back.recordings else None
        fitted = block.fit.recordings
        self._held = (
            None
            if held is None and fitted is None
            else name in (held or ()) or (fitted is not None and name not in fitted)
        )
        if self._held is False and block.fit.timed:
            self._held = None
        if span != WHOLE:
            settings += moved(loaded, window)
        if block.replay is not None:
            assert self.recording.tasks is not None
            settings += traces(loaded, self.recording.tasks, block.replay.sizes, folder / "traces", window)
        self._settings, self._free, self._space, self._laws = settings, free, space, laws
        self._folder, self._workers, self._whole, self._window = folder, workers, whole, window
        self.simulator, self.how = self._simulator(loaded)
        self.shared, self.parts = self._cut()
        self.cost = self._examine() if span == WHOLE else EXPENSIVE

    def _cut(self) -> tuple[_Shared, dict[str, Pairs]]:
        parts: dict[str, Pairs] = dict(self.recording.parts(self._held))
        return _Shared(self.simulator, parts), parts

    def _simulator(self, loaded: Loaded) -> tuple[Simulator, str]:
        place = None
        if self.recording.places:  # a scheduler is made when its system is known
            recorded = self.recording.placed_run()
            place = lambda prepared: ReplayPlacement(recorded, prepared, self._window[0])  # noqa: E731
        tables = sorted({one.quantity.table for one in self.recording.series.values()})
        try:
            if self._whole:
                raise NotBatchableError("asked for")
            made = BatchedRuns(
                loaded.path, self._settings, self._free, tables=tables, place=place, workers=self._workers,
                laws=self._laws,
            )  # fmt: skip
            return made, "in batches"
        except NotBatchableError as error:
            if self._laws:
                raise ScenarioError(Mistake(f"laws can only be free in batches, which cannot be: {error}")) from None
            if place is not None:
                hint = "write 'placement: false': then the scenario's own scheduler decides"
                message = f"the placement can only be replayed in batches, which cannot be: {error}"
                raise ScenarioError(loaded.problem("calibrate.replay", message, hint)) from None
            runs = WholeRuns(
                loaded.path, self._settings, self._free, folder=self._folder, nodes=self.recording.nodes,
                workloads=self.recording.workloads, workers=self._workers or 0,
            )  # fmt: skip
            return runs, f"run by run, as {error}"

    def _examine(self) -> float:
        """s of CPU per run, measured. Raises `ScenarioError` when the scenario cannot make what was measured."""
        start = self._space.start[None]
        shared = self.shared
        found = shared.run(start, 0)
        if not all(np.isfinite(rows).any() for rows in found.values()):
            failures = self.simulator.failures if isinstance(self.simulator, WholeRuns) else []
            empty = next(name for name, rows in found.items() if not np.isfinite(rows).any())
            why = failures[0] if failures else f"no value of '{empty.partition(' ')[2]}' came out"
            raise ScenarioError(
                Mistake(f"the scenario with its values before calibration gives nothing: {why}", "calibrate")
            )
        if isinstance(self.simulator, WholeRuns):
            pairs = [pair for part in self.parts.values() for pair in part.values()]
            if any(quantity.of_tasks and pairing.paired for quantity, pairing in pairs):
                self._unpair(found, shared.run(start, 1))
                self.shared, self.parts = self._cut()
                found = self.shared.run(start, 0)
            self._check(found)
            return max(self.simulator.seconds, default=EXPENSIVE)
        begun = time.process_time()
        other = shared.run(np.repeat(start, 4, axis=0), 1)
        cost = (time.process_time() - begun) / 4
        self._unpair(found, other)
        random = np.random.default_rng(np.random.SeedSequence([7, len(self._space)]))
        values = self._space.values(np.concatenate([self._space.units(start), self._space.sample(_POINTS - 1, random)]))
        courses = checking.courses(self.recording)
        if courses:
            made = [self.simulator(one[None], seed, courses) for seed, one in enumerate(values, 1)]
            answered = {name: np.concatenate([one[name] for one in made]) for name in courses}
            self.recording.warnings += checking.still(self.recording, courses, answered)
            for name, kinds in checking.usual(courses, answered).items():
                self.recording.excuse(name, kinds)
        self.recording.warnings += [*rows.row_warnings(self.recording), *rows.size_warnings(self.recording)]
        self.shared, self.parts = self._cut()
        self._check(self.shared.run(values, 1))
        return cost

    def _check(self, found: Mapping[str, Floats]) -> None:
        for part, pairs in self.parts.items():
            simulated = {name: found[f"{part} {name}"] for name in pairs}
            self.recording.warnings += checking.check(self.recording, pairs, simulated)

    def _unpair(self, found: Mapping[str, Floats], other: Mapping[str, Floats]) -> None:
        """Compare pairs that are drawn at random as distributions; if pairs were requested, keep them and warn."""
        block = self.recording.block
        for part, pairs in self.parts.items():
            one, two = ({name: rows[f"{part} {name}"] for name in pairs} for rows in (found, other))
            for name in checking.random_signals(one, two, pairs):
                declared = self.recording.declared(name)
                if block.observed[declared].paired is None:
                    self.recording.unpaired.add(declared)
                    text = "tasks are replayed, but what they take is drawn by chance; distributions are compared"
                    lines = self.recording.assumptions
                else:
                    text = "paired, but drawn by chance in the simulation: fitted values are bent towards less spread"
                    lines = self.recording.warnings
                if (line := f"{name}: {text}") not in lines:
                    lines.append(line)

    def judged(self, part: str) -> Judged:
        """The statistics of every node of what is not compared value by value, and of the loads of nodes."""
        recording = self.recording

        def opposite(name: str, quantity: Quantity, measured: Rows, label: str = "") -> tuple[Quantity, JudgedPairing]:
            timed = recording.series[recording.declared(name)].timed
            return quantity, JudgedPairing(
                quantity, measured, recording.nodes, label or name, recording.name, timed=timed, load=bool(label)
            )

        every = self.parts[part].items()
        pairs = {name: opposite(name, of, pairing.measured) for name, (of, pairing) in every if not pairing.paired}
        for name, quantity, share in checking.loads(recording, self.parts[part]):
            pairs[f"load of {name}"] = opposite(name, quantity, share, f"load of {name}")
        judging = [pairing for _, pairing in pairs.values()]

        def figures(draw: Floats, seed: int) -> Floats:
            found = self.simulator(draw[None], seed, pairs)
            return np.concatenate([np.empty(0), *(found[name][0] for name in pairs)]).reshape(-1, len(TABLE))

        known = np.concatenate([np.empty((0, len(TABLE))), *(one.known for one in judging)])
        return Judged(tuple(subject for one in judging for subject in one.subjects), known, figures)


def _parameter(free: Free) -> Parameter:
    prior = Prior() if free.prior is None else Prior("normal", *free.prior)
    unit = free.form.unit if not free.choices else ""
    names = tuple(".".join(map(str, keys)) for keys in free.members)
    return Parameter(
        free.name, free.low, free.high, free.kind, free.scale, unit, free.start, prior, free.choices, names,
        free.varies,
    )  # fmt: skip


def _assumptions(loaded: Loaded, how: str) -> tuple[str, ...]:
    block = loaded.scenario.calibrate
    assert block is not None
    found = ["everything but the free values is as the scenario says", f"simulated {how}"]
    if block.replay is not None:
        what = ", ".join(
            ["arrivals", *block.replay.sizes, *(["placement"] if block.replay.placement and block.replay.run else [])]
        )
        found.append(f"replayed from {block.replay.run or block.replay.file or 'every recording'}: {what}")
    return tuple(found)


def _times(pairs: Mapping[str, tuple[Quantity, ValuePairing]]) -> str:
    """Which part of the time signals are of."""
    since, until = next(((one.since, one.until) for one, _ in pairs.values()), (0.0, math.inf))
    if math.isfinite(until):
        return f"{since:g} to {until:g} s"
    return f"from {since:g} s on" if since > 0.0 else "all times"


class _Shared:
    """Simulates once what several parts of the data ask for."""

    def __init__(self, simulator: Simulator, parts: Mapping[str, Pairs]) -> None:
        self._parts = parts
        pairs = {f"{part} {name}": pair for part, pairs in parts.items() for name, pair in pairs.items()}

        @lru_cache(8)  # fit and held-back data are simulated by the same runs
        def made(values: bytes, shape: tuple[int, ...], seed: int) -> dict[str, Floats]:
            return simulator(np.frombuffer(values).reshape(shape).copy(), seed, pairs)

        self._made = made

    def run(self, values: Floats, seed: int) -> dict[str, Floats]:
        values = np.atleast_2d(np.asarray(values, np.float64))
        return self._made(values.tobytes(), values.shape, seed)

    def part(self, name: str) -> Callable[[Floats, int], Mapping[str, Floats]]:
        """The `simulate` of one part."""

        def simulate(values: Floats, seed: int) -> Mapping[str, Floats]:
            found = self.run(values, seed)
            return {signal: found[f"{name} {signal}"] for signal in self._parts[name]}

        return simulate

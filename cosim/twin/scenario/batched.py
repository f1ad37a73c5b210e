"""A scenario of the continuum alone, run thousands of times in this process with other values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import Context
from cosim.contract.errors import ScenarioError
from cosim.contract.records import Records
from cosim.contract.seeds import stream
from cosim.engine.continuum.batches import Action, Batcher
from cosim.engine.continuum.effects import LoadEffect, NotBatchableError, agree, columns, effects
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.layout import COMPLETED
from cosim.engine.continuum.prepared import HostRows, Prepared
from cosim.scenario.free import Free, free_values
from cosim.scenario.load import Loaded, load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.telemetry.quantities import Quantity, ValuePairing

if TYPE_CHECKING:
    from pathlib import Path

    from cosim.scenario.plan.plan import Plan

Floats = NDArray[np.float64]
Pairs = Mapping[str, tuple[Quantity, ValuePairing]]
SEEDS = 2**53  # seeds of runs; text with more digits is not read as a whole number
_HOST = ("running", "utilisation", "power", "energy", "cost", "completed")
_TASK = ("created", "assigned", "uploaded", "started", "computed", "ended", "input", "output", "work", "late")


def prepared(scenario: Path, overrides: Sequence[str]) -> tuple[Prepared, Plan]:
    """The engine's side of a scenario and its plan of one adapter. Raises `NotBatchableError` and `ScenarioError`."""
    loaded = load(scenario, [*overrides, "calibrate=null"])
    plan = compile_plan(loaded)
    return prepared_of(loaded, plan), plan


def prepared_of(loaded: Loaded, plan: Plan) -> Prepared:
    """The engine's side of a plan of one adapter. Raises `NotBatchableError`."""
    if len(plan.adapters) != 1:
        raise NotBatchableError(f"it has {len(plan.adapters)} adapters, and only the continuum can be run in batches")
    (one,) = plan.adapters
    used = loaded.adapters[one.name]
    if one.connect:
        raise NotBatchableError(f"adapter '{one.name}' runs elsewhere")
    context = Context(
        one.name, plan.scene, one.period * plan.step, plan.duration, one.seed, str(plan.root.resolve()), ""
    )
    found = used.kind.prepare(used.config, context, plan.events)
    if not isinstance(found, Prepared):
        raise NotBatchableError(f"adapter '{one.name}' cannot be run in batches here: fleets, real nodes, or its kind")
    return found


def free_of(loaded: Loaded) -> list[Free]:
    """The free values of a scenario that is right."""
    configs = {name: used.config for name, used in loaded.adapters.items()}
    return free_values(loaded.scenario, loaded.root, loaded.world, configs)[0]


def unbatchable(scenario: Path, overrides: Sequence[str]) -> str:
    """Why a scenario cannot be run in batches, "" when it can."""
    try:
        prepared(scenario, overrides)
    except NotBatchableError as error:
        return str(error)
    return ""


class BatchedRuns:
    """Simulates a scenario for many vectors of values. Raises `NotBatchableError` when it has to be run whole.

    `place` makes a scheduler that repeats recorded decisions, from what was prepared. `laws` are parameters of the
    engine (workload, field) whose values follow those of `free`.
    """

    def __init__(
        self,
        scenario: Path,
        overrides: Sequence[str],
        free: Sequence[Free],
        *,
        tables: Sequence[str],
        place: Callable[[Prepared], Callable[[Any, Any, Any], int]] | None = None,
        workers: int | None = None,
        laws: Sequence[tuple[str, str]] = (),
    ) -> None:
        beyond = sorted({*tables} - {"task", "host"})
        if beyond:
            raise NotBatchableError(f"signal '{beyond[0]}' is not the continuum's")
        self._base, plan = prepared(scenario, overrides)
        self._adapter = plan.adapters[0].name
        self._effects = [self._of(scenario, overrides, one) for one in free]
        self._verify(scenario, overrides, free)
        for workload, field in laws:
            name = f"workload.{self._base.workloads.index(workload)}.{field}"
            self._effects.append([LoadEffect(name, 0.0, b=1.0)])  # the value itself
        if place is not None and any(e.name == "scheduler" for some in self._effects for e in some):
            raise NotBatchableError("the scheduler is free, but the placement is replayed")
        self._tables = {*tables}
        self._lock = threading.Lock()
        self._rows: WeakKeyDictionary[Engine, HostRows] = WeakKeyDictionary()
        self._found: list[dict[str, Floats]] = []
        self._pairs: Pairs = {}
        self._batcher = Batcher(
            self._base.system,
            self._base.duration,
            scheduler=self._base.scheduler if place is None else place(self._base),
            timeline=self._timeline(),
            quantiles=(),
            measure=self._measure,
            workers=workers,
            **cast(dict[str, Any], self._base.options),
        )

    def __call__(self, values: Floats, seed: int, pairs: Pairs) -> dict[str, Floats]:
        """Signal -> (n, m) simulated values for (n, d) values; run by run as the scenario with that `run.seed`."""
        self._pairs, self._found = pairs, []
        root = np.random.SeedSequence(stream(seed % SEEDS, self._adapter))
        engine_seed = int(root.generate_state(1, np.uint64)[0])
        made = self._batcher.run(columns(self._effects, values), [engine_seed])
        order = np.broadcast_to(made["row"][:, 0], (len(values),)).astype(np.int64)
        return {name: np.stack([self._found[row][name] for row in order.tolist()]) for name in pairs}

    def _of(self, scenario: Path, overrides: Sequence[str], free: Free) -> list[LoadEffect]:
        if free.choices:
            numbers = [float(k) for k in range(len(free.choices))]
        else:
            numbers = [free.low, free.low + 0.375 * (free.high - free.low), free.high]
            if free.kind == "integer":
                numbers = sorted({float(round(number)) for number in numbers})
        try:
            tried = {x: prepared(scenario, [*overrides, *free.overrides(x)])[0] for x in numbers}
            return effects(self._base, tried, category=bool(free.choices))
        except NotBatchableError as error:
            raise NotBatchableError(f"'{free.name}': {error}") from None

    def _verify(self, scenario: Path, overrides: Sequence[str], free: Sequence[Free]) -> None:
        """Several fields at once do what each does alone. Raises `NotBatchableError` when they do not."""
        if len(free) < 2:
            return
        shares = np.random.Generator(np.random.PCG64(1)).random(len(free)).tolist()
        point = np.array([self._some(one, share) for one, share in zip(free, shares, strict=True)])
        settings = [text for one, x in zip(free, point.tolist(), strict=True) for text in one.overrides(x)]
        try:
            other, _ = prepared(scenario, [*overrides, *settings])
        except ScenarioError:
            return  # what cannot be is answered with NaN, or not asked for
        predicted = {name: float(rows[0]) for name, rows in columns(self._effects, point[None]).items()}
        if not agree(predicted, self._base, other):
            raise NotBatchableError("the free values change what one another do")

    @staticmethod
    def _some(free: Free, share: float) -> float:
        value = free.low + share * (free.high - free.low)
        return float(round(value)) if free.kind != "real" else value

    def _timeline(self) -> list[tuple[float, Action]]:
        found = list(self._base.timeline)
        if "host" in self._tables:
            count = round(self._base.duration / self._base.period)
            found += [(k * self._base.period, self._look(k)) for k in range(count + 1)]
            found.sort(key=lambda one: one[0])
        return found

    def _look(self, number: int) -> Action:
        def act(engine: Engine) -> None:
            if number == 0:
                self._rows[engine] = self._base.hosts(engine)
            self._rows[engine].look()

        return act

    def _measure(self, engine: Engine, ended: Records) -> dict[str, float]:
        """Store the values of one run; return their position."""
        end = self._base.duration
        tables: dict[str, Mapping[str, NDArray[Any]]] = {}
        if "task" in self._tables:
            tables["task"] = {
                "node": ended["device"], "workload": ended["workload"], "completed": ended["status"] == COMPLETED,
                **{name: ended[name] for name in _TASK},
            }  # fmt: skip
        if "host" in self._tables:
            rows = self._rows[engine].rows()
            tables["host"] = {
                "node": rows["slot"],
                "time": rows["time"],
                **{name: rows[name].astype(np.float64) for name in _HOST},
            }
        found = {
            name: pairing.values(quantity.of(tables[quantity.table]), end)
            for name, (quantity, pairing) in self._pairs.items()
        }
        with self._lock:
            self._found.append(found)
            return {"row": float(len(self._found) - 1)}

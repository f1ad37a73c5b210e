"""Many runs of one system that differ in some values and in their seeds, on all cores.

    result = batch(system, {"kind.0.clock": [1e9, 2e9]}, seeds=range(20), until=60.0)
    result["response.mean"]  # (2, 20) s

Every set of parameters runs under every seed, and all sets draw the same random numbers under the
same seed (common random numbers), so that their differences have little noise. A run costs hardly
more than its events: engines are not built anew, their arrays are set back. Results do not depend on
the number of workers. `cosim.engine.continuum.parameters` lists the names of parameters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.contract.records import Floats, Records
from cosim.engine.continuum import queue
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.layout import COMPLETED, STATUS_NAMES, STATUSES, KernelState
from cosim.engine.continuum.ledger import bills, cell_energy, radio_energy, read_links, read_meters, services
from cosim.engine.continuum.parameters import PRICES, Change, Tariffs, change, columns_of, follow_kinds, follow_links
from cosim.engine.continuum.snapshot import GROWING, Snapshot
from cosim.engine.continuum.system import System

Action = Callable[[Engine], None]
Measure = Callable[[Engine, Records], Mapping[str, float]]

_COUNTS = ("created", "completed", "late", "in_flight", "failed")
_LEDGERS = (
    "energy.nodes", "energy.radio", "energy.cells", "energy.links", "energy.total",
    "cost.cpu", "cost.transfer", "cost.energy", "cost.penalty", "cost.total", "events",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class BatchColumns:
    """What the runs measured: `columns[name]` is (sets of parameters, seeds).

    `created`, `completed`, `late`, `in_flight`, `failed` and `failed.CAUSE` count tasks;
    `response.mean` and `response.pNN` are s over completed tasks, NaN without any; `energy.*` is in
    J, `cost.*` in currency; further columns come from the caller's own measure.
    """

    parameters: Mapping[str, Floats]  # (sets,) each
    seeds: NDArray[np.uint64]  # (seeds,)
    columns: Mapping[str, Floats]

    def __getitem__(self, name: str) -> Floats:
        if name not in self.columns:
            raise KeyError(f"there is no column '{name}'; there are {', '.join(self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


class Replica(Engine):
    """An engine that can be set back to time 0 with other values."""

    def _begin(self) -> None:
        self._origin = {name: getattr(self.state, name).copy() for name in _RESTORED}
        both = [(getattr(self.state, name), kept) for name, kept in self._origin.items() if kept.size]
        self._bytes = [[one.reshape(-1).view(np.uint8) for one in pair] for pair in both]  # records go field by field
        self._base = Tariffs.of(self.system)
        self._tariffs = Tariffs.of(self.system)
        self._chain = np.empty(0, np.int64)
        super()._begin()

    def _make_room(self, answers: int = 1) -> None:
        super()._make_room(answers)
        if hasattr(self, "_origin"):
            for name in (*(name for name in KernelState._fields if name != "meta"), "task_room", "ended_room"):
                self._origin["meta"][name] = self.state.meta[name]

    def go_on(self, start: Snapshot, seed: int, changes: Sequence[tuple[Change, float]]) -> None:
        """Go on from the snapshot, with these changes from then on; under another seed than its own with other draws.

        What is due is due: another seed changes what sources draw after their next tasks.
        """
        self.restore(start)
        s = self.state
        if seed != int(s.meta["seed"][0]):
            s.sources["key"] += np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
            s.meta["seed"] = seed
        s.meta["done"] = 0
        self._tariffs.take(self._base)
        for one, value in changes:
            one.write(s, self._tariffs, value)

    def restart(self, seed: int, changes: Sequence[tuple[Change, float]]) -> None:
        """Begin anew under another seed, with these changes of the system."""
        s = self.state
        for state, kept in self._bytes:
            state[...] = kept
        if len(self._chain) != len(s.tasks):
            self._chain = np.arange(1, len(s.tasks) + 1)
            self._chain[-1] = -1
        s.tasks["phase"] = 0
        s.tasks["newer"] = self._chain
        s.meta["free"] = 0
        if len(s.jobs):
            s.jobs["next"] = self._chain
            s.meta["jobs_free"] = 0
        queue.clear(s.meta, s.due, s.heap, s.chunks, s.buckets)
        self._tariffs.take(self._base)
        for one, value in changes:
            one.write(s, self._tariffs, value)
        if any(one.kinds for one, _ in changes):
            follow_kinds(s)
        if any(one.links for one, _ in changes):
            follow_links(s)
        if any(one.links or one.kinds for one, _ in changes):
            self._find_routes()
        s.meta["seed"] = seed
        super()._begin()

    def books(self) -> list[float]:
        """The values of `_LEDGERS`."""
        s, tariffs = self.state, self._tariffs
        meters = read_meters(s, self._everyone)
        price = dict(zip(PRICES, tariffs.kinds[:, s.nodes["kind"]], strict=True))
        nodes = float(meters.energy.sum())
        radio = float(radio_energy(s, meters).sum())
        cells = float(cell_energy(s, meters, self.system).sum())
        carried = read_links(s)
        links = 8.0 * float((carried[0::2] + carried[1::2]) @ tariffs.links)
        power = float(self._bill(meters.energy, price["price_energy"]).sum())
        penalty = sum(service.penalty for service in services(s, self.system).values())
        costs = (
            float(meters.busy @ price["price_cpu"]),
            float(meters.transferred @ price["price_transfer"]),
            power,
            penalty,
        )
        total = nodes + radio + cells + links
        return [nodes, radio, cells, links, total, *costs, sum(costs), float(s.meta["events"][0])]

    def _bill(self, energy: Floats, price: Floats) -> Floats:
        """(nodes,) what their energy costs: by their tariff, or at the price of the kind."""
        if not self.system.tariffs:
            return energy * price
        tariff = np.array([kind.tariff for kind in self.system.kinds])[self.state.nodes["kind"]]
        return np.where(tariff >= 0, bills(self.state, self.system, energy)[1], energy * price)

    @property
    def _everyone(self) -> NDArray[np.int64]:
        return np.arange(len(self.state.nodes))


# `place`, tasks and rows are reset separately: their sizes differ from run to run.
_RESTORED = tuple(name for name in KernelState._fields if name not in GROWING)


class Batcher:
    """Runs batches of one system; keeps its engines between the calls.

    `timeline` lists (s, action) in the order of time; an action is called with the engine of a run
    when that time has come, before what else happens then (set_radio, fail, set_links, ...). `measure`
    gets the engine at the end and its rows of `cosim.engine.continuum.layout.ENDED` and answers with further
    columns. Tasks created before `warm_up` (s) are left out of the response times. `options` are those
    of `Engine`. `workers` defaults to the number of cores.

    With a snapshot `start` of an engine of the same system all runs begin there instead of at time 0:
    under the snapshot's own seed with what followed it, under others with other draws. Counts and
    ledgers include what was before; response times do not. Parameters of kinds and links cannot change then.
    """

    def __init__(
        self,
        system: System,
        until: float,
        *,
        scheduler: int | Callable[[Any, Any, Any], int] = 1,
        timeline: Sequence[tuple[float, Action]] = (),
        quantiles: Sequence[float] = (0.5, 0.95, 0.99),
        measure: Measure | None = None,
        warm_up: float = 0.0,
        start: Snapshot | None = None,
        workers: int | None = None,
        **options: Any,  # noqa: ANN401 - the engine's own keywords
    ) -> None:
        self._system, self._until, self._measure, self._warm_up = system, until, measure, warm_up
        self._timeline, self._quantiles, self._start = tuple(timeline), tuple(quantiles), start
        if any(b[0] < a[0] for a, b in pairwise(self._timeline)):
            raise ValueError("the timeline is not in the order of time")
        self._workers = max(1, workers or os.cpu_count() or 1)
        self._scheduler, self._options = scheduler, options
        self._idle: SimpleQueue[Replica] = SimpleQueue()
        self._built = 0
        self._names = (
            *_COUNTS, *(f"failed.{name}" for name in STATUS_NAMES[1:]), "response.mean",
            *(f"response.p{100 * q:g}" for q in self._quantiles), *_LEDGERS,
        )  # fmt: skip

    def run(self, parameters: Mapping[str, ArrayLike], seeds: Sequence[int]) -> BatchColumns:
        """Every set of parameters under every seed. Raises `ValueError` for what the system has not."""
        sets, columns = columns_of(parameters)
        changes = {name: change(self._system, name) for name in columns}
        if self._start is not None and any(one.kinds or one.links for one in changes.values()):
            raise ValueError("parameters of kinds and links, and the scheduler, cannot change in mid-run")
        keys = [int(seed) % 2**64 for seed in seeds]
        total = sets * len(keys)
        table = np.full((total, len(self._names)), np.nan)
        own: list[Mapping[str, float]] = [{}] * total

        def some(first: int, last: int) -> None:
            engine = self._idle.get()
            try:
                for k in range(first, last):
                    row = [(changes[name], float(values[k // len(keys)])) for name, values in columns.items()]
                    own[k] = self._one(engine, keys[k % len(keys)], row, table[k])
            finally:
                self._idle.put(engine)

        workers = max(1, min(self._workers, total))
        while self._built < workers:  # here, not in the threads: numba compiles one thing at a time
            self._idle.put(Replica(self._system, 0, self._scheduler, **self._options))
            self._built += 1
        if workers == 1:
            some(0, total)
        else:
            cuts = np.linspace(0, total, min(total, 8 * workers) + 1).astype(int).tolist()
            with ThreadPoolExecutor(workers) as pool:
                for done in [pool.submit(some, a, b) for a, b in pairwise(cuts)]:
                    done.result()
        shape = (sets, len(keys))
        found = {name: table[:, c].reshape(shape) for c, name in enumerate(self._names)}
        for name in own[0] if own else ():
            found[name] = np.array([one[name] for one in own], np.float64).reshape(shape)
        return BatchColumns(columns, np.array(keys, np.uint64), found)

    def _one(
        self, engine: Replica, seed: int, changes: Sequence[tuple[Change, float]], row: Floats
    ) -> Mapping[str, float]:
        """One run; its figures go to `row`."""
        if self._start is None:
            engine.restart(seed, changes)
        else:
            engine.go_on(self._start, seed, changes)
        for time, action in self._timeline:
            engine.advance(time)
            action(engine)
        engine.advance(self._until)
        s = engine.state
        ended = s.ended[: int(s.meta["done"][0])]
        if len(s.stages):
            ended = ended[ended["stage"] < 0]
        tally = s.tally.sum(axis=0)
        failed = tally[3 : 2 + STATUSES]
        row[:5] = tally[0], tally[2], tally[1], tally[0] - tally[2:].sum(), failed.sum()
        row[5 : 4 + STATUSES] = failed
        good = ended["status"] == COMPLETED
        if self._warm_up > 0.0:
            good &= ended["created"] >= self._warm_up
        response = (ended["ended"] - ended["created"])[good]
        c = 4 + STATUSES
        if len(response):
            response.sort()
            row[c] = response.mean()
            row[c + 1 : c + 1 + len(self._quantiles)] = _quantiles(response, self._quantiles)
        row[c + 1 + len(self._quantiles) :] = engine.books()
        return self._measure(engine, ended) if self._measure is not None else {}


def _quantiles(ordered: Floats, levels: Sequence[float]) -> list[float]:
    """Quantiles of ascending values, linear between them (Hyndman and Fan 1996, type 7)."""
    found = []
    for level in levels:
        place = level * (len(ordered) - 1)
        k = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
        high = ordered[min(k + 1, len(ordered) - 1)]
        found.append(float(ordered[k] + (high - ordered[k]) * (place - k)))
    return found


def batch(
    system: System,
    parameters: Mapping[str, ArrayLike],
    seeds: Sequence[int],
    until: float,
    **settings: Any,  # noqa: ANN401 - those of Batcher
) -> BatchColumns:
    """Run every set of `parameters` under every seed to `until` (s); see `Batcher` for the settings."""
    return Batcher(system, until, **settings).run(parameters, seeds)

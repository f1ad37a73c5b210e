"""Worlds of the continuum as environments: an engine each, shown together by compiled code.

What that writes is to the bit what `cosim.schedulers.models.step_state` and `cosim.envs.spaces.observe` make of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import direct
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.records import Floats, Ints
from cosim.contract.registry import adapter_kind
from cosim.contract.seeds import stream
from cosim.engine.continuum import kernel, memory
from cosim.engine.continuum import layout as l
from cosim.engine.continuum.batches import Replica
from cosim.engine.continuum.jit import entry, jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.looking import left, own_speed, ways
from cosim.engine.continuum.numbering import processor
from cosim.engine.continuum.prepared import Prepared
from cosim.engine.continuum.regions import LARGE
from cosim.engine.continuum.stepping import look, read
from cosim.envs.spaces import ANSWERS, MOST, UNKNOWN, observe
from cosim.extensions.cosco.batch import END, OF_HOST, OF_TASK, STEP, Seen, blank, bounded, draw, row_of
from cosim.scenario.plan.plan import Plan
from cosim.schedulers.models import fixed_columns, step_state
from cosim.schedulers.state import LOCAL

_PLACED = 2**60  # added to the number of a task with a host, so that those that wait come first
_NO_ROWS, _NO_VALUES = np.empty((0, 1), np.int64), np.empty((0, 3))


class ContinuumWorlds:
    """`count` worlds of a plan whose only adapter is `continuum`. Raises `ScenarioError` for one that needs the bus."""

    def __init__(self, plan: Plan, count: int, tasks: int) -> None:
        (one,) = plan.adapters
        kind = adapter_kind(one.use)
        config: Any = kind.load_config().model_validate(one.config)
        self._name, self.length = one.name, float(config.decide)
        period = one.period * plan.step
        context = Context(one.name, plan.scene, period, plan.duration, one.seed, str(plan.root.resolve()), "")
        by_task = config.model_copy(update={"decide": None, "scheduler": "nearest"})
        made = kind.prepare(by_task, context, plan.events)
        if not isinstance(made, Prepared):
            what = "fleets, real nodes, failures by chance, rented machines and decisions that take time"
            raise ScenarioError(Problem(f"a batch is without {what}", path=f"adapters.{one.name}"))
        end = plan.time(plan.ticks // one.period * one.period)
        self.questions = int(np.count_nonzero(np.arange(1.0 + end // self.length) * self.length < end))
        self._bits = (np.arange(self.questions + 2.0) * self.length).view(np.uint64)
        self._timeline, options = made.timeline, cast(dict[str, Any], made.options)
        self._due = np.array([*(at for at, _ in self._timeline), math.inf])
        self._engines = [Replica(made.system, 0, int(l.INTERVAL), **options) for _ in range(count)]
        first = self._engines[0]
        first.advance(0.0)
        state = step_state(look(first.state, read(first.state), {}), self.length, fixed_columns(first))
        self.hosts = len(state.hosts)
        self._fixed = observe(state, self.hosts, 0)["hosts"]
        self.metered = max(1, int(np.count_nonzero(self._fixed[:, OF_HOST.idle_power] != UNKNOWN)))
        self._act, self._plain = direct(kernel.act), not made.system.tariffs and len(first.state.sources) < LARGE
        self._metas = [engine.state.meta for engine in self._engines]
        self._at = np.array([meta["self"][0] for meta in self._metas])
        self._turn, self._next, self._devices, self._short = np.zeros((4, count), np.int64)
        self._since, self._meters = np.zeros(count), np.zeros((count, self.hosts, 2))
        self._rows = np.zeros((count, tasks), np.int64)
        self._ways = self.hosts * np.arange(count * tasks).reshape(count, tasks)  # in `reach`, and in `host_mask`
        self._hosts = self.hosts * np.arange(count)[:, None]

    def begin(self, chosen: Sequence[int], seeds: Sequence[int]) -> None:
        """These worlds are at time 0 under these seeds."""
        for k, seed in zip(chosen, seeds, strict=True):
            entropy = np.random.SeedSequence(stream(seed, self._name)).generate_state(1, np.uint64)
            self._engines[k].restart(int(entropy[0]), ())
            self._turn[k], self._next[k], self._since[k] = 0, 0, math.nan
            self._pass(k, 0.0)

    def advance(self, what: Ints, actions: Ints, counts: Ints, seen: Seen) -> None:
        """Do `what` (N,) with each world: decide by `actions` and go on to the next decision, or look, and show it."""
        host, stepped = actions - ANSWERS, what == STEP
        if stepped.any():
            at, to = seen.tasks[:, :, OF_TASK.host], np.maximum(host, 0)
            way = seen.reach.reshape(-1).take(self._ways + to) < MOST
            way = np.where(at < 0.0, way, seen.tasks[:, :, OF_TASK.movable] != 0.0) & (host != at)
            way &= seen.host_mask.reshape(-1).take(self._hosts + to) != 0
            own = (host == -1) & (at < 0.0) & (self._devices != 0)[:, None]
            chosen = np.where(host >= 0, way, own) & (seen.task_mask != 0) & stepped[:, None]
            pairs = np.stack([self._rows, np.where(host >= 0, host, LOCAL)], axis=2)[chosen]
            self._turn[stepped] += 1
            untils = self._turn * self.length
            straight = self._plain & (self._due[self._next] > untils)  # nothing is to be done on the way
            act, place, advance, first = self._act, int(kernel.PLACE), int(kernel.ADVANCE), 0
            for k, go, end, short, plain, until in zip(
                range(len(what)), stepped.tolist(), np.cumsum(np.count_nonzero(chosen, axis=1)).tolist(),
                self._short.tolist(), straight.tolist(), untils.tolist(), strict=True,
            ):  # fmt: skip
                if short and go:  # of room for all that may be decided
                    self._engines[k]._command(kernel.PLACE, pairs[first:end])
                elif end > first:
                    act(self._metas[k], place, 0.0, pairs[first:end], _NO_VALUES)
                if go and not plain:
                    self._pass(k, until)
                elif go and (answer := act(self._metas[k], advance, until, _NO_ROWS, _NO_VALUES)):
                    self._engines[k]._resume(answer, until)
                first = end
        kept = Kept(self._meters, self._since, self._devices, self._short, self._rows)
        show(self._at, what, self._bits[self._turn], self._fixed, counts, kept, seen)

    def _pass(self, k: int, until: float) -> None:
        """Let time pass to `until` in a world, and happen what the scenario says."""
        engine = self._engines[k]
        while self._due[self._next[k]] <= until:
            at, happen = self._timeline[self._next[k]]
            engine.advance(at)
            happen(engine)
            self._next[k] += 1
        engine.advance(until)


@jit
def _keep(s: Record, i: int, rows: Ints, count: int) -> None:
    """Sort row i of tasks in after the `count` before it; those beyond `rows` are not kept."""
    place, mine = min(count, len(rows)), memory.task(s.tasks, i)
    key = mine.serial if mine.held != 0 else mine.serial + _PLACED
    while place > 0:
        other = memory.task(s.tasks, rows[place - 1])
        if (other.serial if other.held != 0 else other.serial + _PLACED) < key:
            break
        place -= 1
        if place + 1 < len(rows):
            rows[place + 1] = rows[place]
    if place < len(rows):
        rows[place] = i


@jit
def _show_task(s: Record, i: int, bits: np.uint64, row: Floats, reach: Floats) -> None:
    t = memory.task(s.tasks, i)
    load, own = memory.workload(s.workloads, t.workload), memory.station(s.stations, processor(t.device))
    where = memory.node(s.nodes, t.host).host if t.held == 0 else -1
    row[:] = 0.0
    row[OF_TASK.task], row[OF_TASK.device], row[OF_TASK.workload] = t.serial, t.device, t.workload
    row[OF_TASK.host], row[OF_TASK.chance] = where, draw(t.serial, bits)
    row[OF_TASK.input], row[OF_TASK.age] = bounded(t.input), bounded(s.now - t.created)
    row[OF_TASK.deadline] = bounded(t.created + t.deadline - s.now)
    if where >= 0:
        row[OF_TASK.movable] = 1.0 if t.phase == l.RUN or (t.phase == l.UP and t.job < 0) else 0.0
        row[OF_TASK.work] = bounded(left(s, i))
    else:
        row[OF_TASK.output], row[OF_TASK.work] = bounded(t.output), bounded(t.work)
        row[OF_TASK.memory], row[OF_TASK.own_speed] = bounded(load.memory), bounded(own_speed(s, t))
        row[OF_TASK.own_tasks] = own.active + own.queued
    ways(s, i, reach)
    for h in range(len(reach)):
        reach[h] = min(reach[h], MOST)


@jit
def _show_hosts(s: Record, fixed: Floats, meters: Floats, since: float, seen: Seen) -> None:
    """Show the hosts, and read their meters (H, 2), which showed busy s and J at `since`."""
    span = s.now - since if since == since else 0.0
    for h in range(s.host_count):
        host = memory.host(s.hosts, h)
        station = memory.station(s.stations, processor(host.slot))
        watts, more, passed = station.power, 0.0, s.now - station.since
        for a in range(s.station_count - s.first_accelerator):
            if memory.accelerator(s.accelerators, a).node == host.slot:
                part = memory.station(s.stations, s.first_accelerator + a)
                more += part.energy + part.power * (s.now - part.since)
                watts += part.power
        busy = station.busy + (min(station.active, station.servers) if station.rate > 0.0 else 0) * passed
        joules, share = station.energy + station.power * passed + more, 0.0
        if span > 0.0:
            share, watts = (busy - meters[h, 0]) / (span * host.cores), (joules - meters[h, 1]) / span
        meters[h, 0], meters[h, 1] = busy, joules
        row, free = seen.hosts[h], host.memory
        row[:] = fixed[h]
        row[OF_HOST.speed], row[OF_HOST.tasks] = host.cores * host.frequency, host.assigned
        row[OF_HOST.demand] = min(host.assigned, host.cores) * host.frequency
        row[OF_HOST.utilisation], row[OF_HOST.memory] = bounded(share), bounded(free)
        known = fixed[h, OF_HOST.idle_power] != UNKNOWN
        seen.power[h] = watts if known else 0.0
        row[OF_HOST.power] = bounded(watts) if known else UNKNOWN
        row[OF_HOST.up] = seen.host_mask[h] = 1 if host.up != 0 else 0


class Kept(NamedTuple):
    """What is kept of N worlds from one look to the next."""

    meters: Floats  # (N, H, 2)
    since: Floats  # (N,) s, when they were read
    devices: Ints  # (N,) whether a task waits whose device has a processor
    short: Ints  # (N,) whether so many decisions need more room
    rows: Ints  # (N, T) where the first tasks are


@entry
def show(meta: Ints, what: Ints, bits: NDArray[np.uint64], fixed: Floats, counts: Ints, kept: Kept, seen: Seen) -> None:
    """Fill the observations of worlds whose META are at these addresses.

    `counts` (N,) were the tasks of each, and become those that it has now.
    """
    meters, since, devices, short, rows = kept
    room = seen.tasks.shape[1]
    for k in range(len(what)):
        mine, shown, count = row_of(seen, k), min(counts[k], room), 0
        if what[k] == END:
            blank(mine)
            counts[k] = 0
            continue
        s = memory.meta(meta[k], 0)
        s.done = devices[k] = 0
        if what[k] == STEP or since[k] != since[k]:
            _show_hosts(s, fixed, meters[k], since[k], mine)
            since[k] = s.now
        for i in range(s.peak):
            t = memory.task(s.tasks, i)
            if t.phase == l.FREE:
                continue
            if t.held != 0:
                devices[k] |= own_speed(s, t) > 0.0
            elif t.host < 0 or t.join >= 0 or memory.node(s.nodes, t.host).host < 0:
                continue
            _keep(s, i, rows[k], count)
            count += 1
        counts[k], shows = count, min(count, room)
        short[k] = s.ended_room <= s.live + s.jobs_live or s.task_room - s.live < shows * s.burst
        for row in range(shows):
            _show_task(s, rows[k, row], bits[k], mine.tasks[row], mine.reach[row])
            mine.task_mask[row] = 1
        mine.tasks[shows:shown] = 0.0
        mine.reach[shows:shown] = MOST
        mine.task_mask[shows:shown] = 0

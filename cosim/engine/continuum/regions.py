"""Advances a large system region by region, over threads.

Nothing outside of a region matters to it before the advance ends (`cosim.engine.continuum.dividing`), so
regions may be run one after the other, each up to the end: its rows are then in the processor's cache, where those of
the whole system are not. And they may be run side by side: each thread takes some regions at a time, as long as there
are any, has a `META` of its own with an event queue, free rows of tasks, room for ended ones and counters, and shares
all other arrays.

The result is bit-equal to that of one queue for all, for any number of threads: within a region events come in the
same order; counters are sums of integers, and `cosim.engine.continuum.sums` of bytes; tasks get their numbers
afterwards, in the order of creation; events at the same time are handled by what they belong to and the order of
creation of tasks, not by the rows that tasks have. Between two advances events are in `KernelState.due` only (`horizon`
is -inf then).

Under `hybrid` few tasks leave the region of their device, for a cloud that all share. So a region runs up to the first
decision that may send a task there, and stops before it. What is left of all regions that have stopped is then run with
the shared part (region 0) by one queue. A region that has not stopped has touched nothing of these.
The shared part then takes tasks of several regions that come at the same instant in another order than one queue
would. Where that may be for another reason than two random times that are equal, or where the order of creation counts
besides, `hybrid` is divided by what is connected only.

Systems in which tasks may go anywhere, by their scheduler or their wires, are one region. Then one queue is faster, and
it is used again for some time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import address_of
from cosim.contract.records import Records
from cosim.engine.continuum import kernel, queue, sums
from cosim.engine.continuum.indices import FAR, HYBRID, NEAREST, OWN, RANDOM
from cosim.engine.continuum.layout import BAG, ENDED, FCFS, META, TRACE, WORKER_BITS, KernelState
from cosim.engine.continuum.queue import ENTRY
from cosim.engine.continuum.sidebyside import side_by_side
from cosim.engine.continuum.system import link_up, more_tasks

LARGE = 20_000  # sources from which on a system is divided
_FEW = 1000  # events for which a thread more does not pay
_HOLD = 16  # advances by one queue after the system was found to be one region
_PIECES = 8  # of an advance when the tasks in flight join what the scheduler does not
_MOST = 4_000_000  # tasks for which room is made beforehand
_SPANS = 8  # of regions per thread, as the processor may give one of them more than another
_SHARE = 0.5  # of the events: a region with more is too large

# those whose choice depends on nothing outside of the region
_SCHEDULERS = (NEAREST, FAR, OWN, RANDOM, HYBRID)

Longs = NDArray[np.int64]


def obstacle(state: KernelState, scheduler: int) -> str:
    """Why the system cannot be divided, or ""."""
    if scheduler not in _SCHEDULERS:
        return "its scheduler looks at hosts anywhere"
    if state.meta["decider"][0] >= 0:
        return "all its decisions are made on one node"
    if len(state.batteries):
        return "a battery that gets empty changes the routes of others"
    if len(state.stages):
        return "it has graphs of tasks"
    if np.any(state.links["jitter"] > 0.0):
        return "the jitter of its links goes by the numbers of tasks"
    if state.meta["bound"][0]:
        return "its tasks are bound to hosts"
    if len(state.machines) and not all(state.workloads["anywhere"]):
        return "some hosts cannot run some of its tasks"
    return ""


def _in_turn(state: KernelState) -> bool:
    """Whether tasks of several regions may meet at the same instant, or in another order than that of coming there."""
    return bool(
        np.isin(state.workloads["arrivals"], (BAG, TRACE)).any()
        or len(state.machines)
        or np.any(state.stations["fcfs"] > FCFS)  # by rank, and among equals in the order of creation
    )


class _Worker:
    """What one thread has for itself."""

    def __init__(self, s: KernelState) -> None:
        self.meta: Records = np.zeros(1, META)
        # room for all events, as one region may have them; memory that is never used costs nothing
        self.heap, self.chunks = np.zeros(len(s.heap), ENTRY), np.zeros(len(s.chunks), ENTRY)
        self.buckets, self.ladder = queue.arrays()["buckets"], queue.arrays()["ladder"]
        self.tally, self.sums, self.scratch = np.zeros_like(s.tally), np.zeros_like(s.sums), np.zeros_like(s.scratch)
        self.plan = np.zeros((1, 5), np.int64)
        self.spans: Iterator[tuple[int, int]] = iter(())  # of regions that are still to be run, by any worker
        self.answer = 0

    def begin(self, s: KernelState, number: int, rows: int, free: int) -> None:
        """Take over the present state with a list of `rows` free rows that begins at `free`."""
        meta = self.meta
        meta[:] = s.meta
        queue.forget(meta, self.heap, self.chunks, self.buckets)
        for name in ("heap", "chunks", "buckets", "ladder", "tally", "sums", "scratch"):
            meta[name] = address_of(getattr(self, name))
        meta["self"] = address_of(meta)
        self.tally.fill(0)
        self.sums.fill(0)
        meta["serial"] += number << WORKER_BITS
        meta["events"] = meta["turn"] = meta["live"] = 0
        meta["jobs_live"] = s.meta["live"]  # so many may end besides those that begin here
        meta["task_room"], meta["free"] = rows, free

    def follow(self, s: KernelState) -> None:
        """Take over arrays that have grown."""
        for name in ("tasks", "due"):
            self.meta[name] = s.meta[name]
        if len(s.heap) > len(self.heap):
            heap, chunks = np.zeros(len(s.heap), ENTRY), np.zeros(len(s.chunks), ENTRY)
            used = int(self.meta["queued"][0]), int(self.meta["chunks_used"][0]) * queue.SLOTS
            heap[: used[0]], chunks[: used[1]] = self.heap[: used[0]], self.chunks[: used[1]]
            self.meta["chunks_free"] += (len(chunks) - len(self.chunks)) // queue.SLOTS
            self.heap, self.chunks = heap, chunks
            self.meta["heap"], self.meta["chunks"] = address_of(heap), address_of(chunks)
            self.meta["heap_room"] = len(heap)

    def run(self, until: float, start: float) -> None:
        """Run the regions of `plan`, then what is left of `spans`; `answer` is whether that is done."""
        values = np.array([[start, 0.0, 0.0]])
        while True:
            self.answer = kernel.act(self.meta, kernel.REGIONS, until, self.plan, values)
            if self.answer == kernel.GROW:
                return
            span = next(self.spans, None)  # a thread at a time: the interpreter's lock is held
            if span is None:
                return
            self.plan[0, 2:] = *span, 0

    def made(self, base: int, number: int) -> int:
        """How many tasks it has made since it got serial numbers from `base` on as worker `number`."""
        return int(self.meta["serial"][0]) - base - (number << WORKER_BITS)

    @property
    def short(self) -> bool:
        """Whether it needs more free rows for tasks."""
        meta = self.meta[0]
        return bool(meta["task_room"] - meta["live"] < meta["burst"])


class Regions:
    """Advances the state of a system by regions, in up to so many threads."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._workers: list[_Worker] = []
        self._rate = -1.0  # tasks/s, of all sources
        self._ordered: bool | None = None  # see `_in_turn`
        self._wait, self._hold, self._joined = 0, _HOLD, 0
        self._apart = False  # whether regions stop where they would leave what is theirs
        self._left = 0  # events that regions which stopped have left, and the shared part
        self._room: list[NDArray[np.int32]] = []

    def undivided(self, s: KernelState) -> str:
        """Why the system cannot be divided, or is not, as that would not pay; ""."""
        if len(s.sources) < LARGE:
            return f"it has fewer than {LARGE:,} sources of tasks"
        return obstacle(s, int(s.meta["scheduler"][0]))

    def takes(self, s: KernelState, until: float) -> bool:
        """Whether an advance to `until` is to be done by regions."""
        sources = len(s.sources)
        if self.undivided(s):
            return False
        if self._wait > 0:
            self._wait -= 1
            return False
        return 8 * int(np.count_nonzero(s.due[:sources] <= until)) >= sources

    def advance(self, s: KernelState, until: float) -> tuple[KernelState, bool]:
        """The state at `until`; or an earlier one and False, when one queue is to go on from there."""
        begun = float(s.meta["now"][0])
        while True:
            if s.meta["horizon"][0] == np.inf:
                queue.forget(s.meta, s.heap, s.chunks, s.buckets)
                s.meta["horizon"] = -np.inf
            now = float(s.meta["now"][0])
            first, dealt = self._divide(s, until)
            target, self._left = until, 0
            if len(first) > 1 and np.diff(first).max() > max(_FEW, _SHARE * first[-1]):
                self._joined += 1
                if self._joined > _PIECES // 2 or s.meta["live"][0] == 0:  # it is not for the tasks in flight
                    self._wait, self._hold, self._joined = self._hold, min(256, 2 * self._hold), 0
                    return s, False
                target = min(until, now + (until - begun) / _PIECES)
                first, dealt = self._divide(s, target)
            else:
                self._joined = 0
            s = self._run(s, now, target, first, dealt)
            if self._left > max(_FEW, _SHARE * first[-1]):  # too many regions have stopped
                self._wait, self._hold = self._hold, min(256, 2 * self._hold)
            elif target == until:
                self._hold = _HOLD
            if target == until:
                return s, True

    def radio_command(
        self, s: KernelState, rows: Longs, values: NDArray[np.float64]
    ) -> tuple[Longs, NDArray[np.float64]]:
        """Set the radio of devices in threads, see `kernel.act`; return the rows that are still to be set.

        A device that keeps its cell touches only its own rows, as long as events are in `KernelState.due` only.
        """
        plain = s.meta["horizon"][0] == -np.inf and not len(s.batteries)
        if self.threads == 1 or len(rows) < LARGE or not plain or not np.all(rows[1:, 0] > rows[:-1, 0]):
            return rows, values
        stays = s.nodes["cell"][rows[:, 0]] == rows[:, 1]
        if not stays.all():
            left = rows[~stays], values[~stays]
            rows, values = rows[stays], values[stays]
        else:
            left = rows[:0], values[:0]
        ends = len(rows) * np.arange(self.threads + 1) // self.threads
        side_by_side([
            partial(kernel.act, s.meta, kernel.RADIO, 0.0, rows[first:last], values[first:last])
            for first, last in pairwise(ends)
        ])  # fmt: skip
        return left

    def _divide(self, s: KernelState, until: float) -> tuple[Longs, NDArray[np.int32]]:
        from cosim.engine.continuum import dividing  # small systems do without

        """Where each region's events begin among those that are dealt; and these."""
        events, nodes = len(s.due), len(s.nodes)
        if not self._room or len(self._room[0]) < events:
            self._room = [np.empty(events, np.int32), np.empty(2 * events, np.int32),
                          np.empty(nodes, np.int32), np.empty(nodes, np.int32)]  # fmt: skip
        dealt, found, parent, region = self._room
        if self._ordered is None:
            self._ordered = _in_turn(s)
        self._apart = s.meta["scheduler"][0] == HYBRID and not self._ordered
        s.meta["apart"] = self._apart
        parts, seen = self.threads, np.zeros(len(s.infra) + 1, np.int8)
        others = np.zeros(parts, np.int64)
        side_by_side([
            partial(dividing.attach, s.meta, part, parts, parent, region, seen, found, others) for part in range(parts)
        ])  # fmt: skip
        counts = np.empty((parts, dividing.join(s.meta, parent, region, seen, found, others)), np.int32)
        s.meta["apart"] = 0
        side_by_side([
            partial(dividing.count_due, s.meta, until, part, parts, region, found, counts[part])
            for part in range(parts)
        ])  # fmt: skip
        ends = np.cumsum(counts.T, dtype=np.int64)  # of a region's events in each part of all events
        places = np.ascontiguousarray((ends.reshape(counts.T.shape) - counts.T).T, np.int32)
        side_by_side([
            partial(dividing.deal, s.meta, part, parts, found, dealt, places[part]) for part in range(parts)
        ])  # fmt: skip
        return np.concatenate([[0], ends[parts - 1 :: parts]]), dealt

    def _run(self, s: KernelState, start: float, until: float, first: Longs, dealt: NDArray[np.int32]) -> KernelState:
        """Run the regions up to `until`, whatever room that takes."""
        from cosim.engine.continuum import dividing

        apart = int(self._apart)  # region 0 is for later
        regions, before, events = len(first) - 1, int(first[apart]), int(first[-1] - first[apart])
        count = max(1, min(self.threads, events // _FEW, regions - apart))
        s = self.foresee(s, until - start, count)
        meta = s.meta
        spans = count * _SPANS if count > 1 else 1
        ends = np.searchsorted(first, before + events * np.arange(spans + 1) / spans)
        ends[0], ends[-1] = apart, regions
        left_over = iter([(one, other) for one, other in pairwise(ends.tolist()) if one < other])
        while len(self._workers) < count:
            self._workers.append(_Worker(s))
        workers = self._workers[:count]
        free = int(meta["task_room"][0] - meta["live"][0])
        rows = np.full(count, free // count)
        rows[0] += free - rows.sum()
        heads = np.zeros(count, np.int64)
        dividing.deal_rows(meta, heads, rows)
        done, base = int(meta["done"][0]), int(meta["serial"][0])
        for k, worker in enumerate(workers):
            worker.follow(s)
            worker.begin(s, k, int(rows[k]), int(heads[k]))
            worker.meta["apart"] = apart
            worker.plan[0] = address_of(dealt), address_of(first), 0, 0, 0
            worker.spans = left_over
        s = self._finish(s, workers, start, until)
        made = [worker.made(base, k) for k, worker in enumerate(workers)]
        if apart:
            left = np.empty(len(s.due), np.int32)
            meta["peak"] = max(worker.meta["peak"][0] for worker in workers)
            self._left = dividing.still_due(meta, until, left)
            if self._left:
                bounds, one = np.array([0, self._left]), workers[0]
                one.plan[0] = address_of(left), address_of(bounds), 0, 1, 0
                one.meta["apart"] = 0
                one.meta["serial"] = base + (count << WORKER_BITS)  # after all that its regions have made before
                one.meta["jobs_live"] += sum(int(worker.meta["live"][0]) for worker in workers[1:])
                s = self._finish(s, [one], start, until)
                made.append(one.made(base, count))
        return self._close(s, workers, until, done, base, made)

    def _finish(self, s: KernelState, workers: Sequence[_Worker], start: float, until: float) -> KernelState:
        """Let workers run what they have been given, whatever room that takes."""
        from cosim.engine.continuum import dividing

        meta = s.meta
        waiting = list(workers)
        while waiting:
            self._deal_ended(s, waiting)
            side_by_side([partial(worker.run, until, start) for worker in waiting])
            dividing.gather(
                meta,
                np.array([worker.meta["ended"][0] for worker in waiting]),
                np.array([worker.meta["done"][0] for worker in waiting]),
                ENDED.itemsize,
            )
            waiting = [worker for worker in waiting if worker.answer == kernel.GROW]
            if waiting:
                s = _make_room(s, waiting)
                for worker in waiting:
                    worker.follow(s)
        return s

    def foresee(self, s: KernelState, span: float, workers: int = 1) -> KernelState:
        """Make room for about as many tasks as `span` (s) will bring; for more it is made when it is needed.

        What is doubled instead is touched several times, and touching memory for the first time takes long.
        """
        if len(s.sources) < LARGE:
            return s
        if self._rate < 0.0:
            self._rate = float(s.workloads["rate"][s.sources["workload"]].sum())
        made, live = int(min(_MOST, 1.1 * self._rate * span)), int(s.meta["live"][0])
        rows, given = len(s.sources) // 4, s
        if len(s.ended) < s.meta["done"][0] + made + (1 + workers) * live:
            # room that is not used costs nothing; with little of it the first advances would ask for more again
            s = _longer_ended(s, int(s.meta["done"][0]) + 2 * made + 4 * (1 + workers) * live)
        if len(s.tasks) < rows:
            s = more_tasks(s, rows - len(s.tasks))
        return s if s is given else link_up(s)

    def _deal_ended(self, s: KernelState, workers: Sequence[_Worker]) -> None:
        """Give each worker a part of what is left of `ended`."""
        done = int(s.meta["done"][0])
        each = (len(s.ended) - done) // len(workers)
        for k, worker in enumerate(workers):
            worker.meta["ended"] = s.meta["ended"] + ENDED.itemsize * (done + k * each)
            worker.meta["ended_room"], worker.meta["done"] = each, 0

    def _close(
        self, s: KernelState, workers: Sequence[_Worker], until: float, before: int, base: int, made: Sequence[int]
    ) -> KernelState:
        """Put together what the workers have counted, and number their tasks, of which there are `made`."""
        from cosim.engine.continuum import dividing

        meta = s.meta
        for worker in workers:
            for name in ("live", "turn", "events"):
                meta[name] += worker.meta[name]
            meta["peak"] = np.maximum(meta["peak"], worker.meta["peak"])
            s.tally[:] += worker.tally
            sums.merge(s.sums, worker.sums)
        first = np.cumsum([0, *made])
        total, done = int(first[-1]), int(meta["done"][0])
        time, tie, places = np.empty(total), np.empty(total, np.int64), np.empty(total, np.int64)
        cuts = _cuts(before, done, len(s.tasks), len(workers))
        side_by_side([
            partial(dividing.note, meta, one, other, base, first, time, tie, other == done)
            for one, other in pairwise(cuts)
        ])  # fmt: skip
        order_by(time, tie, places, len(workers))
        side_by_side([
            partial(dividing.renumber, meta, one, other, base, first, places, other == done)
            for one, other in pairwise(cuts)
        ])  # fmt: skip
        meta["now"] = until
        return s


def _cuts(first: int, last: int, more: int, parts: int) -> list[int]:
    """Bounds of at most so many parts of the rows from `first` to `last`; the last part has `more` other rows to do."""
    each = (last - first + more) // parts
    return [*(first + k * each for k in range(parts) if k == 0 or first + k * each < last), last]


def order_by(time: NDArray[np.float64], tie: Longs, places: Longs, threads: int) -> Longs:
    """The numbers (n,) of items by time, then `tie`, then number; `places` (n,) or (0,): where each of them is."""
    from cosim.engine.continuum import dividing

    count = len(time)
    parts = threads if count > _FEW else 1
    order = np.empty(count, np.int64)
    in_order: list[bool] = []

    def rank(part: int) -> None:
        in_order.append(dividing.rank(order, places, np.empty(count // 2 + 2, np.int64), time, tie, part, parts))

    side_by_side([partial(rank, part) for part in range(parts)])
    if not all(in_order):
        order = np.lexsort((tie, time))
        places[order[: len(places)]] = np.arange(len(places))
    return order


def _longer_ended(s: KernelState, length: int) -> KernelState:
    """The state with room for so many rows in `ended`."""
    done = int(s.meta["done"][0])
    ended: Records = np.zeros(length, ENDED)
    ended[:done] = s.ended[:done]
    return s._replace(ended=ended)


def _make_room(s: KernelState, workers: Sequence[_Worker]) -> KernelState:
    """More room for what ends, and for tasks in flight; workers that are short of rows for these get the new ones."""
    s = _longer_ended(s, 2 * len(s.ended))
    short = [worker for worker in workers if worker.short]
    if short:
        old, more = len(s.tasks), max(len(s.tasks), 1024)
        s.meta["free"] = -1
        s = more_tasks(s, more)
        ends = old + more * np.arange(len(short) + 1) // len(short)
        for k, worker in enumerate(short):
            s.tasks["newer"][ends[k + 1] - 1] = worker.meta["free"][0]
            worker.meta["free"] = ends[k]
            worker.meta["task_room"] += ends[k + 1] - ends[k]
    return link_up(s)


def line_up(s: KernelState) -> None:
    """Put all events into one queue, if they are not in it."""
    if s.meta["horizon"][0] != np.inf:
        from cosim.engine.continuum import dividing

        dividing.line_all_up(s.meta)

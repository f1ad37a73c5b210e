"""The engine as its caller sees it: apply changes, let time pass, collect what ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import thread_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.contract.records import Records
from cosim.engine.continuum import kernel, routes
from cosim.engine.continuum.agreement import account
from cosim.engine.continuum.billing import cuts
from cosim.engine.continuum.layout import CUSTOM, DEVICE, ENDED, INTERVAL, META, TASK
from cosim.engine.continuum.ledger import NodeMeters, RunLedger, bills, close_books, read_meters, sorted_rows
from cosim.engine.continuum.question import question
from cosim.engine.continuum.regions import Regions, line_up
from cosim.engine.continuum.resources import Resources, read_resources
from cosim.engine.continuum.snapshot import Snapshot, put_back, take
from cosim.engine.continuum.stepping import Decisions, View, look, read, rows_of
from cosim.engine.continuum.system import REFERENCE, System, lay_out, link_up, more_tasks

_NONE_I = np.empty((0, 1), np.int64)
_NONE_F = np.empty((0, 3))
_ROOM = 1024  # rows at the beginning; all row arrays double when they are full


def _within(numbers: ArrayLike, count: int, what: str, least: int = 0) -> NDArray[np.int64]:
    """The numbers, all of them from `least` to below `count`: compiled code does not look at bounds."""
    asked = np.asarray(numbers).astype(np.int64, copy=False)
    wrong = (asked < least) | (asked >= count)
    if wrong.any():
        raise ValueError(f"there is no {what} {asked[wrong].flat[0]}; the system has {count}, numbered from 0")
    return asked


def _asked(scheduler: int | Callable[..., Any]) -> tuple[Callable[..., Any] | None, int]:
    """What the engine calls, if anything, and its own number for the scheduler."""
    if not callable(scheduler):
        return None, scheduler
    return scheduler, INTERVAL if getattr(scheduler, "waits", False) else CUSTOM


class Deciding(NamedTuple):
    """Where a scheduler decides, and how long one decision takes a core there at its full clock."""

    node: int  # slot
    seconds: float | None  # None: as much CPU time as the one before took in this process; the first takes none


class Engine:
    """A compute continuum in simulated time.

    `scheduler` is the number of a built-in scheduler or a function (see `cosim.schedulers`), or `INTERVAL`: then
    tasks wait until `step` gets their hosts (see `cosim.engine.continuum.stepping`). A function with the attribute
    `whole` gets the engine itself and answers with `Decisions` about any tasks, when a task is made, or, if it
    `waits`, in `decide` only. `patience` (s) is how long a
    task waits for coverage. With `drop_late` tasks end at their deadline; otherwise they complete and are counted
    late. `threshold` (tasks per core) is for the schedulers that have one. With `deciding`, each task first goes
    through the processor of a node, and the scheduler is asked when the time of the decision is over there.
    `seed` is any non-negative integer, of which 64 bits are used. Large systems are advanced by regions that do not
    meet, in up to `threads` threads (see `cosim.engine.continuum.regions`); their number changes no bit.

    Time passes in `advance` only; all other calls hold for the present time `now`. Stepping more or less finely
    gives bit-equal results. `state` is documented in `cosim.engine.continuum.layout`. Calls about a node or link
    that is not in the system raise `ValueError`.
    """

    def __init__(
        self,
        system: System,
        seed: int,
        scheduler: int | Callable[..., Any] = 1,
        *,
        patience: float = 2.0,
        drop_late: bool = False,
        threshold: float = 2.0,
        threads: int = 1,
        deciding: Deciding | None = None,
    ) -> None:
        if threads < 1:
            raise ValueError(f"{threads} threads cannot advance anything; 1 or more can")
        node, seconds = deciding or Deciding(-1, 0.0)
        if deciding and not (0 <= node < len(system.kind) and system.kinds[system.kind[node]].cores > 0):
            raise ValueError(f"node {node} cannot decide: it is none with a core")
        if not 0.0 <= (seconds or 0.0) < math.inf:
            raise ValueError(f"a decision cannot take {seconds:g} s")
        self.system = system
        self._regions = Regions(threads)
        meta: Records = np.zeros(1, META)
        meta["seed"] = seed % 2**64
        self._choose, meta["scheduler"] = _asked(scheduler)
        meta["patience"], meta["drop_late"], meta["threshold"] = patience, drop_late, threshold
        meta["reference"] = REFERENCE
        meta["decider"], meta["deciding"], self._measured = node, seconds or 0.0, seconds is None
        meta["undecided"] = meta["free"] = meta["jobs_free"] = meta["doomed"] = -1
        self.state = lay_out(system, meta, np.zeros(0, TASK), np.zeros(2 * _ROOM, ENDED))
        self._make_room()
        self._edges = self._adjacency()
        self._cuts = cuts(system.tariffs)
        self._agreements = {k: load.sla for k, load in enumerate(system.workloads) if load.sla is not None}
        self._find_routes()
        self._begin()

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        return float(self.state.meta["now"][0])

    @property
    def created(self) -> int:
        """Tasks made so far."""
        return int(self.state.meta["serial"][0])

    @property
    def undivided(self) -> str:
        """Why this system is advanced by one queue in one thread, or ""."""
        return self._regions.undivided(self.state)

    def advance(self, until: float) -> None:
        """Let time pass to `until` (s, not before `now`), inclusive of what happens at that time."""
        if not self.now <= until < math.inf:
            raise ValueError(f"cannot advance from {self.now:g} s to {until:g} s")
        if self.state.meta["undecided"][0] >= 0:
            self._ask()  # the scheduler raised an exception when it was asked, or a snapshot was taken in it
        for cut in self._cuts[np.searchsorted(self._cuts, self.now, "right") :] if len(self._cuts) else ():
            if cut > until:
                break
            self._run(float(cut))
            self.state.billed[:] = self.bills()
        self._run(until)

    def _run(self, until: float) -> None:
        if self._regions.takes(self.state, until):
            self.state, reached = self._regions.advance(self.state, until)
            if reached:
                return
        self.state = self._regions.foresee(self.state, until - self.now)
        line_up(self.state)
        self._resume(kernel.act(self.state.meta, kernel.ADVANCE, until, _NONE_I, _NONE_F), until)

    def _resume(self, answer: int, until: float) -> None:
        """Do what the kernel has stopped for, and go on to `until`."""
        while answer != kernel.DONE:
            if answer == kernel.GROW:
                self._make_room()
            elif answer == kernel.MOVED:
                self._find_routes()
            else:
                self._ask()
            answer = kernel.act(self.state.meta, kernel.ADVANCE, until, _NONE_I, _NONE_F)

    def step(self, interval: float, decisions: Decisions | None = None) -> View:
        """Carry out decisions, advance by an interval (s), and return what is to be decided then.

        For engines with the scheduler `INTERVAL`, whose tasks wait for decisions; moving placed tasks works under
        any scheduler. Drains the tasks that ended. Raises `ValueError` for an impossible decision, before anything
        is done.
        """
        if decisions is not None:
            self._command(kernel.PLACE, rows_of(self.state, decisions))
        before = read(self.state)
        self.advance(self.now + interval)
        return look(self.state, before, self.drain())

    def decide(self) -> None:
        """Let a scheduler of the whole state decide now. Tasks that it keeps waiting are pending."""
        decisions = self._chosen(self)
        self.state.meta["undecided"] = -1
        self._command(kernel.PLACE, rows_of(self.state, decisions))

    def appear(self, slots: ArrayLike, generations: ArrayLike) -> None:
        """Nodes come into being, each with the `generation` of its slot; their sources start."""
        self._command(kernel.APPEAR, np.stack([self._nodes(slots), np.asarray(generations)], axis=1))

    def vanish(self, slots: ArrayLike) -> None:
        """Nodes cease to be; their tasks end as `left`."""
        self._command(kernel.VANISH, self._nodes(slots)[:, None])

    def set_radio(
        self,
        slots: ArrayLike,
        cell: ArrayLike,
        uplink: ArrayLike,
        downlink: ArrayLike,
        delay: ArrayLike,
        loss: ArrayLike,
    ) -> None:
        """Set how these devices are served from now on: rates in bit/s, shared by each device's transfers.

        `cell` is the slot of the serving node or -1. Loss lowers the goodput to rate * (1 - loss). A device
        without a cell or with a rate of zero is out of coverage. Rows equal to the present state change nothing.
        """
        goodput = (1.0 - np.clip(np.asarray(loss, np.float64), 0.0, 1.0)) / 8.0
        values = np.stack([np.asarray(uplink) * goodput, np.asarray(downlink) * goodput, np.asarray(delay)], axis=1)
        rows = np.stack([self._nodes(slots), self._nodes(cell, least=-1)], axis=1)
        self._command(kernel.RADIO, *self._regions.radio_command(self.state, rows, values))

    def set_links(self, links: ArrayLike, factor: ArrayLike, delay: ArrayLike, loss: ArrayLike) -> None:
        """From now on these fixed links differ so from their nominal values; factor 0 breaks a link.

        The routes of tasks are found anew when links break or come back, not when they change speed.
        """
        numbers = _within(links, len(self.state.links), "link")
        before = self.state.links["up"][numbers].copy()
        self._command(kernel.LINK_STATE, numbers[:, None], np.stack(np.broadcast_arrays(factor, delay, loss), axis=1))
        if np.any(before != self.state.links["up"][numbers]):
            self._find_routes()

    def set_work(self, slots: ArrayLike, workloads: ArrayLike, work: ArrayLike) -> None:
        """Set the work of the next tasks of these devices to `work` cycles each; NaN: back to their workload's law.

        Jobs with stages keep the sizes of the stages. A device that makes no tasks of the workload still makes
        none.
        """
        asked, load, cycles = np.broadcast_arrays(
            self._nodes(slots), np.asarray(workloads, np.int64), np.asarray(work, np.float64)
        )
        if np.any(cycles < 0.0) or np.any(np.isinf(cycles)):
            raise ValueError("the work of a task is a finite number of cycles, 0 or more")
        sources, nodes = self.state.sources, self.state.nodes
        for node, number, value in zip(asked.ravel(), load.ravel(), cycles.ravel(), strict=True):
            first = int(nodes["first_source"][node])
            mine = first + np.flatnonzero(sources["workload"][first : first + int(nodes["sources"][node])] == number)
            sources["work"][mine] = value

    def set_taken(self, workloads: ArrayLike, share: ArrayLike) -> None:
        """From now on this share of the workloads' tasks, 0..1, is made elsewhere: those with a lower `chance`."""
        self.state.workloads["taken"][np.asarray(workloads, np.int64)] = share

    def fail(self, slots: ArrayLike) -> None:
        """Nodes fail: what is on them ends as `node-failed`; cells stop serving, devices stop making tasks."""
        self._command(kernel.NODE_DOWN, self._present(slots))
        self._find_routes()

    def recover(self, slots: ArrayLike) -> None:
        """Failed nodes are back, empty."""
        self._command(kernel.NODE_UP, self._present(slots))
        self._find_routes()

    def reschedule(self, scheduler: int | Callable[..., Any]) -> None:
        """From now on `scheduler`, as at the start, decides; tasks stay where they are.

        Raises `ValueError` for one that waits for the caller, and where one that does has kept tasks.
        """
        choose, number = _asked(scheduler)
        if INTERVAL in (number, self.state.meta["scheduler"][0]):
            raise ValueError("a scheduler that decides by the clock decides from the start to the end")
        if self.state.meta["undecided"][0] >= 0:
            self._ask()
        self._choose, self.state.meta["scheduler"] = choose, number
        self._find_routes()  # what some schedulers keep sorted is sorted anew with them

    def serve(self, slots: ArrayLike, *, takes: bool, turns: int = 0) -> None:
        """From now on these hosts, which work, take tasks or not; their machines are turned on (1), off (-1) or left.

        One that is turned on boots. One that is turned off has no tasks; its node forwards data as before.
        """
        rows = self._nodes(slots)
        self._command(kernel.SERVE, np.stack([rows, np.full(len(rows), takes), np.full(len(rows), turns)], axis=1))
        self._find_routes()  # schedulers look for hosts with the routes

    def set_points(self, slots: ArrayLike, points: ArrayLike) -> None:
        """From now on the cores of these nodes run at these operating points, 0 the slowest.

        A governor that looks at a node may change it again. `ValueError` for a node without the point.
        """
        asked, point = np.broadcast_arrays(self._nodes(slots), np.asarray(points, np.int64))
        machine = self.state.nodes["machine"][asked]
        known = np.where(machine >= 0, self.state.machines["points"][machine] if len(self.state.machines) else 0, 0)
        if np.any((point < 0) | (point >= known)):
            wrong = int(np.flatnonzero((point < 0) | (point >= known))[0])
            raise ValueError(f"node {asked[wrong]} has {known[wrong]} operating points, none of them is {point[wrong]}")
        self._command(kernel.SPEED, np.stack([machine, point], axis=1))

    def drain(self) -> dict[str, NDArray[Any]]:
        """The tasks that ended since the last call, by time of their end, then serial number.

        Columns of `cosim.engine.continuum.layout.ENDED`, arrays of the caller's own.
        """
        ended = sorted_rows(self.state, self._regions.threads)
        if self._agreements:
            account(self.state.service, self._agreements, ended)
        self.state.meta["done"] = 0
        return ended

    def meters(self, slots: ArrayLike) -> NodeMeters:
        """What the meters of these nodes show now. Looking changes nothing."""
        return read_meters(self.state, np.asarray(slots))

    def bills(self) -> NDArray[np.float64]:
        """(4 + windows, nodes) what energy under tariffs cost up to now, see `cosim.engine.continuum.billing.bill`."""
        return bills(self.state, self.system, self.meters(np.arange(len(self.state.nodes))).energy)

    def ledger(self) -> RunLedger:
        """The books up to now. Looking changes nothing."""
        return close_books(self.state, self.system)

    def resources(self) -> Resources:
        """What accelerators, machines and batteries have done up to now. Looking changes nothing."""
        return read_resources(self.state)

    def snapshot(self) -> Snapshot:
        """The whole state at this instant, a copy. What the caller's scheduler remembers is not in it."""
        line_up(self.state)
        return take(self.state)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back, or on, to the instant of the snapshot, which another engine of the same system may have taken.

        Everything holds again as it did then, the seed and the settings included, and what follows is
        bit-equal to what followed then. Raises `ValueError` for a snapshot of another system.
        """
        self.state = put_back(self.state, snapshot)

    def _begin(self) -> None:
        """Let the static nodes appear."""
        static = np.flatnonzero(self.system.present)
        self.appear(static, np.zeros(len(static), np.int64))

    def _present(self, slots: ArrayLike) -> NDArray[Any]:
        asked = self._nodes(slots)
        found: NDArray[Any] = asked[self.state.nodes["present"][asked] != 0][:, None]
        return found

    def _nodes(self, slots: ArrayLike, least: int = 0) -> NDArray[np.int64]:
        return _within(slots, len(self.state.nodes), "node", least)

    def _command(self, what: int, slots: NDArray[Any], values: NDArray[np.float64] = _NONE_F) -> None:
        rows = len(slots) if what == kernel.PLACE else 0
        while self._short(rows):
            self._make_room(rows)
        # copies: for arrays that cannot be written numba would compile the kernel once more
        given = np.array(slots, np.int64, order="C"), np.array(values, np.float64, order="C")
        kernel.act(self.state.meta, what, 0.0, *given)

    def _ask(self) -> None:
        """Let the caller's scheduler decide about the task at which the kernel stopped."""
        if getattr(self._choose, "whole", False):
            self.decide()
            return
        request, reach, hosts = question(self.state)
        answer = self._chosen(request, reach, hosts) if self._choose is not None else -1
        if not isinstance(answer, (int, np.integer)) or not -2 <= answer < len(hosts):
            raise ValueError(
                f"the scheduler answered {answer!r} for task {self.created - 1}; "
                f"expected the number of a host, 0..{len(hosts) - 1}, -1 for none or -2 for the device itself"
            )
        self._command(kernel.PLACE, np.array([[self.state.meta["undecided"][0], answer]]))

    def _chosen(self, *given: Any) -> Any:  # noqa: ANN401 - what schedulers get and answer
        assert self._choose is not None
        if not self._measured:
            return self._choose(*given)
        begun = thread_time()
        answer = self._choose(*given)
        self.state.meta["deciding"] = thread_time() - begun
        return answer

    def _short(self, answers: int) -> bool:
        """Whether there is not room for all that may end, or for the rows that so many answers may take."""
        s = self.state
        meta = s.meta[0]
        return bool(
            len(s.ended) - meta["done"] <= meta["live"] + meta["jobs_live"]
            or len(s.tasks) - meta["live"] < answers * meta["burst"]
        )

    def _make_room(self, answers: int = 1) -> None:
        """Double whichever row arrays are full."""
        s = self.state
        if len(s.ended) - s.meta["done"][0] <= s.meta["live"][0] + s.meta["jobs_live"][0]:
            ended: Records = np.zeros(2 * len(s.ended), ENDED)
            ended[: len(s.ended)] = s.ended
            s = s._replace(ended=ended)
        if len(s.tasks) - s.meta["live"][0] < answers * s.meta["burst"][0]:
            s = more_tasks(s, max(len(s.tasks), _ROOM))
        self.state = link_up(s)

    def _adjacency(self) -> tuple[NDArray[np.int64], ...]:
        """Links between forwarding nodes, grouped by node: first, ends, over, room for a queue."""
        s = self.state
        infra = s.nodes["infra"]
        a, b = infra[s.links["a"]], infra[s.links["b"]]
        numbers = np.flatnonzero(
            (self.system.tier[s.links["a"]] != DEVICE) & (self.system.tier[s.links["b"]] != DEVICE)
        )
        start = np.concatenate([a[numbers], b[numbers]])
        end = np.concatenate([b[numbers], a[numbers]])
        over = np.concatenate([numbers, numbers])
        order = np.lexsort((over, start))
        first = np.searchsorted(start[order], np.arange(len(s.infra) + 1)).astype(np.int64)
        line = np.zeros(2 * len(s.infra) + 1, np.int64)
        return first, end[order].astype(np.int64), over[order].astype(np.int64), line

    def _find_routes(self) -> None:
        routes.find(self.state.meta, *self._edges)
        kernel.act(self.state.meta, kernel.RETRY, 0.0, _NONE_I, _NONE_F)

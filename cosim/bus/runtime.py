"""One tick: every adapter that is due is stepped, in the order of a schedule compiled once.

The runtime knows nothing of drivers, files or clocks on the wall. A driver calls `start`, then
`tick(0)`, `tick(1)`, ... and at last `finish` and `close`; what the adapters publish in a tick goes
to the observers (recorder, live view) when the tick is over.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, MutableSequence, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, NoReturn, Protocol, TypeVar

from cosim.bus.mark import number_of
from cosim.bus.schedule import Delivery, ScheduledAdapter, compile_schedule, deliver
from cosim.contract.adapter import Adapter, Context, Summary, json_value
from cosim.contract.entities import Event
from cosim.contract.errors import AdapterError, CosimError, ProtocolError, blamed
from cosim.contract.frame import Frame
from cosim.contract.signals import Signal
from cosim.scenario.plan.plan import AdapterPlan, Plan

log = logging.getLogger("cosim.bus")

T = TypeVar("T")


class Observer(Protocol):
    """Sees what was published in a tick, after the tick."""

    def tick(self, tick: int, time: float, frames: Sequence[tuple[str, Frame]]) -> None:
        """`frames` are (adapter, frame) in schedule order; valid as long as the frames' buffers are."""


class Runtime:
    """The adapters of a plan, wired, and the tick that steps them.

    `adapters` holds a ready, not yet started adapter for every name of the plan; the runtime owns
    them from now on and closes them all. What they publish is held to the data contract at every
    tick: a breach ends the run with an `AdapterError` that names the adapter. With `counting`, values
    out of their bounds are counted and passed on instead. With `only`, the other adapters of the plan take no part:
    nothing that these read may come from them.
    """

    def __init__(
        self,
        plan: Plan,
        adapters: Mapping[str, Adapter],
        signals: Mapping[str, Signal],
        *,
        scratch: Path,
        observers: Sequence[Observer] = (),
        services: Mapping[str, str] | None = None,
        counting: bool = False,
        only: Collection[str] | None = None,
    ) -> None:
        self.plan = plan
        self.signals = signals
        self.scratch = scratch
        self.services = dict(services or {})  # see `Context.service`
        self.observers = list(observers)
        self.stopping = ""  # why the run is to end after the present tick, "" to go on
        self.ticks_done = 0
        self.summaries: dict[str, Summary] = {}  # by adapter, of those that returned one at the end
        self.on_event: Callable[[Event], None] = _ignore  # called with every injected event that is due
        self._asked: deque[Event] = deque()  # injected, not scheduled yet; `at`: s from then on
        self._waiting: list[Event] = []  # scheduled, not due yet
        self._injected: list[Event] = []  # due, in that order; every station knows how far it has got
        self._published: list[tuple[str, Frame]] = []
        self._late: list[tuple[Delivery, Frame]] = []
        part = plan if only is None else replace(plan, adapters=tuple(a for a in plan.adapters if a.name in only))
        self._stages = compile_schedule(part, adapters, signals, counting=counting)
        self.stations = [station for stage in self._stages for station in stage]
        self.mark: MutableSequence[int] = [0]  # number of that call, see `cosim.bus.mark`
        self._called: tuple[str, str] | None = None  # the adapter and the phase of the call that has not returned

    def where(self) -> str:
        """The end of a sentence about what is going on, "" when no adapter is at work."""
        called = self._called
        return f" while adapter '{called[0]}' was in {called[1]}" if called is not None else ""

    def stop(self, reason: str) -> None:
        """End the run after the present tick; safe to call from a signal handler."""
        self.stopping = reason

    def inject(self, *events: Event) -> None:
        """Let `events` happen `at` s after the next tick, 0: then; from any thread."""
        self._asked.extend(events)

    @property
    def reached(self) -> float:
        """Simulated seconds of the last finished tick; -1 before the first."""
        return self.plan.time(self.ticks_done - 1) if self.ticks_done else -1.0

    def published(self) -> Sequence[Frame]:
        """The frames of the last tick, in schedule order."""
        return [frame for _, frame in self._published]

    def start(self) -> None:
        """Start every adapter, in schedule order; those elsewhere get ready at the same time.

        Raises `AdapterError` for the first one that fails; the ones started stay open until `close`.
        """
        for station in self.stations:
            split = station.split
            if split is not None:
                context = self._context(station.plan)
                self._attempt(station, "start", None, partial(split.begin_start, context))
        for station in self.stations:
            if station.split is not None:
                self._attempt(station, "start", None, station.split.end_start)
            else:
                context = self._context(station.plan)
                self._attempt(station, "start", None, partial(station.adapter.start, context))

    def tick(self, tick: int) -> None:
        """Step everything that is due at `tick`, then show the observers what was published."""
        time = self.plan.time(tick)
        published: list[tuple[str, Frame]] = []
        self._published = published
        if self._asked or self._waiting:
            self._schedule(time)
        for stage in self._stages:
            if len(stage) == 1:
                station = stage[0]
                if tick % station.plan.period == 0:
                    self._step(station, tick, time)
            else:
                self._step_together([s for s in stage if tick % s.plan.period == 0], tick, time)
        self._called = None
        if self._late:
            for delivery, frame in self._late:
                deliver(delivery, frame)
            self._late.clear()
        for observer in self.observers:
            observer.tick(tick, time, published)
        self.ticks_done = tick + 1

    def finish(self) -> dict[str, Summary]:
        """Finish every adapter at the end of the run; their summaries by name.

        One that fails does not keep the others from finishing: the first failure is raised after all have
        been called, and `summaries` holds the summaries of the others.
        """
        failures = []
        for station in self.stations:
            try:
                if station.asked >= 0 and station.split is not None:
                    self._attempt(station, "finish", self.reached, station.split.end_step)
                    station.asked = -1
                summary = self._attempt(station, "finish", self.reached, partial(_summary, station.adapter))
                self.summaries[station.plan.name] = summary
            except CosimError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
        return self.summaries

    def close(self) -> list[CosimError]:
        """Close every adapter, the last one first; what went wrong there is logged and returned."""
        faults = []
        for station in reversed(self.stations):
            try:
                self._attempt(station, "close", None, station.adapter.close)
            except CosimError as error:
                faults.append(error)
                log.exception("adapter '%s' failed to close", station.plan.name)
        return faults

    def account(self) -> list[dict[str, Any]]:
        """Per adapter: steps, seconds waited for it, CPU seconds where it runs in a process of its own."""
        return [
            {
                "name": station.plan.name,
                "use": station.plan.use,
                "origin": station.plan.origin,
                "period": station.plan.period * self.plan.step,
                "isolated": station.plan.isolated,
                "steps": station.steps,
                "wall_seconds": station.wall,
                "cpu_seconds": getattr(station.adapter, "cpu_seconds", None),
                "contract": station.inspection.record.as_dict(),
            }
            for station in self.stations
        ]

    def rows(self) -> dict[tuple[str, str], int]:
        """Rows published so far by (adapter, signal)."""
        return {(s.plan.name, signal): n for s in self.stations for signal, n in s.rows.items()}

    def _context(self, plan: AdapterPlan) -> Context:
        folder = self.scratch / plan.name
        folder.mkdir(parents=True, exist_ok=True)
        return Context(
            name=plan.name,
            scene=self.plan.scene,
            period=plan.period * self.plan.step,
            duration=self.plan.duration,
            seed=plan.seed,
            root=str(self.plan.root.resolve()),
            scratch=str(folder.resolve()),
            pacing=self.plan.pacing,
            services={name: self.services[name] for name in plan.services if name in self.services},
            media=plan.media,
            offered={adapter.name: adapter.offers for adapter in self.plan.adapters if adapter.offers},
            written=tuple(dict.fromkeys(name for adapter in self.plan.adapters for name in adapter.writes)),
        )

    def _attempt(self, station: ScheduledAdapter, phase: str, time: float | None, act: Callable[[], T]) -> T:
        """What `act` returns; its time is the station's, and so is the blame for what it raises."""
        begun = perf_counter()
        self._called = station.plan.name, phase
        self.mark[0] = number_of(station.number, phase)
        try:
            return act() if station.guard is None else station.guard(act)
        except BaseException as error:
            if (found := blamed(error, station.plan.name, phase, time)) is error:
                raise
            raise found from error
        finally:
            self._called = None
            self.mark[0] = 0
            station.wall += perf_counter() - begun

    def _step(self, station: ScheduledAdapter, tick: int, time: float) -> None:
        if station.split is not None:
            if station.asked != tick:
                self._attempt(station, "step", time, partial(self._ask, station, tick, time))
            self._await(station, tick, time)
            return
        begun = perf_counter()
        if self.plan.events or self._injected:
            self._give_events(station, time)
        self._called = station.plan.name, "step"
        step, guard, mark = station.adapter.step, station.guard, self.mark
        mark[0] = station.stepping
        try:
            frames = step(time, station.inputs) if guard is None else guard(step, time, station.inputs)
        except BaseException as error:
            if (found := blamed(error, station.plan.name, "step", time)) is error:
                raise
            raise found from error
        finally:
            mark[0] = 0
        station.wall += perf_counter() - begun
        self._publish(station, frames, time)

    def _step_together(self, due: Sequence[ScheduledAdapter], tick: int, time: float) -> None:
        """Steps of adapters that do not read from each other: those elsewhere work meanwhile."""
        for station in due:
            if station.split is not None and station.asked != tick:
                self._attempt(station, "step", time, partial(self._ask, station, tick, time))
        for station in due:
            self._step(station, tick, time)

    def _await(self, station: ScheduledAdapter, tick: int, time: float) -> None:
        assert station.split is not None
        frames = self._attempt(station, "step", time, station.split.end_step)
        station.asked = -1
        following = tick + station.plan.period
        if station.ahead and following <= self.plan.ticks and not self.stopping:
            # It reads nothing, so it may work on its next step while the others do this one.
            after = self.plan.time(following)
            self._attempt(station, "step", after, partial(self._ask, station, following, after))
        self._publish(station, frames, time)

    def _ask(self, station: ScheduledAdapter, tick: int, time: float) -> None:
        self._give_events(station, time)
        assert station.split is not None
        station.split.begin_step(time, station.inputs)
        station.asked = tick

    def _give_events(self, station: ScheduledAdapter, time: float) -> None:
        events, first = self.plan.events, station.next_event
        if station.next_injected < len(self._injected):
            self._give_injected(station, time)
            return
        if first == len(events):
            if station.inputs.events:
                station.inputs.events = ()
            return
        last = first
        while last < len(events) and events[last].at <= time:
            last += 1
        station.inputs.events = events[first:last]
        station.next_event = last

    def _give_injected(self, station: ScheduledAdapter, time: float) -> None:
        planned = []
        while station.next_event < len(self.plan.events) and self.plan.events[station.next_event].at <= time:
            planned.append(self.plan.events[station.next_event])
            station.next_event += 1
        station.inputs.events = (*planned, *self._injected[station.next_injected :])
        station.next_injected = len(self._injected)

    def _schedule(self, time: float) -> None:
        """Make what was injected happen, from `time` (s) on, when it is due."""
        while self._asked:
            event = self._asked.popleft()
            self._waiting.append(replace(event, at=time + event.at))
        due = sorted((event for event in self._waiting if event.at <= time), key=lambda event: event.at)
        self._waiting = [event for event in self._waiting if event.at > time]
        for event in due:
            self._injected.append(event)
            self.on_event(event)

    def _publish(self, station: ScheduledAdapter, frames: Sequence[Frame], time: float) -> None:
        name = station.plan.name
        for read in station.once:
            read.clear()
        expected = station.deliveries
        if station.guard is not None or (type(frames) is not list and type(frames) is not tuple):
            frames = self._taken(station, frames, time)
        if len(frames) != len(expected):
            self._complain_about_signals(station, frames, time)
        if len(frames) > 1 and len({str(getattr(frame, "signal", frame)) for frame in frames}) != len(frames):
            self._complain_about_signals(station, frames, time)
        look, find = station.inspection.look, expected.get
        for frame in frames:
            if type(frame) is not Frame:
                self._complain_about_answer(station, frames, time)
            try:
                deliveries = find(frame.signal)
                wrong = "" if deliveries is None else look(frame, time)
            except Exception as error:
                raise self._unreadable(station, error, time) from error
            if deliveries is None:
                self._complain_about_signals(station, frames, time)
            if wrong:
                raise AdapterError(wrong, adapter=name, phase="step", time=time)
            if station.guard is not None:
                frame.table = station.inspection.kept(frame)
            station.rows[frame.signal] += len(frame.slot)
            self._published.append((name, frame))
            for delivery in deliveries:
                if delivery.delayed:
                    self._late.append((delivery, frame))
                else:
                    deliver(delivery, frame)
        station.steps += 1

    def _taken(self, station: ScheduledAdapter, frames: Sequence[Frame], time: float) -> Sequence[Frame]:
        """What a step returned, in a list of our own, and for a foreign adapter in frames that it cannot change."""
        if not isinstance(frames, Sequence):
            self._complain_about_answer(station, [frames], time)
        frames = list(islice(frames, len(station.deliveries) + 1))  # which may have no end
        try:
            return [frame.taken() if type(frame) is Frame and station.guard else frame for frame in frames]
        except Exception as error:
            raise self._unreadable(station, error, time) from error

    def _unreadable(self, station: ScheduledAdapter, error: Exception, time: float) -> AdapterError:
        message = f"it published a frame that cannot be read: {type(error).__name__}: {error}"
        return AdapterError(message, adapter=station.plan.name, phase="step", time=time)

    def _complain_about_answer(self, station: ScheduledAdapter, found: Sequence[object], time: float) -> NoReturn:
        kinds = ", ".join(type(each).__name__ for each in found)
        message = f"a step must return a list of frames, not {kinds}"
        raise AdapterError(message, adapter=station.plan.name, phase="step", time=time)

    def _complain_about_signals(self, station: ScheduledAdapter, frames: Sequence[Frame], time: float) -> NoReturn:
        found = ", ".join(str(getattr(frame, "signal", type(frame).__name__)) for frame in frames) or "nothing"
        expected = ", ".join(station.deliveries) or "nothing"
        raise AdapterError(
            f"a step must publish each of its signals once: expected {expected}, found {found}",
            adapter=station.plan.name,
            phase="step",
            time=time,
        )


def _ignore(_event: Event) -> None:
    """Do nothing."""


def _summary(adapter: Adapter) -> Summary:
    """The summary that `adapter` returns at the end, as JSON values."""
    try:
        summary = json_value(adapter.finish())
    except ProtocolError as error:
        raise TypeError(str(error)) from error
    if not isinstance(summary, dict):
        raise TypeError(f"a summary is a mapping, not {type(summary).__name__}")
    return summary

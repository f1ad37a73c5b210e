"""What becomes of a coupled run under each of many courses of events, from its present tick on.

    figures = branch(runtime, [plan.events for plan in plans], horizon=60.0, measure=measure)

Every candidate runs in a fork of this process up to the horizon, several at once, with its events in place of the
plan's. Its figures are bit-equal to those of a run whose plan has these events; the run itself does not change. So the
state of every adapter must be in this process, or be the same for all candidates: one that reads nothing and handles
no event (SUMO's worker) is stepped once, and all candidates get its frames. `adapter_states` lists which is which.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import floor
from typing import Protocol

from cosim.bus.runtime import Observer, Runtime
from cosim.bus.schedule import SplitAdapter
from cosim.contract.adapter import Adapter, Context, Inputs, Summary
from cosim.contract.branching import Figures
from cosim.contract.children import in_copies
from cosim.contract.entities import Event
from cosim.contract.frame import Frame
from cosim.contract.registry import adapter_kind
from cosim.scenario.plan.plan import AdapterPlan, Plan


class Measure(Observer, Protocol):
    """Observes what a candidate's run publishes and makes figures of it."""

    def figures(self) -> Mapping[str, float]:
        """The figures up to the last tick."""


@dataclass(frozen=True, slots=True)
class AdapterState:
    """How a candidate gets the state of an adapter."""

    adapter: str
    how: str  # "copied", "shared": stepped once for all, "left out": no figure depends on it, or "refused"
    why: str = ""


def adapter_states(plan: Plan, signals: Collection[str]) -> list[AdapterState]:
    """How candidates get the state of each adapter, for figures that are made of `signals`."""
    sources = {each.name: {name for wire in each.reads for name in wire.sources} for each in plan.adapters}
    needed = {each.name for each in plan.adapters if set(each.writes) & set(signals)}
    while more := {name for one in needed for name in sources[one]} - needed:
        needed |= more
    return [_state(one, plan) if one.name in needed else AdapterState(one.name, "left out") for one in plan.adapters]


def _state(adapter: AdapterPlan, plan: Plan) -> AdapterState:
    kind = adapter_kind(adapter.use)
    if not (adapter.connect or adapter.reads or kind.events) and kind.acts_on == frozenset():
        return AdapterState(adapter.name, "shared")
    if adapter.connect:
        why = f"it runs elsewhere, at {adapter.connect}"
    elif adapter.isolated:
        why = "it runs in a process of its own and is influenced by others"
    elif kind.outside is None:
        why = "its description does not state whether all its state is in this process"
    elif isinstance(kind.outside, str):
        why = kind.outside
    else:
        why = kind.outside(kind.load_config().model_validate(adapter.config), plan.scene)
    return AdapterState(adapter.name, "refused" if why else "copied", why)


class SharedAdapter:
    """An adapter that reads nothing and handles no event, stepped ahead of the run for all branches."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self._split = adapter if isinstance(adapter, SplitAdapter) else None
        self._kept = deque[Sequence[Frame]]()  # of the next steps
        self._asked: float | None = None  # s, the step that it has been asked for

    def foresee(self, times: Sequence[float]) -> None:
        """Have the frames of the next steps, which are at `times` (s)."""
        for time in times[len(self._kept) :]:
            if self._asked is None:
                self._ask(time)
            self._kept.append(self._answer())

    def begin_step(self, time: float, inputs: Inputs) -> None:
        if not self._kept:
            self._ask(time)

    def end_step(self) -> Sequence[Frame]:
        return self._kept.popleft() if self._kept else self._answer()

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        self.begin_step(time, inputs)
        return self.end_step()

    def start(self, context: Context) -> None:
        self.adapter.start(context)

    def begin_start(self, context: Context) -> None:
        if self._split is not None:
            self._split.begin_start(context)
        else:
            self.adapter.start(context)

    def end_start(self) -> None:
        if self._split is not None:
            self._split.end_start()

    def finish(self) -> Summary:
        return self.adapter.finish()

    def close(self) -> None:
        self.adapter.close()

    def _ask(self, time: float) -> None:
        self._asked = time
        if self._split is not None:
            self._split.begin_step(time, Inputs())

    def _answer(self) -> Sequence[Frame]:
        assert self._asked is not None
        time, self._asked = self._asked, None
        frames = self._split.end_step() if self._split is not None else self.adapter.step(time, Inputs())
        return [frame.copy() for frame in frames]  # its next step may write into them


def branch(
    runtime: Runtime,
    candidates: Sequence[Sequence[Event]],
    horizon: float,
    *,
    measure: Callable[[], Measure],
    workers: int | None = None,
) -> Figures:
    """The figures of each candidate after `horizon` (s) from the next tick on, by up to `workers` processes.

    A candidate has the events of the whole run, by time. Raises `ValueError` where they differ from the plan's before
    the present, and what an adapter raises. `runtime` is of the adapters that `adapter_states` does not leave out, the
    shared ones as `SharedAdapter`.
    """
    plan = runtime.plan
    now = plan.time(runtime.ticks_done)
    if not horizon >= 0.0:
        raise ValueError(f"cannot branch over {horizon:g} s")
    last = min(floor((now + horizon) / plan.step + 1e-9), plan.ticks)
    past = _before(plan.events, now)
    if any(_before(events, now) != past for events in candidates):
        raise ValueError(f"a candidate has other events before {now:g} s, where it begins")
    for station in runtime.stations:
        if isinstance(station.adapter, SharedAdapter):
            due = [tick for tick in range(runtime.ticks_done, last + 1) if tick % station.plan.period == 0]
            station.adapter.foresee([plan.time(tick) for tick in due])

    def course(events: Sequence[Event], alive: Callable[[], None]) -> Mapping[str, float]:
        """Advance this fork to the horizon."""
        watch = measure()
        runtime.plan, runtime.observers = replace(plan, events=tuple(events), ticks=last), [watch]
        for tick in range(runtime.ticks_done, last + 1):
            alive()
            runtime.tick(tick)
        return watch.figures()

    found = in_copies(
        [partial(course, events) for events in candidates], workers or len(os.sched_getaffinity(0)), limit=plan.timeout
    )
    return Figures.of(found)


def _before(events: Sequence[Event], time: float) -> list[Event]:
    return [event for event in events if event.at < time]

"""The schedule of a tick, compiled once: who is stepped in which order, and where frames go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from cosim.bus.guard import CallGuard
from cosim.bus.inspection import Inspection
from cosim.bus.mark import number_of
from cosim.contract.adapter import Adapter, Context, Inputs
from cosim.contract.errors import RunError
from cosim.contract.frame import Frame
from cosim.contract.registry import is_foreign
from cosim.contract.signals import Signal
from cosim.contract.tables import Names
from cosim.scenario.plan.plan import AdapterPlan, Plan


@runtime_checkable
class SplitAdapter(Protocol):
    """An adapter whose step can be asked for and awaited apart, so that several work at once."""

    def begin_step(self, time: float, inputs: Inputs) -> None:
        """Ask for the step."""

    def end_step(self) -> Sequence[Frame]:
        """Wait for its frames."""

    def begin_start(self, context: Context) -> None:
        """Ask for the start."""

    def end_start(self) -> None:
        """Wait for it."""


@dataclass(slots=True)
class Delivery:
    """Where a published frame has to go."""

    frames: list[Frame]  # the reader's list for the signal
    index: int  # its place there; unused for event rows
    delayed: bool
    copy: bool  # the reader may read it later than the buffers stay valid
    guard: bool = False  # the reader is foreign code in this process, which could write into the arrays of others


@dataclass(slots=True)
class ScheduledAdapter:
    """An adapter on the schedule, with everything that a step of it needs."""

    plan: AdapterPlan
    adapter: Adapter
    split: SplitAdapter | None
    inputs: Inputs
    deliveries: dict[str, list[Delivery]]
    once: tuple[list[Frame], ...]  # inputs to be emptied when they have been read
    ahead: bool  # reads nothing, so its next step may be asked for in advance
    inspection: Inspection
    number: int = 0  # its place in the order of the plan
    stepping: int = 0  # the number of its steps, see `cosim.bus.mark`
    next_event: int = 0
    next_injected: int = 0
    steps: int = 0
    asked: int = -1  # tick that has been asked for in advance
    guard: CallGuard | None = None  # around the calls of a foreign adapter in this process
    wall: float = 0.0  # s spent waiting for this adapter
    rows: dict[str, int] = field(default_factory=dict)  # published so far, by signal


def compile_schedule(
    plan: Plan, adapters: Mapping[str, Adapter], signals: Mapping[str, Signal], *, counting: bool = False
) -> list[list[ScheduledAdapter]]:
    """Stations in schedule order, grouped into stages of adapters that may work at the same time.

    `counting` has values at fault counted instead of ending the run.

    Raises `RunError` when an adapter of the plan is not among `adapters`.
    """
    missing = [each.name for each in plan.adapters if each.name not in adapters]
    if missing:
        raise RunError(f"no adapter was built for {', '.join(missing)}")
    inputs: dict[str, dict[str, list[Frame]]] = {}
    once: dict[str, list[list[Frame]]] = {}
    deliveries: dict[str, dict[str, list[Delivery]]] = {
        each.name: {signal: [] for signal in each.writes} for each in plan.adapters
    }
    periods = {each.name: each.period for each in plan.adapters}
    for each in plan.adapters:
        guard = is_foreign(each.use) and not isinstance(adapters[each.name], SplitAdapter)
        inputs[each.name] = {}
        once[each.name] = []
        for wire in each.reads:
            frames: list[Frame] = []
            inputs[each.name][wire.signal] = frames
            events = signals[wire.signal].rows == "event"
            if events:
                once[each.name].append(frames)
            for source in wire.sources:
                late = each.period > periods[source] or wire.delayed
                # a place of its own only where the row set replaces the one before
                index = -1 if events else wire.sources.index(source)
                deliveries[source][wire.signal].append(Delivery(frames, index, wire.delayed, events and late, guard))
    stages: list[list[ScheduledAdapter]] = []
    names = Names(plan.scene)
    for number, each in enumerate(plan.adapters):
        adapter = adapters[each.name]
        split = adapter if isinstance(adapter, SplitAdapter) else None
        station = ScheduledAdapter(
            plan=each,
            adapter=adapter,
            split=split,
            inputs=Inputs(frames=inputs[each.name]),
            deliveries=deliveries[each.name],
            once=tuple(once[each.name]),
            ahead=split is not None and not each.reads,
            inspection=Inspection(each, signals, plan.scene, counting=counting, names=names),
            guard=CallGuard() if is_foreign(each.use) and split is None else None,
            rows=dict.fromkeys(each.writes, 0),
            number=number,
            stepping=number_of(number, "step"),
        )
        together = stages and not _reads_from(each, stages[-1]) and any(s.split for s in [*stages[-1], station])
        if together:
            stages[-1].append(station)
        else:
            stages.append([station])
    return stages


def _reads_from(plan: AdapterPlan, stage: Sequence[ScheduledAdapter]) -> bool:
    names = {station.plan.name for station in stage}
    return any(not wire.delayed and names.intersection(wire.sources) for wire in plan.reads)


def deliver(delivery: Delivery, frame: Frame) -> None:
    """Put `frame` where its reader will find it."""
    frames = delivery.frames
    if delivery.copy:
        frame = frame.copy()
    if delivery.guard:
        frame = frame.guarded()
    if delivery.index < 0 or delivery.index >= len(frames):
        # Before the first tick is over the list fills up in schedule order, which is that of the sources.
        frames.append(frame)
    else:
        frames[delivery.index] = frame

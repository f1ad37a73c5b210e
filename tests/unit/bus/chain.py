"""A chain of small adapters and a plan for it, for tests of runtime and drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.entities import Event, Node, Scene
from cosim.contract.frame import Frame
from cosim.contract.signals import Column, Signal
from cosim.scenario.plan.plan import AdapterPlan, Lag, Plan, Wire

SIGNALS = {
    "place": Signal("place", "", (Column("x", "float64", "m", ""),)),
    "delay": Signal("delay", "", (Column("delay", "float64", "s", ""),)),
    "load": Signal("load", "", (Column("load", "float64", "1", ""),)),
    "done": Signal("done", "", (Column("task", "int64", "", ""),), rows="event"),
}
NODES = 5


@dataclass
class Step:
    """An adapter that publishes what `rule` makes of its inputs and keeps a diary."""

    signal: str = ""
    column: str = ""
    reads: str = ""
    factor: float = 1.0
    diary: list[tuple[str, float, float | None]] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)

    def start(self, context: Context) -> None:
        self.name = context.name
        self.diary.append(("start", context.period, None))

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        self.events.extend((time, event.do) for event in inputs.events)
        if self.reads:
            frame = inputs.one(self.reads)
            seen = None if frame is None else float(next(iter(frame.columns.values()))[0])
            base = np.zeros(NODES) if frame is None else next(iter(frame.columns.values()))
        else:
            seen, base = None, np.full(NODES, time)
        self.diary.append(("step", time, seen))
        if not self.signal:
            return []
        slot = np.arange(NODES, dtype=np.int32)
        return [Frame(self.signal, time, slot, {self.column: base * self.factor + 1.0})]

    def finish(self) -> Summary:
        self.diary.append(("finish", 0.0, None))
        return {"steps": sum(kind == "step" for kind, _, _ in self.diary)}

    def close(self) -> None:
        self.diary.append(("close", 0.0, None))


def adapter_plan(
    name: str, reads: Sequence[tuple[str, Sequence[str], bool]] = (), writes: Sequence[str] = (), period: int = 1
) -> AdapterPlan:
    wires = tuple(Wire(signal, tuple(sources), delayed) for signal, sources, delayed in reads)
    return AdapterPlan(name, name, {}, period, wires, tuple(writes), "simulated", False, "", (1, 2))


def make_plan(
    adapters: Sequence[AdapterPlan],
    *,
    ticks: int = 4,
    events: Sequence[Event] = (),
    pacing: float = 0.0,
    lag: Lag | None = None,
) -> Plan:
    return Plan(
        name="chain",
        title="",
        description="",
        step_ns=500_000_000,
        ticks=ticks,
        seed=1,
        pacing=pacing,
        lag=lag or Lag("report", 0.1, 2.0),
        timeout=5.0,
        scene=Scene.build(tuple(Node(f"node-{i}", "device", "device") for i in range(NODES))),
        adapters=tuple(adapters),
        events=tuple(events),
        recordings=(),
        root=Path(),
        resolved="",
    )

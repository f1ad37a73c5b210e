"""The chain of four trivial adapters that the bus is measured with, and the same without a bus."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import AdapterConfig, AdapterKind, Context, Inputs, Ports, Read, Summary
from cosim.contract.entities import Node, Scene
from cosim.contract.frame import Frame, constant
from cosim.contract.signals import Column, Signal
from cosim.scenario.plan.plan import AdapterPlan, Lag, Plan, Wire

Floats = NDArray[np.float64]


def _signal(name: str, *columns: str) -> Signal:
    return Signal(name, name, tuple(Column(column, "float64", "1", column) for column in columns))


SIGNALS = {s.name: s for s in (_signal("state", "x", "y", "speed"), _signal("delay", "delay"), _signal("load", "load"))}


class ChainConfig(AdapterConfig):
    """Every adapter of the chain has as many rows."""

    rows: int


def start_state(rows: int) -> tuple[Floats, Floats, Floats]:
    """x, y and speed of every vehicle at the start."""
    rng = np.random.default_rng(1)
    return rng.random(rows) * 1000, rng.random(rows) * 1000, rng.random(rows) * 30


class _Base:
    def __init__(self, config: ChainConfig) -> None:
        self.rows = config.rows

    def start(self, context: Context) -> None:
        self.slot = constant(np.arange(self.rows, dtype=np.int32))
        self.buffers = [np.zeros(self.rows), np.zeros(self.rows)]

    def buffer(self) -> Floats:
        """The one of the two buffers that nobody reads any more."""
        self.buffers.reverse()
        return self.buffers[0]

    def finish(self) -> Summary:
        return {}

    def close(self) -> None:
        pass


class Mobility(_Base):
    def start(self, context: Context) -> None:
        super().start(context)
        self.x, y, speed = start_state(self.rows)
        self.y, self.speed = constant(y), constant(speed)

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        x = np.multiply(self.speed, 0.1, out=self.buffer())
        x += self.x
        self.x = x
        return (Frame("state", time, self.slot, {"x": x, "y": self.y, "speed": self.speed}),)


class Network(_Base):
    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        state = inputs.frames["state"][0]
        delay = np.add(state["x"], state["y"], out=self.buffer())
        return (Frame("delay", time, state.slot, {"delay": delay}),)


class Continuum(_Base):
    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        delay = inputs.frames["delay"][0]
        load = np.multiply(delay["delay"], 0.5, out=self.buffer())
        return (Frame("load", time, delay.slot, {"load": load}),)


class Recorder(_Base):
    total = 0.0

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        self.total += float(inputs.frames["load"][0]["load"].sum())
        return ()

    def finish(self) -> Summary:
        return {"total": self.total}


def _kind(name: str, cls: str, reads: str, writes: str) -> AdapterKind:
    return AdapterKind(
        name=name,
        summary="part of the benchmark's chain",
        config="benchmarks.chain:ChainConfig",
        factory=f"benchmarks.chain:{cls}",
        ports=Ports((Read(reads),) if reads else (), (writes,) if writes else ()),
        signals=tuple(SIGNALS.values()),
    )


MOBILITY = _kind("mobility", "Mobility", "", "state")
NETWORK = _kind("network", "Network", "state", "delay")
CONTINUUM = _kind("continuum", "Continuum", "delay", "load")
RECORDER = _kind("recorder", "Recorder", "load", "")
KINDS = {"mobility": MOBILITY, "network": NETWORK, "continuum": CONTINUUM, "recorder": RECORDER}
_WIRES = {"mobility": (), "network": (("state", "mobility"),), "continuum": (("delay", "network"),)}


def make_plan(rows: int, ticks: int) -> Plan:
    """The chain as a plan of `ticks` steps."""
    wires = {**_WIRES, "recorder": (("load", "continuum"),)}
    adapters = tuple(
        AdapterPlan(
            name=name,
            use=name,
            config={"rows": rows},
            period=1,
            reads=tuple(Wire(signal, (source,), False) for signal, source in wires[name]),
            writes=kind.ports_of(ChainConfig(rows=rows)).writes,
            origin="simulated",
            isolated=False,
            connect="",
            seed=(1,),
        )
        for name, kind in KINDS.items()
    )
    template = Node("vehicle", "vehicle", "device")
    return Plan(
        name="chain",
        title="",
        description="",
        step_ns=100_000_000,
        ticks=ticks,
        seed=1,
        pacing=0.0,
        lag=Lag("report", 1.0, 1.0),
        timeout=60.0,
        scene=Scene(nodes=(template,), capacity=rows),
        adapters=adapters,
        events=(),
        recordings=(),
        root=Path(),
        resolved="",
    )


def bare(rows: int, ticks: int) -> float:
    """CPU seconds per tick of the same arithmetic in a plain loop over preallocated arrays."""
    x, y, speed = start_state(rows)
    moved, delay, load = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    total = 0.0
    warm = max(10, ticks // 20)
    begun = 0.0
    for tick in range(ticks + warm + 1):
        if tick == warm:
            begun = time.process_time()
        np.multiply(speed, 0.1, out=moved)
        x += moved
        np.add(x, y, out=delay)
        np.multiply(delay, 0.5, out=load)
        total += float(load.sum())
    return (time.process_time() - begun) / ticks


def direct(rows: int, ticks: int) -> float:
    """CPU seconds per tick of the four adapters called one after the other, with no bus and nothing looked at.

    No bus of Python adapters can cost less.
    """
    plan = make_plan(rows, ticks)
    adapters = [kind.build(ChainConfig(rows=rows)) for kind in KINDS.values()]
    given: list[Inputs] = []
    latest: dict[str, list[Frame]] = {signal: [] for signal in SIGNALS}
    for adapter, part in zip(adapters, plan.adapters, strict=True):
        adapter.start(Context(part.name, plan.scene, plan.step, plan.duration, part.seed, "", ""))
        given.append(Inputs({wire.signal: latest[wire.signal] for wire in part.reads}))
    warm = max(10, ticks // 20)
    begun = 0.0
    for tick in range(ticks + warm + 1):
        if tick == warm:
            begun = time.process_time()
        now = plan.time(tick)
        for adapter, inputs in zip(adapters, given, strict=True):
            for frame in adapter.step(now, inputs):
                latest[frame.signal][:] = (frame,)
    return (time.process_time() - begun) / ticks


def expected(rows: int, ticks: int) -> float:
    """The recorder's total after ticks 0..`ticks`, in closed form."""
    x, y, speed = start_state(rows)
    count = ticks + 1
    return 0.5 * (count * float((x + y).sum()) + 0.1 * float(speed.sum()) * count * (count + 1) / 2)

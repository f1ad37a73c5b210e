"""The tasks that live nodes get: arrivals and sizes of the scenario's workloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from adapters.live.config import OffloadBlock
from cosim.errors import Problem
from cosim.live.protocol import MAX_PAYLOAD
from cosim.plan.entities import Law, Scene, Workload

MOST = 1000.0  # tasks/s of one workload


@dataclass(frozen=True, slots=True)
class Arrival:
    """A task that is to be made."""

    at: float  # s, simulated
    device: int  # slot of the node that makes it
    input: int  # B
    output: int  # B
    work: float  # cycles, of all stages
    sent: int  # B that go to the host: the input, or what the stages on board have left of it
    onboard: float = 0.0  # cycles of the stages on board


def problems(scene: Scene, offload: Mapping[str, OffloadBlock], name: str) -> list[Problem]:
    """What live nodes cannot be sent."""
    known = {load.name: load for load in scene.workloads}
    found = []
    for key, block in offload.items():
        at = f"adapters.{name}.offload.{key}"
        load = known.get(key)
        if load is None:
            names = ", ".join(known) or "none"
            found.append(Problem(f"there is no workload '{key}'", at, hint=f"the scenario has {names}"))
            continue
        odd = load.specialities()
        if block.path == "network" and _in_line(load):
            odd.pop("graph", None)
        if odd:
            hint = "with path: network stages that follow one another can be run, those on board first"
            words = f"live nodes do not run {', '.join(odd.values())}"
            found.append(Problem(words, at, hint=hint if "graph" in odd else ""))
        if block.path == "network":
            found += _unable(scene, load, at)
        if load.idle > 0.0:
            found.append(Problem("live nodes do not follow active and idle times", at))
        rate = Arrivals.rate(load, block)
        if rate > MOST:
            message = f"{rate:g} tasks/s are more than the {MOST:g} that are sent"
            found.append(Problem(message, at, hint="lower 'share'"))
        for what, law in (("input", _sent(load)), ("output", _output(load))):
            most = max(law.a, law.b) if law.law == "uniform" else law.a
            if most > MAX_PAYLOAD:
                found.append(Problem(f"its {what} of {most:g} B is more than the {MAX_PAYLOAD} B that are sent", at))
    return found


def _unable(scene: Scene, load: Workload, at: str) -> list[Problem]:
    """Sources whose tasks cannot cross the emulated network, since they would not be real."""
    computers = dict(scene.computers())
    wrong = dict[str, None]()
    for slot in (part.first + k for part in load.sources for k in range(part.count)):
        node = computers.get(slot)
        if node is None or node.runs is None or node.live is None:
            wrong[node.id if node else scene.template(slot).id] = None
    if not wrong:
        return []
    names = ", ".join(list(wrong)[:5])
    message = f"tasks of {names} cannot cross the emulated network: no software of theirs sends them"
    hint = "give them 'runs: vuav', 'vrover' or 'vedgenode', and 'live: {}', or use path: management"
    return [Problem(message, f"{at}.path", hint=hint)]


def _in_line(load: Workload) -> bool:
    """Whether stages follow one another, the first of them on board, the others wherever there is room."""
    places = [stage.pinned for stage in load.graph]
    return (
        places == sorted(places, reverse=True)
        and not all(places)
        and all(stage.after == ((k - 1,) if k else ()) for k, stage in enumerate(load.graph))
        and not any(stage.accelerator for stage in load.graph)
    )


def _sent(load: Workload) -> Law:
    """What goes from the device to the host."""
    return next((stage.output for stage in reversed(load.graph) if stage.pinned), load.input)


def _output(load: Workload) -> Law:
    """What comes back."""
    return load.graph[-1].output if load.graph else load.output


class Arrivals:
    """The arrivals of one workload, in order. The same generator gives the same ones."""

    def __init__(self, load: Workload, block: OffloadBlock, rng: np.random.Generator) -> None:
        self._load, self._rng = load, rng
        self._sources = [part.first + k for part in load.sources for k in range(part.count)]
        self._rate = self.rate(load, block)
        self._next = load.start + self._pause()

    @staticmethod
    def rate(load: Workload, block: OffloadBlock) -> float:
        """Tasks/s: of all sources that take part, times the share of live nodes."""
        return load.rate * sum(part.count for part in load.sources) * load.share * block.share

    def until(self, time: float) -> Iterator[Arrival]:
        """Those up to `time` (s) that were not given yet."""
        while self._next <= min(time, self._load.stop):
            load = self._load
            size, back = (int(min(self._draw(law), 2**62)) for law in (load.input, _output(load)))
            device = self._sources[int(self._rng.integers(len(self._sources)))]
            if load.graph:
                sent = int(min(self._draw(_sent(load)), 2**62))
                onboard = sum(self._draw(stage.work) for stage in load.graph if stage.pinned)
                work = onboard + sum(self._draw(stage.work) for stage in load.graph if not stage.pinned)
                yield Arrival(self._next, device, size, back, work, sent, onboard)
            else:
                yield Arrival(self._next, device, size, back, self._draw(load.work), size)
            self._next += self._pause()

    def _pause(self) -> float:
        if self._rate <= 0.0:
            return float("inf")
        mean = 1.0 / self._rate
        return float(self._rng.exponential(mean)) if self._load.arrivals == "poisson" else mean

    def _draw(self, law: Law) -> float:
        if law.law == "fixed":
            return law.a
        if law.law == "exponential":
            return float(self._rng.exponential(law.a))
        return float(self._rng.uniform(law.a, law.b))

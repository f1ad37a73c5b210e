"""The continuum of a whole scenario, ready to be run many times in one process (`cosim.engine.continuum.batches`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from numpy.typing import NDArray

from cosim.contract.adapter import Summary
from cosim.contract.frame import Frame
from cosim.engine.continuum.batches import Action
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.system import System


class HostRows(Protocol):
    """Keeps what the meters of one engine show, from time 0 on at every period."""

    def look(self) -> None:
        """Take down what they show now."""
        ...

    def rows(self) -> Mapping[str, NDArray[Any]]:
        """Columns of the signal `host` at all looks, one after another, and `time` and `slot`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What the adapter makes its engine from, and all that it passes to the engine while time passes."""

    system: System
    seed: int  # of the engine under the scenario's root seed
    scheduler: int | Callable[[Any, Any, Any], int]
    options: Mapping[str, float | bool]  # patience, drop_late, threshold
    duration: float  # s
    period: float  # s between two rows of the signal `host`
    names: tuple[str, ...]  # of the nodes, by slot
    workloads: tuple[str, ...]
    timeline: tuple[tuple[float, Action], ...]  # events, and the access network at every step
    hosts: Callable[[Engine], HostRows]  # of one engine that is at time 0
    results: Callable[[Engine], tuple[Frame, Summary]]  # at the end: tasks not drained before, and the ledgers
    rest: object  # configuration that is in none of the above; compared for equality

    def run(self) -> tuple[Frame, Summary]:
        """The results of one run, to the bit those that it has on the bus."""
        engine = Engine(self.system, self.seed, self.scheduler, **cast(dict[str, Any], self.options))
        for time, act in self.timeline:
            engine.advance(time)
            act(engine)
        engine.advance(self.duration)
        return self.results(engine)

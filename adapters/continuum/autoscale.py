"""Hosts of a kind that start and stop by the tasks per core of those that run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cosim.adapters.continuum.config import AutoscaleConfig
from cosim.contract.entities import Scene
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.layout import OFF, ON


@dataclass(slots=True)
class _Group:
    """The hosts of a kind, in the order of the file. A host whose node has failed is left alone until it is back."""

    config: AutoscaleConfig
    slots: Sequence[int]
    ready: dict[int, float] = field(default_factory=dict)  # s, when the boot of a slot ends
    looks: int = 1  # the next one is at so many times `every`
    starts: int = 0
    stops: int = 0

    @property
    def due(self) -> float:
        """s, the next time at which something is to be done."""
        return min([self.looks * self.config.every, *self.ready.values()])

    def act(self, engine: Engine) -> None:
        """Do what is due now."""
        for slot in [slot for slot, at in self.ready.items() if at <= engine.now]:
            del self.ready[slot]
            if engine.state.nodes["up"][slot] and _state(engine, slot) == ON:
                engine.serve([slot], takes=True)
        if self.looks * self.config.every <= engine.now:
            self.looks += 1
            self._look(engine)

    def _look(self, engine: Engine) -> None:
        """Start or stop one host, and turn those off that stop and have no task left."""
        state, config = engine.state, self.config
        works = [slot for slot in self.slots if state.nodes["up"][slot]]
        hosts = {slot: state.hosts[state.nodes["host"][slot]] for slot in works}
        running = [slot for slot in works if hosts[slot]["up"]]
        idle = [slot for slot in works if _state(engine, slot) == OFF]
        ending = [slot for slot in works if slot not in (*running, *idle, *self.ready)]
        cores = sum(int(hosts[slot]["cores"]) for slot in works if slot in (*running, *self.ready))
        load = sum(int(hosts[slot]["assigned"]) for slot in running) / cores if cores else math.inf
        if load > config.start and ending:
            engine.serve([ending.pop(0)], takes=True)
            self.starts += 1
        elif load > config.start and idle:
            self._boot(engine, idle[0])
        elif load < config.stop and len(running) > config.least and not self.ready:
            engine.serve(running[-1:], takes=False)
            ending.append(running[-1])
            self.stops += 1
        for slot in ending:
            if hosts[slot]["assigned"] == 0:
                engine.serve([slot], takes=False, turns=-1)

    def _boot(self, engine: Engine, slot: int) -> None:
        engine.serve([slot], takes=False, turns=1)
        self.starts += 1
        self.ready[slot] = engine.now + float(engine.state.machines["boot_time"][engine.state.nodes["machine"][slot]])
        if self.ready[slot] <= engine.now:
            self.act(engine)


def _state(engine: Engine, slot: int) -> int:
    """What the machine of a node is doing."""
    return int(engine.state.machines["state"][engine.state.nodes["machine"][slot]])


class Autoscaler:
    """Starts and stops hosts; to be asked to `act` when it is `due` (s)."""

    def __init__(self, config: Mapping[str, AutoscaleConfig], scene: Scene, engine: Engine) -> None:
        of = {kind: [slot for slot, node in enumerate(scene.nodes) if node.kind == kind] for kind in config}
        self._groups = {kind: _Group(config[kind], slots) for kind, slots in of.items()}
        for group in self._groups.values():
            if later := group.slots[group.config.least :]:
                engine.serve(later, takes=False, turns=-1)

    @property
    def due(self) -> float:
        """s, inf: never."""
        return min((group.due for group in self._groups.values()), default=np.inf)

    def act(self, engine: Engine) -> None:
        """Do what is due at the engine's present time."""
        for group in self._groups.values():
            group.act(engine)

    def summary(self) -> dict[str, dict[str, int]]:
        """Starts and stops by kind."""
        return {kind: {"starts": group.starts, "stops": group.stops} for kind, group in self._groups.items()}

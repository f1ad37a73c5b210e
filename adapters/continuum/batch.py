"""The continuum without a bus: what is needed to run a scenario that has no other adapter many times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from cosim.adapters.continuum import ADAPTER
from cosim.adapters.continuum.access import Access
from cosim.adapters.continuum.air import Air
from cosim.adapters.continuum.books import HostLog, summary, task_frame
from cosim.adapters.continuum.check import problems
from cosim.adapters.continuum.config import ContinuumConfig
from cosim.adapters.continuum.world import ContinuumWorld, build, slots_of
from cosim.contract.adapter import Context
from cosim.contract.entities import Event
from cosim.contract.errors import refuse
from cosim.contract.faults import LinkChanges
from cosim.engine.continuum.batches import Action
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.prepared import Prepared
from cosim.schedulers import of_files, scheduler

_OPTIONS = ("patience", "drop_late", "threshold")


def prepare(config: ContinuumConfig, context: Context, events: Sequence[Event]) -> Prepared | None:
    """The scenario's continuum for `cosim.engine.continuum.batches.Batcher`.

    A run of it ends tasks at the same times, to the bit, as a run of the scenario on the bus. Raises
    `ScenarioError` as the adapter does. None where members of fleets come and go, nodes are real, or
    wide-area links change with every transfer, nodes fail by themselves, decisions take time, or a policy
    remembers what has happened (those of `mlsysops` do).
    """
    scene = context.scene
    if (
        scene.fleets
        or scene.real
        or config.failures
        or any(event.do in ADAPTER.events for event in events)  # a policy that is placed or replaced
        or of_files(config.scheduler)
        or (config.network is not None and config.network.wan == "empirical")
    ):
        return None
    refuse(problems(config, context))
    chosen = scheduler(config.scheduler)
    if (
        config.decide is not None
        or config.deciding is not None
        or config.autoscale
        or isinstance(chosen.make, type)
        or (chosen.make is not None and "task" not in chosen.decisions)
    ):
        return None
    world = build(scene, config, Path(context.root), context.duration)
    return Prepared(
        system=world.system,
        seed=int(np.random.SeedSequence(context.seed).generate_state(1, np.uint64)[0]),
        scheduler=chosen.for_continuum(),
        options={name: getattr(config, name) for name in _OPTIONS},
        duration=context.duration,
        period=context.period,
        names=world.names,
        workloads=tuple(load.name for load in scene.workloads),
        timeline=tuple(_Timeline(config, context, world).actions(events)),
        hosts=lambda engine: HostLog(engine, world, scene),
        results=lambda engine: (task_frame(engine, context.duration, engine.drain()), summary(engine, world, scene)),
        rest=(config.model_dump(exclude={*_OPTIONS, "scheduler", "threads"}), tuple(events)),
    )


class _Timeline:
    """The changes that the adapter passes to an engine in a run. An engine's own network restarts at time 0."""

    def __init__(self, config: ContinuumConfig, context: Context, world: ContinuumWorld) -> None:
        self._config, self._context, self._system = config, context, world.system
        self._access: WeakKeyDictionary[Engine, tuple[Access, Air]] = WeakKeyDictionary()
        self._everyone = np.ones(context.scene.capacity, np.bool_)

    def actions(self, events: Sequence[Event]) -> list[tuple[float, Action]]:
        """In the order of time; events come before the step of the same time."""
        found = [(event.at, action) for event, action in self._events(events)]
        if self._config.network is not None:
            count = round(self._context.duration / self._context.period)
            found += [(k * self._context.period, self._step(k)) for k in range(count + 1)]
            found.sort(key=lambda one: one[0])  # stable
        return [one for one in found if one[0] <= self._context.duration]

    def _events(self, events: Sequence[Event]) -> list[tuple[Event, Action]]:
        changes = LinkChanges(self._context.scene.capacity)
        found: list[tuple[Event, Action]] = []
        for event in sorted(events, key=lambda event: event.at):
            slots = slots_of(event.nodes)
            if event.do == "fail":
                found.append((event, partial(Engine.fail, slots=slots)))
            elif event.do == "recover":
                found.append((event, partial(Engine.recover, slots=slots)))
            elif event.do in ("degrade", "restore"):
                changes.add(event)
                found.append((event, self._links(changes)))
        return found

    def _links(self, changes: LinkChanges) -> Action:
        links = np.arange(len(self._system.link_a))
        factor, delay, loss = changes.between(self._system.link_a, self._system.link_b)

        def act(engine: Engine) -> None:
            if len(links):
                engine.set_links(links, factor, delay, loss)

        return act

    def _step(self, number: int) -> Action:
        """Step `number` of the access network that the continuum computes itself."""
        network, context = self._config.network, self._context
        assert network is not None

        def act(engine: Engine) -> None:
            if number == 0:
                access, air = Access(network, context.scene, engine, context.period), Air.silent()
            else:
                access, air = self._access[engine]
            frame = access.frame(number * context.period, self._everyone, ())
            air = air.following([frame], self._everyone)
            self._access[engine] = access, air
            if len(air.slot):
                engine.set_radio(air.slot, air.cell, air.uplink, air.downlink, air.delay, air.loss)

        return act

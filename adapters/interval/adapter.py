"""Lets one interval pass per step and turns what happened into frames."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adapters.interval.books import Books
from adapters.interval.config import POLICIES, IntervalConfig
from adapters.interval.world import Sources, World, build
from cosim.bus.adapter import Context, Inputs, Summary
from cosim.bus.frame import Frame
from cosim.continuum.interval.simulator import Decide, Interval
from cosim.errors import Problem, ScenarioError


class IntervalAdapter:
    """Containers on hosts.

    step(t) takes in the containers that devices made since the last step, lets the interval that ends
    at t pass, and then lets hosts fail and recover whose events have become due.
    """

    def __init__(self, config: IntervalConfig) -> None:
        self._config = config

    def start(self, context: Context) -> None:
        """Build hosts and profiles. Raises `ScenarioError` for a scene that has no hosts, or a bad policy."""
        config = self._config
        self._world: World = build(context.scene, config, context.name)
        if config.boot > context.period:
            raise ScenarioError(
                Problem(
                    f"a boot time of {config.boot:g} s is longer than an interval, {context.period:g} s",
                    path=f"adapters.{context.name}.boot",
                    hint="raise 'step' or lower 'boot'",
                )
            )
        self._simulation = Interval(
            self._world.fleet,
            self._world.workload,
            int(np.random.SeedSequence(context.seed).generate_state(1, np.uint64)[0]),
            policy=_policy(config.policy, context.name),
            quirks=self._world.quirks,
            length=context.period,
            slots=config.slots,
            overhead=config.overhead,
            switch_off=config.switch_off,
            boot=config.boot,
        )
        self._sources = Sources(context)
        self._books = Books(self._simulation, self._world, context.scene)
        self._scene = context.scene
        self._host_of = {int(slot): host for host, slot in enumerate(self._world.slots)}
        self._intervals = 0

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """The interval that ends at `time`; at time 0 nothing has passed."""
        if time > 0.0:
            self._intervals += 1
            rows, makers = self._sources.come(self._intervals, self._present(inputs))
            self._simulation.add(rows)
            self._books.note(makers)
            self._simulation.step()
        for event in sorted(inputs.events, key=lambda event: event.at):
            hosts = [
                self._host_of[slot]
                for part in event.nodes
                for slot in range(part.first, part.first + part.count)
                if slot in self._host_of
            ]
            if event.do == "fail":
                self._simulation.fail(hosts)
            elif event.do == "recover":
                self._simulation.recover(hosts)
        return (self._books.tasks(time), self._books.hosts(time))

    def finish(self) -> Summary:
        """The ledgers of tasks, energy and cost."""
        return self._books.summary()

    def close(self) -> None:
        """Nothing to release: all of it is memory."""

    def _present(self, inputs: Inputs) -> NDArray[np.bool_]:
        """Static nodes always, members of fleets when a mobility frame has them."""
        present = np.zeros(self._scene.capacity, np.bool_)
        present[: len(self._scene.nodes)] = True
        for frame in inputs.all("mobility"):
            present[frame.slot] = True
        return present


def _policy(name: str, adapter: str) -> str | Decide:
    if name in POLICIES:
        return name
    module, _, attribute = name.partition(":")
    try:
        function: Decide = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ScenarioError(
            Problem(f"policy '{name}' cannot be imported: {error}", path=f"adapters.{adapter}.policy")
        ) from error
    if not callable(function):
        raise ScenarioError(Problem(f"policy '{name}' is not a function", path=f"adapters.{adapter}.policy"))
    return function

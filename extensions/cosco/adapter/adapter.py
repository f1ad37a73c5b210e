"""Lets one interval pass per step and turns what happened into frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import Context, InMemory, Inputs, Summary
from cosim.contract.entities import Event
from cosim.contract.errors import refuse
from cosim.contract.frame import Frame
from cosim.extensions.cosco.adapter.books import IntervalAccounts
from cosim.extensions.cosco.adapter.check import problems
from cosim.extensions.cosco.adapter.config import POLICIES, IntervalConfig
from cosim.extensions.cosco.adapter.world import IntervalWorld, Sources, build
from cosim.extensions.cosco.interval.simulator import Interval
from cosim.extensions.cosco.state import per_interval
from cosim.schedulers import scheduler


class IntervalAdapter(InMemory[IntervalConfig]):
    """Containers on hosts.

    step(t) takes in the containers that devices made since the last step, lets the interval that ends
    at t pass, and then lets hosts fail and recover whose events have become due.
    """

    def start(self, context: Context) -> None:
        """Build hosts and profiles. Raises `ScenarioError` for what `check` finds."""
        config = self._config
        refuse(problems(config, context))
        self._world: IntervalWorld = build(context.scene, config, context.name)
        chosen = None if config.policy in POLICIES else scheduler(config.policy)
        policy: Any = config.policy if chosen is None else chosen.function  # a function of a View, if it is one
        self._simulation = Interval(
            self._world.fleet,
            self._world.workload,
            int(np.random.SeedSequence(context.seed).generate_state(1, np.uint64)[0]),
            policy=policy,
            quirks=self._world.quirks,
            length=context.period,
            slots=config.slots,
            overhead=config.overhead,
            switch_off=config.switch_off,
            boot=config.boot,
        )
        if chosen is not None and chosen.make is not None:
            self._simulation.decide_by(per_interval(chosen.policy("interval"), self._simulation))
        self._sources = Sources(context)
        self._books = IntervalAccounts(self._simulation, self._world, context.scene)
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
            if event.do == "fail":
                self._simulation.fail(self.struck(event))
            elif event.do == "recover":
                self._simulation.recover(self.struck(event))
        return (self._books.tasks(time), self._books.hosts(time))

    @property
    def simulation(self) -> Interval:
        """The model, from `start` on."""
        return self._simulation

    def struck(self, event: Event) -> list[int]:
        """The hosts, by number, that an event is about."""
        return [
            self._host_of[slot]
            for part in event.nodes
            for slot in range(part.first, part.first + part.count)
            if slot in self._host_of
        ]

    def containers(self, seeds: Sequence[tuple[int, ...]], intervals: int) -> list[NDArray[np.float64]]:
        """(N, 4) all that come in so many intervals under each of these seeds, as `Interval.add` takes them.

        For scenes without members of fleets, whose presence only a run knows.
        """
        return self._sources.all_of(seeds, intervals, self._present(Inputs()))

    def finish(self) -> Summary:
        """The ledgers of tasks, energy and cost."""
        return self._books.summary()

    def _present(self, inputs: Inputs) -> NDArray[np.bool_]:
        """Static nodes always, members of fleets when a mobility frame has them."""
        present = np.zeros(self._scene.capacity, np.bool_)
        present[: len(self._scene.nodes)] = True
        for frame in inputs.all("mobility"):
            present[frame.slot] = True
        return present

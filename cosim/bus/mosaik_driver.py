"""The mosaik driver: the runtime as one mosaik simulator, coordinated by a mosaik world.

One simulator hosts all adapters, because mosaik's scheduler costs a fixed amount per simulator and
step that grows with the square of their number. Towards other mosaik simulators it offers

- the model `Fleet`, one entity, with an attribute per signal whose value is the list of frames
  published last, passed by reference, and
- the model `Node(node=ID)`, one entity per selected node, with an attribute `signal.column` per
  value, for simulators that want scalars in the classical way.

As long as no other simulator is connected, nothing observes the state between ticks, so one mosaik
step covers a whole stretch of ticks. With another one connected, every tick is a mosaik step.

mosaik returns normally when a remote simulator has failed, and paces early. Therefore every
simulator's progress is compared with the end after a run, and our own pacer does the pacing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, cast

import mosaik
import mosaik_api_v3
import numpy as np
from mosaik.starters import PythonStarter

from cosim.bus.pacer import Pacer
from cosim.bus.runtime import Runtime
from cosim.contract.errors import RunError
from cosim.contract.frame import Frame

STRETCH = 64  # ticks in one mosaik step while no other simulator is connected

Connect = Callable[[mosaik.World, Any], None]


class HubSimulator(mosaik_api_v3.Simulator):
    """The runtime behind mosaik's simulator interface; mosaik time counts ticks."""

    def __init__(self, runtime: Runtime, pacer: Pacer, stretch: int = 1) -> None:
        self._signals = sorted({signal for plan in runtime.plan.adapters for signal in plan.writes})
        scalars = [f"{s}.{column.name}" for s in self._signals for column in runtime.signals[s].columns]
        super().__init__(  # type: ignore[no-untyped-call]
            {
                "api_version": "3.0",
                "type": "time-based",
                "models": {
                    "Fleet": {"public": True, "params": [], "attrs": self._signals},
                    "Node": {"public": True, "params": ["node"], "attrs": scalars},
                },
            }
        )
        self.runtime, self.pacer, self.stretch = runtime, pacer, stretch
        self._slots: dict[str, int] = {}  # entity id -> slot
        self._frames: dict[str, list[Frame]] = {signal: [] for signal in self._signals}
        self._watched = False

    def init(self, sid: str, time_resolution: float = 1.0, **_params: object) -> mosaik_api_v3.Meta:
        return self.meta

    def create(
        self, num: int, model: mosaik_api_v3.ModelName, node: str = "", **_params: object
    ) -> list[mosaik_api_v3.CreateResult]:
        self._watched = True
        if model == "Fleet":
            if num != 1:
                raise ValueError("there is one fleet; create it once")
            return [{"eid": "fleet", "type": "Fleet"}]
        ids = [entity.id for entity in self.runtime.plan.scene.nodes]
        if node not in ids:
            raise ValueError(f"no static node '{node}'; the scenario has {', '.join(ids)}")
        if num != 1 or node in self._slots:
            raise ValueError(f"the entity of node '{node}' can be created once")
        self._slots[node] = ids.index(node)
        return [{"eid": node, "type": "Node"}]

    def step(
        self,
        time: mosaik_api_v3.Time,
        inputs: mosaik_api_v3.InputData,
        max_advance: mosaik_api_v3.Time,
    ) -> mosaik_api_v3.Time | None:
        runtime, pacer = self.runtime, self.pacer
        following = min(time + self.stretch, runtime.plan.ticks + 1)
        for tick in range(time, following):
            if runtime.stopping:
                return runtime.plan.ticks + 1
            if pacer.active:
                pacer.wait(runtime.plan.time(tick))
                if runtime.stopping:
                    return runtime.plan.ticks + 1
            runtime.tick(tick)
        if self._watched:
            self._collect()
        return following

    def get_data(self, outputs: mosaik_api_v3.OutputRequest) -> mosaik_api_v3.OutputData:
        answer: dict[str, dict[str, Any]] = {}
        for entity, attributes in outputs.items():
            values = answer[entity] = {}
            for attribute in dict.fromkeys(attributes):  # mosaik asks once per connection
                if entity == "fleet":
                    values[attribute] = tuple(self._frames[attribute])
                else:
                    signal, _, column = attribute.partition(".")
                    values[attribute] = self._scalar(self._slots[entity], signal, column)
        return answer

    def _collect(self) -> None:
        fresh: dict[str, list[Frame]] = {}
        for frame in self.runtime.published():
            fresh.setdefault(frame.signal, []).append(frame)
        self._frames.update(fresh)

    def _scalar(self, slot: int, signal: str, column: str) -> float | int | bool | None:
        """The node's value, or None while it has none."""
        for frame in self._frames[signal]:
            rows = np.flatnonzero(frame.slot == slot)
            if len(rows):
                value: float | int | bool = frame.columns[column][rows[-1]].item()
                return value
        return None


def drive(runtime: Runtime, pacer: Pacer, *, connect: Connect | None = None, stretch: int = STRETCH) -> None:
    """Run every tick of the plan under a mosaik world, or until the runtime is asked to stop.

    `connect(world, hub)` may start further mosaik simulators in the world and connect them with the
    entities of `hub` (mosaik's model factory of `HubSimulator`). Raises `RunError` when one of them
    did not reach the end of the run, which mosaik itself does not report.
    """
    hub = HubSimulator(runtime, pacer, 1 if connect is not None else stretch)
    until = runtime.plan.ticks + 1
    world = mosaik.World({}, skip_greetings=True, configure_logging=False)
    with closing(_Closing(world)):
        factory = world.start(PythonStarter(_Handed, args=(hub,)), "cosim")
        if connect is not None:
            connect(world, factory)
        world.run(until=until, print_progress=False, shutdown=False)
        short = {sid: int(time) for sid, time in _progress(world).items() if time < until}
    if short and not runtime.stopping:
        raise RunError(
            "the run ended before its end: "
            + ", ".join(f"simulator '{sid}' stopped at tick {time} of {until - 1}" for sid, time in short.items())
            + "; it failed in its own process, look at its output"
        )


class _Handed(mosaik_api_v3.Simulator):
    """Lets mosaik's starter, which wants a class, take the hub that is there already."""

    def __new__(cls, hub: HubSimulator) -> _Handed:
        return cast(_Handed, hub)


class _Closing:
    """Ends the world's simulators and loop, and the runner tasks that a failure leaves pending."""

    def __init__(self, world: mosaik.World) -> None:
        self.world = world

    def close(self) -> None:
        import asyncio

        loop = self.world.loop
        if loop.is_closed():
            return
        pending = [task for task in asyncio.all_tasks(loop) if not task.done()]
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self.world.shutdown()  # type: ignore[no-untyped-call]


def _progress(world: mosaik.World) -> Mapping[str, int]:
    return {sid: simulator.progress.time.time for sid, simulator in world.compile(use_cache=True).items()}

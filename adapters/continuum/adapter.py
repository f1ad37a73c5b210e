"""Steps the engine along the bus and turns its state into frames."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.continuum import mlsysops
from cosim.adapters.continuum.access import Access
from cosim.adapters.continuum.air import Air, Changes
from cosim.adapters.continuum.books import HostAccounts, summary
from cosim.adapters.continuum.check import problems
from cosim.adapters.continuum.config import ContinuumConfig
from cosim.adapters.continuum.equipment import Gauges
from cosim.adapters.continuum.failures import Failures
from cosim.adapters.continuum.real_load import RealLoad
from cosim.adapters.continuum.trace import Trace
from cosim.adapters.continuum.world import ContinuumWorld, build, slots_of
from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.entities import Event, Scene
from cosim.contract.errors import refuse
from cosim.contract.frame import Frame
from cosim.contract.signals import TASK
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.layout import INTERVAL
from cosim.engine.continuum.stepping import Decisions, View, reach_of, read
from cosim.schedulers import scheduler

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from cosim.schedulers.mlsysops import ClusterAgent
    from cosim.schedulers.state import Policy

# columns of the `task` signal that the engine calls otherwise
_ENGINE_NAMES = {"task": "serial"}


class ContinuumAdapter:
    """The compute continuum.

    step(t) first lets the interval up to t pass under the links and nodes known at its beginning,
    each scenario event at its own time; then takes over who is there and how the radio is at t.
    """

    def __init__(self, config: ContinuumConfig) -> None:
        self._config = config

    def start(self, context: Context) -> None:
        """Build the engine. Raises `ScenarioError` for what `check` finds."""
        refuse(problems(self._config, context))
        scene = _without(context.scene, self._config.leave)
        policy, chosen = self._scheduler(context)
        self._scene: Scene = scene
        self._scratch = Path(context.scratch)
        self._slot_of = {node.id: slot for slot, node in enumerate(scene.nodes)}
        self._world: ContinuumWorld = build(scene, self._config, Path(context.root), context.duration)
        self._engine = Engine(
            self._world.system,
            int(np.random.SeedSequence(context.seed).generate_state(1, np.uint64)[0]),
            chosen,
            patience=self._config.patience,
            drop_late=self._config.drop_late,
            threshold=self._config.threshold,
            threads=self._config.threads,
        )
        if self._config.threads > 1 and (why := self._engine.undivided):
            log.warning("%s is advanced in one thread: %s", context.name, why)
        self._learn = getattr(chosen, "learn", None) if getattr(chosen, "learns", False) else None
        self._decide: Callable[[View], Decisions] | None = None
        if policy is not None:
            from cosim.schedulers.models import per_step

            self._decide = per_step(policy, context.period)
            self._since = read(self._engine.state)  # when the policy was asked last
        self._real = RealLoad(scene)
        self._books = HostAccounts(self._engine, self._world, scene, self._real)
        self._gauges = Gauges(self._engine, self._config.signals)
        trace = self._config.trace
        self._left = _sources_of(context.scene, self._config.leave) if self._config.leave else None
        self._trace = None if trace is None else Trace(trace, scene, self._engine)
        self._changes = Changes(scene.capacity)
        self._failures = Failures(self._config.failures, scene, len(self._world.system.link_a), context.seed)
        network = self._config.network
        self._struck = np.zeros(scene.capacity, np.bool_)  # failed by an event
        self._access = None if network is None else Access(network, scene, self._engine, context.period)
        self._air = Air.silent()
        self._generation = np.zeros(scene.capacity, np.int64)
        self._present = np.arange(scene.capacity) < len(scene.nodes)

    def _scheduler(self, context: Context) -> tuple[Policy | None, Any]:
        """The policy that decides per interval, if it does, and what the engine asks."""
        self._agent: ClusterAgent | None = None
        found = scheduler(self._config.scheduler)
        if found.files and self._config.mlsysops is not None:
            from cosim.adapters.continuum.monitor import PolicyMonitor
            from cosim.schedulers.models import PerTask

            self._agent = mlsysops.agent(self._config.mlsysops, context)
            self._monitor = PolicyMonitor(context.scene)
            return None, PerTask(self._agent)
        if found.make is not None and "task" not in found.decisions:
            return found.policy("continuum"), INTERVAL
        return None, found.for_continuum()

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        early: dict[str, NDArray[Any]] = {}
        if self._decide is not None and time > self._engine.now:  # once per step, as things stand at its beginning
            early = self._engine.step(0.0, self._decide(self._view)).ended
        for event in sorted(inputs.events, key=lambda event: event.at):
            at = min(max(event.at, self._engine.now), time)
            self._break_down(at)
            self._advance(at)
            self._happen(event)
        self._break_down(time)
        self._advance(time)
        self._presence(inputs.all("mobility"))
        self._air = self._air.following(self._links(time, inputs), self._present)
        self._tell_radio()
        for frame in inputs.all("demand"):
            self._engine.set_work(frame.slot, frame["workload"], frame["work"])
        self._real.heard(inputs.all("resources"))
        ended = self._ended(early)
        if self._learn is not None:
            self._learn(ended)
        hosts = self._books.host_frame(time)
        if self._agent is not None:
            measured = self._monitor.metrics(time, hosts, [ended, *(frame.columns for frame in inputs.all("task"))])
            self._agent.observe(time, measured, self._monitor.up(hosts), self._set_point)
        return (
            self._tasks(time, ended), hosts, self._books.traffic_frame(time),
            *(() if self._left is None else (self._reach(time, self._left),)),
            *(() if self._agent is None else (self._placement(time, self._agent),)),
            *self._gauges.frames(time), *(self._trace.frames(time, ended) if self._trace is not None else ()),
        )  # fmt: skip

    def _ended(self, early: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The tasks that ended since the last step; for policies per interval also the view to decide by."""
        if self._decide is None:
            return self._engine.drain()
        self._view = self._engine.step(0.0, since=self._since)
        self._since = read(self._engine.state)
        if not early:
            return self._view.ended
        return {name: np.concatenate([early[name], column]) for name, column in self._view.ended.items()}

    def finish(self) -> Summary:
        books = summary(self._engine, self._world, self._scene, self._real)
        if self._agent is None:
            return books
        with (self._scratch / "plans.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(plan)}\n" for plan in self._agent.plans)
        return {**books, mlsysops.NAME: self._agent.summary()}

    def _set_point(self, node: str, point: int) -> None:
        """Let the cores of a node run at one of its operating points from now on."""
        self._engine.set_points([self._slot_of[node]], [point])

    def close(self) -> None:
        """Nothing to release: all of it is memory."""

    def _advance(self, until: float) -> None:
        self._engine.advance(until)
        self._look()

    def _look(self) -> None:
        if self._trace is not None:
            self._trace.look()

    def _break_down(self, until: float) -> None:
        """Let nodes and links fail and come back by themselves up to `until`."""
        while (turn := self._failures.next(until)) is not None:
            self._advance(max(turn.at, self._engine.now))
            if turn.link:
                self._tell_links()
            elif turn.up:
                self._recover(np.array([turn.number]))
            else:
                self._engine.fail([turn.number])
            self._look()

    def _recover(self, slots: NDArray[np.int64]) -> None:
        """Let nodes come back that neither an event nor a failure of their own holds down."""
        self._engine.recover(slots[~self._struck[slots] & self._failures.nodes_up[slots]])

    def _happen(self, event: Event) -> None:
        if event.do in ("fail", "recover"):
            slots = slots_of(event.nodes)
            self._struck[slots] = event.do == "fail"
            if event.do == "fail":
                self._engine.fail(slots)
            else:
                self._recover(slots)
        elif event.do in ("degrade", "restore"):
            self._changes.add(event)
            self._tell_links()
        self._look()

    def _links(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """The frames of radio adapters, or, without any, of the access network of the configuration."""
        frames = inputs.all("link")
        if frames or self._access is None:
            return frames
        if self._access.wide:
            self._tell_links()
        return [self._access.frame(time, self._present, inputs.all("mobility"))]

    def _tell_links(self) -> None:
        links = self._world.system
        if len(links.link_a):
            factor, delay, loss = self._changes.between(links.link_a, links.link_b)
            factor = factor * self._failures.links_up
            if self._access is not None:
                factor = factor * self._access.wan_factor(len(links.link_a))
            self._engine.set_links(np.arange(len(links.link_a)), factor, delay, loss)

    def _presence(self, frames: Sequence[Frame]) -> None:
        """Make members of fleets appear and vanish according to the mobility frames."""
        static = len(self._scene.nodes)
        if static == self._scene.capacity or not frames:
            return
        present = np.zeros(self._scene.capacity, np.bool_)
        present[:static] = True
        generation = self._generation.copy()
        for frame in frames:
            present[frame.slot] = True
            if frame.table is not None:
                first = frame.table.first
                generation[first : first + len(frame.table.ids)] = frame.table.generation
        other = generation != self._generation
        gone = np.flatnonzero(self._present & (~present | other))
        new = np.flatnonzero(present & (~self._present | other))
        gone, new = gone[gone >= static], new[new >= static]
        if len(gone):
            self._engine.vanish(gone)
            self._air = self._air.following([self._air_frame()], present & ~other)
        if len(new):
            self._engine.appear(new, generation[new])
            self._books.begin(new)
        self._present, self._generation = present, generation
        self._look()

    def _air_frame(self) -> Frame:
        air = self._air
        columns = {
            "cell": air.cell, "uplink_rate": air.uplink, "downlink_rate": air.downlink,
            "delay": air.delay, "loss": air.loss,
        }  # fmt: skip
        return Frame("link", self._engine.now, air.slot.astype(np.int32), columns)

    def _tell_radio(self) -> None:
        air = self._air
        if len(air.slot):
            self._engine.set_radio(air.slot, air.cell, air.uplink, air.downlink, air.delay, air.loss)

    def _reach(self, time: float, devices: NDArray[np.int64]) -> Frame:
        """What a scheduler of the run would know about hosts, for the real devices whose workloads are left to them."""
        devices = devices[self._present[devices]]
        serving, seconds = reach_of(self._engine.state, devices)
        hosts = self._engine.state.hosts
        columns: dict[str, NDArray[np.generic]] = {
            "host": np.tile(hosts["slot"].astype(np.int32), len(devices)),
            "serving": np.repeat(serving.astype(np.int32), len(hosts)),
            "transfer": seconds.ravel(),
            "assigned": np.tile(hosts["assigned"].astype(np.int32), len(devices)),
            "up": np.tile(hosts["up"] != 0, len(devices)),
        }
        return Frame("reach", time, np.repeat(devices.astype(np.int32), len(hosts)), columns)

    def _placement(self, time: float, agent: ClusterAgent) -> Frame:
        """Where the policies have put components, by node."""
        components, workloads = agent.placement()
        slots = np.arange(len(self._scene.nodes), dtype=np.int32)
        return Frame("placement", time, slots, {"components": components, "workloads": workloads})

    def _tasks(self, time: float, ended: dict[str, NDArray[Any]]) -> Frame:
        if len(self._engine.state.stages):  # a job has one row; its stages are in the books
            whole = ended["stage"] < 0
            ended = {name: column[whole] for name, column in ended.items()}
        columns: dict[str, NDArray[np.generic]] = {
            column.name: np.ascontiguousarray(ended[_ENGINE_NAMES.get(column.name, column.name)].astype(column.dtype))
            for column in TASK.columns
        }
        return Frame("task", time, ended["device"].astype(np.int32), columns)


def _sources_of(scene: Scene, names: Sequence[str]) -> NDArray[np.int64]:
    """The slots whose tasks of workloads `names` are really run: none while no node is real."""
    return slots_of(part for load in scene.workloads if scene.real and load.name in names for part in load.sources)


def _without(scene: Scene, names: Sequence[str]) -> Scene:
    """The scene as simulated: workloads `names` make no tasks where nodes are real."""
    if not scene.real or not names:
        return scene
    loads = tuple(replace(load, share=0.0) if load.name in names else load for load in scene.workloads)
    return replace(scene, workloads=loads)

"""Steps the engine along the bus and turns its state into frames."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.continuum.access import Access
from cosim.adapters.continuum.air import Air
from cosim.adapters.continuum.autoscale import Autoscaler
from cosim.adapters.continuum.books import HostAccounts, summary, task_frame
from cosim.adapters.continuum.check import problems
from cosim.adapters.continuum.config import ContinuumConfig
from cosim.adapters.continuum.equipment import Gauges
from cosim.adapters.continuum.failures import Failures
from cosim.adapters.continuum.keys import PLACING, ScaleComponent, SetScheduler
from cosim.adapters.continuum.real_load import RealLoad
from cosim.adapters.continuum.trace import EventTraces
from cosim.adapters.continuum.world import ContinuumWorld, build, slots_of
from cosim.contract.adapter import Context, InMemory, Inputs, Summary
from cosim.contract.entities import Event, Scene
from cosim.contract.errors import refuse
from cosim.contract.faults import LinkChanges
from cosim.contract.frame import Frame
from cosim.contract.plugins import load
from cosim.engine.continuum.engine import Deciding, Engine
from cosim.engine.continuum.looking import reach_of
from cosim.schedulers import scheduler

log = logging.getLogger(__name__)


class ContinuumAdapter(InMemory[ContinuumConfig]):
    """The compute continuum.

    step(t) first lets the interval up to t pass under the links and nodes known at its beginning,
    each scenario event at its own time; then takes over who is there and how the radio is at t.
    """

    def start(self, context: Context) -> None:
        """Build the engine. Raises `ScenarioError` for what `check` finds."""
        refuse(problems(self._config, context))
        scene = context.scene
        self._context, self._named = context, self._config.scheduler
        self._decide_by(self._scheduler(context))
        self._scene: Scene = scene
        self._scratch = Path(context.scratch)
        self._slot_of = {node.id: slot for slot, node in enumerate(scene.nodes)}
        self._world: ContinuumWorld = build(scene, self._config, Path(context.root), context.duration)
        where, takes = self._config.deciding, None
        if where is not None:
            seconds = where.takes if isinstance(where.takes, float) else None
            takes = Deciding(self._slot_of[where.on], seconds)
        self._engine = Engine(
            self._world.system,
            int(np.random.SeedSequence(context.seed).generate_state(1, np.uint64)[0]),
            self._chosen,
            patience=self._config.patience,
            drop_late=self._config.drop_late,
            threshold=self._config.threshold,
            threads=self._config.threads,
            deciding=takes,
        )
        if self._config.threads > 1 and (why := self._engine.undivided):
            log.warning("%s is advanced in one thread: %s", context.name, why)
        self._turns = 0  # of a policy that decides by the clock
        self._every = self._config.decide if isinstance(self._config.decide, float) else None
        self._real = RealLoad(scene)
        self._books = HostAccounts(self._engine, self._world, scene, self._real)
        self._gauges = Gauges(self._engine, self._config.signals)
        trace = self._config.trace
        self._left = _sources_of(scene, self._config.leave) if self._config.leave else None
        self._trace = None if trace is None else EventTraces(trace, scene, self._engine)
        self._changes = LinkChanges(scene.capacity)
        self._failures = Failures(self._config.failures, scene, len(self._world.system.link_a), context.seed)
        network = self._config.network
        self._scaler = Autoscaler(self._config.autoscale, scene, self._engine) if self._config.autoscale else None
        self._struck = np.zeros(scene.capacity, np.bool_)  # failed by an event
        self._access = None if network is None else Access(network, scene, self._engine, context.period)
        self._air = Air.silent()
        self._generation = np.zeros(scene.capacity, np.int64)
        self._present = np.arange(scene.capacity) < len(scene.nodes)

    def _decide_by(self, chosen: Any) -> None:  # noqa: ANN401 - a number or a function
        self._chosen = chosen
        self._learn = getattr(chosen, "learn", None) if getattr(chosen, "learns", False) else None
        self._whole = getattr(chosen, "whole", False)

    def _scheduler(self, context: Context) -> Any:  # noqa: ANN401 - a number or a function
        """What the engine asks."""
        self._agent: Any = None  # of an extension, made of files
        found = scheduler(self._config.scheduler)
        if found.files:
            from cosim.schedulers.models import PerTask

            kind = load("agents", found.name)
            self._agent = kind.make(getattr(self._config, found.name, None), context)
            self._monitor = kind.PolicyMonitor(context.scene)
            return PerTask(self._agent)
        every = self._config.decide
        return found.for_continuum(context.period if every is None else every, waits=every is not None, context=context)

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        if self._whole and self._every is None and time > self._engine.now:
            self._engine.decide()  # about what the policy has kept waiting
        for event in sorted(inputs.events, key=lambda event: event.at):
            at = min(max(event.at, self._engine.now), time)
            self._break_down(at)
            self._advance(at)
            self._happen(event)
        self._break_down(time)
        self._advance(time)
        self._presence(inputs.all("mobility"))
        self._air = self._air.following(self._links(time, inputs), self._present)
        self._pass_radio()
        for frame in inputs.all("demand"):
            self._engine.set_work(frame.slot, frame["workload"], frame["work"])
        for frame in inputs.all("taken"):
            self._engine.set_taken(frame["workload"], frame["share"])
        self._real.heard(inputs.all("resources"))
        ended = self._engine.drain()
        if self._learn is not None:
            self._learn(ended)
        hosts = self._books.host_frame(time)
        if self._agent is not None:
            measured = self._monitor.metrics(time, hosts, [ended, *(frame.columns for frame in inputs.all("task"))])
            self._agent.observe(time, measured, self._monitor.up(hosts), self._set_point)
        return (
            task_frame(self._engine, time, ended), hosts, self._books.traffic_frame(time),
            *(() if self._left is None else (self._reach(time, self._left),)),
            *(() if self._agent is None else (self._placement(time),)),
            *self._gauges.frames(time), *(self._trace.frames(time, ended) if self._trace is not None else ()),
        )  # fmt: skip

    def finish(self) -> Summary:
        books = summary(self._engine, self._world, self._scene, self._real)
        if (deciding := self._config.deciding) is not None:
            meta = self._engine.state.meta[0]
            made = int(meta["consulted"])
            each = {"core_seconds": float(meta["decided"]), "delay": float(meta["delayed"]) / max(made, 1)}
            books = {**books, "deciding": {"on": deciding.on, "decisions": made, **each}}
            if deciding.takes == "measured":
                both = ["measured", "simulated"]
                books = {**books, "origins": {"host": both, "task": both, **books.get("origins", {})}}
        if self._scaler is not None:
            books = {**books, "autoscale": self._scaler.summary()}
        if self._agent is not None:
            with (self._scratch / "plans.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(plan)}\n" for plan in self._agent.plans)
        reports = getattr(getattr(self._chosen, "policy", None), "summary", None)
        return {**books, self._named: reports()} if reports else books

    def _set_point(self, node: str, point: int) -> None:
        """Let the cores of a node run at one of its operating points from now on."""
        self._engine.set_points([self._slot_of[node]], [point])

    def _advance(self, until: float) -> None:
        while self._scaler is not None and (due := self._scaler.due) < until:
            self._pass(max(due, self._engine.now))
            self._scaler.act(self._engine)
            self._look()
        self._pass(until)
        self._look()

    def _pass(self, until: float) -> None:
        while self._every is not None and (due := self._turns * self._every) < until:
            self._engine.advance(max(due, self._engine.now))
            self._engine.decide()
            self._turns += 1
        self._engine.advance(until)

    def _look(self) -> None:
        if self._trace is not None:
            self._trace.look()

    def _break_down(self, until: float) -> None:
        """Let nodes and links fail and come back by themselves up to `until`."""
        while (turn := self._failures.next(until)) is not None:
            self._advance(max(turn.at, self._engine.now))
            if turn.link:
                self._pass_links()
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
            change = self._engine.fail if event.do == "fail" else self._recover
            change(slots)
        elif event.do in ("degrade", "restore"):
            self._changes.add(event)
            self._pass_links()
        elif (order := SetScheduler.of(event)) is not None:
            self._named = order.scheduler
            self._decide_by(scheduler(self._named).for_continuum(self._context.period, context=self._context))
            self._engine.reschedule(self._chosen)
        elif (placing := next(filter(None, (kind.of(event) for kind in PLACING)), None)) is not None:
            assert self._agent is not None  # else the event is refused
            named = [self._scene.nodes[slot].id for slot in slots_of(event.nodes) if slot < len(self._scene.nodes)]
            self._agent.order(
                event.do, placing.component, named, placing.count if isinstance(placing, ScaleComponent) else 0
            )
        self._look()

    def _links(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """The frames of radio adapters, or, without any, of the access network of the configuration."""
        frames = inputs.all("link")
        if frames or self._access is None:
            return frames
        if self._access.wide:
            self._pass_links()
        return [self._access.frame(time, self._present, inputs.all("mobility"))]

    def _pass_links(self) -> None:
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
            self._air = self._air.of(present & ~other)
        if len(new):
            self._engine.appear(new, generation[new])
            self._books.begin(new)
        self._present, self._generation = present, generation
        self._look()

    def _pass_radio(self) -> None:
        air = self._air
        if len(air.slot):
            self._engine.set_radio(air.slot, air.cell, air.uplink, air.downlink, air.delay, air.loss)

    def _reach(self, time: float, devices: NDArray[np.int64]) -> Frame:
        """What a scheduler of the run would know about hosts, for the real devices whose workloads are left to them."""
        devices = devices[self._present[devices]]
        serving, seconds = reach_of(self._engine.state.meta, devices)
        hosts = self._engine.state.hosts
        columns: dict[str, NDArray[np.generic]] = {
            "host": np.tile(hosts["slot"].astype(np.int32), len(devices)),
            "serving": np.repeat(serving.astype(np.int32), len(hosts)),
            "transfer": seconds.ravel(),
            "assigned": np.tile(hosts["assigned"].astype(np.int32), len(devices)),
            "up": np.tile(hosts["up"] != 0, len(devices)),
        }
        return Frame("reach", time, np.repeat(devices.astype(np.int32), len(hosts)), columns)

    def _placement(self, time: float) -> Frame:
        """Where the policies have put components, by node."""
        components, workloads = self._agent.placement()
        slots = np.arange(len(self._scene.nodes), dtype=np.int32)
        return Frame("placement", time, slots, {"components": components, "workloads": workloads})


def _sources_of(scene: Scene, names: Sequence[str]) -> NDArray[np.int64]:
    """The slots whose tasks of workloads `names` are really run: none while no node is real."""
    return slots_of(part for load in scene.workloads if scene.real and load.name in names for part in load.sources)

"""Live nodes on the bus: who is there, what they measure, the tasks that they run and the links that they get."""

from __future__ import annotations

import logging
import math
import time as wall
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cosim.adapters.live.arrivals import LiveArrivals
from cosim.adapters.live.books import LiveTaskAccounts, TaskRecord, frame_of_taken
from cosim.adapters.live.check import REAL_TIME, attended, problems
from cosim.adapters.live.choice import NodeChoice, TaskTarget
from cosim.adapters.live.config import LiveConfig, OffloadBlock
from cosim.adapters.live.policy import policy_of
from cosim.adapters.live.readings import LiveReadings
from cosim.adapters.live.shaping import LiveShaping
from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.entities import Node
from cosim.contract.errors import RunError, SetupError, refuse
from cosim.contract.frame import Frame
from cosim.contract.presence import Presence
from cosim.contract.trust import distrusting
from cosim.engine.continuum.arrivals import SourceTask, engine_seed
from cosim.testbed.inference.limits import MAX_PAYLOAD, MOST_HELD
from cosim.testbed.live.lease import NodeSlot
from cosim.testbed.live.task_queue import QueuedTask

if TYPE_CHECKING:
    from concurrent.futures import Future

    from cosim.adapters.live.tiles import Painted, Tiles
    from cosim.talk.codec import Body
    from cosim.testbed.live.gateway import Gateway

log = logging.getLogger("cosim.testbed.live")

_AGAIN = 0.02  # s


class LiveAdapter:
    """The gateway of a run, seen from the bus.

    The gateway's thread talks to the agents all the time. `step` only collects what has arrived and names the
    tasks that are due until the next step, so no machine holds up a tick, except one that the scenario waits for.
    """

    def __init__(self, config: LiveConfig) -> None:
        self._config, self._payload = config, b""
        self._gateway: Gateway | None = None
        self._tiles: Tiles | None = None

    def start(self, context: Context) -> None:
        """Listen, and wait for the machines that must be there.

        Raises `ScenarioError` for what `check` finds, `SetupError` when the address is taken, `RunError` when a
        machine does not come in time.
        """
        scene, config = context.scene, self._config
        refuse(problems(config, context))
        every = {k: node for k, node in scene.computers() if node.live is not None}
        ours = {k: node for k, node in every.items() if node.runs is not None}  # started with the run, where real
        elsewhere = {k: node for k, node in every.items() if node.runs is None}
        own = bool(scene.real and ours)
        folder = context.path(config.keys)
        optional = all(node.missing == "model" for node in elsewhere.values())
        if own and elsewhere and optional:
            from cosim.talk.keys import SERVER

            if not (folder / f"{SERVER}.key").exists():
                log.info("%s simulated: no keys in %s", ", ".join(node.id for node in elsewhere.values()), folder)
                elsewhere = {}
        self._nodes = {**ours, **elsewhere} if own else elsewhere or every
        self._period, self._duration = context.period, context.duration
        self._ends = 0.0  # s, monotonic, when the run ends
        self._devices = {k: node.id for k, node in every.items()}
        self._reported: set[str] = set()
        self._books = LiveTaskAccounts(scene.workloads)
        self._presence = Presence(scene)
        self._readings = LiveReadings(scene, self._nodes, self._presence)
        seed = engine_seed(context.seed_of(config.model))
        self._arrivals: list[tuple[int, OffloadBlock, LiveArrivals]] = [
            (k, config.offload[load.name], LiveArrivals(seed, load, k, config.offload[load.name]))
            for k, load in enumerate(scene.workloads)
            if load.name in config.offload and (attended(scene) or "arrivals" not in load.specialities())
        ]
        for _, _, arrivals in self._arrivals:
            for slot in arrivals.slots:
                if self._presence.here[slot]:
                    arrivals.appear(slot)
        self._loads = scene.workloads
        self._clocks = {node.id: node.clock for _, node in scene.computers()}
        if any(block.pictures for block in config.offload.values()):
            from cosim.adapters.live.tiles import Tiles

            self._tiles = Tiles(config, context)
        left = (context.offered.get(config.model) or {}).get("leave", ())
        self._always = {  # workloads that no model makes, whether a machine is there or not
            k for k, block, _ in self._arrivals
            if scene.workloads[k].name in left and (own or block.path == "management")
        }  # fmt: skip
        self._taken: dict[int, bool] = {}  # workload -> whether live nodes get its tasks
        self._work: dict[tuple[int, int], float] = {}  # cycles of the next tasks of a slot and workload
        self._policy = policy_of(context, config.model) if self._arrivals else None
        self._choice = NodeChoice(scene, self._policy)
        self._held: dict[int, Future[Painted] | None] = {}  # tasks that wait for a round, and their pictures
        self._shaping = LiveShaping(scene, elsewhere)
        if not own and not elsewhere:
            if every:
                log.info("nodes are not real in this run: %s simulated", ", ".join(node.id for node in every.values()))
            else:
                log.warning("no node of the scenario has a 'live' block: there is nothing to attach to")
            return
        needed = [node.id for node in self._nodes.values() if node.missing != "model"]
        if context.pacing != REAL_TIME or distrusting():
            why = "its scenario is not trusted" if distrusting() else "the run is not paced to real time"
            log.info("%s: no machine can attach, all live nodes are simulated", why)
            return
        from cosim.testbed.live.gateway import Gateway  # most runs have no real nodes and need not load sockets

        self._payload = context.rng(len(scene.workloads)).bytes(MAX_PAYLOAD) if self._arrivals else b""
        doors = [_started(context)] if own else []
        if elsewhere or not own:
            doors.append((folder, context.service("outside") or config.listen))
        slots = [_slot(k, node, own and k in ours, len(doors) - 1) for k, node in self._nodes.items()]
        self._gateway = Gateway(slots, doors, queue=config.queue, control=Path(context.scratch))
        log.info("live machines attach at %s", self._gateway.addresses[-1])
        self._await(self._gateway, needed)

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """What was measured and which tasks ended since the last step."""
        gateway = self._gateway
        if gateway is None:
            self._presence.take(inputs.all("mobility"))
            none = frame_of_taken(time, ())
            return (*self._readings.none_attached(time), self._books.frame(time), none, *self._shown(time))
        self._hold(gateway)
        now = wall.monotonic()
        origin = now - time
        self._ends = origin + self._duration
        for name, links in self._shaping.changed(inputs).items():
            gateway.shape(name, links)
        with gateway.lock:
            self._come_and_go(time, inputs.all("mobility"))
            self._choice.served(inputs.all("link"))
            for frame in inputs.all("demand"):
                asked = zip(frame.slot.tolist(), frame["workload"].tolist(), frame["work"].tolist(), strict=True)
                self._work |= {(slot, number): work for slot, number, work in asked}
            if self._tiles is not None:
                self._tiles.take(inputs.all("picture"))
            if self._policy is not None:
                self._policy.heard(inputs.all("reach"), inputs.all("placement"))
            self._take(gateway)
            if self._held:
                self._round(gateway, time)
            self._shaping.look(gateway.standings(), now)
            frames = self._readings.frames(time, gateway.standings())
            tasks = self._books.frame(time)
            if self._policy is not None:
                self._policy.learn(tasks)
            before, able = self._taken, self._choice.able
            self._taken = {k: k in self._always or able(gateway.roster, block) for k, block, _ in self._arrivals}
        for number, block, arrivals in self._arrivals:
            for arrival in arrivals.until(min(time + self._period, self._duration)):
                # The model goes by the same rule: what holds at the beginning of the step in which a task is due.
                if not (before.get(number, False) if arrival.at <= time else self._taken[number]):
                    self._books.skipped += 1
                    continue
                work = self._work.get((arrival.device, number), math.nan)
                reported = arrival if math.isnan(work) else replace(arrival, work=work)
                self._schedule(gateway, number, block, reported, origin)
        changed = [
            (number, arrivals.slots[0], self._taken[number] * block.share)
            for number, block, arrivals in self._arrivals
            if self._taken[number] != before.get(number, False)
        ]
        return (*frames, tasks, frame_of_taken(time, changed), *self._shown(time))

    def _shown(self, time: float) -> Sequence[Frame]:
        return () if self._tiles is None else (self._tiles.frame(time),)

    def finish(self) -> Summary:
        """The ledgers of tasks and bytes, and who was there."""
        gateway = self._gateway
        if gateway is None:
            return {**self._books.summary(), "listened": False, "nodes": {}}
        with gateway.lock:
            gateway.catch_up(min(wall.monotonic(), self._ends))  # its thread may be late
            self._take(gateway)
            table = gateway.roster.table(wall.monotonic())
            rows = {row["name"]: {"state": row["state"], "detail": row["detail"]} for row in table}
            shaping = {s.slot.node: self._shaping.account(s) for s in gateway.roster.standings}
            return {
                **self._books.summary(),
                "listened": True,
                "nodes": {name: {**self._readings.account(name), **row, **shaping[name]} for name, row in rows.items()},
                "made_late_max": round(self._books.behind, 6),
                "refused_keys": gateway.refused,
                "left_out": dict(gateway.roster.counts),
                **({} if self._tiles is None else {"tiles": self._tiles.summary()}),
                **({} if self._policy is None or not self._policy.rounds else {"rounds": self._policy.summary()}),
            }

    def close(self) -> None:
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            gateway.close()
        if self._tiles is not None:
            self._tiles.close()

    # -- who must be there -------------------------------------------------------------------

    def _await(self, gateway: Gateway, names: Sequence[str]) -> None:
        """Wait until `names` are there, each as long as its block allows."""
        begun = wall.monotonic()
        waits = {node.id: node.live.wait for node in self._nodes.values() if node.live is not None}
        missing = gateway.absent(names)
        while missing:
            first = min(missing, key=waits.__getitem__)
            left = begun + waits[first] - wall.monotonic()
            if left <= 0:
                node = next(node for node in self._nodes.values() if node.id == first)
                assert node.live is not None
                attach = f"start one with  cosim attach --key {node.live.key}.key --server {gateway.addresses[-1]}"
                raise RunError(
                    f"no machine took the place of node '{first}' within {waits[first]:g} s; 'nodes.{first}.live.wait' "
                    f"allows more; {attach if node.runs is None else 'its log gives the reason'}"
                )
            log.info("waiting for %s", ", ".join(missing))
            missing = gateway.wait_for(missing, left)

    def _hold(self, gateway: Gateway) -> None:
        """End the run, or hold it up, for nodes that must be there and are not."""
        gateway.check()
        policy = {node.id: node.missing for node in self._nodes.values() if node.missing != "model"}
        missing = gateway.absent(list(policy))
        for name in missing:
            state, detail = next((s.state, s.detail) for s in gateway.roster.standings if s.slot.node == name)
            if state == "evicted":
                raise RunError(
                    f"the machine of node '{name}' was evicted; 'missing: model' lets a run go on without it"
                )
            if policy[name] == "fail":
                raise RunError(f"the machine of node '{name}' has left the run: {detail or 'no reason was given'}")
        if missing:
            self._await(gateway, missing)

    def _come_and_go(self, time: float, frames: Sequence[Frame]) -> None:
        """Members of fleets make tasks while they are there, from the time on that the model knows of them.

        The frames are a step old: what has come due in that step is made at once, a little late.
        """
        old, before = self._presence.here.copy(), self._presence.generation.copy()
        self._presence.take(frames)
        here, generation = self._presence.here, self._presence.generation
        changed = np.flatnonzero((old != here) | (here & (before != generation)))
        since = np.full(len(here), time)
        for frame in frames:
            since[frame.slot] = frame.time
        for _, _, arrivals in self._arrivals:
            for slot in set(arrivals.slots).intersection(changed.tolist()):
                arrivals.vanish(slot)
                if here[slot]:
                    arrivals.appear(slot, int(generation[slot]), float(since[slot]))

    # -- tasks -------------------------------------------------------------------------------

    def _schedule(self, gateway: Gateway, number: int, block: OffloadBlock, arrival: SourceTask, origin: float) -> None:
        """Have the task made when its time has come."""

        tile = None
        if block.pictures and self._tiles is not None:
            tile = self._tiles.ahead(arrival.device, block.pictures, block.size)

        def act() -> None:
            if self._policy is None or self._policy.reported:
                self._make(gateway, number, block, arrival, origin + arrival.at, tile)
            else:  # the scheduler does not know of any host before the model's first step is over
                gateway.at(wall.monotonic() + _AGAIN, act)

        gateway.at(origin + arrival.at, act)

    def _make(
        self, gateway: Gateway, number: int, block: OffloadBlock, arrival: SourceTask, due: float,
        tile: Future[Painted] | None = None,
    ) -> None:  # fmt: skip
        """Make a task that is due at `due` (s, monotonic) for a live node; called with the gateway's lock held.

        The task is skipped if no member of the fleet has its slot. It fails if no node can take it: no model makes it.
        If its device is there but the scheduler or the network leaves it without a host, it fails without coverage.
        """
        here = self._presence.here[arrival.device]
        if here and self._policy is not None and self._policy.rounds and self._policy.knows(arrival.device):
            self._held[self._books.make(number, arrival, due).serial] = tile
            return
        self._take(gateway)  # a host is free from when its answer is here, not from the next step on
        target = self._choice.target(gateway.roster, number, self._loads[number], arrival, block)
        best, host, _, failed = target
        if not here:
            self._books.skipped += 1
            return
        if failed or not best:
            self._books.refuse(self._books.make(number, arrival, due), due, "unreached" if failed else "lost")
            return
        self._books.behind = max(self._books.behind, wall.monotonic() - due)
        self._send(gateway, self._books.make(number, arrival, due, host), block, target, due, tile)

    def _round(self, gateway: Gateway, time: float) -> None:
        """Send the tasks on their way that a scheduler has placed which is asked about all of them at once."""
        now, blocks = wall.monotonic(), {number: block for number, block, _ in self._arrivals}
        found = self._choice.round(gateway.roster, time, self._books.flying, self._held, self._loads, blocks)
        for task, target in found.items():
            made = self._books.send(task, now, target.host)
            self._send(gateway, made, blocks[made.workload], target, now, self._held.pop(task))

    def _send(
        self, gateway: Gateway, made: TaskRecord, block: OffloadBlock, target: TaskTarget, at: float,
        tile: Future[Painted] | None,
    ) -> None:  # fmt: skip
        best, host, address, _ = target
        arrival = made.arrival
        small = max(arrival.sent, arrival.output) <= MAX_PAYLOAD and arrival.work <= 1e15
        clock = self._clocks.get(host or best, 0.0)
        least = (arrival.work - arrival.onboard) / clock if block.paced and clock > 0.0 else 0.0
        body = _Body(made, block, self._payload, address, min(least, MOST_HELD), self._tiles, tile)
        if not small or not gateway.offer(best, QueuedTask(made.serial, body, at, block.limit)):
            self._books.refuse(made, at)
        elif host:
            self._choice.sent(host)

    def _take(self, gateway: Gateway) -> None:
        """Enter what has come back into the books; called with the gateway's lock held."""
        for result in gateway.results():
            host = self._books.host(result.task)
            if host:
                self._choice.ended(host)
                result = replace(result, slot=self._choice.slot(host))
                if result.status != "done":  # what is known is when the device had it, not the host
                    result = replace(result, uploaded=None, started=None, computed=None)
            if self._tiles is not None:
                if result.status == "done":
                    self._tiles.judge(result.task, self._books.device(result.task), result.slot, result.answer)
                else:
                    self._tiles.forget(result.task)
            self._books.end(result)
            if result.detail and result.status != "done" and result.status not in self._reported:
                self._reported.add(result.status)  # one of each kind is enough
                log.warning("task %d of the live nodes: %s", result.task, result.detail)


class _Body:
    """Makes the message of a task anew whenever it is sent: payloads do not wait in memory."""

    __slots__ = ("_address", "_block", "_least", "_made", "_payload", "_tile", "_tiles")

    def __init__(
        self, made: TaskRecord, block: OffloadBlock, payload: bytes, address: str, least: float,
        tiles: Tiles | None, tile: Future[Painted] | None,
    ) -> None:  # fmt: skip
        self._made, self._block, self._payload, self._address = made, block, payload, address
        self._least, self._tiles, self._tile = least, tiles, tile

    def __call__(self) -> Body:
        made, arrival, block, called = self._made, self._made.arrival, self._block, bool(self._address)
        data = b"" if called else self._payload[: int(arrival.sent)]
        if called and self._tiles is not None and self._tile is not None:
            data = self._tiles.send(made.serial, block.pictures, self._tile.result())
        return {
            "task": made.serial, "work": "call" if called else block.run,
            "cycles": arrival.onboard if called else arrival.work,
            "size": 1 if block.holds else block.size, "limit": block.limit, "output": int(arrival.output),
            "kernel": block.kernel,
            "least": self._least, "to": self._address, "bytes": int(arrival.sent) if called else 0,
            "input": data,
        }  # fmt: skip


def _started(context: Context) -> tuple[Path, str]:
    """The folder of keys made for the nodes that were started with the run, and where they attach."""
    listen, folder = context.service("gateway"), context.service("keys")
    if not listen or not folder:
        raise SetupError(
            "no address and no keys for live nodes; `cosim run --nodes netns` and the compose file set COSIM_GATEWAY "
            "and COSIM_KEYS"
        )
    return Path(folder), listen


def _slot(number: int, node: Node, own: bool, last: int) -> NodeSlot:
    """The place of a node; machines that the run has not started come by the last door."""
    live = node.live
    assert live is not None
    shaping = live.shaping and not own  # the network adapter shapes what the run has started
    from cosim.testbed.launch.keys import name_of

    key = name_of(node.id) if own else live.key or node.id
    return NodeSlot(number, node.id, key, live.lease, live.interval, live.tasks, shaping, 0 if own else last)

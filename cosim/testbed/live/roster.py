"""The gateway's half of the protocol as a pure object: which machine holds which slot, and what is sent to each.

`receive` and `tick` take messages and times and return messages; there is no socket, thread or clock. `now` is a
monotonic clock, `wall` the wall clock, both in s. No input raises an exception.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cosim.contract.errors import ProtocolError
from cosim.talk.codec import Body, Message
from cosim.testbed.live.lease import STRIKES, KeyLimits, Lease, NodeSlot, SlotStanding
from cosim.testbed.live.protocol import FROM_AGENT, FROM_GATEWAY, SESSION
from cosim.testbed.live.shaping import Impairment
from cosim.testbed.live.task_queue import QueuedTask, TaskQueue, TaskResult

Out = tuple[bytes, bytes]  # peer, data
_NEVER: Mapping[str, float] = {}
_ANSWER = 64 << 10  # B of an output that are kept
_HERE = ("received", "started", "computed")  # times of a result, in their order
_CALLED = ("received", "uploaded", "started", "computed", "answered")
_NONCES = 64  # hellos remembered per key
_SENDS = 32  # tasks sent to one machine per tick


class Roster:
    """All slots of a run.

    `random` returns that many unguessable bytes. `results` holds finished tasks until they are taken; there are never
    more than tasks that were offered. `boot` identifies the last start of this machine, if known: the times of agents
    that name the same need no conversion.
    """

    def __init__(
        self, slots: Sequence[NodeSlot], *, random: Callable[[int], bytes], queue: int = 256, boot: str = ""
    ) -> None:
        self.run = random(SESSION)
        self.results: deque[TaskResult] = deque()
        self.counts: Counter[str] = Counter()  # messages that did not count, by reason
        self.standings = [SlotStanding(slot) for slot in slots]
        self._queues = [TaskQueue(queue) for _ in slots]
        self._by_node = {slot.node: i for i, slot in enumerate(slots)}
        self._random, self._boot = random, boot
        self._limits: dict[str, KeyLimits] = {}
        self._hellos: dict[str, deque[bytes]] = {}
        self._by_peer: dict[bytes, Lease] = {}
        self._banned: set[int] = set()

    # -- what arrives ------------------------------------------------------------------------

    def receive(self, peer: bytes, key: str, data: bytes, now: float, wall: float, door: int = 0) -> list[Out]:
        """Take the message `data` of the connection `peer`, which proved at `door` to own the key named `key`."""
        lease = self._by_peer.get(peer)
        if not self._limits.setdefault(key, KeyLimits()).take(len(data), now):
            self.counts["flood"] += 1
            return self._strike(lease, now, "too many messages")
        try:
            message = FROM_AGENT.unpack(data)
        except ProtocolError:
            self.counts["malformed"] += 1
            return self._strike(lease, now, "too many messages that break the protocol")
        if message.kind == "hello":
            return self._hello(peer, key, door, message, now)
        if lease is None or message.session != lease.session:
            self.counts["no-session"] += 1
            return [self._refuse(peer, message.session, "no-session")]
        if message.number <= lease.heard:
            self.counts["repeated"] += 1
            return []
        lease.heard = message.number
        lease.until = now + self.standings[lease.slot].slot.lease
        return self._handle(lease, message, now)

    def _handle(self, lease: Lease, message: Message, now: float) -> list[Out]:
        standing, body = self.standings[lease.slot], message.body
        if message.kind == "pong":
            if not lease.pong(body, now):
                self.counts["stray-pong"] += 1
        elif message.kind == "report":
            standing.report, standing.reported = body, now
            if standing.shapes:
                return self._shape(lease, standing.wishes.heard(body["obeyed"], now))
        elif message.kind == "accept":
            for task in body["tasks"]:
                self._queues[lease.slot].accept(task, now)
        elif message.kind == "result":
            self._result(lease, body, now)
            return [self._message(lease, "done", {"tasks": [body["task"]]}), *self._due(lease, now)]
        else:  # goodbye
            self._end(lease, "left", body["reason"], now)
        return []

    def _hello(self, peer: bytes, key: str, door: int, message: Message, now: float) -> list[Out]:
        nonces = self._hellos.setdefault(key, deque(maxlen=_NONCES))
        if message.session in nonces:
            self.counts["repeated"] += 1
            return []
        nonces.append(message.session)
        node, instance = message.body["node"], message.body["instance"]
        mine = [i for i, one in enumerate(self.standings) if (one.slot.door, one.slot.key) == (door, key)]
        if not node and len(mine) == 1:
            number = mine[0]
        elif node in self._by_node and self._by_node[node] in mine:
            number = self._by_node[node]
        else:
            self.counts["unknown-node"] += 1
            names = ", ".join(self.standings[i].slot.node for i in mine)[:200]
            said = f"the slots of key '{key}': {names}" if mine else f"no node of the scenario has live.key '{key}'"
            return [self._refuse(peer, message.session, "unknown-node", said[:300])]
        if number in self._banned:
            return [self._refuse(peer, message.session, "evicted", "evicted from this run")]
        standing = self.standings[number]
        held = standing.lease
        if held is not None and held.instance != instance:
            left = max(0.0, held.until - now)
            return [self._refuse(peer, message.session, "taken", "another agent holds the slot", left)]
        if peer in self._by_peer and self._by_peer[peer] is not held:
            self._end(self._by_peer[peer], "left", "took another slot", now)
        if held is not None:
            self._by_peer.pop(held.peer, None)
        return self._welcome(peer, number, message, now)

    def _welcome(self, peer: bytes, number: int, message: Message, now: float) -> list[Out]:
        standing = self.standings[number]
        slot = standing.slot
        lease = Lease(
            number, peer, self._random(SESSION), message.body["instance"], message.body, now, now + slot.lease
        )
        lease.shared = self._boot != "" and message.body["boot"] == self._boot
        self._by_peer[peer] = lease
        if standing.state != "attached":
            standing.state, standing.since = "attached", now
        standing.lease, standing.detail = lease, ""
        self._queues[number].resend()
        body = {
            "run": self.run, "session": lease.session, "node": slot.node, "lease": slot.lease,
            "interval": slot.interval, "shaping": slot.shaping,
        }  # fmt: skip
        welcome = peer, FROM_GATEWAY.pack("welcome", body, session=message.session, number=message.number)
        return [welcome, *(self._shape(lease, standing.wishes.whole(now)) if standing.shapes else [])]

    def _result(self, lease: Lease, body: Body, now: float) -> None:
        queued = self._queues[lease.slot].settle(body["task"])
        if queued is None:
            self.counts["repeated-result"] += 1
            return
        # by half a round trip the far clock may be wrong; the order of what happened is not
        least = max(queued.created, queued.sent)
        times: dict[str, float] = {}
        called = body["answered"] is not None
        for name in _CALLED if called else _HERE:
            content = body[name]
            if content is not None and not math.isnan(lease.clock.offset):
                times[name] = least = min(max(lease.ours(content), least), now)
        self._note(queued, lease.slot, body["status"], now, times, body["output"], body["detail"])

    def _note(
        self, queued: QueuedTask, number: int, status: Any, now: float,  # noqa: ANN401 - one of the words of Result
        times: Mapping[str, float] = _NEVER, output: bytes = b"", detail: str = "",
    ) -> None:  # fmt: skip
        sent = queued.sent if queued.sent >= 0 else None
        slot = self.standings[number].slot.number
        created, ended, uploaded = queued.created, now, times.get("received")
        if "answered" in times:  # between two other machines: neither the way from here nor the way back counts
            created, ended, uploaded = times["received"], times["answered"], times.get("uploaded")
        self.results.append(TaskResult(
            queued.task, slot, status, created, sent, uploaded, times.get("started"), times.get("computed"), ended,
            len(output), detail, output[:_ANSWER],
        ))  # fmt: skip

    # -- what is asked of it -----------------------------------------------------------------

    def tick(self, now: float, wall: float) -> list[Out]:
        """What is due: pings, tasks, changed links, the end of leases."""
        out: list[Out] = []
        for standing in self.standings:
            lease = standing.lease
            if lease is None:
                continue
            if now >= lease.until:
                self._end(lease, "lost", f"no sign of life for {standing.slot.lease:g} s", now)
                continue
            if now - lease.ping_at >= min(1.0, standing.slot.lease / 4):
                lease.ping_at = now
                lease.serial += 1
                lease.remember(lease.serial, now, wall)
                out.append(self._message(lease, "ping", {"serial": lease.serial}))
            if standing.shapes:
                out += self._shape(lease, standing.wishes.changes(now))
            out += self._due(lease, now)
        return out

    def _due(self, lease: Lease, now: float) -> list[Out]:
        """The tasks that its machine is to get now."""
        if math.isnan(lease.clock.offset):  # times of tasks need the clock
            return []
        due = self._queues[lease.slot].due(now, lease.facts["window"], _SENDS)
        return [self._message(lease, "task", queued.make()) for queued in due]

    def offer(self, node: str, queued: QueuedTask) -> bool:
        """Give a task to the machine at `node`; False when it is not there or too many wait for it."""
        number = self._by_node[node]
        standing = self.standings[number]
        return standing.slot.tasks and standing.lease is not None and self._queues[number].offer(queued)

    def outstanding(self, node: str) -> int:
        """Tasks at `node` without a result."""
        return len(self._queues[self._by_node[node]])

    def shape(self, node: str, links: Sequence[Impairment]) -> None:
        """Set the wanted links of the machine at `node`, whichever it is; sent at the next tick.

        Nothing where the scenario does not allow it. Links that are not named stay. Raises `RunError` when there are
        too many.
        """
        standing = self.standings[self._by_node[node]]
        if standing.slot.shaping:
            standing.wishes.want(links)

    def _shape(self, lease: Lease, orders: Sequence[Body]) -> list[Out]:
        return [self._message(lease, "shape", order) for order in orders]

    def evict(self, node: str, now: float) -> list[Out]:
        """Take the slot away and keep its machine out until the run ends. Raises `KeyError`."""
        number = self._by_node[node]
        self._banned.add(number)
        lease = self.standings[number].lease
        out = [] if lease is None else [self._refuse(lease.peer, lease.session, "evicted", "evicted from this run")]
        if lease is not None:
            self._end(lease, "evicted", "evicted", now)
        standing = self.standings[number]
        standing.state, standing.since, standing.detail = "evicted", now, "evicted"
        return out

    def end(self, reason: str, now: float) -> list[Out]:
        """End the run: goodbyes to all machines."""
        out = []
        for standing in self.standings:
            if standing.lease is not None:
                out.append(self._message(standing.lease, "goodbye", {"reason": reason[:300]}))
                self._end(standing.lease, "left", reason, now)
        return out

    def table(self, now: float) -> list[dict[str, Any]]:
        """One row per slot, as JSON values."""
        rows = []
        for number, standing in enumerate(self.standings):
            lease, report = standing.lease, standing.report
            clock = lease is not None and not math.isnan(lease.clock.offset)
            rows.append({
                "name": standing.slot.node, "slot": standing.slot.number, "key": standing.slot.key,
                "state": standing.state, "detail": standing.detail,
                "since": now - standing.since if standing.state != "free" else None,
                "offset": lease.wall.offset if lease and clock else None,
                "round_trip": lease.clock.round_trip if lease and clock else None,
                "clock_steps": lease.wall.steps if lease else None,
                "cpu": report["cpu"] if lease and report else None,
                "tasks": len(self._queues[number]), "works": lease.facts["works"] if lease else [],
                "shaping": lease.facts["shaping"] if lease and standing.slot.shaping else None,
                "wished": len(standing.wishes.links),
                "shaped": report["shaped"] if lease and report else 0,
                "unshaped": report["unshaped"] if lease and report else "",
            })  # fmt: skip
        return rows

    # -- ends --------------------------------------------------------------------------------

    def _strike(self, lease: Lease | None, now: float, reason: str) -> list[Out]:
        if lease is None:
            return []
        lease.strikes += 1
        if lease.strikes < STRIKES:
            return []
        out = [self._message(lease, "goodbye", {"reason": reason})]
        self._end(lease, "lost", reason, now)
        return out

    def _end(self, lease: Lease, state: Any, detail: str, now: float) -> None:  # noqa: ANN401 - a state
        self._by_peer.pop(lease.peer, None)
        standing = self.standings[lease.slot]
        standing.lease, standing.report = None, None
        standing.state, standing.since, standing.detail = state, now, detail
        for queued in self._queues[lease.slot].drop():
            self._note(queued, lease.slot, "lost", now, detail=detail)

    def _message(self, lease: Lease, kind: str, body: Body) -> Out:
        lease.said += 1
        return lease.peer, FROM_GATEWAY.pack(kind, body, session=lease.session, number=lease.said)

    def _refuse(self, peer: bytes, session: bytes, reason: str, detail: str = "", after: float | None = None) -> Out:
        body = {"reason": reason, "detail": detail, "after": after}
        return peer, FROM_GATEWAY.pack("refuse", body, session=session)

"""A gateway's roster and agents' members joined by queues, on clocks that the test moves."""

from __future__ import annotations

import itertools

from cosim.testbed.live.lease import NodeSlot
from cosim.testbed.live.member import AgentSession
from cosim.testbed.live.roster import Roster
from cosim.testbed.live.task_queue import QueuedTask

FACTS = {
    "node": "", "agent": "1", "cores": 4, "clock": 1e9, "boot": "", "works": ["busy"], "window": 4,
    "shaping": "full",
}  # fmt: skip
NO_CALL = {"kernel": "", "least": 0.0, "to": "", "bytes": 0}  # fields of a task that only other work uses
READING = {
    "cpu": 0.5, "memory": 1e9, "received": 10, "sent": 20, "temperature": None, "power": None, "meter": "none",
    "cpu_wait": 0.01, "memory_wait": None, "io_wait": 0.0, "position": None, "obeyed": 0, "shaped": 0, "unshaped": "",
}  # fmt: skip


def bytes_of(seed: int):
    """Different bytes at every call, the same for the same seed."""
    numbers = itertools.count(seed * 1_000_000)
    return lambda count: next(numbers).to_bytes(count, "big")


def slot(node="pi", *, key=None, number=0, lease=10.0, tasks=True, shaping=False, interval=1.0):
    return NodeSlot(number, node, key or node, lease, interval, tasks, shaping)


def member(seed=1, **facts):
    return AgentSession({**FACTS, **facts}, random=bytes_of(seed), jitter=lambda: 0.5)


def queued(task, created=0.0, limit=10.0, payload=b"in"):
    def make():
        return {
            "task": task, "work": "busy", "cycles": 1e6, "size": 1, "limit": limit, "output": 3, "input": payload,
            **NO_CALL,
        }  # fmt: skip

    return QueuedTask(task, make, created, limit)


class Wire:
    """Carries messages at once; loses or repeats them on request. The agent's clock is `ahead` of the gateway's."""

    def __init__(self, roster: Roster, key: str = "pi", ahead: float = 0.0, wall_ahead: float = 0.0) -> None:
        self.roster, self.key = roster, key
        self.now, self.ahead, self.wall_ahead = 100.0, ahead, wall_ahead
        self.connections: dict[bytes, AgentSession] = {}
        self.log: list[tuple[bytes, bytes]] = []  # what agents sent
        self.reading = lambda: READING
        self._numbers = itertools.count(1)

    @property
    def there(self) -> float:
        return self.now + self.ahead

    def connect(self, agent: AgentSession) -> bytes:
        """A new connection and a hello."""
        for peer in [peer for peer, known in self.connections.items() if known is agent]:
            del self.connections[peer]
        peer = b"peer%d" % next(self._numbers)
        self.connections[peer] = agent
        self.up(peer, [agent.hello(self.there)])
        return peer

    def up(self, peer, messages) -> None:
        """From an agent to the roster."""
        for data in messages:
            self.log.append((peer, data))
            self.down(self.roster.receive(peer, self.key, data, self.now, self.now))

    def down(self, out) -> None:
        """From the roster to the agents."""
        for peer, data in out:
            agent = self.connections.get(peer)
            if agent is not None:
                self.up(peer, agent.receive(data, self.there, self.there + self.wall_ahead))

    def pass_time(self, seconds: float, step: float = 0.5) -> None:
        """Let both ends tick."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + step)
            self.down(self.roster.tick(self.now, self.now))
            for peer, agent in list(self.connections.items()):
                self.up(peer, agent.tick(self.there))
                if agent.report_due(self.there):
                    self.up(peer, agent.report(self.reading(), self.there))
                if agent.hello_due(self.there):
                    self.connect(agent)


def joined(*slots, queue=16, **facts):
    """A roster, a member that holds its first slot, and the wire between them."""
    roster = Roster(slots or (slot(),), random=bytes_of(9), queue=queue)
    wire, agent = Wire(roster), member(**facts)
    wire.connect(agent)
    wire.pass_time(1.0)
    assert agent.state == "attached"
    return roster, agent, wire

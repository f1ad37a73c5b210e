"""Follows requests through the queues of edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from cosim.contract.adapter import Context, InMemory, Inputs, Summary
from cosim.contract.errors import refuse
from cosim.contract.frame import Frame
from cosim.contract.signals import TASK_EVENTS
from cosim.extensions.corais.adapter import EDGE_QUEUE
from cosim.extensions.corais.adapter.check import problems
from cosim.extensions.corais.adapter.config import CoraisConfig
from cosim.extensions.corais.territory import members

QUEUES = tuple(column.name for column in EDGE_QUEUE.columns)
# Where a client was when its result came, seen from the edge that got the request.
MOVES = ("stayed", "within", "out")
Queues = tuple[tuple[int, str], ...]  # slots of edges and names of their queues


class CoraisAdapter(InMemory[CoraisConfig]):
    """Counts requests by edge and queue, and those of clients that moved within their region or out of it."""

    def start(self, context: Context) -> None:
        """Raises `ScenarioError` for what `check` finds."""
        refuse(problems(self._config, context))
        scene = context.scene
        regions = members(self._config.regions, scene)
        self._region = {slot: name for name, slots in regions.items() for slot in slots}
        self._edges = [k for k, node in enumerate(scene.nodes) if node.tier == "edge"]
        self._cell = np.full(scene.capacity, -1)
        for link in scene.links:  # clients on a wire
            for near, far in ((link.a, link.b), (link.b, link.a)):
                edge = next((part.first for part in far if part.first in self._edges), -1)
                for part in near if edge >= 0 else ():
                    self._cell[part.first : part.first + part.count] = edge
        self._at: dict[int, tuple[int, Queues]] = {}  # request -> the edge that got it, and where it is
        self._length = Counter[tuple[int, str]]()
        self._passed = Counter[str]()
        self._moved, self._seconds = dict.fromkeys(MOVES, 0), dict.fromkeys(MOVES, 0.0)

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """The queues at `time`."""
        for frame in inputs.all("task_event"):
            names = ("task", "event", "host", "status", "created", "at")
            for device, *row in zip(frame.slot.tolist(), *(frame[name].tolist() for name in names), strict=True):
                self._follow(device, *row)
        for frame in inputs.all("link"):
            self._cell[frame.slot] = frame["cell"]
        slots = np.array(self._edges, np.int32)
        columns = {name: np.array([self._length[e, name] for e in self._edges], np.int32) for name in QUEUES}
        return [Frame("edge_queue", time, slots, columns)]

    def _follow(self, device: int, task: int, event: int, host: int, status: int, created: float, at: float) -> None:
        """Let a request pass from queue to queue (Fig. 9 of the paper)."""
        name, source = TASK_EVENTS[event], self._at.get(task, (-1, ()))[0]
        if source < 0:
            source = int(self._cell[device])
        if name == "created":
            self._enter(task, source, (source, "waiting"))
        elif name == "assigned":
            ways = ((source, "local"),) if host == source else ((source, "out"), (host, "coming"))
            self._enter(task, source, *ways)
        elif name == "uploaded" and host != source:
            self._enter(task, source, (host, "coming"))
        elif name == "computed":
            self._enter(task, source, (host, "done"))
        elif name == "ended":
            self._enter(task, source)
            del self._at[task]
            now = int(self._cell[device])
            if status == 0 and now >= 0:
                near = self._region.get(now) == self._region.get(source)
                way = MOVES[0 if now == source else 1 if near else 2]
                self._moved[way] += 1
                self._seconds[way] += at - created

    def _enter(self, task: int, source: int, *queues: tuple[int, str]) -> None:
        _, before = self._at.get(task, (source, ()))
        self._length.subtract(before)
        self._length.update(queues)
        self._passed.update(name for edge, name in queues if (edge, name) not in before)
        self._at[task] = source, queues

    def finish(self) -> Summary:
        """Requests that passed each queue; answered ones, and their mean response in s, by how their clients moved."""
        clients = {way: {"requests": n, "response": self._seconds[way] / max(n, 1)} for way, n in self._moved.items()}
        return {"queues": {name: self._passed[name] for name in QUEUES}, "clients": clients}

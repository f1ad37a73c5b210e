"""Which live node does a task: the one that the run's scheduler chooses.

Where no model of the run has one: a device's own base station, or the node with the fewest tasks per core that can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from cosim.adapters.live.books import TaskRecord
from cosim.adapters.live.config import OffloadBlock
from cosim.adapters.live.policy import LOCAL, HostPolicy
from cosim.contract.entities import Scene, Workload
from cosim.contract.frame import Frame
from cosim.engine.continuum.arrivals import SourceTask
from cosim.testbed.launch.programs import programs
from cosim.testbed.live.lease import SlotStanding

if TYPE_CHECKING:
    from cosim.testbed.live.roster import Roster

PORT = 8500  # of the inference service on nodes that run `vedgenode`


class TaskTarget(NamedTuple):
    """Where a task goes."""

    node: str  # whose machine gets it: the host, or the device that sends it on; "": none
    host: str = ""  # that the device calls
    address: str = ""  # of its service
    failed: bool = False  # its device is there, and the scheduler or the network has no host for it


class NodeChoice:
    """Finds the node that a task goes to, and for one that crosses the emulated network who sends it.

    A real device calls the service of a node that computes, over an interface that both have or across a base station;
    the nodes of the tier `device` are callers, all others hosts. The base station that serves a device comes before
    all others, as long as it computes.
    """

    def __init__(self, scene: Scene, policy: HostPolicy | None = None) -> None:
        self._policy = policy
        everything = scene.computers()
        self._devices = {node.id for _, node in everything if node.tier == "device" and node.runs is not None}
        self._slots = {node.id: slot for slot, node in everything}
        self._names = {slot: node.id for slot, node in everything}
        self._serving: dict[str, str] = {}  # device -> base station
        self._programs = {program.node: program for program in programs(scene)} if scene.real else {}
        self._called: Counter[str] = Counter()  # tasks under way to each host, by way of devices

    def served(self, frames: Sequence[Frame]) -> None:
        """Frames of `link`: which base station serves each device now."""
        self._serving = {
            self._names[device]: self._names[cell]
            for frame in frames
            for device, cell in zip(frame.slot.tolist(), frame["cell"].tolist(), strict=True)
            if device in self._names and cell in self._names
        }

    def target(self, roster: Roster, number: int, load: Workload, task: SourceTask, block: OffloadBlock) -> TaskTarget:
        """Where `task` of workload `number` goes now."""
        crosses = block.path == "network"
        device = self._names.get(task.device, "")
        standing = {s.slot.node: s for s in roster.standings}
        if self._policy is None or not self._policy.knows(task.device):
            if not crosses:
                return TaskTarget(self.direct(roster, block))
            host, address = self.called(roster, device)
            return TaskTarget(device if host else "", host, address, failed=bool(device) and not host)
        if crosses and not (device in standing and _does(standing[device], "call")):
            return TaskTarget("", failed=bool(device))
        able = self._able(roster, device, block)
        if not able and not crosses:
            return TaskTarget("")
        tasks = {self._slots[name]: roster.outstanding(name) + self._called[name] for name in standing}
        answer = self._policy.ask(number, load, task, tasks, able.__contains__)
        if answer == LOCAL:
            here = device in standing and _does(standing[device], block.run)
            return TaskTarget(device if here else "", failed=not here)
        if answer < 0:
            return TaskTarget("", failed=True)
        return self._to(device, self._names[answer], block)

    def round(
        self, roster: Roster, time: float, made: Mapping[int, TaskRecord], waiting: Collection[int],
        loads: Sequence[Workload], blocks: Mapping[int, OffloadBlock],
    ) -> dict[int, TaskTarget]:  # fmt: skip
        """Where those of the tasks under way go that have been `waiting` for the scheduler, by their numbers."""
        assert self._policy is not None
        name = self._names
        able = cache(lambda device, workload: self._able(roster, name.get(device, ""), blocks[workload]))
        return {
            task: self._to(name.get(made[task].arrival.device, ""), name[slot], blocks[made[task].workload])
            for task, slot in self._policy.place(time, made, waiting, loads, able).items()
        }

    def _able(self, roster: Roster, device: str, block: OffloadBlock) -> set[int]:
        """The slots of hosts that do such tasks and, where they cross the network, that the device reaches."""
        if block.path != "network":
            return {self._slots[s.slot.node] for s in self._hosts(roster, block.run)}
        return {self._slots[s.slot.node] for s in self._reached(roster, device)}

    def _reached(self, roster: Roster, device: str) -> list[SlotStanding]:
        return [s for s in self._hosts(roster, "forward") if self._address(device, s.slot.node)]

    def _to(self, device: str, host: str, block: OffloadBlock) -> TaskTarget:
        if block.path != "network":
            return TaskTarget(host)
        return TaskTarget(device, host, f"{self._address(device, host)}:{PORT}")

    def able(self, roster: Roster, block: OffloadBlock) -> bool:
        """Whether a machine is attached that does such tasks."""
        return any(self._hosts(roster, block.run)) and (block.path == "management" or bool(self._programs))

    def _hosts(self, roster: Roster, run: str) -> list[SlotStanding]:
        return [s for s in roster.standings if s.slot.node not in self._devices and _does(s, run)]

    def direct(self, roster: Roster, block: OffloadBlock) -> str:
        """The node that gets a task from the run; "" when there is none."""
        return self._least(roster, self._hosts(roster, block.run))

    def called(self, roster: Roster, device: str) -> tuple[str, str]:
        """The host that `device` is to call, and the address of its service; "" twice when there is none.

        The device must be there, and the host have given a sign of life: whether its packets arrive is what is
        measured.
        """
        mine = next((s for s in roster.standings if s.slot.node == device), None)
        if mine is None or not _does(mine, "call"):
            return "", ""
        able = self._reached(roster, device)
        near = self._serving.get(device, "")
        host = near if any(standing.slot.node == near for standing in able) else self._least(roster, able)
        if not host:
            return "", ""
        return host, f"{self._address(device, host)}:{PORT}"

    def slot(self, node: str) -> int:
        """The slot of a node in the scene."""
        return self._slots[node]

    def sent(self, host: str) -> None:
        """Count a call to `host` that a device was asked to make."""
        self._called[host] += 1

    def ended(self, host: str) -> None:
        """Such a call has ended."""
        self._called[host] -= 1

    def _address(self, device: str, host: str) -> str:
        if device not in self._programs or host not in self._programs:
            return ""
        return self._programs[device].reached(self._programs[host])

    def _least(self, roster: Roster, able: list[SlotStanding]) -> str:
        def load(standing: SlotStanding) -> float:
            name = standing.slot.node
            assert standing.lease is not None
            cores: int = standing.lease.facts["cores"]
            return (roster.outstanding(name) + self._called[name]) / cores

        return min(able, key=load).slot.node if able else ""


def _does(standing: SlotStanding, work: str) -> bool:
    lease = standing.lease
    return lease is not None and standing.slot.tasks and work in lease.facts["works"] and bool(lease.facts["window"])

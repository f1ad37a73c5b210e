"""Which host a real task goes to, by the scheduler of the model that would else make it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.live.books import TaskRecord
from cosim.contract.adapter import Context
from cosim.contract.entities import Scene, Workload
from cosim.contract.frame import Frame
from cosim.contract.records import Records
from cosim.contract.signals import TASK_STATUS
from cosim.engine.continuum.arrivals import SourceTask
from cosim.schedulers import SchedulerError, scheduler
from cosim.schedulers.models import continuum_hosts
from cosim.schedulers.state import TASK, State, answers

NONE, LOCAL = -1, -2  # answers of a scheduler besides a host
_TIERS = {"device": 0, "edge": 1, "cloud": 2}  # as in `cosim.engine.continuum.layout`


class _Row(NamedTuple):
    """What a device's tasks find: hosts in the scheduler's order."""

    serving: int
    hosts: NDArray[np.int32]  # (hosts,) slots
    transfer: NDArray[np.float64]  # (hosts,) s, inf: no way
    assigned: NDArray[np.int32]  # (hosts,) simulated tasks
    up: NDArray[np.bool_]  # (hosts,)


class PlacedByFiles:
    """Sends tasks where policy files have put their component, as the model's own agent of these files does."""

    def __init__(self) -> None:
        self._workloads: dict[int, int] = {}  # slot -> a bit for each workload that may run there

    def heard(self, frames: Sequence[Frame]) -> None:
        """Where components are from now on: frames of `placement`."""
        for frame in frames:
            self._workloads = dict(zip(frame.slot.tolist(), frame["workloads"].tolist(), strict=True))

    def __call__(self, request: Any, reach: NDArray[np.float64], hosts: Records) -> int:  # noqa: ANN401
        """A host with the component that works and can be reached, or the device; of several, one by chance."""
        able = [
            number
            for number, (slot, up) in enumerate(zip(hosts["slot"].tolist(), hosts["up"].tolist(), strict=True))
            if up and math.isfinite(reach[number]) and self._holds(slot, request.workload)
        ]
        if self._holds(request.device, request.workload) and request.own_speed > 0.0:
            able.append(LOCAL)
        return able[int(request.chance * len(able))] if able else NONE

    def _holds(self, slot: int, workload: int) -> bool:
        return bool(self._workloads.get(slot, 0) >> workload & 1)


class HostPolicy:
    """The scheduler of a run, asked about real tasks when they are made.

    It gets the same input as from the engine: the network as of the model's last step (signal `reach`), sizes and
    random numbers of the task from the model's own streams, and the tasks of each host, simulated and real. Memory
    of hosts counts as unlimited. Raises `SchedulerError` for a scheduler that decides per interval, unless it is about
    waiting tasks alone.
    """

    def __init__(self, name: str, threshold: float, scene: Scene, context: Context | None = None) -> None:
        from cosim.engine.continuum import asking  # these need numba
        from cosim.engine.continuum.schedulers import Request

        self._asking, self._request = asking, Request
        found = scheduler(name)
        self._placed = PlacedByFiles() if found.files else None
        self._chosen: Any = found.for_continuum(context=context) if self._placed is None else self._placed
        self.rounds = found.of_waiting  # whether it is asked about all waiting tasks at once
        if getattr(self._chosen, "whole", False) and not self.rounds:
            raise SchedulerError(f"policy '{name}' decides per interval; real tasks need one that decides per task")
        self._threshold = threshold
        self._nodes = dict(scene.computers())
        self._at: dict[int, int] = {}  # task that a round has sent -> slot of its host
        self._rows: dict[int, _Row] = {}
        self._turn = 0
        self.reported = False  # whether the model has sent anything yet; it does after its first step
        if isinstance(self._chosen, int):  # so that nothing waits for machine code while time passes
            self._answer(Request(0.0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0.0, 0, 0.0), np.empty(0), self._hosts([]))

    def heard(self, frames: Sequence[Frame], placement: Sequence[Frame] = ()) -> None:
        """The frames of `reach` and `placement`: how things are from now on."""
        if self._placed is not None:
            self._placed.heard(placement)
        rows: dict[int, _Row] = {}
        self.reported = self.reported or bool(frames)
        for frame in frames:
            starts = np.flatnonzero(np.diff(frame.slot, prepend=-1)).tolist()  # none while no device is there
            for begin, end in pairwise([*starts, len(frame.slot)]):
                part = slice(begin, end)
                rows[int(frame.slot[begin])] = _Row(
                    int(frame["serving"][begin]), frame["host"][part], frame["transfer"][part],
                    frame["assigned"][part], frame["up"][part],
                )  # fmt: skip
        self._rows = rows

    def knows(self, device: int) -> bool:
        """Whether the model has a way from this device to any host. It has none over Wi-Fi that is ad hoc."""
        row = self._rows.get(device)
        return row is not None and (row.serving >= 0 or bool(np.isfinite(row.transfer).any()))

    def ask(
        self, number: int, load: Workload, task: SourceTask, tasks: Mapping[int, int], able: Callable[[int], bool]
    ) -> int:
        """The slot of the host for `task` of workload `number`, LOCAL, or NONE.

        `tasks` are the real ones at each node; hosts that are not `able` count as down.
        """
        row, own = self._rows[task.device], self._nodes[task.device]
        hosts = self._hosts(row.hosts.tolist())
        hosts["assigned"] = hosts["running"] = row.assigned + [tasks.get(slot, 0) for slot in row.hosts.tolist()]
        hosts["up"] = row.up & [able(slot) for slot in row.hosts.tolist()]
        stage = next((k for k, one in enumerate(load.graph) if not one.pinned), -1)
        request = self._request(
            time=task.at, device=task.device, serving=row.serving, workload=number, input=float(task.sent),
            output=float(task.output), work=float(task.work - task.onboard), deadline=float(load.deadline),
            own_speed=float(own.cores * own.clock), own_tasks=tasks.get(task.device, 0), chance=task.choice,
            turn=self._turn, threshold=float(self._threshold), stage=stage, operations=0.0,
            memory=float(load.memory), storage=float(load.storage),
        )  # fmt: skip
        self._turn += 1
        answer = self._answer(request, row.transfer.copy(), hosts)
        return answer if answer < 0 else int(row.hosts[answer])

    def place(
        self, time: float, under_way: Mapping[int, TaskRecord], waiting: Collection[int], loads: Sequence[Workload],
        able: Callable[[int, int], Collection[int]],
    ) -> dict[int, int]:  # fmt: skip
        """A round: the slots of hosts for real tasks that are `waiting`, by their numbers; those left out wait on.

        `able`: hosts that a device's tasks of a workload can go to. All work of a task counts as left until it ends.
        """
        ours = {*waiting, *self._at}
        made = [one for task, one in under_way.items() if task in ours and self.knows(one.arrival.device)]
        rows = [self._rows[one.arrival.device] for one in made]
        self._at = {one.serial: self._at[one.serial] for one in made if one.serial in self._at}
        slots = rows[0].hosts.tolist() if rows else []
        can = np.array([[slot in able(one.arrival.device, one.workload) for slot in slots] for one in made], bool)
        if not can.any():
            return {}
        hosts, number = self._hosts(slots), {slot: k for k, slot in enumerate(slots)}
        self._chosen.number(hosts)
        at = [number.get(self._at.get(one.serial, NONE), NONE) for one in made]
        hosts["up"] = rows[0].up & can.any(axis=0)
        hosts["assigned"] = rows[0].assigned + np.bincount(np.array(at) + 1, minlength=len(slots) + 1)[1:]
        tasks = np.zeros(len(made), TASK)
        for k, (one, host) in enumerate(zip(made, at, strict=True)):
            task, load = one.arrival, loads[one.workload]
            own = self._nodes[task.device]
            tasks[k] = (
                one.serial, task.device, one.workload, host, 0.0, task.sent, task.output, task.work - task.onboard, 0.0,
                load.memory, task.at + load.deadline - time, time - task.at, own.cores * own.clock, 0.0, task.choice,
            )  # fmt: skip
        reach = np.where(can, [row.transfer for row in rows], np.inf)
        found = answers(self._chosen.policy, State(time, 0.0, continuum_hosts(hosts), tasks, reach))
        sent = {made[k].serial: slots[n] for k, n in enumerate(found.tolist()) if at[k] == NONE and n >= 0}
        self._at |= sent
        return sent

    def summary(self) -> dict[str, Any]:
        """What a policy that decides in rounds says of itself."""
        return self._chosen.policy.summary() if self.rounds and hasattr(self._chosen.policy, "summary") else {}

    def learn(self, frame: Frame) -> None:
        """Report ended tasks to a scheduler that learns: rows of `task`."""
        learns = getattr(self._chosen, "learn", None) if getattr(self._chosen, "learns", False) else None
        if learns is not None and len(frame):
            names = ("host", "work", "created", "computed", "ended", "deadline")
            status = np.where(frame["status"] == TASK_STATUS.index("completed"), 0, 1)
            learns({**{name: frame[name] for name in names}, "device": frame.slot, "status": status})

    def _hosts(self, slots: Sequence[int]) -> Records:
        nodes = [self._nodes[slot] for slot in slots]
        return self._asking.records(
            np.array(slots, np.int64), np.array([_TIERS[node.tier] for node in nodes], np.int64),
            np.array([node.cores for node in nodes], np.int64), np.array([node.clock for node in nodes], np.float64),
        )  # fmt: skip

    def _answer(self, request: Any, reach: NDArray[np.float64], hosts: Records) -> int:  # noqa: ANN401
        """A number of a host, LOCAL or NONE. Raises `ValueError` for an answer that is none of them."""
        if isinstance(self._chosen, int):
            found: Any = self._asking.choose(self._chosen, request, reach, hosts)
        else:
            found = self._chosen(request, reach, hosts)
        if not isinstance(found, (int, np.integer)) or not LOCAL <= found < len(hosts):
            raise ValueError(
                f"the scheduler answered {found!r}; expected the number of a host, 0..{len(hosts) - 1}, -1 for none "
                "or -2 for the device itself"
            )
        if found >= 0 and (not hosts["up"][found] or math.isinf(reach[found])):
            return NONE
        return int(found)


def policy_of(context: Context, model: str) -> HostPolicy | None:
    """The scheduler of the adapter `live.model`; None if there is no such adapter, or none left it tasks."""
    offered = context.offered.get(model)
    if not offered or not offered["leave"] or not context.scene.real:
        return None
    return HostPolicy(offered["scheduler"], offered["threshold"], context.scene, context)

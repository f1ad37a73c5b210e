"""The books of the tasks that live nodes run: created = completed + failed by cause + in flight; bytes likewise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from cosim.contract.entities import Workload
from cosim.contract.frame import Frame
from cosim.contract.signals import OF_WORKLOADS, TAKEN, TASK, TASK_STATUS
from cosim.contract.unfinished import reported
from cosim.engine.continuum.arrivals import SourceTask
from cosim.testbed.live.task_queue import TaskResult

CAUSES: Mapping[str, str] = {
    "done": "completed",
    "refused": "capacity",  # the agent does not do such work, or too many tasks waited for its node
    "failed": "node-failed",  # the work failed there
    "timeout": "deadline",  # it computed longer than `limit`
    "lost": "node-failed",  # the machine left with the task, or before it
    "unreached": "no-coverage",  # its device was there, and reached no host
}


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task that was made."""

    serial: int
    workload: int
    arrival: SourceTask
    created: float  # s, monotonic, when it was due
    host: str = ""  # the node that its device calls; "": the run gives it to a node itself
    waited: float = 0.0  # s for the decision of a round


def frame_of_taken(time: float, rows: Sequence[tuple[int, int, float]]) -> Frame:
    """Rows of workload, its first device and share, as the signal `taken`."""
    columns = {
        column.name: np.array([row[k] for row in rows], column.dtype)
        for k, column in zip((0, 2), TAKEN.columns, strict=True)
    }
    return Frame("taken", time, np.array([row[1] for row in rows], np.int32), columns)


class LiveTaskAccounts:
    """Who made what, and how it ended. Serial numbers are this adapter's own."""

    def __init__(self, workloads: Sequence[Workload]) -> None:
        self._workloads = workloads
        self.flying: dict[int, TaskRecord] = {}  # under way
        self._ended: list[tuple[TaskRecord, TaskResult]] = []
        self._created: Counter[int] = Counter()
        self._late: Counter[int] = Counter()
        self._status: dict[int, Counter[str]] = {}
        self._bytes = Counter({"offered": 0, "delivered": 0, "dropped": 0, "output": 0})
        self._time = 0.0  # s, of the last frame
        self.behind = 0.0  # s, the most by which a task was made after it was due
        self.skipped = 0  # arrivals while no live node could take a task, which were left to a model

    def make(self, workload: int, arrival: SourceTask, due: float, host: str = "") -> TaskRecord:
        """A task is made that is due at `due` (s, monotonic); its device calls `host`, if that is given."""
        made = TaskRecord(sum(self._created.values()), workload, arrival, due, host)
        self.flying[made.serial] = made
        self._created[workload] += 1
        self._bytes["offered"] += int(arrival.sent)
        return made

    def send(self, task: int, now: float, host: str) -> TaskRecord:
        """A task that has waited until `now` goes to a node, or its device calls `host`."""
        made = self.flying[task]
        self.flying[task] = made = replace(made, host=host, waited=now - made.created)
        return made

    def refuse(self, made: TaskRecord, now: float, why: Literal["refused", "unreached", "lost"] = "refused") -> None:
        """End a task that no node takes."""
        self.end(TaskResult(made.serial, -1, why, made.created, None, None, None, None, now, 0, ""))

    def host(self, task: int) -> str:
        """The node that the device of a task under way calls; "" for all others."""
        made = self.flying.get(task)
        return "" if made is None else made.host

    def device(self, task: int) -> int:
        """The slot of the device of a task under way; -1 for all others."""
        made = self.flying.get(task)
        return -1 if made is None else made.arrival.device

    def end(self, result: TaskResult) -> None:
        """A task has ended; one that has ended before is left out."""
        made = self.flying.pop(result.task, None)
        if made is None:
            return
        self._ended.append((made, result))
        self.behind = max(self.behind, result.created - made.created - made.waited)
        cause = CAUSES[result.status]
        self._status.setdefault(made.workload, Counter())[cause] += 1
        arrived = result.uploaded is not None
        self._bytes["delivered" if arrived else "dropped"] += int(made.arrival.sent)
        if cause == "completed":
            self._bytes["output"] += result.output
            if result.ended - result.created + made.waited > self._workloads[made.workload].deadline:
                self._late[made.workload] += 1

    def frame(self, time: float) -> Frame:
        """The tasks that have ended since the last call.

        They were made a little after they were due, by the time that the run, and the way to a device that sends them,
        took (`behind`). Their times are counted from when they were due, their durations from when they were made.
        """
        rows, self._ended = self._ended, []
        self._time = time
        table: dict[str, list[Any]] = {column.name: [] for column in TASK.columns}
        for made, result in rows:
            deadline = self._workloads[made.workload].deadline
            done, sent = result.status == "done", made.arrival.at + made.waited

            def when(value: float | None, at: float = sent, begun: float = result.created) -> float:
                return float("nan") if value is None else at + (value - begun)

            row = dict.fromkeys(OF_WORKLOADS, 0.0) | {
                "task": made.serial, "workload": made.workload, "host": result.slot,
                "status": TASK_STATUS.index(CAUSES[result.status]), "created": made.arrival.at,
                **{name: when(getattr(result, name)) for name in ("uploaded", "started", "computed", "ended")},
                "input": made.arrival.input, "output": result.output if done else made.arrival.output,
                "work": made.arrival.work, "deadline": deadline,
                "late": done and result.ended - result.created + made.waited > deadline,
            }  # fmt: skip
            for name, value in row.items():
                table[name].append(value)
        columns = {column.name: np.array(table[column.name], column.dtype) for column in TASK.columns}
        return Frame("task", time, np.array([made.arrival.device for made, _ in rows], np.int32), columns)

    def summary(self) -> dict[str, Any]:
        """The ledgers; they close at any time."""
        ages: dict[int, list[float]] = {}
        for made in self.flying.values():
            ages.setdefault(made.workload, []).append(max(0.0, self._time - made.arrival.at))
        moving = sum(int(made.arrival.sent) for made in self.flying.values())
        numbers = sorted(self._created)
        back = self._bytes["output"]
        return {
            "tasks": self._tasks(range(len(self._workloads)), [age for some in ages.values() for age in some]),
            "workloads": {self._workloads[k].name: self._tasks([k], ages.get(k, [])) for k in numbers},
            "bytes": {
                "input": {**{k: self._bytes[k] for k in ("offered", "delivered", "dropped")}, "in_transit": moving},
                "output": {"offered": back, "delivered": back, "dropped": 0, "in_transit": 0},
            },
            "skipped": self.skipped,
        }

    def _tasks(self, workloads: Sequence[int], ages: Sequence[float]) -> dict[str, Any]:
        ends: Counter[str] = Counter()
        for k in workloads:
            ends.update(self._status.get(k, {}))
        completed = ends.pop("completed", 0)
        return {
            "created": sum(self._created[k] for k in workloads), "completed": completed,
            "late": sum(self._late[k] for k in workloads), "failed": dict(ends), "in_flight": len(ages),
            "ages": reported(np.array(ages)),
        }  # fmt: skip

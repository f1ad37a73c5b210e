"""The queue of tasks for one machine: nothing is lost, nothing counts twice.

A task waits, is sent, is accepted, and has a result; it is sent again until it is accepted, and once more after
every new session of its machine, which knows the numbers it has and repeats no work. The first result counts;
every result is acknowledged, so that the machine can forget it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cosim.talk.codec import Body

RETRY = 5.0  # s without acceptance after which a task is sent again; doubles each time, since payloads clog slow links
GRACE = 5.0  # s beyond a task's limit, besides the way, after which an accepted task is sent again


@dataclass(slots=True)
class QueuedTask:
    """A task for a machine; times are the gateway's monotonic clock."""

    task: int
    make: Callable[[], Body]  # the body of the message; payloads are not kept
    created: float
    limit: float  # s of computation
    sent: float = -1.0  # first time, -1: not yet
    asked: float = -1.0  # last time, -1: must be sent (again)
    accepted: bool = False
    tries: int = 0


@dataclass(frozen=True, slots=True)
class TaskResult:
    """How a task ended; times are the gateway's monotonic clock, None where it never came so far."""

    task: int
    slot: int
    # lost: its machine has left; unreached: it had none to go to
    status: Literal["done", "refused", "failed", "timeout", "lost", "unreached"]
    created: float
    sent: float | None
    uploaded: float | None
    started: float | None
    computed: float | None
    ended: float
    output: int  # B
    detail: str
    answer: bytes = b""  # the beginning of the output


@dataclass(slots=True)
class TaskQueue:
    """The tasks of one slot. `most` wait here at once; the machine has at most its window of them."""

    most: int
    _waiting: deque[QueuedTask] = field(default_factory=deque)
    _away: dict[int, QueuedTask] = field(default_factory=dict)  # sent, by task, in the order of sending

    def __len__(self) -> int:
        return len(self._waiting) + len(self._away)

    @property
    def tasks(self) -> list[int]:
        """All that have no result yet."""
        return [*self._away, *(queued.task for queued in self._waiting)]

    def offer(self, queued: QueuedTask) -> bool:
        """Take a task; False when too many wait."""
        if len(self._waiting) >= self.most:
            return False
        self._waiting.append(queued)
        return True

    def due(self, now: float, window: int, budget: int) -> list[QueuedTask]:
        """Up to `budget` tasks to be sent now: again those without a sign, then new ones within the window."""
        found = [queued for queued in self._away.values() if self._again(queued, now)][:budget]
        while self._waiting and len(self._away) < window and len(found) < budget:
            queued = self._waiting.popleft()
            self._away[queued.task] = queued
            found.append(queued)
        for queued in found:
            queued.asked = now
            queued.tries += 1
            if queued.sent < 0:
                queued.sent = now
        return found

    @staticmethod
    def _again(queued: QueuedTask, now: float) -> bool:
        if queued.asked < 0:
            return True
        patience = queued.limit + GRACE if queued.accepted else RETRY
        return now - queued.asked > patience * 2.0 ** min(queued.tries - 1, 5)

    def accept(self, task: int, now: float) -> None:
        """The machine has it; unknown numbers are no error."""
        queued = self._away.get(task)
        if queued is not None:
            queued.accepted = True
            if queued.asked < 0:  # it came to the machine in an earlier session
                queued.asked, queued.tries = now, 1

    def settle(self, task: int) -> QueuedTask | None:
        """The task whose result has come, the first time; None for every repetition."""
        return self._away.pop(task, None)

    def resend(self) -> None:
        """A new session: everything without a result is sent again."""
        for queued in self._away.values():
            queued.asked, queued.accepted, queued.tries = -1.0, False, 0

    def drop(self) -> list[QueuedTask]:
        """Give up all of them."""
        found = [*self._away.values(), *self._waiting]
        self._away.clear()
        self._waiting.clear()
        return found

"""Running totals of what has ended, for observers that see some ticks only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cosim.contract.frame import Frame
from cosim.contract.signals import TASK_STATUS

_COMPLETED = TASK_STATUS.index("completed")


class Tally:
    """Sums over all rows of the signal `task` so far. Counts only grow, so two readings give a rate."""

    def __init__(self) -> None:
        self.status = np.zeros(len(TASK_STATUS), np.int64)  # tasks that ended with each status
        self.late = 0  # completed after their deadline
        self.response = 0.0  # s, sum over the completed tasks

    def tick(self, tick: int, time: float, frames: Sequence[tuple[str, Frame]]) -> None:
        """Add what ended in this tick."""
        for _, frame in frames:
            if frame.signal == "task" and len(frame):
                status = frame["status"]
                self.status += np.bincount(status, minlength=len(TASK_STATUS))[: len(TASK_STATUS)]
                done = status == _COMPLETED
                self.response += float(np.sum(frame["ended"][done] - frame["created"][done]))
                self.late += int(np.count_nonzero(frame["late"]))

    def read(self) -> dict[str, Any]:
        """The totals as plain data."""
        return {"status": self.status.tolist(), "late": self.late, "response": self.response}

"""Time series of a live run, as far as it has been watched, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cosim.contract.frame import Frame
from cosim.report.web.figures import FEW

POINTS = 2400  # kept at most; when there are more, every second one goes


class ChartHistory:
    """Lines over time. A line is a figure and a label: a node, or `mean`, `max`, `all`."""

    def __init__(self, scene: Mapping[str, Any]) -> None:
        self._names = [node["id"] for node in scene.get("nodes", ())]
        self._signals = {
            name: [(column, about["role"]) for column, about in signal["columns"].items()]
            for name, signal in scene.get("signals", {}).items()
            if signal["rows"] == "node"
        }
        self.times: list[float] = []  # s
        self.lines: dict[tuple[str, str], list[float]] = {}
        self._single: dict[str, bool] = {}  # signal -> whether every node has its own line
        self._tasks: tuple[float, list[int], float] | None = None  # time, counts by status, sum of responses

    def add(
        self,
        time: float,
        frames: Mapping[str, Sequence[Frame]],
        state: Mapping[str, Any],
        pace: float,
        more: Mapping[tuple[str, str], float] | None = None,
    ) -> None:
        """The values at `time` (s); `pace` is simulated s per wall s since the last call, `more` are further lines."""
        if self.times and time <= self.times[-1]:
            return
        values = self._rates(time, state.get("tasks"))
        values["run.pace", "run"] = pace
        values["run.lag", "run"] = float(state.get("lag", math.nan))
        for signal, columns in self._signals.items():
            parts = frames.get(signal, ())
            if sum(len(part) for part in parts):
                slots = np.concatenate([part.slot for part in parts])
                single = self._single.setdefault(signal, len(slots) <= FEW and bool(np.all(slots < len(self._names))))
                for column, role in columns:
                    if role in ("value", "counter"):
                        data = np.concatenate([part[column] for part in parts]).astype(float)
                        self._summarise(values, f"{signal}.{column}", slots, data, role, single)
        values.update(more or {})
        self.times.append(time)
        for key, value in values.items():
            self.lines.setdefault(key, [math.nan] * (len(self.times) - 1)).append(value)
        for line in self.lines.values():
            if len(line) < len(self.times):
                line.append(math.nan)
        if len(self.times) > POINTS:
            self.times = self.times[::2]
            self.lines = {key: line[::2] for key, line in self.lines.items()}

    def read(self, figure: str, since: float) -> tuple[list[float], dict[str, list[float]]]:
        """Times later than `since` (s) and the lines of `figure` at them."""
        start = int(np.searchsorted(self.times, since, "right"))
        lines = {label: line[start:] for (name, label), line in self.lines.items() if name == figure}
        return self.times[start:], lines

    def _summarise(
        self,
        values: dict[tuple[str, str], float],
        figure: str,
        slots: np.ndarray[Any, Any],
        data: np.ndarray[Any, Any],
        role: str,
        single: bool,
    ) -> None:
        if single:
            for slot, value in zip(slots.tolist(), data.tolist(), strict=True):
                if slot < len(self._names):
                    values[figure, self._names[slot]] = value
            return
        known = data[np.isfinite(data)]
        if not len(known):
            return
        if role == "counter":
            values[figure, "all"] = float(known.sum())
        else:
            values[figure, "mean"], values[figure, "max"] = float(known.mean()), float(known.max())

    def _rates(self, time: float, tasks: Mapping[str, Any] | None) -> dict[tuple[str, str], float]:
        """Tasks per s and their mean response since the last call."""
        values: dict[tuple[str, str], float] = {}
        if not tasks:
            return values
        before, self._tasks = self._tasks, (time, list(tasks["status"]), float(tasks["response"]))
        if before is None or time <= before[0]:
            return values
        ended = [now - then for now, then in zip(tasks["status"], before[1], strict=True)]
        span = time - before[0]
        values["task.completed", "all"] = ended[0] / span
        values["task.failed", "all"] = sum(ended[1:]) / span
        values["task.response", "mean"] = (self._tasks[2] - before[2]) / ended[0] if ended[0] else math.nan
        return values

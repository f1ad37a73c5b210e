"""The objective of all schedulers of the catalogue: energy and response time, weighed by the system's present level.

A decision's cost is w E / (P L) + (1 - w) R / (n L). E are the joules of the coming interval and those that its
containers will still take at the rates of its end. R are the seconds that they have been in the system and will
still be. P (W) and n are the running means of the fleet's power and of the tasks in the system, L the length of an
interval. To first order, a decision that lowers this cost by x lowers w log(energy) + (1 - w) log(mean response
time) of the whole run by x intervals in all of them, by Little's law, so the weights have their literal meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.schedulers.state import State

WEIGHT = 0.5  # of energy against response, the papers'
MEMORY = 20.0  # intervals


def powers(state: State) -> tuple[Floats, Floats]:
    """(H,) W of each host without load and at full load; if no model gives it, by its speed, idle at half."""
    hosts = state.hosts
    full = np.where(np.isfinite(hosts["full_power"]), hosts["full_power"], hosts["speed"] / 1e8)
    return np.where(np.isfinite(hosts["idle_power"]), hosts["idle_power"], 0.5 * full), np.maximum(full, 1e-9)


class Scale:
    """The recent past of a system: running means of power (W) and of tasks in the system, and two properties.

    `off`: empty hosts are switched off. `stretch`: how much faster tasks run than they ask for where there is
    room, from the hosts' utilisation; no model states a task's highest speed.
    """

    def __init__(self) -> None:
        self.power = self.tasks = 0.0
        self.stretch = 1.0
        self.off = False
        self._seen = 0
        self._before: Floats | None = None  # (H,) cycles/s that were asked of each host when it was looked at last
        self._at = -np.inf

    @staticmethod
    def _asked(state: State) -> Floats:
        return np.array(state.hosts["demand"], np.float64)

    def see(self, state: State) -> None:
        """Take in the state at the beginning of an interval; a second call about the same time changes nothing."""
        if state.time <= self._at:
            return
        self._at = state.time
        idle, full = powers(state)
        known = state.hosts["power"]
        power = float(np.where(np.isfinite(known), known, idle + (full - idle) * state.hosts["utilisation"]).sum())
        empty = (state.hosts["tasks"] <= 0.0) & (state.hosts["up"] != 0.0)
        self.off |= bool(((known == 0.0) & empty & (idle > 0.0)).any()) and self._seen > 0
        if power <= 0.0:
            power = float(idle.max())
        asked = self._asked(state)
        if self._before is not None and len(self._before) == len(asked):
            used = state.hosts["utilisation"] * state.hosts["speed"]
            loaded = self._before > 0.0
            if loaded.any():
                now = float(np.quantile(used[loaded] / self._before[loaded], 0.8))
                self.stretch += 0.2 * (min(max(now, 1.0), 8.0) - self.stretch)
        self._before = asked
        self._seen += 1
        part = 1.0 / min(float(self._seen), MEMORY)
        self.power += part * (power - self.power)
        self.tasks += part * (max(len(state.tasks), 1) - self.tasks)


def costs(figures: Any, state: State, scale: Scale, weight: float = WEIGHT) -> Floats:  # noqa: ANN401
    """(K,) costs of K candidates from the results of `branch`: figures (K,), or (K, horizon) of each interval.

    Containers that are left waiting take the seconds that they ask for, and their work takes energy as at full
    load: work put off is neither time nor energy saved.
    """
    rows = figures if figures.ndim == 2 else figures[:, None]
    last = rows[:, -1]
    length = state.interval
    waits = state.tasks["host"] < 0.0
    seconds = joules = 0.0
    if waits.any():
        tasks = state.tasks[waits]
        _, full = powers(state)
        seconds = float((tasks["work"] / np.maximum(tasks["demand"], 1e-9)).mean())
        joules = float(tasks["work"].mean() * full.sum() / state.hosts["speed"].sum())
    energy = rows["energy"].sum(axis=1) + last["ahead"] + last["waiting"] * joules
    time = rows["present"].sum(axis=1) + last["left"] + last["waiting"] * seconds
    found: Floats = weight * energy / (scale.power * length) + (1.0 - weight) * time / (scale.tasks * length)
    return found

"""What the networks of the catalogue see: columns per host, per task and per pair, for any number of either.

Everything is relative to the fleet (mean speed, mean full power) and to the length of an interval, so that
the same weights serve other fleets. Columns that a model does not know have a stated stand-in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosim.contract.records import Floats
from cosim.schedulers.objective import Scale, powers
from cosim.schedulers.placing import there, transfers
from cosim.schedulers.state import CLOUD, State

HOST_COLUMNS = (
    "speed",  # log, against the mean of the fleet
    "idle",  # W without load, against the mean full power
    "range",  # W from no to full load, against the mean full power
    "switched off",  # 1 when hosts without tasks take no power
    "cloud",
    "memory",  # B that would be free without tasks, against the fleet's mean, at most 4
    "stretch",  # log, see `objective.Scale`
)
TASK_COLUMNS = (
    "one",
    "demand",  # against the mean speed; a task that names none asks for a mean core
    "work",  # against what a mean host does in an interval
    "memory",  # against the mean memory of hosts
    "work squared",
)
PAIR_COLUMNS = (
    "run",  # log(1 + intervals that the task takes on the host at the demand or, if it is less, the whole host)
    "alone",  # log(1 + intervals that it takes with the whole host)
    "stretched",  # as `run` at the stretched demand
    "transfer",  # log(1 + intervals) of the transfer
)


class Features(NamedTuple):
    """Arrays of one state."""

    hosts: Floats  # (H, len(HOST_COLUMNS))
    tasks: Floats  # (T, len(TASK_COLUMNS))
    pairs: Floats  # (T, H, len(PAIR_COLUMNS))
    speed: Floats  # (H,) against the mean
    room: Floats  # (H,) memory that would be free without tasks, against the mean memory of hosts
    share: Floats  # (H,) of the fleet's full power
    allowed: Floats  # (T, H) 1 for hosts that the task may be on
    present: Floats  # (T, H) 1 where it is


def features(state: State, scale: Scale) -> Features:
    """The arrays of a state."""
    hosts, tasks = state.hosts, state.tasks
    idle, full = powers(state)
    mean_speed, mean_power = float(hosts["speed"].mean()), float(full.mean())
    length = state.interval if state.interval > 0.0 else 1.0
    count = len(hosts)
    at = tasks["host"].astype(np.int64)
    placed = np.flatnonzero(at >= 0)
    held = np.bincount(at[placed], tasks["memory"][placed], count)
    limited = np.isfinite(hosts["memory"])
    total = np.where(limited, hosts["memory"] + held, 0.0)
    mean_memory = float(total[limited].mean()) if limited.any() else 1.0
    room = np.where(limited, total / max(mean_memory, 1.0), 1e3)
    asks = np.where(tasks["demand"] > 0.0, tasks["demand"], float((hosts["speed"] / hosts["cores"]).mean()))
    work = np.maximum(tasks["work"], 0.0)
    rows = np.stack(
        [
            np.log(hosts["speed"] / mean_speed), idle / mean_power, (full - idle) / mean_power,
            np.full(count, float(scale.off)), (hosts["tier"] == CLOUD).astype(float), np.minimum(room, 4.0),
            np.full(count, np.log(scale.stretch)),
        ],
        axis=1,
    )  # fmt: skip
    part = work / (mean_speed * length)
    columns = np.stack(
        [np.ones(len(tasks)), asks / mean_speed, part, tasks["memory"] / max(mean_memory, 1.0), part**2], axis=1
    )
    alone = work[:, None] / hosts["speed"][None, :] / length
    run = work[:, None] / np.minimum(asks[:, None], hosts["speed"][None, :]) / length
    fast = work[:, None] / np.minimum(scale.stretch * asks[:, None], hosts["speed"][None, :]) / length
    pairs = np.log1p(np.stack([run, alone, fast, transfers(state) / length], axis=2))
    present = np.zeros((len(tasks), count))
    present[placed, at[placed]] = 1.0
    return Features(
        rows, columns, pairs, hosts["speed"] / mean_speed, room, full / full.sum(), there(state).astype(float), present
    )

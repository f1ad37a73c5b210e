"""Decisions that can be carried out: scores become destinations, and simple ones to start from."""

from __future__ import annotations

import numpy as np

from cosim.contract.records import Flags, Floats, Ints
from cosim.schedulers.objective import powers
from cosim.schedulers.state import KEEP, REFERENCE, State

MOVE = 0.05  # by how much another host's score must exceed that of a task's own host


def decided(state: State) -> Flags:
    """(T,) tasks that can be placed or moved: a host for them is there."""
    found: Flags = (state.tasks["host"] < 0.0) | (state.tasks["movable"] != 0.0)
    return found & there(state).any(axis=1)


def there(state: State) -> Flags:
    """(T, H) hosts that are up and within reach; a task's own host always."""
    found: Flags = (state.hosts["up"] != 0.0)[None, :] & np.isfinite(state.reach)
    placed = np.flatnonzero(state.tasks["host"] >= 0.0)
    found[placed, state.tasks["host"][placed].astype(np.int64)] = True
    return found


def settle(state: State, scores: Floats, move: float = MOVE) -> Ints:
    """(T,) for each task the host with the highest score (T, H) that has room, in order of creation, as moves are made.

    A placed task moves when another host's score is higher by more than `move`. A task that fits nowhere
    waits, or stays.
    """
    hosts, tasks = state.hosts, state.tasks
    demand, memory = hosts["demand"].copy(), hosts["memory"].copy()
    speed = hosts["speed"] * (1.0 + 1e-12)
    found = np.full(len(tasks), KEEP, np.int64)
    can = decided(state)
    near = there(state)
    asks, needs, at = tasks["demand"], tasks["memory"], tasks["host"].astype(np.int64)
    for t in np.argsort(tasks["task"], kind="stable"):
        if not can[t]:
            continue
        here = at[t]
        room = near[t] & (demand + asks[t] <= speed) & (memory >= needs[t])
        row = np.where(room, scores[t], -np.inf)
        if here >= 0:
            row[here] = scores[t, here] + move
        best = int(row.argmax())
        if best == here or row[best] == -np.inf:
            continue
        found[t] = best
        demand[best] += asks[t]
        memory[best] -= needs[t]
        if here >= 0:
            demand[here] -= asks[t]
            memory[here] += needs[t]
    return found


def full(state: State, found: Ints) -> Ints:
    """(T,) the hosts under destinations `found`, -1 for a task that waits."""
    return np.where(found != KEEP, found, state.tasks["host"].astype(np.int64))


def stay(state: State, bonus: float = 1e3) -> Floats:
    """(T, H) `bonus` at each task's own host."""
    scores = np.zeros((len(state.tasks), len(state.hosts)))
    placed = np.flatnonzero(state.tasks["host"] >= 0.0)
    scores[placed, state.tasks["host"][placed].astype(np.int64)] = bonus
    return scores


def transfers(state: State) -> Floats:
    """(T, H) s that a task's data take to each host; 0 where it is."""
    size = np.maximum(state.tasks["input"], 0.0)[:, None] / REFERENCE
    found: Floats = np.where(np.isfinite(state.reach), state.reach, 1e6) * size
    placed = np.flatnonzero(state.tasks["host"] >= 0.0)
    found[placed, state.tasks["host"][placed].astype(np.int64)] = 0.0
    return found


def spread(state: State) -> Ints:
    """New tasks on the hosts where they get most cycles, one after the other; others stay."""
    return _greedy(state, 0.0)


def packed(state: State) -> Ints:
    """New tasks on hosts that work already and take least power for their speed; others stay."""
    return _greedy(state, 1.0)


def _greedy(state: State, thrift: float) -> Ints:
    hosts, tasks = state.hosts, state.tasks
    _, most = powers(state)
    demand, memory, count = hosts["demand"].copy(), hosts["memory"].copy(), hosts["tasks"].copy()
    slope = most / hosts["speed"]
    slope = slope / slope.max()
    near = there(state)
    found = np.full(len(tasks), KEEP, np.int64)
    waiting = np.flatnonzero(tasks["host"] < 0.0)
    for t in waiting[np.argsort(tasks["task"][waiting], kind="stable")]:
        asks = float(tasks["demand"][t])
        room = near[t] & (demand + asks <= hosts["speed"]) & (memory >= tasks["memory"][t])
        if not room.any():
            continue
        free = hosts["cores"] * (hosts["speed"] - demand) / hosts["speed"] / (count + 1.0)
        rank = -slope + 2.0 * (count > 0.0) if thrift else free * hosts["speed"] / hosts["speed"].max()
        best = int(np.where(room, rank, -np.inf).argmax())
        found[t] = best
        demand[best] += asks
        memory[best] -= tasks["memory"][t]
        count[best] += 1.0
    return found

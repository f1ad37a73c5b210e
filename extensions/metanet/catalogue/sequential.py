"""Networks that score pairs of a task and a host, and policies that place one waiting task after the other by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cosim.contract.records import Flags, Floats, Ints
from cosim.extensions.metanet.catalogue.features import HOST_COLUMNS, PAIR_COLUMNS, TASK_COLUMNS, Features, features
from cosim.extensions.metanet.catalogue.networks import LOADS, host_input
from cosim.extensions.metanet.layers import Weights, made, perceptron
from cosim.schedulers.objective import Scale
from cosim.schedulers.placing import decided, there
from cosim.schedulers.state import KEEP, State

PAIR_INPUT = len(PAIR_COLUMNS) + len(TASK_COLUMNS) + len(HOST_COLUMNS) + LOADS + 1
Choose = Callable[[Floats, Flags], int]  # inputs (H, PAIR_INPUT) and room (H,) -> host


def pair_weights(rng: np.random.Generator, hidden: int = 32) -> dict[str, Floats]:
    """Weights of a score per pair to begin with."""
    found = made(rng, "pair", PAIR_INPUT, hidden, hidden, 1)
    found["pair.w2"] *= 0.1
    return found


def task_inputs(f: Features, loads: Floats, t: int) -> Floats:
    """(H, PAIR_INPUT) what the score of task t on each host is made of; `loads` (H, ...) of `host_input`."""
    own = np.broadcast_to(f.tasks[t], (len(loads), f.tasks.shape[1]))
    return np.concatenate([f.pairs[t], own, loads, np.zeros((len(loads), 1))], axis=1)


def scores(weights: Weights, inputs: Floats) -> Floats:
    """(...,) of inputs (..., PAIR_INPUT)."""
    found: Floats = perceptron(weights, "pair", inputs)[..., 0]
    return found


def logits(lib: Any, weights: Weights, f: Any, decision: Any) -> Any:  # noqa: ANN401 - numpy or torch
    """(T, H) scores of all pairs, given a decision (T, H) to improve."""
    loads = host_input(lib, f, decision)
    own = lib.broadcast_to(f.tasks[:, None], (*decision.shape, f.tasks.shape[-1]))
    inputs = [f.pairs, own, lib.broadcast_to(loads, (*decision.shape, loads.shape[-1])), decision[..., None]]
    return perceptron(weights, "pair", lib.concatenate(inputs, axis=-1))[..., 0]


def one_by_one(state: State, f: Features, choose: Choose) -> Ints:
    """(T,) destinations of the waiting tasks in order of creation, each seeing those before; placed ones stay."""
    hosts, tasks = state.hosts, state.tasks
    demand, memory = hosts["demand"].copy(), hosts["memory"].copy()
    d = f.present.copy()
    near = there(state)
    found = np.full(len(tasks), KEEP, np.int64)
    waiting = np.flatnonzero((tasks["host"] < 0.0) & decided(state))
    for t in waiting[np.argsort(tasks["task"][waiting], kind="stable")]:
        room = near[t] & (demand + tasks["demand"][t] <= hosts["speed"]) & (memory >= tasks["memory"][t])
        if not room.any():
            continue
        host = choose(task_inputs(f, host_input(np, f, d), int(t)), room)
        found[t] = host
        d[t, host] = 1.0
        demand[host] += tasks["demand"][t]
        memory[host] -= tasks["memory"][t]
    return found


class Sequential:
    """Places waiting tasks where the stored network's score is highest."""

    def __init__(self, weights: Weights) -> None:
        self.weights, self.scale = weights, Scale()

    def __call__(self, state: State) -> Ints:
        """(T,) destinations; placed tasks stay."""
        self.scale.see(state)
        if not (state.tasks["host"] < 0.0).any():
            return np.full(len(state.tasks), KEEP, np.int64)

        def choose(inputs: Floats, room: Flags) -> int:
            return int(np.where(room, scores(self.weights, inputs), -np.inf).argmax())

        return one_by_one(state, features(state, self.scale), choose)

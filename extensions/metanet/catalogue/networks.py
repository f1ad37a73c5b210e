"""Networks over hosts, tasks and decisions, of the layers of `cosim.extensions.metanet.layers`.

A decision is D (..., T, H), a row per task, each row a distribution over hosts. Weights are shared by all
hosts and all tasks, so one set serves any number of them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.features import HOST_COLUMNS, PAIR_COLUMNS, TASK_COLUMNS, Features
from cosim.extensions.metanet.layers import Tape, Weights, back, made, perceptron, sigmoid, softplus, weights_in

EMBEDDING = 8  # what a task learns of its host, and in the graph network a host of its tasks
SPREADS = (-6.0, 1.0)  # bounds of the logarithm of a spread
_SMALL = 1e-4
_OFF = HOST_COLUMNS.index("switched off")
LOADS = 6  # columns of `_loads`
HOST_INPUT = len(HOST_COLUMNS) + LOADS
TASK_INPUT = len(TASK_COLUMNS) + len(PAIR_COLUMNS) + 1 + EMBEDDING


@cache
def stored(name: str) -> dict[str, Floats]:
    """The shipped weights of a scheduler. Raises `FileNotFoundError` when it has none."""
    return weights_in(Path(__file__).parent / name / "weights.npz")


def surrogate_weights(rng: np.random.Generator, *, graph: bool, hidden: int = 32) -> dict[str, Floats]:
    """Weights of `DecisionSurrogate` to begin with; `graph`: a second round of messages from tasks to hosts."""
    found = made(rng, "host", HOST_INPUT, hidden, hidden, EMBEDDING)
    found |= made(rng, "task", TASK_INPUT, hidden, hidden, 2 + (EMBEDDING if graph else 0))
    found |= made(rng, "energy", HOST_INPUT + EMBEDDING * (1 + graph), hidden, 2)
    return found


class DecisionSurrogate:
    """f(state, decision): energy and response time of a decision, each with a spread.

    forward -> (energy, response, spread of log energy, spread of log response), each (...,). Energy is in
    units of the fleet's full power times an interval, response in intervals per task, both of the interval and of
    what is to come of its containers (`objective`).
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.graph = weights["energy.w0"].shape[0] > HOST_INPUT + EMBEDDING

    def forward(self, lib: Any, f: Features, decision: Any) -> tuple[Any, Any, Any, Any]:  # noqa: ANN401
        """For any number of leading dimensions of `decision`."""
        host, task, x, _ = self._inner(lib, f, decision)
        energy = (softplus(lib, host[..., 0]) * f.share * _awake(x)).sum(-1)
        spread_e = (host[..., 1] * f.share).sum(-1)
        response = softplus(lib, task[..., 0]).mean(-1)
        return energy, response, spread_e, task[..., 1].mean(-1)

    def objective(self, f: Features, d: Floats, scales: tuple[float, float], caution: float = 0.0) -> Floats:
        """(...,) scales[0] energy + scales[1] response; with `caution` k each is its mean plus k spreads."""
        energy, response, first, second = self.forward(np, f, d)
        if caution:
            energy = energy * (1.0 + caution * np.exp(first.clip(*SPREADS)))
            response = response * (1.0 + caution * np.exp(second.clip(*SPREADS)))
        found: Floats = scales[0] * energy + scales[1] * response
        return found

    def gradient(
        self, f: Features, d: Floats, scales: tuple[float, float], caution: float = 0.0
    ) -> tuple[float, Floats]:
        """The objective of one decision (T, H), and its derivative by the decision."""
        w = self.weights
        sums = d.T @ f.tasks
        tape: Tape = {}
        host, task, x, embedded = self._inner(np, f, d, tape)
        awake, joules = _awake(x), softplus(np, host[:, 0])
        energy = float((joules * awake) @ f.share)
        response = float(softplus(np, task[:, 0]).mean())
        wide = np.array([float(host[:, 1] @ f.share), float(task[:, 1].mean())])
        within = (wide > SPREADS[0]) & (wide < SPREADS[1])
        first, second = np.exp(wide.clip(*SPREADS)).tolist()
        value = scales[0] * energy * (1.0 + caution * first) + scales[1] * response * (1.0 + caution * second)

        count, inner = len(f.tasks), x.shape[1]
        to_host = np.empty_like(host)
        to_host[:, 0] = scales[0] * (1.0 + caution * first) * f.share * awake * sigmoid(np, host[:, 0])
        to_host[:, 1] = scales[0] * energy * caution * first * f.share * within[0]
        to_parts = back(w, "energy", tape, to_host)
        to_x, to_embedded = to_parts[:, :inner], to_parts[:, inner : inner + EMBEDDING]
        to_d = np.zeros_like(d)
        to_task = np.zeros_like(task)
        to_task[:, 0] = scales[1] * (1.0 + caution * second) * sigmoid(np, task[:, 0]) / count
        to_task[:, 1] = scales[1] * response * caution * second * within[1] / count
        if self.graph:
            to_messages = to_parts[:, inner + EMBEDDING :]
            to_d += task[:, 2:] @ to_messages.T
            to_task[:, 2:] = d @ to_messages
        to_input = back(w, "task", tape, to_task)
        at = f.tasks.shape[1]
        pairs = f.pairs.shape[2]
        to_d += np.einsum("tk,thk->th", to_input[:, at : at + pairs], f.pairs)
        to_d -= to_input[:, at + pairs, None] * f.present
        to_d += to_input[:, at + pairs + 1 :] @ embedded.T
        to_embedded = to_embedded + d.T @ to_input[:, at + pairs + 1 :]
        to_x = to_x + back(w, "host", tape, to_embedded)
        to_loads = to_x[:, f.hosts.shape[1] :].copy()
        to_loads[:, 0] += scales[0] * (1.0 + caution * first) * f.share * joules * f.hosts[:, _OFF]
        root = np.sqrt(sums[:, 4] + _SMALL)
        to_sums = np.stack(
            [
                to_loads[:, 0] * 4.0 * np.exp(-4.0 * sums[:, 0]) + to_loads[:, 1] / (1.0 + sums[:, 0]),
                to_loads[:, 2] / f.speed, to_loads[:, 3] / (f.speed + sums[:, 2]), to_loads[:, 4] / f.room,
                to_loads[:, 5] / (f.speed + root) * 0.5 / root,
            ],
            axis=1,
        )  # fmt: skip
        to_d += f.tasks @ to_sums.T
        return value, to_d

    def _inner(self, lib: Any, f: Features, d: Any, tape: Tape | None = None) -> tuple[Any, Any, Any, Any]:  # noqa: ANN401
        x = host_input(lib, f, d)
        embedded = perceptron(self.weights, "host", x, tape)
        task_input = [
            lib.broadcast_to(f.tasks, (*d.shape[:-1], f.tasks.shape[-1])),
            lib.einsum("...th,thk->...tk", d, f.pairs),
            1.0 - (d * f.present).sum(-1)[..., None],
            d @ embedded,
        ]
        task = perceptron(self.weights, "task", lib.concatenate(task_input, axis=-1), tape)
        parts = [x, embedded] + ([d.swapaxes(-1, -2) @ task[..., 2:]] if self.graph else [])
        host = perceptron(self.weights, "energy", lib.concatenate(parts, axis=-1), tape)
        return host, task, x, embedded


def _awake(x: Any) -> Any:  # noqa: ANN401
    """(..., H) 0 for hosts without tasks where such are switched off, else 1; in between for parts of tasks."""
    return 1.0 - x[..., _OFF] * (1.0 - x[..., len(HOST_COLUMNS)])


def host_input(lib: Any, f: Any, d: Any) -> Any:  # noqa: ANN401
    """(..., H, HOST_INPUT) static columns and what the decision puts on each host."""
    sums = d.swapaxes(-1, -2) @ f.tasks  # (..., H, 5) of the columns of tasks
    tasks, demand, work, memory = sums[..., 0], sums[..., 1], sums[..., 2], sums[..., 3]
    loads = (
        1.0 - lib.exp(-4.0 * tasks), lib.log1p(tasks), demand / f.speed, lib.log1p(work / f.speed), memory / f.room,
        lib.log1p(lib.sqrt(sums[..., 4] + _SMALL) / f.speed),
    )  # fmt: skip
    stacked = lib.stack(loads, axis=-1)
    hosts = lib.broadcast_to(f.hosts, (*stacked.shape[:-1], f.hosts.shape[-1]))
    return lib.concatenate([hosts, stacked], axis=-1)

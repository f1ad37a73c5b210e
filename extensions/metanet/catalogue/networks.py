"""Networks over hosts, tasks and decisions, as plain arrays: forward in numpy or torch, backward written out in numpy.

A decision is D (..., T, H), a row per task, each row a distribution over hosts. Weights are shared by all
hosts and all tasks, so one set serves any number of them. `lib` is numpy or torch: training differentiates the very
code that decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cosim.extensions.metanet.catalogue.features import HOST_COLUMNS, PAIR_COLUMNS, TASK_COLUMNS, Features
from cosim.schedulers.state import Floats

Weights = Mapping[str, Any]
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


def weights_in(path: Path) -> dict[str, Floats]:
    """The arrays of a file, in double precision. Raises `FileNotFoundError` without the file."""
    with np.load(path) as file:
        return {key: file[key].astype(np.float64) for key in file.files}


def layers(weights: Weights, name: str) -> int:
    """How many layers a perceptron has."""
    return sum(key.startswith(f"{name}.w") for key in weights)


def perceptron(weights: Weights, name: str, x: Any) -> Any:  # noqa: ANN401 - numpy or torch
    """ReLU between layers, none at the end."""
    depth = layers(weights, name)
    for k in range(depth):
        x = x @ weights[f"{name}.w{k}"] + weights[f"{name}.b{k}"]
        if k < depth - 1:
            x = x.clip(0.0)
    return x


def made(rng: np.random.Generator, name: str, *sizes: int) -> dict[str, Floats]:
    """Weights of a perceptron to begin with (He et al. 2015)."""
    found = {}
    for k, (a, b) in enumerate(pairwise(sizes)):
        found[f"{name}.w{k}"] = rng.standard_normal((a, b)) * np.sqrt(2.0 / a)
        found[f"{name}.b{k}"] = np.zeros(b)
    return found


def softplus(lib: Any, x: Any) -> Any:  # noqa: ANN401
    """log(1 + exp(x)), for large x too."""
    return x.clip(0.0) + lib.log1p(lib.exp(-abs(x)))


def surrogate_weights(rng: np.random.Generator, *, graph: bool, hidden: int = 32) -> dict[str, Floats]:
    """Weights of `Surrogate` to begin with; `graph`: a second round of messages from tasks to hosts."""
    found = made(rng, "host", HOST_INPUT, hidden, hidden, EMBEDDING)
    found |= made(rng, "task", TASK_INPUT, hidden, hidden, 2 + (EMBEDDING if graph else 0))
    found |= made(rng, "energy", HOST_INPUT + EMBEDDING * (1 + graph), hidden, 2)
    return found


class Surrogate:
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
        x = host_input(np, f, d)
        embedded, host_tape = _taped(w, "host", x)
        moved = 1.0 - (d * f.present).sum(-1)[:, None]
        task_input = np.concatenate([f.tasks, np.einsum("th,thk->tk", d, f.pairs), moved, d @ embedded], axis=1)
        task, task_tape = _taped(w, "task", task_input)
        parts = [x, embedded] + ([d.T @ task[:, 2:]] if self.graph else [])
        host, energy_tape = _taped(w, "energy", np.concatenate(parts, axis=1))
        awake, joules = _awake(x), softplus(np, host[:, 0])
        energy = float((joules * awake) @ f.share)
        response = float(softplus(np, task[:, 0]).mean())
        wide = np.array([float(host[:, 1] @ f.share), float(task[:, 1].mean())])
        within = (wide > SPREADS[0]) & (wide < SPREADS[1])
        first, second = np.exp(wide.clip(*SPREADS)).tolist()
        value = scales[0] * energy * (1.0 + caution * first) + scales[1] * response * (1.0 + caution * second)

        count, inner = len(f.tasks), x.shape[1]
        back = np.empty_like(host)
        back[:, 0] = scales[0] * (1.0 + caution * first) * f.share * awake * _sigmoid(host[:, 0])
        back[:, 1] = scales[0] * energy * caution * first * f.share * within[0]
        back = _back(w, "energy", energy_tape, back)
        to_x, to_embedded = back[:, :inner], back[:, inner : inner + EMBEDDING]
        to_d = np.zeros_like(d)
        to_task = np.zeros_like(task)
        to_task[:, 0] = scales[1] * (1.0 + caution * second) * _sigmoid(task[:, 0]) / count
        to_task[:, 1] = scales[1] * response * caution * second * within[1] / count
        if self.graph:
            to_messages = back[:, inner + EMBEDDING :]
            to_d += task[:, 2:] @ to_messages.T
            to_task[:, 2:] = d @ to_messages
        to_input = _back(w, "task", task_tape, to_task)
        at = f.tasks.shape[1]
        pairs = f.pairs.shape[2]
        to_d += np.einsum("tk,thk->th", to_input[:, at : at + pairs], f.pairs)
        to_d -= to_input[:, at + pairs, None] * f.present
        to_d += to_input[:, at + pairs + 1 :] @ embedded.T
        to_embedded = to_embedded + d.T @ to_input[:, at + pairs + 1 :]
        to_x = to_x + _back(w, "host", host_tape, to_embedded)
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

    def _inner(self, lib: Any, f: Features, d: Any) -> tuple[Any, Any, Any, Any]:  # noqa: ANN401
        x = host_input(lib, f, d)
        embedded = perceptron(self.weights, "host", x)
        task_input = _join(
            lib,
            _spread(lib, f.tasks, d),
            lib.einsum("...th,thk->...tk", d, f.pairs),
            1.0 - (d * f.present).sum(-1)[..., None],
            d @ embedded,
        )
        task = perceptron(self.weights, "task", task_input)
        parts = (x, embedded) if not self.graph else (x, embedded, _turned(d) @ task[..., 2:])
        host = perceptron(self.weights, "energy", _join(lib, *parts))
        return host, task, x, embedded


def _awake(x: Any) -> Any:  # noqa: ANN401
    """(..., H) 0 for hosts without tasks where such are switched off, else 1; in between for parts of tasks."""
    return 1.0 - x[..., _OFF] * (1.0 - x[..., len(HOST_COLUMNS)])


def _turned(d: Any) -> Any:  # noqa: ANN401
    return d.swapaxes(-1, -2)


def _join(lib: Any, *parts: Any) -> Any:  # noqa: ANN401
    return np.concatenate(parts, axis=-1) if lib is np else lib.cat(parts, dim=-1)


def _spread(lib: Any, rows: Any, d: Any) -> Any:  # noqa: ANN401
    """Rows of the tasks, once per leading dimension of d."""
    shape = (*d.shape[:-1], rows.shape[-1])
    return np.broadcast_to(rows, shape) if lib is np else rows.expand(shape)


def host_input(lib: Any, f: Any, d: Any) -> Any:  # noqa: ANN401
    """(..., H, HOST_INPUT) static columns and what the decision puts on each host."""
    sums = _turned(d) @ f.tasks  # (..., H, 5) of the columns of tasks
    tasks, demand, work, memory = sums[..., 0], sums[..., 1], sums[..., 2], sums[..., 3]
    loads = (
        1.0 - lib.exp(-4.0 * tasks), lib.log1p(tasks), demand / f.speed, lib.log1p(work / f.speed), memory / f.room,
        lib.log1p(lib.sqrt(sums[..., 4] + _SMALL) / f.speed),
    )  # fmt: skip
    stacked = np.stack(loads, axis=-1) if lib is np else lib.stack(loads, dim=-1)
    shape = (*stacked.shape[:-1], f.hosts.shape[-1])
    hosts = np.broadcast_to(f.hosts, shape) if lib is np else f.hosts.expand(shape)
    return _join(lib, hosts, stacked)


Tape = list[Floats]


def _taped(weights: Weights, name: str, x: Floats) -> tuple[Floats, Tape]:
    """A perceptron's answer, and what each of its layers was given."""
    tape: Tape = []
    depth = layers(weights, name)
    for k in range(depth):
        tape.append(x)
        x = x @ weights[f"{name}.w{k}"] + weights[f"{name}.b{k}"]
        if k < depth - 1:
            x = np.maximum(x, 0.0)
    return x, tape


def _back(weights: Weights, name: str, tape: Tape, back: Floats) -> Floats:
    """The derivative by a perceptron's input from that by its answer."""
    for k in range(len(tape) - 1, -1, -1):
        back = back @ weights[f"{name}.w{k}"].T
        if k:
            back = back * (tape[k] > 0.0)
    return back


def _sigmoid(x: Floats) -> Floats:
    found: Floats = 0.5 * (1.0 + np.tanh(0.5 * x))
    return found

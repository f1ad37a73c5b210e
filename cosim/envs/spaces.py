"""What an agent sees and answers: padded arrays, masks, and how answers become destinations."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from cosim.contract.records import Floats, Ints
from cosim.schedulers.state import HOST, KEEP, LOCAL, TASK, State, matrix

AnyEnv = TypeVar("AnyEnv", gymnasium.Env[Any, Any], gymnasium.vector.VectorEnv[Any, Any, Any])

MOST = 1e15  # stands for infinity, and bounds all figures
UNKNOWN = -1.0  # stands for figures that a model does not report
ANSWERS = 2  # besides the hosts: 0 keep, 1 the task's own device, 2 + h host h
Observation = dict[str, NDArray[Any]]

# Of `scaled`, by column; 1 where none is named. The same for all scenarios, so that a net can go from one to another.
UNITS = {
    "speed": 1e9, "demand": 1e9, "own_speed": 1e9, "work": 1e9, "memory": 1e9, "input": 1e6, "output": 1e6,
    "power": 100.0, "idle_power": 100.0, "full_power": 100.0, "task": 100.0,
}  # fmt: skip
BOUND = 10.0  # of what is scaled: 11,000 units and more, and infinity
_UNITS = {
    name: np.array([UNITS.get(column, 1.0) for column in record.names or ()])
    for name, record in (("hosts", HOST), ("tasks", TASK))
} | {"reach": np.ones(1)}


def observation_space(hosts: int, tasks: int) -> spaces.Dict:
    """`hosts` (H, columns of HOST), `tasks` (T, columns of TASK), `reach` (T, H) s, and which rows are there."""
    return spaces.Dict(
        {
            "hosts": spaces.Box(UNKNOWN, MOST, (hosts, len(HOST.names or ())), np.float64),
            "tasks": spaces.Box(-MOST, MOST, (tasks, len(TASK.names or ())), np.float64),
            "reach": spaces.Box(0.0, MOST, (tasks, hosts), np.float64),
            "host_mask": spaces.MultiBinary(hosts),
            "task_mask": spaces.MultiBinary(tasks),
        }
    )


def observe(state: State | None, hosts: int, tasks: int, rows: Ints | None = None) -> Observation:
    """What the environments show of a state: `observation_space(hosts, tasks)`, float64 in the units of the columns.

    Of the tasks, `rows` or the first `tasks`; other rows are 0 and their mask is 0. None: the end, nothing is there.
    """
    found: Observation = {
        "hosts": np.zeros((hosts, len(HOST.names or ()))),
        "tasks": np.zeros((tasks, len(TASK.names or ()))),
        "reach": np.full((tasks, hosts), MOST),
        "host_mask": np.zeros(hosts, np.int8),
        "task_mask": np.zeros(tasks, np.int8),
    }
    if state is None:
        return found
    chosen = np.arange(len(state.tasks)) if rows is None else rows
    chosen = chosen[:tasks]
    count = len(chosen)
    found["hosts"][:] = _finite(matrix(state.hosts))
    found["tasks"][:count] = _finite(matrix(state.tasks)[chosen])
    found["reach"][:count] = _finite(state.reach[chosen])
    found["host_mask"][:] = state.hosts["up"] != 0.0
    found["task_mask"][:count] = 1
    return found


def scaled(env: AnyEnv) -> AnyEnv:
    """The environment, single or vector, with figures that a net can take: asinh(x / unit), float32 within `BOUND`.

    `UNITS` has the units: Gcycles, GB of memory, MB to send, 100 W, else those of the columns. `UNKNOWN` stays what it
    is. Keys, shapes and masks are the same, so `gymnasium.wrappers.FlattenObservation` and others can follow. Raises
    `ValueError` for an environment that does not show hosts and tasks.
    """
    given: Any = env
    many = isinstance(env, gymnasium.vector.VectorEnv)
    one: Any = given.single_observation_space if many else given.observation_space
    if not isinstance(one, spaces.Dict) or not {"hosts", "tasks", "reach"} <= set(one):
        raise ValueError("scaled takes an environment that shows hosts, tasks and reach, such as cosim/Continuum-v1")
    space = spaces.Dict(
        {name: spaces.Box(-BOUND, BOUND, part.shape, np.float32) if name in _UNITS else part
         for name, part in one.items()}
    )  # fmt: skip
    wrappers = gymnasium.wrappers
    options: Any = {"single_observation_space": space} if many else {"observation_space": space}
    found: Any = (wrappers.vector if many else wrappers).TransformObservation(given, shrunk, **options)
    return cast(AnyEnv, found)


def shrunk(seen: Observation) -> Observation:
    """What `scaled` shows of an observation."""
    found = dict(seen)
    for name, unit in _UNITS.items():
        value = np.clip(np.arcsinh(seen[name] / unit), -BOUND, BOUND)
        found[name] = np.where(seen[name] == UNKNOWN, UNKNOWN, value).astype(np.float32)
    return found


def sizes(tasks: int, watts: float = 1.0) -> None:
    """Raises `ValueError` for a number of task rows or watts that cannot be."""
    if tasks < 1:
        raise ValueError(f"tasks={tasks}; expected one task row or more")
    if not 0.0 < watts < float("inf"):
        raise ValueError(f"watts={watts}; expected a power above 0 W, which rewards are relative to")


def whole(action: ArrayLike, shape: tuple[int, ...], answers: int) -> Ints:
    """`action` as integers (shape). Raises `ValueError` unless all are integers from 0 to `answers` - 1."""
    given = np.asarray(action)
    if given.dtype.kind not in "iuf" or given.shape != shape:
        raise ValueError(f"an action of {given.dtype}, of shape {given.shape}; expected {shape} of integers")
    if given.dtype.kind == "f" or (given.size and not 0 <= given.min() <= given.max() < answers):
        wrong = given[~((given >= 0) & (given < answers) & (given == np.floor(given)))]
        if len(wrong):
            raise ValueError(f"an action with the answer {wrong[0]}; expected 0 to {answers - 1}, integers")
    return given.astype(np.int64)


def destinations(action: NDArray[Any], rows: Ints, count: int, devices: bool) -> Ints:
    """(count,) destinations from the answers about the tasks `rows`; others are kept."""
    found = np.full(count, KEEP, np.int64)
    chosen = np.asarray(action, np.int64).reshape(-1)[: len(rows)]
    found[rows[: len(chosen)]] = np.where(chosen >= ANSWERS, chosen - ANSWERS, np.where(chosen == 1, LOCAL, KEEP))
    if not devices:
        found[found == LOCAL] = KEEP
    return found


def _finite(values: Floats) -> Floats:
    found: Floats = np.clip(np.nan_to_num(values, nan=UNKNOWN, posinf=MOST, neginf=-MOST), -MOST, MOST)
    return found

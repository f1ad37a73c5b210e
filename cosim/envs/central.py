"""One agent for all decisions: per interval, or per task; and what it has learned as a policy of runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cosim.envs.session import Session
from cosim.envs.spaces import ANSWERS, Observation, destinations, observation_space, observe, shrunk, sizes, whole
from cosim.schedulers.state import STAGE, Decision, Policy, State, decides

FAILED = 10.0  # s that a task which fails counts as


class _ScenarioEnv(gymnasium.Env[Any, Any]):
    """A scenario file whose decisions are the agent's."""

    metadata: dict[str, Any] = {"render_modes": []}
    _decision: ClassVar[Decision]

    def __init__(self, scenario: str | Path, tasks: int, overrides: Sequence[str] = ()) -> None:
        sizes(tasks)
        self._scenario, self._overrides, self._tasks = scenario, overrides, tasks
        self._seed = 1
        self._session = Session(scenario, self._decision, self._seed, self._overrides)
        self._state = self._session.ask()
        if self._state is None:
            self._session.close()
            raise ValueError(f"{scenario} asks for no decision per {self._decision} under seed {self._seed}")
        self._hosts = len(self._state.hosts)
        self._fresh = True  # the session has just begun
        self._empty = False  # it has begun, and asks nothing
        self.observation_space: spaces.Space[Any] = observation_space(self._hosts, tasks)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a run. `seed` is that of the scenario; without one each run has another."""
        super().reset(seed=seed)
        wanted = int(self.np_random.integers(1, 2**31)) if seed is None else seed
        if not (self._fresh and wanted == self._seed):
            self._session.close()
            self._seed = wanted
            self._session = Session(self._scenario, self._decision, wanted, self._overrides)
            self._state = self._session.ask()
        self._fresh, self._empty = False, self._state is None
        return self._seen(), self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:  # noqa: ANN401
        """Decide, and go on to the next question. The end of the scenario truncates.

        A run in which no question comes ends with its first step, whose action is not looked at, without reward.
        Raises `ValueError` for an action outside the space; the question stays open then.
        """
        if self._empty:  # loops step after each reset
            self._empty = False
            return self._seen(), 0.0, False, True, self._info()
        if self._state is None:
            raise gymnasium.error.ResetNeeded("the scenario has ended, or the environment is closed; call reset")
        before = self._state
        self._session.answer(_answered(action, self._tasks, before, self._decision))
        self._state = None  # of a run that fails there is none
        self._state = self._session.ask()
        return self._seen(), self._reward(before), False, self._state is None, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """Which answers can be carried out now, row after row, as MaskablePPO of sb3-contrib takes them."""
        return action_mask(self._state, self._tasks, self._hosts, self._decision).ravel()

    def close(self) -> None:
        """End the run."""
        self._state, self._fresh, self._empty = None, False, False
        self._session.close()

    def _seen(self) -> Observation:
        return observe(self._state, self._hosts, self._tasks)

    def _info(self) -> dict[str, Any]:
        if self._state is None:
            return {"time": float(self._session.plan.duration), "left_out": 0}
        return {"time": self._state.time, "left_out": max(0, len(self._state.tasks) - self._tasks)}

    def _reward(self, before: State) -> float:
        raise NotImplementedError


class ContinuumEnv(_ScenarioEnv):
    """Destinations for all tasks at the beginning of each interval: placements and migrations.

    The agent sees and decides about `tasks` rows; further tasks stay where they are (`info["left_out"]`).
    The action has an answer per row: 0 keep, 1 the task's own device, 2 + h host h. The reward of an
    interval is minus the mean power of the hosts over `watts`, and minus the tasks in the system per host;
    both as far as the model reports them.
    """

    _decision = "interval"

    def __init__(
        self, scenario: str | Path, tasks: int = 64, watts: float = 100.0, overrides: Sequence[str] = ()
    ) -> None:
        sizes(tasks, watts)
        super().__init__(scenario, tasks, overrides)
        self._watts = watts
        self.action_space = spaces.MultiDiscrete(np.full(tasks, ANSWERS + self._hosts))

    def _reward(self, before: State) -> float:
        return cost_of(self._state, self._watts)


class OffloadEnv(_ScenarioEnv):
    """A destination for each task when it is made.

    Answers are 0 for no host (it waits for coverage or fails), 1 for its device, 2 + h for host h.

    The reward is minus the seconds that all tasks under way have taken since the last decision, so that one which gets
    stuck costs at once. Ends are reported at the scenario's steps, and what was counted beyond them comes back then. A
    failed task counts as 10 s, and a graph of stages is one task that counts when it ends. The rewards of an episode
    come to minus the seconds of its tasks, of those under way at its end until then.
    """

    _decision = "task"

    def __init__(self, scenario: str | Path, overrides: Sequence[str] = ()) -> None:
        super().__init__(scenario, 1, overrides)
        self.action_space = spaces.Discrete(ANSWERS + self._hosts)
        self._under_way: dict[int, float] = {}  # number of a task -> s at which it was made
        self._ended = self._counted = 0.0  # s of tasks that have ended, and of all tasks so far

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a run. `seed` is that of the scenario; without one each run has another."""
        self._under_way, self._ended, self._counted = {}, 0.0, 0.0
        return super().reset(seed=seed, options=options)

    def _reward(self, before: State) -> float:
        plan, (task,) = self._session.plan, before.tasks
        if not plan.scene.workloads[int(task["workload"])].graph:
            self._under_way.setdefault(int(task["task"]), before.time - float(task["age"]))
        for row in self._session.ended():
            whole = row["part"] != STAGE
            self._ended += float(np.where(row["completed"], row["seconds"], FAILED)[whole].sum())
            for number in row["task"][whole].tolist():
                self._under_way.pop(number, None)
        now = plan.duration if self._state is None else self._state.time
        before_that, self._counted = self._counted, self._ended + sum(now - made for made in self._under_way.values())
        return before_that - self._counted


def as_policy(
    predict: Callable[..., Any], decision: Decision = "task", tasks: int = 64, scale: bool = False, flat: bool = False
) -> Policy:
    """A policy that decides as a trained model, from the observations that it was trained on.

    `predict` takes an observation and returns an action, or a tuple that begins with one, as models of
    Stable-Baselines3 do. If it takes `deterministic` it gets True, if `action_masks` those of the environment.
    `decision` is "task" for a model of cosim/Offload-v1, "interval" for one of cosim/Continuum-v1 with `tasks` rows.
    `scale` and `flat`: the environment was wrapped by `scaled`, and by Gymnasium's FlattenObservation. The policy
    raises `ValueError` for an action outside the space.
    """
    takes, rows = inspect.signature(predict).parameters, 1 if decision == "task" else tasks

    @decides(decision)
    def policy(state: State) -> NDArray[np.int64]:
        seen = observe(state, len(state.hosts), rows)
        seen = shrunk(seen) if scale else seen
        given = np.concatenate([seen[key].ravel() for key in sorted(seen)]) if flat else seen
        options: dict[str, Any] = {"deterministic": True} if "deterministic" in takes else {}
        if "action_masks" in takes:
            options["action_masks"] = action_mask(state, rows, len(state.hosts), decision).ravel()
        found = predict(given, **options)
        action = np.asarray(found[0] if isinstance(found, tuple) else found)
        return _answered(action.reshape(() if decision == "task" else (rows,)), rows, state, decision)

    return cast(Policy, policy)


def action_mask(state: State | None, tasks: int, hosts: int, decision: Decision) -> NDArray[np.bool_]:
    """(tasks, 2 + hosts) the answers that can be carried out; 0 of a single task only if there is no other."""
    found = np.zeros((tasks, ANSWERS + hosts), np.bool_)
    if state is not None:
        of = state.tasks[:tasks]
        waits, ways = of["host"] < 0.0, np.isfinite(state.reach[:tasks]) & (state.hosts["up"] != 0.0)
        found[: len(of), 1] = waits & (of["own_speed"] > 0.0)
        found[: len(of), ANSWERS:] = ways & (waits | (of["movable"] != 0.0))[:, None]
    found[:, 0] = decision == "interval" or ~found.any(axis=1)
    return found


def _answered(action: Any, tasks: int, state: State, decision: Decision) -> NDArray[np.int64]:  # noqa: ANN401
    if decision == "task":
        return destinations(whole(action, (), ANSWERS + len(state.hosts)), np.arange(1), len(state.tasks), devices=True)
    return answer(whole(action, (tasks,), ANSWERS + len(state.hosts)), np.arange(len(state.tasks)), state)


def answer(action: Any, rows: NDArray[np.int64], state: State) -> NDArray[np.int64]:  # noqa: ANN401
    """Destinations that the model takes: a device only for a task that waits and has a processor of its own."""
    devices = bool((state.tasks["own_speed"] > 0.0).any())
    found = destinations(action, rows, len(state.tasks), devices)
    found[(found >= 0) & ~(state.hosts["up"][np.maximum(found, 0)] != 0.0)] = -1
    out = (found >= 0) & (state.tasks["host"] < 0.0)  # no model takes a host that cannot be reached
    out[out] = ~np.isfinite(state.reach[np.flatnonzero(out), found[out]])
    found[out] = -1
    return found


def cost_of(state: State | None, watts: float) -> float:
    """Minus mean power over `watts` and tasks per host; 0 at the end."""
    if state is None:
        return 0.0
    power = state.hosts["power"]
    known = float(np.nanmean(power)) / watts if np.isfinite(power).any() else 0.0
    return -known - len(state.tasks) / len(state.hosts)

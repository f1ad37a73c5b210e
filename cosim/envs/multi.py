"""One agent per edge host (PettingZoo, parallel)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from cosim.envs.central import answer, cost_of
from cosim.envs.session import Session
from cosim.envs.spaces import ANSWERS, Observation, observation_space, observe, sizes, whole
from cosim.schedulers.state import EDGE, KEEP, State


class MultiEdge(ParallelEnv):  # type: ignore[misc]
    """`cosim/MultiEdge-v1`: each edge host decides about the tasks that wait and are nearest to it, per interval.

    Agents are `edge_<number of the host>`. Each sees all hosts and its own `tasks` rows; its action has an
    answer per row: 0 keep, 1 the task's device, 2 + h host h. All get the reward of `ContinuumEnv`. Raises
    `ValueError` for a scenario without an edge host.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "name": "cosim/MultiEdge-v1", "is_parallelizable": True}

    def __init__(
        self, scenario: str | Path, tasks: int = 16, watts: float = 100.0, overrides: Sequence[str] = ()
    ) -> None:
        sizes(tasks, watts)
        self._scenario, self._overrides, self._tasks, self._watts = scenario, overrides, tasks, watts
        self._random = np.random.default_rng(0)
        self.render_mode = None
        self._session = Session(scenario, "interval", 1, self._overrides)
        self._state = self._session.ask()
        if self._state is None:
            self._session.close()
            raise ValueError(f"{scenario} asks for no decision per interval")
        self._hosts = len(self._state.hosts)
        self._edges = np.flatnonzero(self._state.hosts["tier"] == EDGE)
        if not len(self._edges):
            self._session.close()
            raise ValueError(f"{scenario} has no edge host, so there is no agent; use cosim/Continuum-v1")
        self.possible_agents = [f"edge_{h}" for h in self._edges]
        self.agents: list[str] = []
        self.observation_spaces = {name: observation_space(self._hosts, tasks) for name in self.possible_agents}
        answers = np.full(tasks, ANSWERS + self._hosts)
        self.action_spaces = {name: spaces.MultiDiscrete(answers) for name in self.possible_agents}

    def observation_space(self, agent: str) -> spaces.Dict:
        """Of every agent the same."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.MultiDiscrete:
        """Of every agent its own, for its seed."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begin a run of the scenario with this seed; without one each run has another."""
        if seed is not None:
            self._random = np.random.default_rng(seed)
        wanted = int(self._random.integers(1, 2**31)) if seed is None else seed
        self._session.close()
        self._session = Session(self._scenario, "interval", wanted, self._overrides)
        self._state = self._session.ask()
        self.agents = list(self.possible_agents)
        return self._seen(), {name: {} for name in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Carry out all agents' answers and let the interval pass. The end of the scenario truncates.

        Raises `ValueError` for an action outside the space.
        """
        if not self.agents or self._state is None:
            return {}, {}, {}, {}, {}
        found = np.full(len(self._state.tasks), KEEP, np.int64)
        for name, rows in self._rows(self._state).items():
            if name in actions:
                chosen = whole(actions[name], (self._tasks,), ANSWERS + self._hosts)
                mine = answer(chosen, rows[: self._tasks], self._state)
                found = np.where(mine != KEEP, mine, found)
        self._session.answer(found)
        self._state = None  # of a run that fails there is none
        self._state = self._session.ask()
        over, names = self._state is None, self.agents
        reward = cost_of(self._state, self._watts)
        seen = self._seen()
        if over:
            self.agents = []
        return (
            seen, dict.fromkeys(names, reward), dict.fromkeys(names, False), dict.fromkeys(names, over),
            {name: {} for name in names},
        )  # fmt: skip

    def close(self) -> None:
        """End the run."""
        self._session.close()

    def _rows(self, state: State) -> dict[str, NDArray[np.int64]]:
        """The tasks of each agent: those that wait, by their nearest edge host, ties by turns of their numbers."""
        waits = np.flatnonzero(state.tasks["host"] < 0.0)
        reach = state.reach[waits][:, self._edges]
        least = reach == reach.min(axis=1, keepdims=True) if len(waits) else reach == 0.0
        turn = (np.arange(len(self._edges)) - state.tasks["task"][waits][:, None]) % len(self._edges)
        nearest = np.where(least, turn, np.inf).argmin(axis=1)
        return {name: waits[nearest == k] for k, name in enumerate(self.possible_agents)}

    def _seen(self) -> dict[str, Observation]:
        if self._state is None:
            return {name: observe(None, self._hosts, self._tasks) for name in self.agents}
        rows = self._rows(self._state)
        return {name: observe(self._state, self._hosts, self._tasks, rows[name]) for name in self.agents}

"""The problem of CoRaiS as an environment of one step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cosim.envs.spaces import MOST, Observation, whole
from cosim.extensions.corais.families import FAMILIES, Scale, instances
from cosim.extensions.corais.problem import Instance, makespan

EDGE = ("x", "y", "slope", "offset", "replicas", "own_work", "coming_work", "coming", "leaving")  # see `Instance`
REQUEST = ("source", "input", "output", "target_x", "target_y")


class CoRaiSEnv(gymnasium.Env[Observation, NDArray[np.int64]]):
    """`cosim/CoRaiS-v1`: an instance is seen, every request gets an edge, and that is all.

    `scale` is (all edges, edges of the region E, requests Z); `reset(seed=n)` shows the first instance of
    `cosim.extensions.corais.families.instances(family, scale, 1, seed=n)`. `reset(options={"scale": ...})` draws a
    smaller one and `reset(options={"instance": ...})` takes one that is given; rows beyond it are 0 and masked.
    The action is an edge of the region for each request; one that is not there stands for the request's source. The
    reward is minus the makespan in s, eq. 6 of the paper. Raises `ValueError` for an unknown family, and for
    instances that are larger than `scale`.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, family: str = "corais-tight", scale: Scale = (10, 5, 50)) -> None:
        if family not in FAMILIES:
            raise ValueError(f"there is no family '{family}'; known: {', '.join(FAMILIES)}")
        if not 1 <= scale[1] <= scale[0] or scale[2] < 1:
            raise ValueError(f"a scale of {scale}; expected all edges, those of the region among them, requests")
        self._family, self._scale = family, scale
        self._instance: Instance | None = None
        _, edges, requests = scale
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            {
                "edges": spaces.Box(-MOST, MOST, (edges, len(EDGE)), np.float64),
                "requests": spaces.Box(-MOST, MOST, (requests, len(REQUEST)), np.float64),
                "transfer": spaces.Box(0.0, MOST, (1,), np.float64),
                "edge_mask": spaces.MultiBinary(edges),
                "request_mask": spaces.MultiBinary(requests),
            }
        )
        self.action_space = spaces.MultiDiscrete(np.full(requests, edges))
        self._seen: Observation = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Another instance."""
        super().reset(seed=seed)
        asked = options or {}
        scale = tuple(asked.get("scale", self._scale))
        drawn = int(self.np_random.integers(2**31)) if seed is None else seed
        found = asked.get("instance") or next(instances(self._family, scale, 1, drawn))
        if found.edges > self._scale[1] or found.requests > self._scale[2]:
            raise ValueError(
                f"{found.edges} edges and {found.requests} requests; this environment has room for {self._scale[1]} "
                f"and {self._scale[2]}"
            )
        self._instance = found
        self._seen = self._shown(found)
        return self._copy(), {"floor": found.floor}

    def step(self, action: NDArray[np.int64]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decide. Raises `ValueError` for an action outside the space."""
        instance = self._instance
        if instance is None:
            raise gymnasium.error.ResetNeeded("every request has its edge; call reset")
        chosen = whole(action, (self._scale[2],), self._scale[1])
        chosen = chosen[: instance.requests]
        there = (chosen >= 0) & (chosen < instance.edges)
        seconds = makespan(instance, np.where(there, chosen, instance.source))
        self._instance = None
        return self._copy(), -seconds, True, False, {"makespan": seconds, "floor": instance.floor}

    def _copy(self) -> Observation:
        return {name: array.copy() for name, array in self._seen.items()}

    def _shown(self, instance: Instance) -> Observation:
        _, edges, requests = self._scale
        found: Observation = {
            "edges": np.zeros((edges, len(EDGE))),
            "requests": np.zeros((requests, len(REQUEST))),
            "transfer": np.array([instance.transfer]),
            "edge_mask": np.zeros(edges, np.int8),
            "request_mask": np.zeros(requests, np.int8),
        }
        n, z = instance.edges, instance.requests
        found["edges"][:n] = np.column_stack([
            instance.place[:n], instance.slope, instance.offset, instance.replicas, instance.own_work,
            instance.coming_work, instance.coming, instance.leaving,
        ])  # fmt: skip
        found["requests"][:z] = np.column_stack(
            [instance.source, instance.input, instance.output, instance.place[instance.target]]
        )
        found["edge_mask"][:n] = 1
        found["request_mask"][:z] = 1
        return found

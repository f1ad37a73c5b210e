"""Any scenario file as a learning environment, with Gymnasium and PettingZoo (extra `learn`).

    import gymnasium
    import cosim.envs

    env = gymnasium.make("cosim/Continuum-v1", scenario="scenarios/fog-interval")

- `cosim/Continuum-v1`: one decision per interval about all tasks, centrally (adapters `interval`, `continuum`).
- `cosim/Offload-v1`: one decision per task (adapter `continuum`).
- `cosim.envs.MultiEdge` (`cosim/MultiEdge-v1`, PettingZoo parallel): one agent per edge host decides about the
  waiting tasks that are nearest to it, per interval.
- `cosim/VirtualPlatform-v1`: no scenario, but the platform that MAIL-MMSG learned from a log; see `cosim.envs.virtual`.

Observations are dicts of padded arrays with masks: what a policy sees, see `cosim.schedulers.state` for
the columns and `cosim.envs.spaces` for the padding. A policy of `cosim.schedulers` and a trained agent
thus decide on the same figures.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from cosim.envs.central import ContinuumEnv, OffloadEnv
    from cosim.envs.multi import MultiEdge
    from cosim.envs.virtual import VirtualPlatformEnv

__all__ = ["ContinuumEnv", "MultiEdge", "OffloadEnv", "VirtualPlatformEnv"]

_PLACES = {
    "ContinuumEnv": "central", "OffloadEnv": "central", "MultiEdge": "multi", "VirtualPlatformEnv": "virtual"
}  # fmt: skip

gymnasium.register("cosim/Continuum-v1", entry_point="cosim.envs.central:ContinuumEnv", order_enforce=True)
gymnasium.register("cosim/Offload-v1", entry_point="cosim.envs.central:OffloadEnv", order_enforce=True)
gymnasium.register("cosim/VirtualPlatform-v1", entry_point="cosim.envs.virtual:VirtualPlatformEnv", order_enforce=True)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _PLACES:
        return getattr(importlib.import_module(f"cosim.envs.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'cosim.envs' has no attribute '{name}'")

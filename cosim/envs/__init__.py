"""Any scenario file as a learning environment, with Gymnasium and PettingZoo (extra `learn`).

    import gymnasium
    import cosim.envs

    env = gymnasium.make("cosim/Continuum-v1", scenario="scenarios/fog-interval")

- `cosim/Continuum-v1`: one decision per interval about all tasks, centrally (adapters `interval`, `continuum`);
  `gymnasium.make_vec` runs many at once as one compiled batch (adapter `interval`).
- `cosim/Offload-v1`: one decision per task (adapter `continuum`).
- `cosim.envs.MultiEdge` (`cosim/MultiEdge-v1`, PettingZoo parallel): one agent per edge host decides about the
  waiting tasks that are nearest to it, per interval.
- What extensions bring by the entry-point group `cosim.environments`: `cosim/CoRaiS-v1` (no scenario, but an instance
  of CoRaiS's problem: an edge for each request, in one step) and `cosim/VirtualPlatform-v1` (the platform that
  MAIL-MMSG learned from a log).

Observations are dicts of padded arrays with masks: what a policy sees, see `cosim.schedulers.state` for
the columns and `cosim.envs.spaces` for the padding. A policy of `cosim.schedulers` and a trained agent
thus decide on the same figures; `scaled` wraps an environment for nets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cosim.contract.extras import how_to_install
from cosim.contract.on_demand import on_demand
from cosim.contract.plugins import installed

try:
    import gymnasium
except ModuleNotFoundError as error:
    if error.name != "gymnasium":
        raise
    raise ModuleNotFoundError(
        f"learning environments need gymnasium: {how_to_install('learn')}", name="gymnasium"
    ) from None

if TYPE_CHECKING:
    from cosim.envs.central import ContinuumEnv, OffloadEnv
    from cosim.envs.multi import MultiEdge
    from cosim.envs.spaces import scaled
    from cosim.envs.vector import ContinuumVectorEnv

__all__ = [
    "ContinuumEnv", "ContinuumVectorEnv", "MultiEdge", "OffloadEnv", "scaled",
]  # fmt: skip

gymnasium.register(
    "cosim/Continuum-v1", entry_point="cosim.envs.central:ContinuumEnv", order_enforce=True,
    vector_entry_point="cosim.envs.vector:ContinuumVectorEnv",
)  # fmt: skip
gymnasium.register("cosim/Offload-v1", entry_point="cosim.envs.central:OffloadEnv", order_enforce=True)
for _name, _place in installed("environments").items():
    gymnasium.register(f"cosim/{_name}", entry_point=_place, order_enforce=True)


_found = on_demand(
    __name__, central="ContinuumEnv OffloadEnv", vector="ContinuumVectorEnv", multi="MultiEdge", spaces="scaled"
)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    try:
        return _found(name)
    except ModuleNotFoundError as error:
        if error.name != "pettingzoo":
            raise
        raise ModuleNotFoundError(f"{name} needs pettingzoo: {how_to_install('learn')}", name="pettingzoo") from None

"""Any scenario file as a learning environment, with Gymnasium and PettingZoo (extra `learn`).

    import gymnasium
    import cosim.envs

    env = gymnasium.make("cosim/Continuum-v1", scenario="fog-interval")

- `cosim/Continuum-v1`: one decision per interval about all tasks, centrally (adapters `interval`, `continuum`);
  `gymnasium.make_vec` runs many at once as one compiled batch (extension `cosco`).
- `cosim/Offload-v1`: one decision per task (adapter `continuum`).
- `cosim.envs.MultiEdge` (`cosim/MultiEdge-v1`, PettingZoo parallel): one agent per edge host decides about the
  waiting tasks that are nearest to it, per interval.
- What extensions bring by the entry-point groups `cosim.environments` and `cosim.vector_environments`.

Observations are dicts of padded arrays with masks: what a policy sees, as `observe` makes them of a state
(`cosim.schedulers.state` has the columns). `scaled` wraps an environment for nets; `as_policy` makes a scheduler of a
trained model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cosim.contract.extras import how_to_install
from cosim.contract.on_demand import on_demand
from cosim.contract.plugins import installed, load

try:
    import gymnasium
except ModuleNotFoundError as error:
    if error.name != "gymnasium":
        raise
    raise ModuleNotFoundError(
        f"learning environments need gymnasium: {how_to_install('learn')}", name="gymnasium"
    ) from None

if TYPE_CHECKING:
    from cosim.envs.central import ContinuumEnv, OffloadEnv, as_policy
    from cosim.envs.multi import MultiEdge
    from cosim.envs.spaces import observe, scaled

__all__ = ["ContinuumEnv", "MultiEdge", "OffloadEnv", "as_policy", "observe", "scaled"]

_ONE = {
    "Continuum-v1": "cosim.envs.central:ContinuumEnv",
    "Offload-v1": "cosim.envs.central:OffloadEnv",
    **installed("environments"),
}
_MANY = {name: place.partition(":")[2] for name, place in installed("vector_environments").items()}
for _name in {**_ONE, **_MANY}:  # many at once: by `__getattr__`, which names an extension that is not there
    _class = f"cosim.envs:{_MANY[_name]}" if _name in _MANY else None
    gymnasium.register(f"cosim/{_name}", _ONE.get(_name), vector_entry_point=_class, order_enforce=True)


_found = on_demand(__name__, central="ContinuumEnv OffloadEnv as_policy", multi="MultiEdge", spaces="observe scaled")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MANY.values()})


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    for environment, many in _MANY.items():
        if name == many:
            return load("vector_environments", environment)
    try:
        return _found(name)
    except ModuleNotFoundError as error:
        if error.name != "pettingzoo":
            raise
        raise ModuleNotFoundError(f"{name} needs pettingzoo: {how_to_install('learn')}", name="pettingzoo") from None

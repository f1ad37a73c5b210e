"""For what the offloading model refuses a scene."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.offloading.config import OffloadingConfig
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, refusals
from cosim.peers.offloading.study import Study
from cosim.schedulers import POLICIES, SchedulerError, scheduler

if TYPE_CHECKING:
    from cosim.peers.offloading.simulation import Choose


def problems(config: OffloadingConfig, context: Context) -> list[Problem]:
    """Nodes, workloads and keys that do not make a study."""
    from adapters.offloading.world import build

    at = f"adapters.{context.name}"
    found = refusals(lambda: build(config, context.scene, context.name, context.duration))
    if found:
        return found
    study = build(config, context.scene, context.name, context.duration).study
    try:
        choose = chosen(study)
    except SchedulerError as error:
        found.append(Problem(str(error), path=f"{at}.policy"))
    if found:
        return found
    if study.model == "app5":
        from cosim.peers.offloading.vehicular.state import accept  # these need the engine
    else:
        from cosim.peers.offloading.prepare import accept
    wrong = refusals(lambda: accept(study, custom=choose is not None))
    return [replace(one, path=f"{at}.{one.path}".rstrip(".")) for one in wrong]


def chosen(study: Study) -> Choose | None:
    """What decides instead of the study's model; None for a policy of that model. Raises `SchedulerError`."""
    if ":" not in study.policy and study.policy not in POLICIES:
        return None  # the model says which ones it has
    found = scheduler(study.policy)
    if found.function is not None:
        return found.function
    if study.model == "app5":
        raise SchedulerError(f"policy '{study.policy}' chooses hosts; app5 asks for one of three ways")
    from cosim.schedulers.models import per_machine

    return per_machine(found.policy("offloading"))

"""For what the offloading model refuses a scene."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, refusals
from cosim.extensions.edgecloudsim.adapter.config import OffloadingConfig
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy
from cosim.schedulers import POLICIES, SchedulerError, installed_names, scheduler

if TYPE_CHECKING:
    from cosim.extensions.edgecloudsim.offloading.simulation import Choose


def problems(config: OffloadingConfig, context: Context) -> list[Problem]:
    """Nodes, workloads and keys that do not make a study."""
    from cosim.extensions.edgecloudsim.adapter.world import build

    at = f"adapters.{context.name}"
    found = refusals(lambda: build(config, context.scene, context.name, context.duration))
    if found:
        return found
    study = build(config, context.scene, context.name, context.duration).study
    warned = [*_left_out(config, context), *context.unbooked("cpu", "transfer")]
    try:
        choose = chosen(study)
    except SchedulerError as error:
        found.append(Problem(str(error), path=f"{at}.policy"))
    if found:
        return found
    if study.model == "app5":
        from cosim.extensions.edgecloudsim.offloading.vehicular.state import accept  # these need the engine
    else:
        from cosim.extensions.edgecloudsim.offloading.prepare import accept
    wrong = refusals(lambda: accept(study, custom=choose is not None))
    return [*warned, *(replace(one, path=f"{at}.{one.path}".rstrip(".")) for one in wrong)]


def _left_out(config: OffloadingConfig, context: Context) -> Iterator[Problem]:
    """Warnings of workloads, hosts and keys that the study does not have."""
    at, alone = f"adapters.{context.name}", "workloads" not in context.shared
    for load in context.scene.workloads if alone else ():
        if load.name not in config.applications:
            hint = f"add it to {at}.applications, or leave it out"
            yield Problem("is no application of the model, so it is never made", f"workloads.{load.name}", hint=hint,
                          fatal=False)  # fmt: skip
    for node in context.scene.nodes if alone else ():
        if node.tier == "edge" and node.id not in config.places:
            hint = f"add it to {at}.places, or leave it out"
            yield Problem("is no place of the model, so no task comes here", f"nodes.{node.id}", hint=hint, fatal=False)
    if config.links.wlan_servers != 1 and config.model != "tutorial5":
        text = f"'wlan_servers' belongs to the model tutorial5, not to {config.model}"
        yield Problem(text, f"{at}.links.wlan_servers", hint="leave it out", fatal=False)


def chosen(study: OffloadingStudy) -> Choose | None:
    """What decides instead of the study's model; None for a policy of that model. Raises `SchedulerError`."""
    if ":" not in study.policy and study.policy not in (*POLICIES, *installed_names()):
        return None  # the model reports which ones it has
    found = scheduler(study.policy)
    if found.function is not None:
        return found.function
    if study.model == "app5":
        raise SchedulerError(f"policy '{study.policy}' chooses hosts; app5 asks for one of three ways")
    from cosim.schedulers.models import per_machine

    return per_machine(found.policy("offloading"))

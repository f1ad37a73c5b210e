"""For what the interval model refuses a scene."""

from __future__ import annotations

from adapters.interval.config import POLICIES, IntervalConfig
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, refusals
from cosim.schedulers import SchedulerError, scheduler


def problems(config: IntervalConfig, context: Context) -> list[Problem]:
    """Hosts, workloads, a boot time and a policy that cannot be."""
    from adapters.interval.world import build  # needs numpy

    found = refusals(lambda: build(context.scene, config, context.name))
    if config.boot > context.period:
        text = f"a boot time of {config.boot:g} s is longer than an interval, {context.period:g} s"
        found.append(Problem(text, path=f"adapters.{context.name}.boot", hint="raise 'step' or lower 'boot'"))
    if config.policy not in POLICIES:
        try:
            chosen = scheduler(config.policy)
            if chosen.make is not None:
                chosen.policy("interval")
        except SchedulerError as error:
            found.append(Problem(str(error), path=f"adapters.{context.name}.policy"))
    return found

"""For what the interval model refuses a scene."""

from __future__ import annotations

from cosim.contract.adapter import Context
from cosim.contract.errors import Problem, refusals
from cosim.extensions.cosco.adapter.config import POLICIES, Container, IntervalConfig
from cosim.schedulers import SchedulerError, scheduler


def problems(config: IntervalConfig, context: Context) -> list[Problem]:
    """Hosts, workloads, a boot time and a policy that cannot be."""
    from cosim.extensions.cosco.adapter.world import build  # needs numpy

    found = refusals(lambda: build(context.scene, config, context.name))
    found += context.unbooked("cpu", "energy")
    at = f"adapters.{context.name}"
    loads = {load.name for load in context.scene.workloads}
    every: dict[str, IntervalConfig | Container] = {"": config}
    for name, own in (every | {name: one for name, one in config.containers.items() if name in loads}).items():
        demand, peak = own.demand or config.demand, own.peak or config.peak
        if demand > peak:
            where = f"{at}.containers.{name}" if name else f"{at}.peak"
            text = f"containers are given {demand / 1e9:g} GHz at least and can use {peak / 1e9:g} GHz at most"
            found.append(Problem(text, where, hint="make 'peak' at least as high as 'demand'", fatal=False))
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

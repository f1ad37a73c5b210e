"""What the interval model asks a policy, and its state as `cosim.schedulers.state.State`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats, Records
from cosim.extensions.cosco.interval.simulator import Interval, IntervalView
from cosim.schedulers.models import chances
from cosim.schedulers.state import CLOUD, EDGE, HOST, KEEP, LOCAL, TASK, Policy, State, answers

_MEGA = 1e6
_HUNDRED_KB = 0.1  # MB


def interval_state(model: Interval, view: IntervalView) -> State:
    """What a policy of the interval model sees; containers with a host can all be moved."""
    hosts: Records = np.zeros(len(view.mips), HOST)
    placed = view.host[view.host >= 0]
    middle = 0.5 * (view.latency.min() + view.latency.max())  # the model knows clouds by their latency alone
    hosts["tier"] = np.where(view.latency > middle, CLOUD, EDGE)
    hosts["cores"], hosts["speed"] = 1.0, view.mips * _MEGA
    hosts["tasks"] = np.bincount(placed, minlength=len(hosts))
    hosts["demand"], hosts["utilisation"] = view.demanded * _MEGA, view.utilisation
    hosts["memory"], hosts["power"] = (view.ram - view.ram_used) * _MEGA, view.power
    hosts["idle_power"], hosts["full_power"] = model.world.power[:, 0], model.world.power[:, -1]
    hosts["price"], hosts["up"] = model.world.hosts["price"], view.up
    tasks: Records = np.zeros(len(view.slot), TASK)
    tasks["task"], tasks["device"], tasks["workload"] = view.container, -1.0, view.profile
    tasks["host"], tasks["movable"] = view.host, view.host >= 0
    tasks["input"] = tasks["memory"] = view.size * _MEGA
    tasks["work"], tasks["demand"] = view.remaining * _MEGA, view.demand * _MEGA
    tasks["deadline"], tasks["age"] = view.deadline * model.length, view.age * model.length
    tasks["chance"] = chances(view.container, view.interval)
    reach = np.tile(interval_reach(model), (len(tasks), 1))
    time = (view.interval - 1) * model.length
    return State(time, model.length, hosts, tasks, reach, model.branch)


def interval_reach(model: Interval) -> Floats:
    """(H,) s that a reference transfer takes to each host, from wherever."""
    hosts = model.world.hosts
    found: Floats = _HUNDRED_KB / hosts["down_link"] + hosts["latency"]
    return found


def per_interval(policy: Policy, model: Interval) -> Callable[[IntervalView], ArrayLike]:
    """A policy as the interval model asks for it: decisions (k, 2) of slot and host."""

    def decide(view: IntervalView) -> ArrayLike:
        found = answers(policy, interval_state(model, view))
        if (found == LOCAL).any():
            raise ValueError("the interval model has no devices; a policy answered -2")
        chosen = (found != KEEP) & (found != view.host)
        return np.stack([view.slot[chosen], found[chosen]], axis=1)

    return decide

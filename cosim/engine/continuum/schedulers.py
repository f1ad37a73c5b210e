"""The schedulers that come with the product, compiled into the engine.

All have the signature `choose(request, reach, hosts) -> int` that `cosim.schedulers` describes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Records
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import CLOUD

NONE, LOCAL = -1, -2  # answers besides the number of a host


class Request(NamedTuple):
    """A task that needs a host."""

    time: float  # s
    device: int  # slot
    serving: int  # slot of the node that serves the device, -1 without coverage
    workload: int
    input: float  # B
    output: float  # B
    work: float  # cycles
    deadline: float  # s after creation, inf: none
    own_speed: float  # cycles/s of the device's own cores together, 0: none
    own_tasks: int  # tasks on the device's own cores
    chance: float  # uniform number in [0, 1) of this task's own
    turn: int  # decisions taken before this one
    threshold: float  # the setting of the same name
    stage: int = -1  # number of the stage in its workload's graph, -1: a plain task
    operations: float = 0.0  # FLOP on an accelerator, 0: it needs none
    memory: float = 0.0  # B that it takes at its host
    storage: float = 0.0  # B


Reach = NDArray[np.float64]  # (hosts,) s that a reference transfer takes to each host, inf: no route
Hosts = Records  # (hosts,) records of cosim.engine.continuum.layout.HOST


@jit
def nearest(request: Request, reach: Reach, hosts: Hosts) -> int:  # noqa: ARG001 - the common signature
    """The host at the serving cell, else the one with the fastest path."""
    best, least = NONE, math.inf
    for i in range(len(hosts)):
        if reach[i] < least and hosts[i]["up"] != 0:
            best, least = i, reach[i]
    return best


@jit
def least_loaded(request: Request, reach: Reach, hosts: Hosts) -> int:  # noqa: ARG001
    """The host with the fewest tasks per cycle/s, those on their way included; ties go to the nearer."""
    best, least = NONE, math.inf
    for i in range(len(hosts)):
        if reach[i] < math.inf and hosts[i]["up"] != 0:
            load = hosts[i]["assigned"] / hosts[i]["speed"]
            if load < least or (load == least and reach[i] < reach[best]):
                best, least = i, load
    return best


@jit
def cloud(request: Request, reach: Reach, hosts: Hosts) -> int:  # noqa: ARG001
    """The cloud host with the fastest path."""
    best, least = NONE, math.inf
    for i in range(len(hosts)):
        if reach[i] < least and hosts[i]["up"] != 0 and hosts[i]["tier"] == CLOUD:
            best, least = i, reach[i]
    return best


@jit
def local(request: Request, reach: Reach, hosts: Hosts) -> int:  # noqa: ARG001
    """The device itself."""
    return LOCAL if request.own_speed > 0.0 else NONE


@jit
def _pick(number: int, reach: Reach, hosts: Hosts) -> int:
    """The `number`-th of the hosts in reach."""
    for i in range(len(hosts)):
        if reach[i] < math.inf and hosts[i]["up"] != 0:
            if number == 0:
                return i
            number -= 1
    return NONE


@jit
def _count(reach: Reach, hosts: Hosts) -> int:
    count = 0
    for i in range(len(hosts)):
        if reach[i] < math.inf and hosts[i]["up"] != 0:
            count += 1
    return count


@jit
def random(request: Request, reach: Reach, hosts: Hosts) -> int:
    """Any host in reach, all equally likely."""
    count = _count(reach, hosts)
    return _pick(min(int(request.chance * count), count - 1), reach, hosts) if count > 0 else NONE


@jit
def round_robin(request: Request, reach: Reach, hosts: Hosts) -> int:
    """The hosts in reach one after another."""
    count = _count(reach, hosts)
    return _pick(request.turn % count, reach, hosts) if count > 0 else NONE


@jit
def hybrid(request: Request, reach: Reach, hosts: Hosts) -> int:
    """The nearest host while it has fewer tasks per core than the threshold, else the cloud."""
    near = nearest(request, reach, hosts)
    if near >= 0 and hosts[near]["assigned"] < request.threshold * hosts[near]["cores"]:
        return near
    far = cloud(request, reach, hosts)
    return far if far >= 0 else near


@jit
def choose(number: int, request: Request, reach: Reach, hosts: Hosts) -> int:
    """The choice of scheduler `number`, its position in `ORDER`."""
    if number == 0:
        return nearest(request, reach, hosts)
    if number == 1:
        return least_loaded(request, reach, hosts)
    if number == 2:
        return cloud(request, reach, hosts)
    if number == 3:
        return local(request, reach, hosts)
    if number == 4:
        return random(request, reach, hosts)
    if number == 5:
        return round_robin(request, reach, hosts)
    return hybrid(request, reach, hosts)


ORDER = (nearest, least_loaded, cloud, local, random, round_robin, hybrid)

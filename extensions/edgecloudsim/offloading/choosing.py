"""The built-in policies: which tier, which place, which machine.

Answers are numbers of machines, NONE when no machine has room.
"""

from __future__ import annotations

import math

from cosim.compiled.compiling import codes
from cosim.engine.continuum.draw import uniform
from cosim.engine.continuum.jit import jit
from cosim.extensions.edgecloudsim.offloading.draws import PICK, TIER
from cosim.extensions.edgecloudsim.offloading.layout import CLOUD, EDGE, MOBILE, Record
from cosim.extensions.edgecloudsim.offloading.network import APP4, PROBE, man_delay, wan_delay
from cosim.extensions.edgecloudsim.offloading.rooms import (
    emptiest_cloud,
    emptiest_edge,
    first_fit,
    fits,
    fullest_edge,
    quietest_place,
    random_edge,
    room,
    utilisation,
)
from cosim.extensions.edgecloudsim.offloading.rows import app, device, place, task, vm
from cosim.extensions.edgecloudsim.offloading.station import need
from cosim.schedulers import fuzzy

NONE = -1
ANYWHERE = -1  # no place in particular

SINGLE_TIER, TWO_TIER, TWO_TIER_WITH_EO = codes(3)
ARCHITECTURES = ("single-tier", "two-tier", "two-tier-with-eo")

RANDOM_FIT, WORST_FIT, BEST_FIT, FIRST_FIT, NEXT_FIT = codes(5)
NETWORK_BASED, UTILIZATION_BASED, HYBRID, FUZZY_BASED, FUZZY_COMPETITOR = codes(5)
ONLY_EDGE, ONLY_MOBILE, MOBILE_HYBRID = codes(3)

_FITS = ("random-fit", "worst-fit", "best-fit", "first-fit", "next-fit")
# The number of a policy is its position.
POLICIES: dict[str, tuple[str, ...]] = {
    "app1": _FITS,
    "tutorial5": _FITS,
    "app2": ("network-based", "utilization-based", "hybrid"),
    "app3": ("only-edge", "only-mobile", "hybrid"),
    "app4": ("network-based", "utilization-based", "hybrid", "fuzzy-based", "fuzzy-competitor"),
    "app6": ("only-edge", "only-mobile", "hybrid"),
}

WAN_THRESHOLD = 6.0  # 1/s, reciprocal of the probe's delay
BUSY_THRESHOLD = 80.0  # %, mean utilisation of the edge


@jit
def tier_of(s: Record, i: int) -> int:
    """Edge or cloud, at random by the application's percentage; the edge when that is the only tier."""
    if s.architecture == SINGLE_TIER:
        return EDGE
    t = task(s.tasks, i)
    dv = device(s.devices, t.device)
    x = uniform(dv.key, t.number, TIER)
    percentage = app(s.apps, t.app).cloud_probability
    if s.cloud_draw_inclusive != 0:
        return CLOUD if int(101.0 * x) <= percentage else EDGE
    return CLOUD if 100.0 * x < percentage else EDGE


@jit
def emptiest(s: Record, first: int, count: int, percent: float) -> int:
    """The machine among `count` from `first` on with the most room, if the task fits."""
    best, most = NONE, 0.0
    for v in range(first, first + count):
        free = room(s, v)
        if free > most:
            best, most = v, free
    return best if best >= 0 and fits(s, best, percent) else NONE


@jit
def _fullest(s: Record, first: int, count: int, percent: float) -> int:
    best, least = NONE, math.inf
    for v in range(first, first + count):
        free = room(s, v)
        if free < least and fits(s, v, percent):
            best, least = v, free
    return best


@jit
def _first_fit(s: Record, first: int, count: int, percent: float) -> int:
    for v in range(first, first + count):
        if fits(s, v, percent):
            return v
    return NONE


@jit
def _next_fit(s: Record, p: int, percent: float) -> int:
    """The next machine of the place, after the last one that was looked at."""
    here = place(s.places, p)
    for _ in range(here.vms):
        here.cursor = (here.cursor + 1) % here.vms
        if fits(s, here.first_vm + here.cursor, percent):
            return int(here.first_vm + here.cursor)
    return NONE


@jit
def _random_fit(s: Record, i: int, first: int, count: int, everywhere: bool, percent: float) -> int:
    """A machine at random among those with room; with random-fit-tries-once any, which then has room or not."""
    t = task(s.tasks, i)
    dv = device(s.devices, t.device)
    x = uniform(dv.key, t.number, PICK)
    if s.random_fit_tries_once != 0:
        if everywhere:  # a place first, then one of its machines
            x *= s.place_count
            here = place(s.places, int(x))
            x -= int(x)
            first, count = here.first_vm, here.vms
        if count == 0:
            return NONE
        v = first + int(x * count)
        return v if fits(s, v, percent) else NONE
    having = 0
    for v in range(first, first + count):
        if fits(s, v, percent):
            having += 1
    turn = int(x * having)
    for v in range(first, first + count):
        if fits(s, v, percent):
            if turn == 0:
                return v
            turn -= 1
    return NONE


@jit
def _anywhere(s: Record, i: int, percent: float) -> int:
    """The edge machine of any place, by a fit."""
    t = task(s.tasks, i)
    if s.policy == RANDOM_FIT:
        if s.random_fit_tries_once != 0:
            return _random_fit(s, i, 0, s.edge_vms, True, percent)
        return random_edge(s, t.app, uniform(device(s.devices, t.device).key, t.number, PICK))
    if s.policy == WORST_FIT:
        return emptiest_edge(s, percent)
    if s.policy == BEST_FIT:
        return fullest_edge(s, t.app)
    if s.policy == FIRST_FIT:
        return first_fit(s, 0, percent)
    following = (s.cursor + 1) % s.place_count
    v = first_fit(s, place(s.places, following).first_vm, percent)
    if v < 0:
        v = first_fit(s, 0, percent)
    if v < 0:
        return NONE
    s.cursor = vm(s.vms, v).place
    return _next_fit(s, s.cursor, percent)


@jit
def edge_machine(s: Record, i: int) -> int:
    """The edge machine for a task at its access point: of the place, or with EO of any place, by a fit."""
    t = task(s.tasks, i)
    percent = need(s, t.app, EDGE)
    everywhere = s.architecture == TWO_TIER_WITH_EO
    here = place(s.places, t.place)
    first, count = here.first_vm, here.vms
    if everywhere:
        return _anywhere(s, i, percent)
    if s.policy == RANDOM_FIT:
        return _random_fit(s, i, first, count, False, percent)
    if s.policy == WORST_FIT:
        return emptiest(s, first, count, percent)
    if s.policy == BEST_FIT:
        return _fullest(s, first, count, percent)
    if s.policy == FIRST_FIT:
        return _first_fit(s, first, count, percent)
    return _next_fit(s, t.place, percent)


@jit
def cloud_machine(s: Record, a: int) -> int:
    """The cloud machine with the most room, if the task fits."""
    return emptiest_cloud(s, need(s, a, CLOUD))


@jit
def relay_target(s: Record, i: int) -> tuple[int, int]:
    """(tier, place or ANYWHERE) for a task of the models whose places are joined by a MAN."""
    t = task(s.tasks, i)
    probe = wan_delay(s, t.place, PROBE, True)
    wan_rate = 1.0 / probe if probe > 0.0 else 0.0
    busy = s.edge_load / s.edge_vms
    if s.policy == NETWORK_BASED:
        return (CLOUD if wan_rate > WAN_THRESHOLD else EDGE), ANYWHERE
    if s.policy == UTILIZATION_BASED:
        return (CLOUD if busy > BUSY_THRESHOLD else EDGE), ANYWHERE
    if s.policy == HYBRID:
        return (CLOUD if wan_rate > WAN_THRESHOLD and busy > BUSY_THRESHOLD else EDGE), ANYWHERE
    sensitivity = app(s.apps, t.app).delay_sensitivity
    counts = s.model == APP4 and s.probing_is_traffic != 0
    delay = man_delay(s, True, PROBE, counts)
    if s.policy == FUZZY_COMPETITOR:
        cloud = fuzzy.competitor_prefers_cloud(busy, t.upload + t.download, wan_rate, sensitivity)
        return (CLOUD if cloud else EDGE), ANYWHERE
    chosen, remote = t.place, quietest_place(s, t.place)
    load = utilisation(s, t.place)
    if remote >= 0 and delay > 0.0 and fuzzy.prefers_remote_place(load, utilisation(s, remote), delay):
        chosen, load = remote, utilisation(s, remote)
    if fuzzy.prefers_cloud(load, t.length, wan_rate, sensitivity):
        return CLOUD, ANYWHERE
    return EDGE, chosen


@jit
def relay_machine(s: Record, a: int, tier: int, p: int) -> int:
    """The machine for an application's task with that target: the emptiest."""
    if tier == CLOUD:
        return cloud_machine(s, a)
    if p == ANYWHERE:
        return emptiest_edge(s, need(s, a, EDGE))
    here = place(s.places, p)
    return emptiest(s, here.first_vm, here.vms, need(s, a, EDGE))


@jit
def reach_tier(s: Record, i: int) -> int:
    """Device or edge, of the models where any edge machine is one WLAN hop away."""
    t = task(s.tasks, i)
    if s.policy == ONLY_EDGE:
        return EDGE
    if s.policy == ONLY_MOBILE:
        return MOBILE
    own = s.edge_vms + s.cloud_vms + t.device
    return MOBILE if fits(s, own, need(s, t.app, MOBILE)) else EDGE

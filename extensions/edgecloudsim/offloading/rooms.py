"""Which machine has room, without looking at every machine.

Complete binary trees over the edge machines, the cloud machines and the places, kept up to date
whenever the load of a machine changes: the most room below each node, and for the policies that ask
for it the least room that fits, the machines that fit, or the least use of a place. What they answer is
what a scan in the order of the numbers answers (`extensions/edgecloudsim/tests/offloading/test_rooms.py`).

Node 1 is the root, nodes 2 k and 2 k + 1 lie below node k, the leaves are the last `leaves` nodes.
"""

from __future__ import annotations

import math

from cosim.compiled.rowtypes import Record
from cosim.engine.continuum.jit import jit
from cosim.extensions.edgecloudsim.offloading.layout import CLOUD, EDGE
from cosim.extensions.edgecloudsim.offloading.rows import app, place, real, vm

ROUNDING = 1e-9  # %, of sums of percents
NONE = -1
MOST, LEAST, SUM = 0, 1, 2  # what a node holds of those below it


@jit
def room(s: Record, v: int) -> float:
    """% of the machine that is neither taken nor reserved."""
    return float(100.0 - vm(s.vms, v).load - vm(s.vms, v).reserved)


@jit
def fits(s: Record, v: int, percent: float) -> bool:
    """Whether the machine has room for a task."""
    return bool(percent <= room(s, v) + ROUNDING)


@jit
def _pull(tree: int, k: int, kind: int) -> bool:
    a, b = real(tree, 2 * k).v, real(tree, 2 * k + 1).v
    value = a + b
    if kind == 0:
        value = max(a, b)
    elif kind == 1:
        value = min(a, b)
    if real(tree, k).v == value:
        return False
    real(tree, k).v = value
    return True


@jit
def _set(tree: int, leaves: int, leaf: int, value: float, kind: int) -> None:
    k = leaves + leaf
    if real(tree, k).v == value:
        return
    real(tree, k).v = value
    while k > 1:
        k >>= 1
        if not _pull(tree, k, kind):
            break


@jit
def _kept(s: Record, v: int, a: int) -> float:
    """What the tree of application a has for edge machine v."""
    holds = fits(s, v, app(s.apps, a).load_edge)
    if s.per_app == 1:
        return room(s, v) if holds else math.inf
    return 1.0 if holds else 0.0


@jit
def utilisation(s: Record, p: int) -> float:
    """Mean load of the place's machines, %."""
    here = place(s.places, p)
    total = 0.0
    for v in range(here.first_vm, here.first_vm + here.vms):
        total += vm(s.vms, v).load
    return total / here.vms if here.vms > 0 else 100.0


@jit
def note(s: Record, v: int) -> None:
    """The room of machine v has changed."""
    machine = vm(s.vms, v)
    if machine.tier == CLOUD:
        _set(s.cloud_rooms, s.cloud_leaves, v - s.edge_vms, room(s, v), 0)
    elif machine.tier == EDGE:
        _set(s.edge_rooms, s.edge_leaves, v, room(s, v), 0)
        for a in range(s.app_count if s.per_app > 0 else 0):
            _set(s.app_rooms + 16 * s.edge_leaves * a, s.edge_leaves, v, _kept(s, v, a), s.per_app)
        if s.compares_places != 0:
            _set(s.place_loads, s.place_leaves, machine.place, utilisation(s, machine.place), 1)


@jit
def plant(s: Record) -> None:
    """Work out all trees; leaves without a machine or place are never chosen."""
    for leaf in range(s.cloud_leaves):
        value = room(s, s.edge_vms + leaf) if leaf < s.cloud_vms else -math.inf
        real(s.cloud_rooms, s.cloud_leaves + leaf).v = value
    for leaf in range(s.edge_leaves):
        real(s.edge_rooms, s.edge_leaves + leaf).v = room(s, leaf) if leaf < s.edge_vms else -math.inf
        for a in range(s.app_count if s.per_app > 0 else 0):
            value = math.inf if s.per_app == 1 else 0.0
            real(s.app_rooms + 16 * s.edge_leaves * a, s.edge_leaves + leaf).v = (
                _kept(s, leaf, a) if leaf < s.edge_vms else value
            )
    for leaf in range(s.place_leaves if s.compares_places != 0 else 0):
        real(s.place_loads, s.place_leaves + leaf).v = utilisation(s, leaf) if leaf < s.place_count else math.inf
    for k in range(s.cloud_leaves - 1, 0, -1):
        _pull(s.cloud_rooms, k, 0)
    for k in range(s.edge_leaves - 1, 0, -1):
        _pull(s.edge_rooms, k, 0)
        for a in range(s.app_count if s.per_app > 0 else 0):
            _pull(s.app_rooms + 16 * s.edge_leaves * a, k, s.per_app)
    for k in range(s.place_leaves - 1 if s.compares_places != 0 else 0, 0, -1):
        _pull(s.place_loads, k, 1)


@jit
def _emptiest(s: Record, tree: int, leaves: int, base: int, percent: float) -> int:
    if not real(tree, 1).v > 0.0:
        return NONE
    k = 1
    while k < leaves:
        k *= 2
        if real(tree, k).v < real(tree, k + 1).v:
            k += 1
    v = base + k - leaves
    return v if fits(s, v, percent) else NONE


@jit
def emptiest_edge(s: Record, percent: float) -> int:
    """The edge machine with the most room, if the task fits; the first of equals."""
    return _emptiest(s, s.edge_rooms, s.edge_leaves, 0, percent)


@jit
def emptiest_cloud(s: Record, percent: float) -> int:
    """The cloud machine with the most room, if the task fits."""
    return _emptiest(s, s.cloud_rooms, s.cloud_leaves, s.edge_vms, percent)


@jit
def first_fit(s: Record, at: int, percent: float) -> int:
    """The first edge machine from number `at` on that has room."""
    if at >= s.edge_vms:
        return NONE
    k = s.edge_leaves + at
    while not percent <= real(s.edge_rooms, k).v + ROUNDING:
        while k & 1:
            k >>= 1
        if k == 0:
            return NONE
        k += 1
    while k < s.edge_leaves:
        k *= 2
        if not percent <= real(s.edge_rooms, k).v + ROUNDING:
            k += 1
    return int(k - s.edge_leaves)


@jit
def fullest_edge(s: Record, a: int) -> int:
    """The edge machine with the least room of those with room for a task of application a (best fit)."""
    tree, leaves = s.app_rooms + 16 * s.edge_leaves * a, s.edge_leaves
    if real(tree, 1).v == math.inf:
        return NONE
    k = 1
    while k < leaves:
        k *= 2
        if real(tree, k + 1).v < real(tree, k).v:
            k += 1
    return int(k - leaves)


@jit
def random_edge(s: Record, a: int, x: float) -> int:
    """An edge machine of those with room for a task of application a, by the uniform number x (random fit)."""
    tree, leaves = s.app_rooms + 16 * s.edge_leaves * a, s.edge_leaves
    having = real(tree, 1).v
    if having == 0.0:
        return NONE
    turn = float(int(x * having))
    k = 1
    while k < leaves:
        k *= 2
        if turn >= real(tree, k).v:
            turn -= real(tree, k).v
            k += 1
    return int(k - leaves)


@jit
def quietest_place(s: Record, but: int) -> int:
    """The place other than `but` with the least use, below 100 %; the first of equals."""
    best, least = NONE, 100.0
    tree, leaves = s.place_loads, s.place_leaves
    k = leaves + but
    while k > 1:  # the siblings of the path to the root are all other places
        other = k ^ 1
        value = real(tree, other).v
        if value < least or (value == least and best >= 0 and value < 100.0):
            n = other
            while n < leaves:
                n *= 2
                if real(tree, n + 1).v < real(tree, n).v:
                    n += 1
            if value < least or n - leaves < best:
                best, least = n - leaves, value
        k >>= 1
    return int(best)

"""Which hosts the tasks of a workload may run on, by what it says about affinity."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import Affinity, Node, Scene, Workload
from cosim.contract.errors import Problem
from cosim.engine.continuum.layout import APART, BESIDE

Table = NDArray[np.int32]


def tables(scene: Scene) -> tuple[Table, Table] | None:
    """`allowed` and `bonds` of `cosim.engine.continuum.layout.KernelState`; None where no workload is bound."""
    loads = scene.workloads
    if not any(load.bound for load in loads):
        return None
    allowed, bonds = np.ones((len(loads), scene.capacity), np.int32), np.zeros((len(loads), len(loads)), np.int32)
    numbers = {load.name: number for number, load in enumerate(loads)}
    for number, load in enumerate(loads):
        allowed[number] = load.affinity.hosts is None
        for value, ranges in ((1, load.affinity.hosts or ()), (0, load.anti_affinity.hosts or ())):
            for part in ranges:
                allowed[number, part.first : part.first + part.count] = value
        bonds[number, [numbers[name] for name in load.affinity.workloads]] = BESIDE
    for number, load in enumerate(loads):
        others = [numbers[name] for name in load.anti_affinity.workloads]
        bonds[number, others] = bonds[others, number] = APART
    return allowed, bonds


def problems(scene: Scene, scheduler: str) -> Iterator[Problem]:
    """Constraints that no host can meet, or that contradict each other."""
    if (found := tables(scene)) is None:
        return
    allowed, bonds = found
    loads = {load.name: number for number, load in enumerate(scene.workloads)}
    hosts = [
        {slot for slot, node in enumerate(scene.nodes) if allowed[number, slot] and _can(node, load, scheduler)}
        for number, load in enumerate(scene.workloads)
    ]
    startable: set[str] = set()  # those whose first task need not wait for one that waits for it
    while more := {one.name for one in scene.workloads if startable.issuperset(one.affinity.workloads)} - startable:
        startable |= more
    for number, load in enumerate(scene.workloads):
        pinned = [stage.pinned for stage in load.graph]
        needs = scheduler != "local" and not (pinned and all(pinned))
        group = [load.name, *load.affinity.workloads]
        apart = next((pair for pair in permutations(group, 2) if bonds[loads[pair[0]], loads[pair[1]]] == APART), ())
        away = [part for part in load.sources if not allowed[number, part.first : part.first + part.count].all()]
        if away and (scheduler == "local" or any(pinned)):
            text = f"its tasks run on '{scene.template(away[0].first).id}', which makes them, and may not run there"
            hint = "add the devices to 'hosts', or let another node run them"
        elif not hosts[number] and needs:
            text = f"no host of scheduler '{scheduler}' is left that can run its tasks"
            hint = "select an edge or cloud node with 'cpu', and with what its tasks ask for"
        elif apart:
            text = f"its tasks run beside those of {_names(load)}, and '{apart[0]}' keeps away from '{apart[1]}'"
            hint = "remove the affinity or the anti-affinity"
        elif load.name not in startable:
            text = f"its tasks wait for {_names(load)}, whose tasks wait for them"
            hint = "remove one of the affinities: the first task would have no host"
        elif needs and not set.intersection(*(hosts[loads[one]] for one in group)):
            text, hint = f"no host may run its tasks and those of {_names(load)}", "let their 'hosts' overlap"
        else:
            continue
        key = "affinity" if load.affinity != Affinity() else "anti_affinity"
        yield Problem(text, f"workloads.{load.name}.{key}", hint=hint)


def _names(load: Workload) -> str:
    return ", ".join(f"'{name}'" for name in load.affinity.workloads)


def _can(node: Node, load: Workload, scheduler: str) -> bool:
    """Whether the scheduler may give the node, as a host, a task of the workload, and the node can hold it."""
    asked = {load.accelerator, *(stage.accelerator for stage in load.graph if not stage.pinned)} - {""}
    tier = node.tier == "cloud" if scheduler == "cloud" else node.tier != "device"
    room = not 0.0 < node.memory < load.memory and not 0.0 < node.storage < load.storage
    return tier and node.cores > 0 and room and asked <= {part.kind for part in node.accelerators}

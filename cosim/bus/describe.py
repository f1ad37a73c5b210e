"""What an observer must know of a run besides its frames: the scene, in words for people.

The description is plain data (JSON values, SI units) and holds no secret: names, kinds, colours and
places of nodes, links, workloads, signals, origins, the span of time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosim.contract.entities import Node, Scene, SlotRange
from cosim.contract.map_lines import credit
from cosim.contract.signals import Signal
from cosim.scenario.plan.plan import Plan


def describe(plan: Plan, signals: Mapping[str, Signal]) -> dict[str, Any]:
    """The scene of `plan`. `signals` is `signals_of(plan)`.

    A link is `[a, b, rate, delay, loss]` where a and b are lists of `[first slot, count]`; a node's
    `at` is east, north, up in m, or None.
    """
    scene = plan.scene
    written = dict.fromkeys(signal for adapter in plan.adapters for signal in adapter.writes)
    return {
        "name": plan.name,
        "title": plan.title,
        "description": plan.description,
        "credit": credit(f"{plan.description} {plan.resolved}"),
        "duration": plan.duration,
        "step": plan.step,
        "seed": plan.seed,
        "geo": [scene.geo.latitude, scene.geo.longitude, scene.geo.height] if scene.geo else None,
        "kinds": _kinds(scene),
        "nodes": [{**_node(node), "at": list(node.position) if node.position else None} for node in scene.nodes],
        "fleets": [
            {"name": fleet.name, "first": fleet.first, "count": fleet.capacity, **_node(fleet.template)}
            for fleet in scene.fleets
        ],
        "links": [
            [_ranges(link.a), _ranges(link.b), link.state.rate, link.state.delay, link.state.loss]
            for link in scene.links
        ],
        "workloads": [workload.name for workload in scene.workloads],
        "real": plan.scene.real,
        "adapters": [
            {"name": adapter.name, "use": adapter.use, "origin": adapter.origin, "writes": list(adapter.writes)}
            for adapter in plan.adapters
        ],
        "signals": {name: _signal(signals[name]) for name in written},
        "events": [[event.at, event.do] for event in plan.events],
    }


def _kinds(scene: Scene) -> list[dict[str, str]]:
    kinds: dict[str, dict[str, str]] = {}
    for node in (*scene.nodes, *(fleet.template for fleet in scene.fleets)):
        kinds.setdefault(node.kind, {"name": node.kind, "tier": node.tier, "color": node.color})
    return list(kinds.values())


def _node(node: Node) -> dict[str, Any]:
    return {"id": node.id, "kind": node.kind, "cores": node.cores, "clock": node.clock, "cell": node.cell is not None}


def _ranges(ranges: tuple[SlotRange, ...]) -> list[list[int]]:
    return [[some.first, some.count] for some in ranges]


def _signal(signal: Signal) -> dict[str, Any]:
    return {
        "meaning": signal.meaning,
        "rows": signal.rows,
        "columns": {
            column.name: {
                "unit": column.unit,
                "meaning": column.meaning,
                "role": column.role,
                "codes": column.codes if isinstance(column.codes, str) else list(column.codes),
            }
            for column in signal.columns
        },
    }

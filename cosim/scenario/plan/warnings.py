"""Warnings of a plan: blocks that no adapter reads, a scenario without tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cosim.contract.entities import Node, Scene
from cosim.scenario.plan.plan import AdapterPlan


def warnings(scene: Scene, adapters: Sequence[AdapterPlan], makers: Sequence[str] = ()) -> tuple[str, ...]:
    """Warnings, one for each kind of mistake; `adapters` are those of the scenario, `makers` simulate workloads."""
    there = {adapter.use for adapter in adapters}
    found = [*_twice(scene, adapters)]
    if len(makers) > 1 and scene.workloads:
        found.append(f"tasks of the same workloads are made by {_and(makers)}, each on its own; leave one out")
    attached = [node.id for _, node in scene.computers() if node.live is not None]
    if attached and "live" not in there:
        found.append(
            f"{_named(attached)} 'live', but no adapter 'live' lets machines attach, so its tasks are simulated; "
            "add  live: {}  to 'adapters', or leave the block out"
        )
    if "live" in there:
        found += _unshaped(scene)
        sent = any(adapter.config.get("offload") for adapter in adapters if adapter.use == "live")
        readers = {a.name for a in adapters for wire in a.reads if wire.signal == "taken"}
        both = [name for name in makers if sent and name not in readers]
        if both:
            found.append(f"tasks that 'live' has run are made by {_and(both)} too; only continuum omits them")
    wireless = [node.id for node in _all(scene) if node.wifi is not None]
    if wireless and not any("link" in adapter.writes for adapter in adapters if adapter.use != "radio"):
        found.append(
            f"{_named(wireless)} given 'wifi', but no adapter makes links of it; add  wifi: {{}}  to 'adapters', or "
            "leave the block out"
        )
    real = [node.id for _, node in scene.computers() if node.runs is not None]
    if scene.real and real and "network" not in there:
        found.append(
            f"{_named(real)} real, but no adapter 'network' says what links are like, so no packet passes between "
            "nodes; add  network: {}  to 'adapters'"
        )
    uplinks = [node.id for _, node in scene.computers() if node.uplink is not None]
    if uplinks and scene.real:
        found.append(
            f"{_named(uplinks)} given an 'uplink': programs there reach this machine, and what this machine reaches"
        )
        idle = [node.id for _, node in scene.computers() if node.uplink is not None and node.runs is None]
        if idle:
            found.append(f"{_named(idle)} given an 'uplink', but nothing runs there; give it  runs: IMAGE")
    elif uplinks:
        found.append(
            f"{_named(uplinks)} given an 'uplink', which nothing emulates in process; it takes  run.nodes: netns  or  "
            "containers"
        )
    if not scene.workloads and any("task" in adapter.writes for adapter in adapters):
        found.append("no workload makes tasks; write one under 'workloads', or leave the adapter that runs tasks out")
    return tuple(found)


def _twice(scene: Scene, adapters: Sequence[AdapterPlan]) -> Iterable[str]:
    """Cells that several adapters make links of, each as if it were alone."""
    makers = [adapter for adapter in adapters if adapter.media and "link" in adapter.writes]
    for names in dict.fromkeys(
        tuple(one.name for one in makers if cell.by in (None, one.name, *one.media))
        for node in _all(scene)
        if (cell := node.cell) is not None
    ):
        if len(names) > 1:
            yield f"cells are served by {_and(names)}, each as if it were alone; write  cell: {{by: {names[0]}}}"


def _and(names: Sequence[str]) -> str:
    """'a', 'b' and 'c'."""
    quoted = [f"'{name}'" for name in names]
    return " and ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


def _all(scene: Scene) -> tuple[Node, ...]:
    return (*scene.nodes, *(fleet.template for fleet in scene.fleets))


def _unshaped(scene: Scene) -> list[str]:
    """Warn of nodes that may be shaped without another live node to shape links to."""
    machines = {node.id: node.live for node in scene.nodes if node.live is not None and not (scene.real and node.runs)}
    placed = {name for name, live in machines.items() if live.address}
    alone = [name for name, live in machines.items() if live.shaping and not placed - {name}]
    if not alone:
        return []
    reported = (
        f"{_named(alone)} to be shaped, but no other live node has an address, so no link is; write where its machine "
        "is reached, as  live: {address: 192.168.7.21}  at the others"
    )
    return [reported]


def _named(nodes: list[str]) -> str:
    if len(nodes) == 1:
        return f"node '{nodes[0]}' is"
    return f"nodes '{nodes[0]}' and {len(nodes) - 1} more are"

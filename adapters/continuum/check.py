"""For what the continuum refuses a scene."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import isfinite
from pathlib import Path

from cosim.adapters.continuum.config import ContinuumConfig, TraceConfig
from cosim.contract import plugins
from cosim.contract.adapter import Context
from cosim.contract.entities import Node, Scene, SlotRange, Stage, Workload
from cosim.contract.errors import Problem, ScenarioError, SetupError, refusals
from cosim.contract.functions import function
from cosim.contract.hints import did_you_mean
from cosim.contract.selector import matcher
from cosim.schedulers import BUILTIN, SchedulerError, of_files, scheduler, target_of

MOST_LINKS = 4_000_000  # pairs of nodes; each takes 300 B
RULES = ("violation", "excess", "period")  # of agreements, beside functions


def problems(config: ContinuumConfig, context: Context) -> list[Problem]:
    """Hosts, devices, links, names and files that the continuum cannot work with."""
    scene, at = context.scene, f"adapters.{context.name}"
    return [
        *_scheduler(config, at),
        *_deciding(config, scene, f"{at}.deciding"),
        *_agents(config, context, at),
        *_fleets(scene),
        *misses(scene, config.scheduler, at),
        *_equipment(scene),
        *_lengths(scene, context.duration),
        *_stages(scene),
        *_pairs(scene),
        *_names(config, scene, at),
        *_settings(config, scene, at),
        *_scaled(config, scene, at),
        *(_places(config.network.model, scene, at) if config.network is not None else ()),
        *_agreements(scene),
        *_elsewhere(config, context.written, at),
        *_files(scene, Path(context.root), context.duration),
        *(stranded(context, config.scheduler) if config.network is None and context.written else ()),
    ]


def _agents(config: ContinuumConfig, context: Context, at: str) -> Iterator[Problem]:
    """What is wrong with the files that the scheduler is made of; files without it have no effect."""
    for name in plugins.installed("agents") if of_files(config.scheduler) or config.mlsysops is not None else ():
        block = getattr(config, name, None)
        if name == config.scheduler:
            try:
                yield from plugins.load("agents", name).problems(block, context)
            except SetupError as error:
                yield Problem(str(error), f"{at}.scheduler")
        elif block is not None:
            text, hint = "policy files have no effect: another scheduler is chosen", f"write 'scheduler: {name}'"
            yield Problem(text, f"{at}.{name}", hint=hint, fatal=False)


def _scheduler(config: ContinuumConfig, at: str) -> Iterator[Problem]:
    try:
        found = scheduler(config.scheduler)
        if found.make is not None:
            found.policy("continuum")
        if config.decide is not None and (found.make is None or "interval" not in found.decisions):
            text = f"scheduler '{config.scheduler}' decides when a task is made, not by the clock"
            yield Problem(text, f"{at}.decide", hint="leave it out, or name a policy that decides per interval")
        elif found.function is not None:
            function(target_of(config.scheduler), 3)
    except (SchedulerError, ValueError) as error:
        yield Problem(str(error), path=f"{at}.scheduler")


def _deciding(config: ContinuumConfig, scene: Scene, at: str) -> Iterator[Problem]:
    """Nodes that cannot decide, and times that are not known."""
    if config.deciding is None:
        return
    known = {node.id: node for node in scene.nodes if node.cores > 0}
    node, measured = known.get(config.deciding.on), config.deciding.takes == "measured"
    if node is None:
        hint = did_you_mean(config.deciding.on, known, otherwise="nodes with a cpu")
        yield Problem(f"there is no node '{config.deciding.on}' with a cpu", f"{at}.on", hint=hint)
    elif node.scaling is not None or (node.states is not None and isfinite(node.states.sleep_after)):
        text = f"'{node.id}' sleeps or changes its clock, which no decision wakes or speeds up"
        yield Problem(text, f"{at}.on", hint="name a node without 'sleep' and 'scaling'")
    elif node.kind in config.autoscale:
        yield Problem(f"'{node.id}' may be off", f"{at}.on", hint=f"name a node whose kind is not '{node.kind}'")
    if config.decide is not None:
        text = "a policy that decides by the clock decides in no time"
        yield Problem(text, at, hint="remove 'decide', so that it decides about each task, or remove 'deciding'")
    if measured and config.scheduler in BUILTIN:
        text = f"the time of scheduler '{config.scheduler}', a part of the engine, cannot be measured"
        yield Problem(text, f"{at}.as", hint="write a time, or name a policy")
    elif measured:
        text = "measured times differ from run to run, and so do results"
        yield Problem(text, f"{at}.as", hint="write a time for runs that repeat bit by bit", fatal=False)


def _fleets(scene: Scene) -> Iterator[Problem]:
    """Fleets that cannot be."""
    for fleet in scene.fleets:
        if fleet.template.tier != "device":
            text = f"fleet '{fleet.name}' is of tier {fleet.template.tier}; the continuum takes fleets as devices only"
            yield Problem(text, f"nodes.{fleet.name}.tier", hint="remove 'tier', or make the hosts static nodes")


def misses(scene: Scene, scheduler: str, at: str = "") -> Iterator[Problem]:
    """Hosts that a scheduler misses."""
    if not scene.workloads:
        return
    hosts = [node for node in scene.nodes if node.cores > 0 and node.tier != "device"]
    own = any(node.cores > 0 for node in (*scene.nodes, *(fleet.template for fleet in scene.fleets)))
    if not own:
        yield Problem("no node can run tasks", path="nodes", hint="give an edge or cloud node 'cpu: 4 x 1.8 GHz'")
    elif scheduler == "cloud" and not any(node.tier == "cloud" for node in hosts):
        hint = "add a node of tier cloud with 'cpu', or choose another scheduler"
        yield Problem("scheduler 'cloud' has no cloud node with a cpu", path=f"{at}.scheduler", hint=hint)
    elif scheduler != "local" and not hosts:
        hint = "give one a 'cpu', or choose the scheduler 'local'"
        yield Problem(f"scheduler '{scheduler}' has no edge or cloud node with a cpu", path="nodes", hint=hint)
    elif scheduler == "local":
        for load in scene.workloads:
            idle = next((node for node in makers(scene, load) if node.cores == 0), None)
            if idle is not None:
                hint = "give it a 'cpu', or choose another scheduler"
                text = f"scheduler 'local', but source '{idle.id}' has no cpu"
                yield Problem(text, path=f"workloads.{load.name}.from", hint=hint)
    if any(load.bound for load in scene.workloads):
        from cosim.adapters.continuum import affinity  # needs the engine

        yield from affinity.problems(scene, scheduler)


def _settings(config: ContinuumConfig, scene: Scene, at: str) -> Iterator[Problem]:
    """Kinds and workloads of the configuration that the scene has not."""
    kinds = {node.kind for node in (*scene.nodes, *(fleet.template for fleet in scene.fleets))}
    loads = {load.name for load in scene.workloads}
    asked: dict[str, tuple[Iterable[str], set[str], str]] = {
        "discipline": (config.discipline if isinstance(config.discipline, dict) else {}, kinds, "kind of node"),
        "quotas": (config.quotas, kinds, "kind of node"),
        "autoscale": (config.autoscale, kinds, "kind of node"),
        "failures": (config.failures, kinds | {"links"}, "kind of node"),
        "priorities": (config.priorities, loads, "workload"),
    }
    for key, (named, known, what) in asked.items():
        for wrong in named:
            if wrong not in known:
                hint = f"known: {', '.join(sorted(known)) or 'none'}"
                yield Problem(f"there is no {what} '{wrong}'", path=f"{at}.{key}.{wrong}", hint=hint)


def _scaled(config: ContinuumConfig, scene: Scene, at: str) -> Iterator[Problem]:
    """Hosts that cannot start and stop, and groups that are smaller than the hosts that always run."""
    if config.autoscale and of_files(config.scheduler):
        text = "policy files put components at nodes, which would not move when a host stops"
        yield Problem(text, f"{at}.autoscale", hint="remove it, or choose another scheduler")
    sources = {node.id for load in scene.workloads for node in makers(scene, load)}
    for kind, group in config.autoscale.items():
        mine = [node for node in scene.nodes if node.kind == kind]
        for node in mine:
            lacks = node.tier == "device" or node.cores == 0 or node.states is None
            if lacks or node.battery or node.runs or node.live or node.id in sources:
                text = f"'{node.id}' cannot be started and stopped"
                hint = "it takes tier edge or cloud, 'cpu' and 'boot: {time: 30 s}', no battery, software or workload"
                yield Problem(text, f"{at}.autoscale.{kind}", hint=hint)
                break
        if 0 < len(mine) <= group.least:
            text = f"{group.least} of {len(mine)} hosts always run, so none starts or stops"
            yield Problem(text, f"{at}.autoscale.{kind}.least", hint=f"lower it below {len(mine)}, or add nodes")


def makers(scene: Scene, load: Workload) -> Iterator[Node]:
    """The nodes that make a workload; of a fleet, its template."""
    slots = [(part.first, part.first + part.count) for part in load.sources]
    for first, end in slots:
        yield from scene.nodes[first:end]
    for fleet in scene.fleets:
        if any(first < fleet.first + fleet.capacity and fleet.first < end for first, end in slots):
            yield fleet.template


def _equipment(scene: Scene) -> Iterator[Problem]:
    """Platforms that run at another clock, and tasks that no node could ever run."""
    nodes = (*scene.nodes, *(fleet.template for fleet in scene.fleets))
    for node in nodes:
        if node.scaling is not None and node.scaling.platform:
            from cosim.engine.continuum.power import platform  # needs numpy

            fastest = platform(node.scaling.platform).frequency[-1]
            if abs(node.clock - 1e9 * fastest) > 1e3:
                text = f"runs at {node.clock / 1e9:g} GHz, its platform '{node.scaling.platform}' at {fastest:g} GHz"
                yield Problem(text, f"nodes.{node.id}.cpu", hint=f"write 'cpu: {node.cores} x {fastest:g} GHz'")
    hosts = [node for node in nodes if node.cores > 0]
    for load in scene.workloads:
        asked = [(load.accelerator, "accelerator")]
        asked += [(stage.accelerator, f"graph.{stage.name}.accelerator") for stage in load.graph]
        for kind, key in asked:
            if kind and not any(part.kind == kind for node in hosts for part in node.accelerators):
                hint = f"give one 'accelerators: {{{kind}: 10 TFLOPS}}'"
                yield Problem(f"no node with a cpu has a {kind}", f"workloads.{load.name}.{key}", hint=hint)
        for name in ("memory", "storage"):
            rooms = [getattr(node, name) or float("inf") for node in hosts]
            if rooms and getattr(load, name) > max(rooms):
                text = f"a task takes {getattr(load, name):g} B, the largest host has {max(rooms):g} B"
                yield Problem(text, f"workloads.{load.name}.{name}", hint=f"give a host more {name}")


def _lengths(scene: Scene, duration: float) -> Iterator[Problem]:
    """Warnings of tasks whose work takes longer than the run on the fastest processor there is."""
    clocks = [node.clock for node in (*scene.nodes, *(fleet.template for fleet in scene.fleets)) if node.cores > 0]
    for load in scene.workloads if clocks else ():
        least = load.work.mean / max(clocks)
        if least > duration:
            text = f"takes {least:.3g} s on the fastest processor, and the run lasts {duration:g} s"
            yield Problem(text, f"workloads.{load.name}.work", hint="is the unit right?", fatal=False)


def _stages(scene: Scene) -> Iterator[Problem]:
    """Devices that cannot run the stages that are theirs."""
    for load in scene.workloads:
        pinned = [stage for stage in load.graph if stage.pinned]
        lacks = (
            (stage, node, what) for stage in pinned for node in makers(scene, load) if (what := _lacking(stage, node))
        )
        for stage, node, what in lacks:
            message = f"stage '{stage.name}' runs on the device, but source '{node.id}' has no {what}"
            path = f"workloads.{load.name}.graph.{stage.name}.where"
            yield Problem(message, path=path, hint=f"give it a {what}, or write 'where: any'")
            break


def _lacking(stage: Stage, node: Node) -> str:
    """What the node would need to run the stage, "" for nothing."""
    if node.cores == 0:
        return "cpu"
    kinds = {part.kind for part in node.accelerators}
    return stage.accelerator if stage.accelerator and stage.accelerator not in kinds else ""


def _pairs(scene: Scene) -> Iterator[Problem]:
    pairs = sum(_count(link.a) * _count(link.b) for link in scene.links)
    if pairs > MOST_LINKS:
        yield Problem(f"the links join more than {MOST_LINKS:,} pairs of nodes", "links", hint="select fewer nodes")


def _count(ranges: Iterable[SlotRange]) -> int:
    return sum(part.count for part in ranges)


def _names(config: ContinuumConfig, scene: Scene, at: str) -> Iterator[Problem]:
    """Workloads and nodes that the configuration names and that are not there."""
    known = [load.name for load in scene.workloads]
    asked = [(name, f"{at}.leave") for name in config.leave]
    trace = config.trace or TraceConfig.si(nodes=[], workloads=[])
    if trace.workloads != "all":
        asked += [(name, f"{at}.trace.workloads") for name in trace.workloads]
    for name, where in asked:
        if name not in known:
            yield Problem(
                f"there is no workload '{name}'", where, hint=did_you_mean(name, known, otherwise="workloads")
            )
    everything = [(node.id, node) for node in scene.nodes] + [(fleet.name, fleet.template) for fleet in scene.fleets]
    for part in [trace.nodes] if isinstance(trace.nodes, str) else trace.nodes:
        match = matcher(part)
        if part != "all" and not any(match(name, node) for name, node in everything):
            hint = "write all, a node's name with * or [1..3], kind:NAME or tier:NAME"
            yield Problem(f"'{part}' selects no node", f"{at}.trace.nodes", hint=hint)


def _elsewhere(config: ContinuumConfig, written: Sequence[str], at: str) -> Iterator[Problem]:
    """Warnings about what another adapter does, or none does."""
    if config.leave and written and "resources" not in written:
        text = "has no effect: no adapter 'live' has these workloads run by real machines"
        yield Problem(text, f"{at}.leave", hint="add live: {offload: {NAME: {}}}, or leave it out", fatal=False)
    if config.network is not None and "link" in written:
        text = "has no effect: another adapter writes the links"
        yield Problem(text, f"{at}.network", hint="leave one of both out", fatal=False)


def access_points(scene: Scene) -> list[int]:
    """Slots of the access points of the continuum's own network: edge nodes with a cell, or all edge nodes."""
    edge = [slot for slot, node in enumerate(scene.nodes) if node.tier == "edge"]
    return [slot for slot in edge if scene.nodes[slot].cell is not None] or edge


def _places(model: str, scene: Scene, at: str) -> Iterator[Problem]:
    """What the continuum's own network misses."""
    points = access_points(scene)
    for slot, node in enumerate(scene.nodes):
        if node.position is None and (node.tier == "device" or slot in points):
            text = f"'{node.id}' has no position, and network model '{model}' goes by places"
            yield Problem(text, f"nodes.{node.id}", hint="write 'at: [east, north, up]'")
    if not points:
        yield Problem("no edge node can be an access point", f"{at}.network", hint="add an edge node")


def stranded(context: Context, scheduler: str) -> Iterator[Problem]:
    """Devices that no adapter and no link joins to a host that the scheduler would choose, so that their tasks fail."""
    if "resources" in context.written:
        return  # live nodes run tasks as well
    scene, radio = context.scene, "link" in context.written
    hosts = {slot for slot, node in enumerate(scene.nodes) if node.cores > 0 and node.tier != "device"}
    near = _reach(scene, hosts)
    wifi = {slot: node.wifi for slot, node in enumerate(scene.nodes) if node.wifi is not None}
    stations = {one.network for slot, one in wifi.items() if one.mode == "access-point" and slot in near}
    cells = {slot for slot, node in enumerate(scene.nodes) if node.cell is not None}
    themselves = scheduler == "local" or scheduler not in BUILTIN  # the others choose hosts only

    def joined(node: Node, slots: Iterable[int]) -> bool:
        if (themselves and node.cores > 0) or node.tier != "device" or any(slot in near for slot in slots):
            return True
        by_station = node.wifi is not None and node.wifi.mode == "station" and node.wifi.network in stations
        by_cell = node.radio is not None and not cells.isdisjoint(near)
        by_other = not cells and not wifi
        return radio and (by_station or by_cell or by_other)

    for load in scene.workloads:
        every = [(part, scene.template(part.first)) for part in load.sources]
        lonely = [node for part, node in every if not joined(node, range(part.first, part.first + part.count))]
        if lonely:
            more = f" and {len(lonely) - 1} more" if len(lonely) > 1 else ""
            text = f"'{lonely[0].id}'{more} cannot reach any host, so all tasks of '{load.name}' made there fail"
            hint = "add a radio adapter, 'wifi: {mode: station}' with an access point, or a link to a host"
            able = any(node.cores > 0 for node in lonely)  # by another scheduler, which may be set during the run
            if able:
                hint += f"; scheduler '{scheduler}' does not choose devices, 'local' does"
            yield Problem(text, f"workloads.{load.name}.from", hint=hint, fatal=len(lonely) == len(every) and not able)


def _reach(scene: Scene, hosts: set[int]) -> set[int]:
    """The slots that links join to `hosts`, over any number of nodes; a fleet is one slot, its first."""
    reached, waiting = set(hosts), True
    ends = [([part.first for part in link.a], [part.first for part in link.b]) for link in scene.links]
    while waiting:
        before = len(reached)
        for a, b in ends:
            if reached.intersection(a) or reached.intersection(b):
                reached.update(a, b)
        waiting = len(reached) > before
    return reached


def _agreements(scene: Scene) -> Iterator[Problem]:
    for load in scene.workloads:
        if load.agreement is not None and load.agreement.rule not in RULES:
            try:
                function(load.agreement.rule, 1)
            except ValueError as error:
                yield Problem(f"rule {error}", path=f"workloads.{load.name}.sla.per")


def _files(scene: Scene, root: Path, duration: float) -> Iterator[Problem]:
    """Files of tasks and of prices that cannot be read as such; they are read as the engine reads them."""
    traced = [load for load in scene.workloads if load.arrivals == "trace"]
    priced = [tariff for tariff in scene.tariffs if tariff.prices or tariff.carbons]
    if not traced and not priced:
        return
    from cosim.adapters.continuum import demand  # these need the engine
    from cosim.adapters.continuum.world import slots_of
    from cosim.engine.continuum import tariff

    for load in traced:
        try:
            found = demand.trace(load, slots_of(load.sources), scene, root)
        except ScenarioError as error:
            yield from error.problems
            continue
        if found is not None and len(found.time) and load.start + found.time.min() >= duration:
            first = float(found.time.min())
            text = f"the first task of the file comes at {first:g} s, and the run ends at {duration:g} s"
            hint = "times are in s after the start of the workload"
            yield Problem(text, f"workloads.{load.name}.arrivals", hint=hint, fatal=False)
    for one in priced:
        yield from refusals(partial(tariff.rate, one, root, duration))

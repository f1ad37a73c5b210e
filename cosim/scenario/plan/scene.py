"""From a scenario's blocks to the records that adapters get: nodes, fleets, links, workloads, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cosim.contract.block import EventKey
from cosim.contract.entities import (
    Accelerator,
    Agreement,
    Event,
    Fleet,
    Geo,
    Link,
    Node,
    OperatingPoint,
    Power,
    PowerStates,
    Scaling,
    Scene,
    SlotRange,
    Stage,
    Tariff,
    Workload,
    placed,
)
from cosim.contract.laws import Law
from cosim.contract.node_keys import Cost
from cosim.scenario import model
from cosim.scenario.demand import StageBlock, ordered
from cosim.scenario.hardware import AcceleratorName, BootBlock, ScalingBlock
from cosim.scenario.resolve import Resolved, ResolvedNodes

FOREVER = float("inf")

# c of the slow-down 1 + c (f_max / f - 1) by class of work: by definition for work that only computes or
# only waits, fitted to measurements on a Xeon E3-1220 for the others (MLSysOps deliverable D4.3, section 2.2).
SENSITIVITY = {"compute": 1.0, "hybrid": 0.54, "memory": 0.06, "io": 0.0}


class SceneBuilder:
    """Turns a scenario's names into slots."""

    def __init__(self, scenario: model.Scenario, world: ResolvedNodes) -> None:
        self.scenario, self.world = scenario, world
        templates: dict[int, Node] = {}  # the nodes of a range share their block
        self.nodes = tuple(node(entry, templates) for entry in world.nodes)
        fleets = tuple(
            Fleet(entry.id, str(entry.block.fleet), 0, entry.block.capacity, node(entry, templates))
            for entry in world.fleets
        )
        self.fleets = Scene.build(self.nodes, fleets).fleets
        self.ranges = {record.id: SlotRange(slot) for slot, record in enumerate(self.nodes)}
        self.ranges.update({fleet.name: SlotRange(fleet.first, fleet.capacity) for fleet in self.fleets})

    def slots(self, selector: str | Sequence[str]) -> tuple[SlotRange, ...]:
        """The slots of everything that `selector` selects, in rising order."""
        return tuple(self.ranges[entry.id] for entry in self.world.select(selector))

    def scene(self) -> Scene:
        links = tuple(
            Link(
                self.slots(link.between[0]),
                self.slots(link.between[1]),
                link.rate,
                link.delay,
                link.loss,
                link.energy,
                link.rate_back or 0.0,
                link.jitter,
                link.burst or 0.0,
                link.reorder,
            )
            for link in self.scenario.links
        )
        workloads = tuple(self._workload(name, block) for name, block in self.scenario.workloads.items())
        origin = self.scenario.geo.origin if self.scenario.geo else None
        real = self.scenario.run.nodes
        return Scene.build(
            self.nodes, self.fleets, links, workloads, Geo(*origin) if origin else None, self._tariffs(),
            "" if real == "process" else real,
        )  # fmt: skip

    def _tariffs(self) -> tuple[Tariff, ...]:
        return tuple(
            Tariff(
                name, block.price, block.carbon,
                tuple(
                    (window.begin, window.end, block.price if window.price is None else window.price,
                     block.carbon if window.carbon is None else window.carbon)
                    for window in sorted(block.windows, key=lambda window: window.begin)
                ),
                block.repeat or 0.0, block.prices or "", block.carbons or "", block.every,
                tuple(sorted((window.begin, window.end, window.share) for window in block.green)),
                block.green_price, block.green_carbon,
            )
            for name, block in self.scenario.tariffs.items()
        )  # fmt: skip

    def _workload(self, name: str, block: model.WorkloadBlock) -> Workload:
        accelerator, operations = _operations(block.accelerator)
        return Workload(
            name=name,
            sources=self.slots(block.source),
            arrivals=block.arrivals.law,
            rate=block.arrivals.rate,
            input=block.input,
            output=block.output,
            work=block.work or model.Law(law="fixed", a=0.0),
            deadline=FOREVER if block.deadline is None else block.deadline,
            share=block.share,
            active=block.active or 0.0,
            idle=block.idle or 0.0,
            start=block.start,
            stop=FOREVER if block.stop is None else block.stop,
            bag=(block.arrivals.mean, block.arrivals.spread),
            trace=block.arrivals.file,
            state=-1.0 if block.state is None else block.state,
            graph=_graph(block.graph),
            agreement=Agreement(
                block.sla.response, block.sla.target, block.sla.period or 0.0, block.sla.penalty, block.sla.per
            )
            if block.sla
            else None,
            memory=block.memory,
            storage=block.storage,
            accelerator=accelerator,
            operations=operations,
            sensitivity=SENSITIVITY[block.work_class] if block.sensitivity is None else block.sensitivity,
        )

    def events(self) -> tuple[Event, ...]:
        """All events by time; one with `for` is followed by the one that undoes it."""
        events: list[Event] = []
        for block in self.scenario.events:
            nodes = self.slots(block.node) if block.node is not None else ()
            a, _, b = (block.link or "").partition("/")
            link = (self.slots(a.strip()), self.slots(b.strip())) if block.link else None
            if isinstance(block, EventKey):
                do, undo = str(getattr(block, "do", "")), block.UNDO
                own = Event(block.at, do, nodes, link, keys=block.model_dump_json(by_alias=True))
            else:
                do, undo = block.do, "recover" if block.do == "fail" else "restore"
                own = Event(block.at, do, nodes, link, block.delay, block.loss, block.rate)
            events.append(own)
            if block.duration is not None:
                events.append(Event(block.at + block.duration, undo, nodes, link, keys=own.keys))
        return tuple(sorted(events, key=lambda event: event.at))  # stable: the file's order at equal times


def node(entry: Resolved, templates: dict[int, Node]) -> Node:
    """The record of `entry`; `templates` remembers the records of blocks by identity."""
    block = entry.block
    known = templates.get(id(block))
    if known is None:
        known = templates[id(block)] = _node(block)
    if known.live is not None and known.live.key is None:
        known = replace(known, live=known.live.model_copy(update={"key": entry.id}))
    return placed(known, entry.id, entry.at)


def _node(block: model.NodeBlock) -> Node:
    if block.tier is None or block.kind is None:
        raise ValueError("a node is resolved before it becomes a record")
    return Node(
        id="",
        kind=block.kind,
        tier=block.tier,
        cores=block.cpu.cores if block.cpu else 0,
        clock=block.cpu.clock if block.cpu else 0.0,
        memory=block.memory or 0.0,
        slots=block.slots or 0,
        contention=block.contention or 0.0,
        power=power(block.power) if block.power else None,
        radio=block.radio,
        cell=block.cell,
        cost=block.cost or Cost(),
        radio_energy_sent=block.radio_energy_sent or 0.0,
        radio_energy_received=block.radio_energy_received or 0.0,
        color=block.color or "",
        storage=block.storage or 0.0,
        accelerators=tuple(
            Accelerator(name, part.units.count, part.units.speed, part.idle, part.max, part.shared)
            for name, part in (block.accelerators or {}).items()
        ),
        states=_states(block) if block.sleep or block.boot else None,
        scaling=_scaling(block.scaling) if block.scaling else None,
        battery=block.battery,
        radio_energy=tuple((block.radio_energy or {}).items()),
        wifi=block.wifi,
        runs=block.runs,
        live=block.live,
        missing=block.missing,
        uplink=block.uplink,
        keys=tuple(
            value.written()
            for key in type(block).model_fields
            if key not in model.NodeBlock.model_fields and (value := getattr(block, key)) is not None
        ),
    )


def _states(block: model.NodeBlock) -> PowerStates:
    full = power(block.power).table[-1] if block.power else 0.0

    def drawn(given: float | None) -> float:
        return full if given is None else given

    sleep, boot = block.sleep, block.boot or BootBlock()
    booting = {"boot_time": boot.time, "boot_power": drawn(boot.power), "off_power": boot.off}
    if sleep is None:
        return PowerStates(**booting)
    return PowerStates(sleep.after, sleep.power, sleep.wake, drawn(sleep.wake_power), **booting)


def _scaling(block: ScalingBlock) -> Scaling:
    points = []
    for point in block.points or ():
        idle, full = point.idle or 0.0, point.max or 0.0
        if point.voltage is not None:  # the law's clock is in GHz
            idle, full = block.static, block.activity * point.voltage**2 * point.clock / 1e9 + block.static
        points.append(OperatingPoint(point.clock, idle, full))
    return Scaling(block.governor, block.period, block.threshold, block.platform or "", tuple(points))


def power(block: model.PowerBlock) -> Power:
    if block.table is not None:
        return Power(tuple(block.table), block.source)
    return Power((block.idle, block.max), block.source, block.law)


def _graph(graph: dict[str, StageBlock]) -> tuple[Stage, ...]:
    order = ordered(graph)
    return tuple(
        Stage(
            name, graph[name].work, graph[name].output,
            tuple(sorted(order.index(before) for before in graph[name].after)), graph[name].where == "device",
            *_operations(graph[name].accelerator),
        )
        for name in order
    )  # fmt: skip


def _operations(asked: Mapping[AcceleratorName, model.Law] | None) -> tuple[str, Law]:
    """The kind of accelerator that is asked for, "" for none, and the operations on it."""
    return next(((kind, operations) for kind, operations in (asked or {}).items()), ("", Law("fixed", 0.0)))

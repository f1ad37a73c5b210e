"""From a scenario's blocks to the records that adapters get: nodes, fleets, links, workloads, events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from cosim.contract import entities, equipment
from cosim.contract.block import EventKey
from cosim.contract.laws import Law
from cosim.contract.link import LinkQuantities
from cosim.contract.quantity import carried, quantities
from cosim.scenario import model
from cosim.scenario.demand import AffinityBlock, StageBlock, TariffBlock, ordered
from cosim.scenario.hardware import AcceleratorName, ScalingBlock
from cosim.scenario.resolve import Resolved, ResolvedNodes

Slots = Callable[[str | Sequence[str]], tuple[entities.SlotRange, ...]]

# c of the slow-down 1 + c (f_max / f - 1) by class of work: by definition for work that only computes or
# only waits, fitted to measurements on a Xeon E3-1220 for the others (MLSysOps deliverable D4.3, section 2.2).
SENSITIVITY = {"compute": 1.0, "hybrid": 0.54, "memory": 0.06, "io": 0.0}


class SceneBuilder:
    """Turns a scenario's names into slots."""

    def __init__(self, scenario: model.Scenario, world: ResolvedNodes) -> None:
        self.scenario, self.world = scenario, world
        templates: dict[int, entities.Node] = {}  # the nodes of a range share their block
        self.nodes = tuple(node(entry, templates) for entry in world.nodes)
        fleets = tuple(
            entities.Fleet(entry.id, str(entry.block.fleet), 0, entry.block.capacity, node(entry, templates))
            for entry in world.fleets
        )
        self.fleets = entities.Scene.build(self.nodes, fleets).fleets
        self.ranges = {record.id: entities.SlotRange(slot) for slot, record in enumerate(self.nodes)}
        self.ranges.update({fleet.name: entities.SlotRange(fleet.first, fleet.capacity) for fleet in self.fleets})

    def slots(self, selector: str | Sequence[str]) -> tuple[entities.SlotRange, ...]:
        """The slots of everything that `selector` selects, in rising order."""
        return tuple(self.ranges[entry.id] for entry in self.world.select(selector))

    def scene(self) -> entities.Scene:
        links = tuple(
            entities.Link(self.slots(a), self.slots(b), link.state, **carried(link, LinkQuantities))
            for link in self.scenario.links
            for a, b in (link.between,)
        )
        workloads = tuple(self._workload(name, block) for name, block in self.scenario.workloads.items())
        origin = self.scenario.geo.origin if self.scenario.geo else None
        real = self.scenario.run.nodes
        return entities.Scene.build(
            self.nodes, self.fleets, links, workloads, entities.Geo(*origin) if origin else None,
            tuple(_tariff(name, block) for name, block in self.scenario.tariffs.items()),
            "" if real == "process" else real,
        )  # fmt: skip

    def _workload(self, name: str, block: model.WorkloadBlock) -> entities.Workload:
        accelerator, operations = _operations(block.accelerator)
        return entities.Workload(
            name=name,
            sources=self.slots(block.source),
            arrivals=block.arrivals.law,
            rate=block.arrivals.rate,
            input=block.input,
            output=block.output,
            work=block.work or model.Law(law="fixed", a=0.0),
            bag=(block.arrivals.mean, block.arrivals.spread),
            trace=block.arrivals.file,
            graph=_graph(block.graph),
            agreement=entities.Agreement(rule=block.sla.per, **carried(block.sla, entities.AgreementQuantities))
            if block.sla
            else None,
            affinity=self._affinity(block.affinity),
            anti_affinity=self._affinity(block.anti_affinity),
            accelerator=accelerator,
            operations=operations,
            sensitivity=SENSITIVITY[block.work_class] if block.sensitivity is None else block.sensitivity,
            **carried(block, entities.WorkloadQuantities),
        )

    def _affinity(self, block: AffinityBlock | None) -> entities.Affinity:
        if block is None:
            return entities.Affinity()
        return entities.Affinity(None if block.hosts is None else self.slots(block.hosts), tuple(block.workloads))

    def events(self) -> tuple[entities.Event, ...]:
        """All events by time; one with `for` is followed by the one that undoes it."""
        events = [event for block in self.scenario.events for event in happenings(block, self.slots)]
        return tuple(sorted(events, key=lambda event: event.at))  # stable: the file's order at equal times


def happenings(block: model.EventBlock | EventKey, slots: Slots) -> Iterator[entities.Event]:
    """The event of a block, and the one that undoes it after its `for`; `slots` are those of a selector."""
    nodes = slots(block.node) if block.node is not None else ()
    a, _, b = (block.link or "").partition("/")
    link = (slots(a.strip()), slots(b.strip())) if block.link else None
    if isinstance(block, EventKey):
        do, undo = str(getattr(block, "do", "")), block.UNDO
        own = entities.Event(block.at, do, nodes, link, keys=block.model_dump_json(by_alias=True))
    else:
        do, undo = block.do, model.BUILT_IN_EVENTS[block.do].undo
        own = entities.Event(block.at, do, nodes, link, **carried(block, entities.EventQuantities))
    yield own
    if block.duration is not None:
        yield entities.Event(block.at + block.duration, undo, nodes, link, keys=own.keys)


def node(entry: Resolved, templates: dict[int, entities.Node]) -> entities.Node:
    """The record of `entry`; `templates` remembers the records of blocks by identity."""
    block = entry.block
    known = templates.get(id(block))
    if known is None:
        known = templates[id(block)] = _node(block)
    if known.live is not None and known.live.key is None:
        known = replace(known, live=known.live.model_copy(update={"key": entry.id}))
    return entities.placed(known, entry.id, entry.at)


def _node(block: model.NodeBlock) -> entities.Node:
    if block.tier is None or block.kind is None:
        raise ValueError("a node is resolved before it becomes a record")
    return entities.Node(
        id="",
        kind=block.kind,
        tier=block.tier,
        power=power(block.power) if block.power else None,
        radio=block.radio,
        cell=block.cell,
        tariff=(block.cost and block.cost.tariff) or "",
        color=block.color or "",
        accelerators=tuple(
            equipment.Accelerator(
                name, part.units.count, part.units.speed, part.shared, **carried(part, equipment.AcceleratorQuantities)
            )
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
        **carried(block, entities.PricedQuantities),
    )


def _tariff(name: str, block: TariffBlock) -> entities.Tariff:
    usual = carried(block, entities.TariffQuantities)
    outside = {key: usual[key] for key in quantities(entities.TariffWindow)}
    windows = (
        entities.TariffWindow(w.begin, w.end, **outside | carried(w, entities.TariffWindow)) for w in block.windows
    )
    green = (entities.GreenWindow(w.begin, w.end, **carried(w, entities.GreenWindow)) for w in block.green)
    return entities.Tariff(
        name, tuple(sorted(windows)), block.prices or "", block.carbons or "", tuple(sorted(green)), **usual
    )


def _states(block: model.NodeBlock) -> equipment.PowerStates:
    full = power(block.power).table[-1] if block.power else 0.0
    usual = {"wake_power": full if block.sleep else 0.0, "boot_power": full}
    return equipment.PowerStates(**usual | carried(block, equipment.PowerStates))


def _scaling(block: ScalingBlock) -> equipment.Scaling:
    points = []
    for point in block.points or ():
        idle, full = point.idle or 0.0, point.max or 0.0
        if point.voltage is not None:  # the law's clock is in GHz
            idle, full = block.static, block.activity * point.voltage**2 * point.clock / 1e9 + block.static
        points.append(equipment.OperatingPoint(point.clock, idle, full))
    return equipment.Scaling(
        block.governor, block.platform or "", tuple(points), **carried(block, equipment.ScalingQuantities)
    )


def power(block: model.PowerBlock) -> equipment.Power:
    if block.table is not None:
        return equipment.Power(tuple(block.table), block.source)
    return equipment.Power((block.idle, block.max), block.source, block.law)


def _graph(graph: dict[str, StageBlock]) -> tuple[entities.Stage, ...]:
    order = ordered(graph)
    return tuple(
        entities.Stage(
            name, graph[name].work, graph[name].output,
            tuple(sorted(order.index(before) for before in graph[name].after)), graph[name].where == "device",
            *_operations(graph[name].accelerator),
        )
        for name in order
    )  # fmt: skip


def _operations(asked: Mapping[AcceleratorName, model.Law] | None) -> tuple[str, Law]:
    """The kind of accelerator that is asked for, "" for none, and the operations on it."""
    return next(((kind, operations) for kind, operations in (asked or {}).items()), ("", Law("fixed", 0.0)))

"""The resolved things of a scenario, as plain frozen records in SI units.

A *slot* is a node's number for the whole run. Static nodes take the slots 0..len(nodes)-1 in the
order of the file; each fleet owns the range [first, first + capacity) behind them. Every frame
refers to nodes by slot. Records hold numbers, text, tuples and blocks only, so that they travel to an
adapter in another process as plain data (`cosim.contract.block.as_plain`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Literal

from cosim.contract.laws import Law
from cosim.contract.node_keys import Battery, Cell, Cost, Live, Radio, RadioEnergy, Software, Uplink, Wifi

Tier = Literal["device", "edge", "cloud"]


@dataclass(frozen=True, slots=True)
class Power:
    """Electrical power in W at equal load steps from 0 to 1, linear in between, or cubic between two."""

    table: tuple[float, ...]  # W, at least two points
    source: str = ""
    law: Literal["linear", "cubic"] = "linear"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Equal units of one kind."""

    kind: str  # one of cosim.contract.signals.ACCELERATORS
    units: int
    speed: float  # FLOP/s of one unit
    idle: float  # W of one unit
    max: float  # W of one unit
    shared: bool


@dataclass(frozen=True, slots=True)
class PowerStates:
    """Sleep, boot and off; what is not there never happens. A machine wakes for a task that comes."""

    sleep_after: float = math.inf  # s without a task
    sleep_power: float = 0.0  # W
    wake_time: float = 0.0  # s
    wake_power: float = 0.0  # W
    boot_time: float = 0.0  # s after its node has recovered
    boot_power: float = 0.0  # W
    off_power: float = 0.0  # W while failed


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A clock of the cores, and the power at it."""

    clock: float  # cycles/s
    idle: float  # W at no load
    max: float  # W at full load


@dataclass(frozen=True, slots=True)
class Scaling:
    """Operating points, slowest first, or the platform that has them, and who chooses."""

    governor: Literal["performance", "powersave", "ondemand", "userspace"]
    period: float  # s
    threshold: float  # 1
    platform: str = ""
    points: tuple[OperatingPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A node; in a fleet, the template of its members (then `id` is the fleet's name)."""

    id: str
    kind: str
    tier: Tier
    position: tuple[float, float, float] | None = None  # m, local east-north-up
    cores: int = 0  # 0: runs nothing
    clock: float = 0.0  # cycles/s per core
    memory: float = 0.0  # B, 0: unlimited
    slots: int = 0  # tasks admitted at once, 0: unlimited
    power: Power | None = None
    radio: Radio | None = None
    cell: Cell | None = None
    cost: Cost = Cost()  # noqa: RUF009 - frozen
    radio_energy_sent: float = 0.0  # J/bit
    radio_energy_received: float = 0.0  # J/bit
    color: str = ""
    storage: float = 0.0  # B, 0: unlimited
    accelerators: tuple[Accelerator, ...] = ()
    states: PowerStates | None = None
    scaling: Scaling | None = None
    battery: Battery | None = None
    radio_energy: tuple[tuple[str, RadioEnergy], ...] = ()  # by the technology of the cell
    wifi: Wifi | None = None
    runs: Software | None = None
    live: Live | None = None
    missing: Literal["fail", "model", "wait"] = "model"
    keys: tuple[tuple[str, str], ...] = ()  # what adapters bring, as JSON by key, see `cosim.contract.block.NodeKey`
    contention: float = 0.0  # b busy cores run at clock / (1 + contention (b - 1))
    uplink: Uplink | None = None

    def says(self, key: str) -> bool:
        """Whether something is written under the key of an adapter."""
        return any(own == key for own, _ in self.keys)


_rest = attrgetter(*(one.name for one in fields(Node)[4:]))


def placed(node: Node, name: str, position: tuple[float, float, float] | None) -> Node:
    """A node like `node` with another id and position; several times as fast as `dataclasses.replace`."""
    return Node(name, node.kind, node.tier, position, *_rest(node))


_OWN = ("id", "position")
_shared = attrgetter(*(one.name for one in fields(Node) if one.name not in _OWN))


def alike(nodes: Iterable[Node]) -> tuple[list[Node], list[int]]:
    """One node of each sort, and for every node the index of its sort.

    Nodes of one sort differ in `id` and `position` only and share their values, as the nodes of a range do. Sorts
    are distinguished by identity, so two sorts may be equal.
    """
    known: dict[tuple[int, ...], int] = {}
    sorts: list[Node] = []
    index: list[int] = []
    for node in nodes:
        key = tuple(map(id, _shared(node)))
        which = known.setdefault(key, len(sorts))
        if which == len(sorts):
            sorts.append(node)
        index.append(which)
    return sorts, index


@dataclass(frozen=True, slots=True)
class Fleet:
    """Members that an adapter brings and takes away during the run."""

    name: str
    adapter: str
    first: int  # slot of the first member
    capacity: int
    template: Node

    def computers(self) -> tuple[tuple[int, Node], ...]:
        """Slots and nodes of the computers on board: one for each slot where members have software, else none.

        They are a pool: who takes a slot gets its computer, and the next member at this slot gets the same one.
        """
        if self.template.runs is None:
            return ()
        return tuple(
            (self.first + k, replace(self.template, id=name))
            for k, name in enumerate(computer_names(self.name, self.capacity))
        )


def computer_names(fleet: str, capacity: int) -> tuple[str, ...]:
    """The names of the computers of a fleet's slots: FLEET-1, FLEET-2, ..."""
    return tuple(f"{fleet}-{k}" for k in range(1, capacity + 1))


@dataclass(frozen=True, slots=True)
class SlotRange:
    """`count` slots from `first`: one static node, or a whole fleet."""

    first: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Link:
    """A link between every node of `a` and every node of `b`."""

    a: tuple[SlotRange, ...]
    b: tuple[SlotRange, ...]
    rate: float  # bit/s, from a to b
    delay: float  # s
    loss: float  # 1
    energy: float  # J/bit
    back: float = 0.0  # bit/s from b to a, 0: as from a to b
    jitter: float = 0.0  # s, half width of the uniform law around the delay
    burst: float = 0.0  # packets lost in a row, on average; 0: each is lost independently
    reorder: float = 0.0  # 1, of packets that pass those before them

    @property
    def rate_back(self) -> float:
        """bit/s from b to a."""
        return self.back or self.rate


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a job."""

    name: str
    work: Law  # cycles
    output: Law  # B
    after: tuple[int, ...]  # positions of the stages before it, lower ones
    pinned: bool  # runs on the device
    accelerator: str = ""  # kind of accelerator that it needs, "": none
    operations: Law = Law("fixed", 0.0)  # noqa: RUF009 - frozen; FLOP on it


@dataclass(frozen=True, slots=True)
class Agreement:
    """A service-level agreement."""

    response: float  # s
    target: float  # share of the tasks
    period: float  # s, 0: none
    penalty: float  # currency per what the rule counts
    rule: str  # violation, excess, period or module:function


@dataclass(frozen=True, slots=True)
class Tariff:
    """What energy costs and emits over time."""

    name: str
    price: float  # per J
    carbon: float  # g/J
    windows: tuple[tuple[float, float, float, float], ...] = ()  # s, s, per J, g/J
    repeat: float = 0.0  # s after which the windows come again, 0: never
    prices: str = ""  # file
    carbons: str = ""  # file
    every: float = 3600.0  # s between lines of a file without times
    green: tuple[tuple[float, float, float], ...] = ()  # s, s, share of the energy that is green
    green_price: float = 0.0  # per J
    green_carbon: float = 0.0  # g/J


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream of tasks; its index in `Scene.workloads` is its code in frames."""

    name: str
    sources: tuple[SlotRange, ...]
    arrivals: Literal["poisson", "every", "bag", "trace"]
    rate: float  # tasks/s per source; bags/s
    input: Law  # B
    output: Law  # B
    work: Law  # cycles
    deadline: float  # s, inf: none
    share: float  # part of the sources that take part
    active: float  # s, mean; 0: always active
    idle: float  # s, mean
    start: float  # s
    stop: float  # s, inf: end of the run
    memory: float = 0.0  # B at its host
    storage: float = 0.0  # B
    accelerator: str = ""  # kind of accelerator that a task needs, "": none
    operations: Law = Law("fixed", 0.0)  # noqa: RUF009 - frozen; FLOP on it
    sensitivity: float = 1.0  # c in 1 + c (f_max / f - 1), how much longer work takes at clock f
    bag: tuple[float, float] = (0.0, 0.0)  # mean and standard deviation of the tasks in a bag
    trace: str = ""  # file
    state: float = -1.0  # B that move with a running task, negative: its input
    graph: tuple[Stage, ...] = ()
    agreement: Agreement | None = None

    def specialities(self) -> dict[str, str]:
        """What it asks of a model beyond plain tasks with a size and work: key in the scenario -> in words."""
        found = {
            "graph": "stages" if self.graph else "",
            "arrivals": f"arrivals by '{self.arrivals}'" if self.arrivals in ("bag", "trace") else "",
            "accelerator": f"operations on a {self.accelerator}" if self.accelerator else "",
            "memory": "'memory' of its own" if self.memory > 0.0 else "",
            "storage": "'storage' of its own" if self.storage > 0.0 else "",
            "sensitivity": "work less than proportional to the clock" if self.sensitivity != 1.0 else "",
            "state": "'state' that moves" if self.state >= 0.0 else "",
            "sla": "an agreement" if self.agreement is not None else "",
        }
        return {key: words for key, words in found.items() if words}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the scenario makes happen at a time."""

    at: float  # s
    do: str  # fail, recover, degrade, restore, or one that an adapter brings
    nodes: tuple[SlotRange, ...] = ()
    link: tuple[tuple[SlotRange, ...], tuple[SlotRange, ...]] | None = None
    delay: float = 0.0  # s, added
    loss: float = 0.0  # 1, added
    rate: float = 1.0  # 1, factor
    keys: str = ""  # of an event that an adapter brings, as JSON, see `cosim.contract.block.EventKey`


@dataclass(frozen=True, slots=True)
class Geo:
    """Origin of the local east-north-up frame in WGS84, if the scenario has one."""

    latitude: float  # deg
    longitude: float  # deg
    height: float = 0.0  # m


@dataclass(frozen=True, slots=True)
class Scene:
    """All that adapters may know about the scenario's world; the same for every adapter."""

    nodes: tuple[Node, ...] = ()
    fleets: tuple[Fleet, ...] = ()
    links: tuple[Link, ...] = ()
    workloads: tuple[Workload, ...] = ()
    geo: Geo | None = None
    tariffs: tuple[Tariff, ...] = ()
    capacity: int = field(default=0)  # slots in all: static nodes and fleets
    real: Literal["", "netns", "containers"] = ""  # where nodes with `runs` are real; "": nowhere

    @staticmethod
    def build(
        nodes: tuple[Node, ...],
        fleets: tuple[Fleet, ...] = (),
        links: tuple[Link, ...] = (),
        workloads: tuple[Workload, ...] = (),
        geo: Geo | None = None,
        tariffs: tuple[Tariff, ...] = (),
        real: Literal["", "netns", "containers"] = "",
    ) -> Scene:
        """A scene whose fleets get their slot ranges behind the static nodes, in order."""
        first, placed = len(nodes), []
        for fleet in fleets:
            placed.append(replace(fleet, first=first))
            first += fleet.capacity
        return Scene(nodes, tuple(placed), links, workloads, geo, tariffs, first, real)

    def computers(self) -> tuple[tuple[int, Node], ...]:
        """Slots and nodes of all that can be real: the static nodes, then the computers on board of fleets."""
        return (*enumerate(self.nodes), *(computer for fleet in self.fleets for computer in fleet.computers()))

    def template(self, slot: int) -> Node:
        """The node at `slot`, or the template of the fleet that owns it."""
        if slot < len(self.nodes):
            return self.nodes[slot]
        for fleet in self.fleets:
            if fleet.first <= slot < fleet.first + fleet.capacity:
                return fleet.template
        raise IndexError(f"slot {slot} is outside the scene's {self.capacity} slots")

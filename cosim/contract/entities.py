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
from functools import partial
from operator import attrgetter
from typing import Annotated, Literal, NamedTuple

from cosim.contract.block import OnlyWith
from cosim.contract.laws import Law
from cosim.contract.link import LinkQuantities, LinkState
from cosim.contract.medium import Medium
from cosim.contract.node_keys import Battery, Cell, Live, Radio, RadioEnergy, Software, Uplink, Wifi
from cosim.contract.quantity import DeclaredQuantity, quantities

Tier = Literal["device", "edge", "cloud"]


@dataclass(frozen=True, slots=True)
class Power:
    """Electrical power in W at equal load steps from 0 to 1, linear in between, or cubic between two."""

    table: tuple[float, ...]  # W, at least two points
    source: str = ""
    law: Literal["linear", "cubic"] = "linear"


def _watts(meaning: str, key: str = "", *, optional: bool = False) -> DeclaredQuantity:
    return DeclaredQuantity("power", meaning, optional=optional, key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorQuantities:
    """The plain numbers of an accelerator: a line declares one, from the scenario's key to the engine's column."""

    idle: Annotated[float, _watts("of each unit while it does nothing")] = 0.0  # W
    max: Annotated[float, _watts("of each unit in use")] = 0.0  # W


@dataclass(frozen=True, slots=True)
class Accelerator(AcceleratorQuantities):
    """Equal units of one kind."""

    kind: str  # one of cosim.contract.signals.ACCELERATORS
    units: int
    speed: float  # FLOP/s of one unit
    shared: bool = False  # all tasks share the units, instead of one task per unit and a queue


_AFTER = DeclaredQuantity("time", "without a task", above=True, key="sleep.after")
_WAKE = DeclaredQuantity("time", "time to wake; tasks that come wait for it", key="sleep.wake")
_BOOT = DeclaredQuantity("time", "after it has recovered; tasks that come wait for it", key="boot.time")
_WAKING = _watts("while waking; default: the power at full load", "sleep.wake_power", optional=True)
_BOOTING = _watts("while booting; default: the power at full load", "boot.power", optional=True)


@dataclass(frozen=True, slots=True)
class PowerStates:
    """Sleep, boot and off; what is not there never happens. A machine wakes for a task that comes."""

    sleep_after: Annotated[float, _AFTER] = math.inf  # s
    sleep_power: Annotated[float, _watts("while asleep", "sleep.power")] = 0.0  # W
    wake_time: Annotated[float, _WAKE] = 0.0  # s
    wake_power: Annotated[float, _WAKING] = 0.0  # W
    boot_time: Annotated[float, _BOOT] = 0.0  # s
    boot_power: Annotated[float, _BOOTING] = 0.0  # W
    off_power: Annotated[float, _watts("while failed", "boot.off")] = 0.0  # W


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A clock of the cores, and the power at it."""

    clock: float  # cycles/s
    idle: float  # W at no load
    max: float  # W at full load


_PERIOD = DeclaredQuantity("time", "ondemand: time between two looks at the use", above=True)
_THRESHOLD = DeclaredQuantity("fraction", "ondemand: use above which it takes the fastest; default of Linux", most=1.0)
_ONDEMAND = OnlyWith("governor", "ondemand")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingQuantities:
    """The plain numbers of a governor."""

    period: Annotated[float, _PERIOD, _ONDEMAND] = 0.1  # s
    threshold: Annotated[float, _THRESHOLD, _ONDEMAND] = 0.8  # 1


@dataclass(frozen=True, slots=True)
class Scaling(ScalingQuantities):
    """Operating points, slowest first, or the platform that has them, and who chooses."""

    governor: Literal["performance", "powersave", "ondemand", "userspace"]
    platform: str = ""
    points: tuple[OperatingPoint, ...] = ()


_CORES = DeclaredQuantity("", "of the processor", batched=True, key="cpu.cores")
_CLOCK = DeclaredQuantity("frequency", "of each core", batched=True, key="cpu.clock")
_CONTENTION = DeclaredQuantity(
    "", "c: b busy cores, which share caches and memory, run at clock / (1 + c (b - 1)) each", most=100.0,
    optional=True, batched=True, needs="cpu",
)  # fmt: skip
_DISPATCH = DeclaredQuantity(
    "time", "for which a core is busy with each task before its work, at the clock of 'cpu': to start it",
    optional=True, batched=True, needs="cpu",
)  # fmt: skip
_SLOTS = DeclaredQuantity(
    "", "tasks a host admits at once, running and waiting; more are refused (capacity)", least=1, most=1_000_000,
    optional=True, batched=True,
)  # fmt: skip
_ROOM = DeclaredQuantity("bytes", "limits tasks that take some; those that do not fit wait", above=True, optional=True)
_SENT = DeclaredQuantity("energy per bit", "what sending costs a device", optional=True, batched=True)
_RECEIVED = DeclaredQuantity("energy per bit", "what receiving costs a device", optional=True, batched=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostQuantities:
    """The plain numbers of a node: a line declares one, from the scenario's key to the engine's column."""

    clock: Annotated[float, _CLOCK] = 0.0  # cycles/s per core
    cores: Annotated[int, _CORES] = 0  # 0: runs nothing
    contention: Annotated[float, _CONTENTION] = 0.0
    dispatch: Annotated[float, _DISPATCH] = 0.0  # s
    memory: Annotated[float, _ROOM] = 0.0  # B, 0: unlimited
    storage: Annotated[float, _ROOM] = 0.0  # B, 0: unlimited
    slots: Annotated[int, _SLOTS] = 0  # 0: unlimited
    radio_energy_sent: Annotated[float, _SENT] = 0.0  # J/bit
    radio_energy_received: Annotated[float, _RECEIVED] = 0.0  # J/bit


_BUSY = DeclaredQuantity("price per time", "per second of a busy core", batched=True, key="cost.cpu")
_MOVED = DeclaredQuantity("price per bytes", "per byte in or out", batched=True, key="cost.transfer")
_USED = DeclaredQuantity("price per energy", "per unit of electrical energy", batched=True, key="cost.energy")
_OWNED = DeclaredQuantity("price per time", "per unit of time of owning the node, used or not", key="cost.own")


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedQuantities(HostQuantities):
    """Those of a node with its prices, in one currency for the whole scenario; the kernel knows no prices."""

    price_cpu: Annotated[float, _BUSY] = 0.0  # per s
    price_transfer: Annotated[float, _MOVED] = 0.0  # per B of input that the host gets and of output to its device
    price_energy: Annotated[float, _USED, OnlyWith("tariff", None)] = 0.0  # per J
    price_own: Annotated[float, _OWNED] = 0.0  # per s


@dataclass(frozen=True, slots=True)
class Node(PricedQuantities):
    """A node; in a fleet, the template of its members (then `id` is the fleet's name)."""

    id: str
    kind: str
    tier: Tier
    position: tuple[float, float, float] | None = None  # m, local east-north-up
    power: Power | None = None
    radio: Radio | None = None
    cell: Cell | None = None
    tariff: str = ""  # of its energy, instead of `price_energy`
    color: str = ""
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
    uplink: Uplink | None = None

    def says(self, key: str) -> bool:
        """Whether something is written under the key of an adapter."""
        return any(own == key for own, _ in self.keys)


_SHARED = tuple(one.name for one in fields(Node) if one.name not in ("id", "position"))
_shared = attrgetter(*_SHARED)
_put = tuple(getattr(Node, name).__set__ for name in ("id", "position", *_SHARED))


def placed(node: Node, name: str, position: tuple[float, float, float] | None) -> Node:
    """A node like `node` with another id and position, twice as fast as by its constructor."""
    made = object.__new__(Node)
    for put, value in zip(_put, (name, position, *_shared(node)), strict=True):
        put(made, value)
    return made


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
class Link(LinkQuantities):
    """A link between every node of `a` and every node of `b`."""

    a: tuple[SlotRange, ...]
    b: tuple[SlotRange, ...]
    state: LinkState  # from a to b

    @property
    def back(self) -> LinkState:
        """From b to a."""
        return self.state.back(self.rate_back)


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


_RESPONSE = DeclaredQuantity("time", "a task that takes longer, or fails, violates the agreement", above=True)
_TARGET = DeclaredQuantity("fraction", "part of the tasks that must keep it", most=1.0)
_LOOKED = DeclaredQuantity("time", "length of the periods in which the target is looked at", above=True, optional=True)


@dataclass(frozen=True, slots=True)
class AgreementQuantities:
    """The plain numbers of an agreement."""

    response: Annotated[float, _RESPONSE]  # s
    target: Annotated[float, _TARGET] = 1.0  # share of the tasks
    period: Annotated[float, _LOOKED] = 0.0  # s, 0: none
    penalty: Annotated[float, DeclaredQuantity("price", "per what the rule counts")] = 0.0  # currency


@dataclass(frozen=True, slots=True)
class Agreement(AgreementQuantities):
    """A service-level agreement."""

    rule: str = "violation"  # violation, excess, period or module:function


_PRICE = partial(DeclaredQuantity, "price per energy")
_CARBON = partial(DeclaredQuantity, "carbon per energy")
_OUTSIDE, _INSIDE = "of brown energy, outside of the windows", "in the window; default: the tariff's"
_AGAIN = "the windows, green ones too, come again every so often: 24 h"
_LAP = DeclaredQuantity("time", _AGAIN, above=True, optional=True)
_LINES = DeclaredQuantity("time", "time between the lines of a file without times", above=True)
_GREEN = DeclaredQuantity("fraction", "part of the energy that is green; the rest is brown", most=1.0)


class TariffWindow(NamedTuple):
    """A time in which energy has another price."""

    begin: float  # s
    end: float  # s
    price: Annotated[float, _PRICE(_INSIDE, optional=True)] = 0.0  # per J
    carbon: Annotated[float, _CARBON(_INSIDE, optional=True)] = 0.0  # g/J


class GreenWindow(NamedTuple):
    """A time in which energy is green, or a part of it."""

    begin: float  # s
    end: float  # s
    share: Annotated[float, _GREEN] = 1.0  # 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TariffQuantities:
    """The plain numbers of a tariff."""

    price: Annotated[float, _PRICE(_OUTSIDE), OnlyWith("prices", None)] = 0.0  # per J
    carbon: Annotated[float, _CARBON(_OUTSIDE), OnlyWith("carbons", None)] = 0.0  # g/J
    repeat: Annotated[float, _LAP] = 0.0  # s, 0: never
    every: Annotated[float, _LINES] = 3600.0  # s
    green_price: Annotated[float, _PRICE("of green energy"), OnlyWith("green")] = 0.0  # per J
    green_carbon: Annotated[float, _CARBON("of green energy"), OnlyWith("green")] = 0.0  # g/J


@dataclass(frozen=True, slots=True)
class Tariff(TariffQuantities):
    """What energy costs and emits over time."""

    name: str
    windows: tuple[TariffWindow, ...] = ()
    prices: str = ""  # file
    carbons: str = ""  # file
    green: tuple[GreenWindow, ...] = ()


def _span(meaning: str, asks: str = "") -> DeclaredQuantity:
    """A time that need not be given."""
    return DeclaredQuantity("time", meaning, above=True, optional=True, batched=True, asks=asks)


_SHARE = DeclaredQuantity("fraction", "part of the selected nodes that make this workload", most=1.0, batched=True)
_DEADLINE = DeclaredQuantity(
    "time", "allowed response time; later completions are counted late", above=True, optional=True, batched=True,
    reported="allowed response time, inf for none",
)  # fmt: skip
_VALUE = DeclaredQuantity(
    "", "what the result of a task is worth at once; default: nothing is known of it", above=True, optional=True,
    batched=True, asks="a 'value' of results", reported="what its result was worth when it came back, 0: nothing",
)  # fmt: skip
_HALF_LIFE = _span("time in which the value halves; default: it does not decay")
_LIMIT = _span("after its creation, a task that has not ended is given up; default: never", "a 'limit' of tasks")
_MOVES = "moves with a running task to another host; default: its input"
_STATE = DeclaredQuantity("bytes", _MOVES, optional=True, asks="'state' that moves")


def _held(name: str) -> DeclaredQuantity:
    return DeclaredQuantity("bytes", "that a task takes at its host until it is computed", asks=f"'{name}' of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadQuantities:
    """The plain numbers of a stream of tasks: a line declares one, from the scenario's key to the engine's column."""

    deadline: Annotated[float, _DEADLINE] = math.inf  # s
    limit: Annotated[float, _LIMIT] = math.inf  # s
    value: Annotated[float, _VALUE] = 0.0  # at a response time of 0; 0: not known
    half_life: Annotated[float, _HALF_LIFE, OnlyWith("value")] = math.inf  # s
    share: Annotated[float, _SHARE] = 1.0
    active: Annotated[float, _span("mean length of the active phase; with idle: on/off source")] = 0.0  # s, 0: always
    idle: Annotated[float, _span("mean length of the idle phase")] = 0.0  # s
    start: Annotated[float, DeclaredQuantity("time", "no tasks before this time", batched=True)] = 0.0  # s
    stop: Annotated[float, _span("no new tasks from this time on")] = math.inf  # s
    memory: Annotated[float, _held("memory")] = 0.0  # B
    storage: Annotated[float, _held("storage")] = 0.0  # B
    state: Annotated[float, _STATE] = -1.0  # B, negative: its input


@dataclass(frozen=True, slots=True)
class Affinity:
    """Nodes and workloads that tasks are bound to, or kept away from."""

    hosts: tuple[SlotRange, ...] | None = None  # None: nothing about nodes
    workloads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload(WorkloadQuantities):
    """A stream of tasks; its index in `Scene.workloads` is its code in frames."""

    name: str
    sources: tuple[SlotRange, ...]
    arrivals: Literal["poisson", "every", "bag", "trace"]
    rate: float  # tasks/s per source; bags/s
    input: Law  # B
    output: Law  # B
    work: Law  # cycles
    accelerator: str = ""  # kind of accelerator that a task needs, "": none
    operations: Law = Law("fixed", 0.0)  # noqa: RUF009 - frozen; FLOP on it
    sensitivity: float = 1.0  # c in 1 + c (f_max / f - 1), how much longer work takes at clock f
    bag: tuple[float, float] = (0.0, 0.0)  # mean and standard deviation of the tasks in a bag
    trace: str = ""  # file
    graph: tuple[Stage, ...] = ()
    agreement: Agreement | None = None
    affinity: Affinity = Affinity()
    anti_affinity: Affinity = Affinity()

    @property
    def bound(self) -> bool:
        """Whether some hosts may not run its tasks, or not at some times."""
        return self.affinity != Affinity() or self.anti_affinity != Affinity()

    def specialities(self) -> dict[str, str]:
        """What it asks of a model beyond plain tasks with a size and work: key in the scenario -> in words."""
        found = {
            "graph": "stages" if self.graph else "",
            "arrivals": f"arrivals by '{self.arrivals}'" if self.arrivals in ("bag", "trace") else "",
            "accelerator": f"operations on a {self.accelerator}" if self.accelerator else "",
            "sensitivity": "work less than proportional to the clock" if self.sensitivity != 1.0 else "",
            "affinity": "affinity to hosts" if self.affinity != Affinity() else "",
            "anti_affinity": "anti-affinity to hosts" if self.anti_affinity != Affinity() else "",
            "sla": "an agreement" if self.agreement is not None else "",
        }
        plain = {one.name: one.default for one in fields(WorkloadQuantities)}
        for key, one in quantities(WorkloadQuantities).items():
            found[key] = one.asks if getattr(self, key) != plain[key] else ""
        return {key: words for key, words in found.items() if words}


_DEGRADE = OnlyWith("do", "degrade")
_KEPT = DeclaredQuantity("fraction", "what is left of the link's rate", most=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuantities:
    """The plain numbers of an event: how much a link degrades."""

    delay: Annotated[float, DeclaredQuantity("time", "added to the link's"), _DEGRADE] = 0.0  # s
    loss: Annotated[float, DeclaredQuantity("fraction", "added to the link's", most=1.0), _DEGRADE] = 0.0  # 1
    rate: Annotated[float, _KEPT, _DEGRADE] = 1.0  # 1


@dataclass(frozen=True, slots=True)
class Event(EventQuantities):
    """Something that the scenario makes happen at a time."""

    at: float  # s
    do: str  # fail, recover, degrade, restore, or one that an adapter brings
    nodes: tuple[SlotRange, ...] = ()
    link: tuple[tuple[SlotRange, ...], tuple[SlotRange, ...]] | None = None
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
    media: tuple[Medium, ...] = ()  # that adapters bring, beside `cosim.contract.medium.MEDIA`

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

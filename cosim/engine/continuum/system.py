"""The engine's description of the world: kinds and workloads as records, the rest as flat arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import address_of
from cosim.compiled.rowtypes import aligned
from cosim.contract.entities import HostQuantities, WorkloadQuantities
from cosim.contract.quantity import quantities
from cosim.contract.records import Floats, Ints, Records
from cosim.engine.continuum import hardware, queue
from cosim.engine.continuum import layout as l
from cosim.engine.continuum.agreement import SERVICE, WorkloadAgreement
from cosim.engine.continuum.billing import BILLED, Rates, window_count
from cosim.engine.continuum.hardware import MachineAccelerator
from cosim.engine.continuum.layout import KernelState
from cosim.engine.continuum.lookahead import SMALL
from cosim.engine.continuum.numbering import PER_NODE, first_link_station, processor

REFERENCE = 100e3  # B, size of the transfer by which routes are compared


@dataclass(frozen=True, slots=True)
class Kind(hardware.Equipped):
    """What nodes have in common."""

    power: tuple[float, ...] = ()  # W at equal load steps from 0 to 1; one value: constant
    fcfs: int = 0  # SHARING, FCFS, PRIORITY or EDF: all share the cores, or one core per task and a queue
    preempts: bool = False  # PRIORITY, EDF: who comes may take the core of a task of a higher rank
    rented: bool = False  # its machine costs nothing while it is off
    tariff: int = -1  # number of the tariff of its energy, instead of price_energy
    radio_by_technology: tuple[tuple[float, float], ...] = ()  # J/bit sent and received under technology 1, 2..
    technology: int = 0  # of its cell: 0 for none in particular
    cell_sent: float = 0.0  # J/bit that its cell uses to send
    cell_received: float = 0.0  # J/bit


@dataclass(frozen=True, slots=True)
class JobStage:
    """A part of a job: a task that starts when all stages before it have ended and their outputs are there.

    Stages that wait for nothing get the job's input, which is at the device; a stage that nothing
    follows sends its output back to the device.
    """

    work: tuple[int, float, float]  # cycles, a law
    output: tuple[int, float, float] = (0, 0.0, 0.0)  # B, to each stage that follows
    after: tuple[int, ...] = ()  # stages before it, by their number in the graph; lower ones only
    pinned: bool = False  # runs on the device
    accelerator: int = -1  # kind of accelerator that it needs after its work, -1: none
    operations: tuple[int, float, float] = (0, 0.0, 0.0)  # FLOP there, a law
    slow: tuple[float, float] = (0.0, 1.0)  # share of the tasks, and by how many times their work is larger


@dataclass(frozen=True, slots=True, eq=False)
class WorkloadTrace:
    """Tasks at given times, instead of drawn ones. NaN: that size is drawn from the workload's law."""

    source: Ints  # (n,) slot of the device that makes the task
    time: Floats  # (n,) s after the workload's start, in any order
    input: Floats  # (n,) B
    output: Floats  # (n,) B
    work: Floats  # (n,) cycles


@dataclass(frozen=True, slots=True)
class WorkloadStream(hardware.Asking):
    """A workload: each of its sources makes tasks by these laws, given as (law, a, b)."""

    rate: float  # tasks/s
    work: tuple[int, float, float]  # cycles
    input: tuple[int, float, float] = (0, 0.0, 0.0)  # B
    output: tuple[int, float, float] = (0, 0.0, 0.0)  # B
    periodic: bool = False
    bag: tuple[float, float] | None = None  # mean and standard deviation of the tasks made at once, 1/rate s apart
    trace: WorkloadTrace | None = None  # instead of arrivals by a law
    sla: WorkloadAgreement | None = None
    operations: tuple[int, float, float] = (0, 0.0, 0.0)  # FLOP there
    priority: int = 0  # class of its tasks where processors serve by priority, the lowest first
    slow: tuple[float, float] = (0.0, 1.0)  # share of the tasks, and by how many times their work is larger
    sensitivity: float = 1.0  # c of the slow-down 1 + c (f_max / f - 1) at clock f


def _ints() -> Ints:
    return np.empty(0, np.int64)


def _floats() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """Nodes, links, workloads and who makes them.

    Nodes of the tiers edge and cloud forward; those of them that have cores are hosts. Nodes that
    are not `present` appear and vanish later.
    """

    kinds: tuple[Kind, ...]
    kind: Ints  # (nodes,) index into kinds
    tier: Ints  # (nodes,) DEVICE, EDGE, CLOUD
    present: NDArray[np.bool_]  # (nodes,)
    workloads: tuple[WorkloadStream, ...] = ()
    source_node: Ints = field(default_factory=_ints)  # (sources,)
    source_workload: Ints = field(default_factory=_ints)  # (sources,)
    link_a: Ints = field(default_factory=_ints)  # (links,) nodes
    link_b: Ints = field(default_factory=_ints)  # (links,)
    link_rate: Floats = field(default_factory=_floats)  # (links,) bit/s in each direction, or from a to b
    link_delay: Floats = field(default_factory=_floats)  # (links,) s
    link_loss: Floats = field(default_factory=_floats)  # (links,) 1
    link_energy: Floats = field(default_factory=_floats)  # (links,) J/bit
    tariffs: tuple[Rates, ...] = ()
    link_back: Floats = field(default_factory=_floats)  # (links,) rate from b to a over that from a to b; (0,): 1
    link_jitter: Floats = field(default_factory=_floats)  # (links,) s, half width of a uniform law; (0,): 0
    bound: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None  # `allowed` and `bonds` of the layout


def _tables(system: System) -> tuple[Records, Floats, list[int], Floats]:
    """The kinds, their power tables, where those of operating points begin, and the radios' J/bit.

    Every kind has tables of its own. A record that stands for many kinds is read once.
    """
    place: dict[int, int] = {}
    index = [place.setdefault(id(kind), len(place)) for kind in system.kinds]
    known = {id(kind): kind for kind in system.kinds}
    distinct = [known[one] for one in place]
    technologies = technology_count(system)
    rows: Records = np.zeros(len(distinct), l.KIND)
    tables: list[list[float]] = []
    radio = np.zeros((len(distinct), technologies, 2))
    own = np.zeros(len(distinct), np.int64)  # values of the kind's own table
    for k, (row, kind) in enumerate(zip(rows, distinct, strict=True)):
        table = hardware.double(kind.power)
        for name in (*quantities(HostQuantities), "fcfs", "preempts", "technology"):
            row[name] = getattr(kind, name)
        row["powers"] = own[k] = len(table)
        tables.append([*table, *(watts for points in hardware.tables(kind.scaling) for watts in points)])
        radio[k] = kind.radio_energy_sent, kind.radio_energy_received
        if kind.radio_by_technology:
            radio[k, 1 : 1 + len(kind.radio_by_technology)] = kind.radio_by_technology
    kinds = rows[index]
    length = np.array([len(table) for table in tables], np.int64)[index]
    kinds["first_power"] = np.cumsum(length) - length
    kinds["first_radio"] = technologies * np.arange(len(kinds))
    power = [watts for which in index if tables[which] for watts in tables[which]]
    first = (kinds["first_power"] + own[index]).tolist()
    return kinds, np.array(power, np.float64), first, radio[index].reshape(-1, 2)


def technology_count(system: System) -> int:
    """How many radio technologies there are, the unnamed one included."""
    kinds = {id(kind): kind for kind in system.kinds}.values()
    return 1 + max((max(kind.technology, len(kind.radio_by_technology)) for kind in kinds), default=0)


def transfer_time(links: Records) -> Floats:
    """(links,) s of a reference transfer, by which routes are chosen: in the slower direction."""
    slower = links["rate"] * np.minimum(links["back"], 1.0)
    with np.errstate(divide="ignore"):
        found: Floats = links["delay"] + REFERENCE / (slower * (1.0 - links["loss"]))
    return found


def _links(system: System, nodes: Records) -> tuple[Records, Ints]:
    """The links, and those of the devices grouped by device."""
    links: Records = aligned(len(system.link_a), l.LINK)
    links["a"], links["b"], links["up"] = system.link_a, system.link_b, 1
    links["rate"], links["delay"], links["loss"] = system.link_rate / 8, system.link_delay, system.link_loss
    links["back"] = system.link_back if len(system.link_back) else 1.0
    links["jitter"] = system.link_jitter if len(system.link_jitter) else 0.0
    links["cost"] = transfer_time(links)
    numbers = np.arange(len(links), dtype=np.int64)
    ends = np.concatenate([links["a"], links["b"]])
    both = np.concatenate([numbers, numbers])
    ours = system.tier[ends] == l.DEVICE
    ends, both = ends[ours], both[ours]
    order = np.lexsort((both, ends))
    nodes["links"] = np.bincount(ends, minlength=len(nodes))
    nodes["first_link"] = np.cumsum(nodes["links"]) - nodes["links"]
    return links, both[order]


def _sources(system: System, nodes: Records) -> tuple[Records, Records]:
    """The sources by node, and the tasks of those that follow a trace."""
    order = np.lexsort((system.source_workload, system.source_node))
    sources = aligned(len(order), l.SOURCE)
    sources["node"], sources["workload"] = system.source_node[order], system.source_workload[order]
    sources["work"] = np.nan
    if np.any((sources["workload"] < 0) | (sources["workload"] >= len(system.workloads))):
        raise ValueError(f"a source names a workload that is not one of the {len(system.workloads)} of the system")
    nodes["sources"] = np.bincount(sources["node"], minlength=len(nodes))
    nodes["first_source"] = np.cumsum(nodes["sources"]) - nodes["sources"]
    parts = [np.zeros(0, l.TRACED)]
    total = 0
    for number, load in enumerate(system.workloads):
        if load.trace is None:
            continue
        rows = np.lexsort((load.trace.time, load.trace.source))  # stable: the order of the file at equal times
        part: Records = np.zeros(len(rows), l.TRACED)
        for name in ("time", "input", "output", "work"):
            part[name] = getattr(load.trace, name)[rows]
        mine = np.flatnonzero(sources["workload"] == number)
        maker = load.trace.source[rows]
        if not np.isin(maker, sources["node"][mine]).all():
            raise ValueError(f"the trace of workload {number} names a device that is not one of its sources")
        first = np.searchsorted(maker, sources["node"][mine], "left")
        sources["first_row"][mine] = total + first
        sources["rows"][mine] = np.searchsorted(maker, sources["node"][mine], "right") - first
        parts.append(part)
        total += len(part)
    return sources, np.concatenate(parts)


def _workloads(system: System) -> Records:
    rows: Records = np.zeros(len(system.workloads), l.WORKLOAD)
    for row, load in zip(rows, system.workloads, strict=True):
        for name in (*quantities(WorkloadQuantities), "rate", "accelerator", "sensitivity", "priority"):
            row[name] = getattr(load, name)
        row["arrivals"] = l.EVERY if load.periodic else l.POISSON
        if load.bag is not None:
            row["arrivals"], row["bag_mean"], row["bag_spread"] = l.BAG, *load.bag
        if load.trace is not None:
            row["arrivals"] = l.TRACE
        for name in ("input", "output", "work", "operations"):
            row[f"{name}_law"], row[f"{name}_a"], row[f"{name}_b"] = getattr(load, name)
        row["slow_share"], row["slow_times"] = load.slow
    return rows


def _graphs(system: System, workloads: Records) -> tuple[Records, Ints, Ints]:
    """The stages of all graphs, those after and those before each; notes in `workloads` where they are."""
    rows: Records = np.zeros(sum(len(load.graph) for load in system.workloads), l.STAGE)
    afters: list[int] = []
    befores: list[int] = []
    first = 0
    for number, load in enumerate(system.workloads):
        workloads["first_stage"][number], workloads["stages"][number] = first, len(load.graph)
        for k, stage in enumerate(load.graph):
            if len(set(stage.after)) != len(stage.after) or not all(0 <= before < k for before in stage.after):
                raise ValueError(f"stage {k} comes after {stage.after}: name lower stages, each once")
            row = rows[first + k]
            for name in ("work", "output", "operations"):
                row[f"{name}_law"], row[f"{name}_a"], row[f"{name}_b"] = getattr(stage, name)
            row["slow_share"], row["slow_times"] = stage.slow
            following = [first + after for after, other in enumerate(load.graph) if k in other.after]
            row["first_after"], row["afters"], row["pinned"] = len(afters), len(following), stage.pinned
            row["accelerator"] = stage.accelerator
            row["first_before"], row["befores"] = len(befores), len(stage.after)
            afters += following
            befores += [first + before for before in stage.after]
        first += len(load.graph)
    return rows, np.array(afters, np.int64), np.array(befores, np.int64)


def _stations(system: System, kinds: Records, links: Records, parts: list[MachineAccelerator]) -> Records:
    count = len(system.kind)
    behind = first_link_station(count) + 2 * len(links)
    stations = aligned(behind + len(parts), l.STATION)
    stations["servers"] = 1
    stations["root"] = stations["head"] = stations["tail"] = -1
    processors = stations[0 : first_link_station(count) : PER_NODE]
    stations["plain"] = 1
    same = ("contention", "fcfs", "preempts")
    for name, source in (("rate", "clock"), ("servers", "cores"), *((name, name) for name in same)):
        processors[name] = kinds[source][system.kind]
    rate = links["rate"] * (1.0 - links["loss"])
    stations["rate"][first_link_station(count) : behind : 2] = rate
    stations["rate"][first_link_station(count) + 1 : behind : 2] = rate * links["back"]
    for row, part in zip(stations[behind:], parts, strict=True):
        row["rate"], row["servers"], row["fcfs"], row["plain"] = part.speed, part.units, not part.shared, 0
    return stations


def mark_plain(stations: Records, kinds: Records, kind: Ints, machines: Records) -> None:
    """Note of every processor whether it draws power or its cores contend."""
    processors = stations[0 : first_link_station(len(kind)) : PER_NODE]
    processors["plain"] = ((kinds["powers"] == 0) & (kinds["contention"] == 0.0))[kind]
    processors["plain"][machines["node"]] = 0


def lay_out(system: System, meta: Records, tasks: Records, ended: Records) -> KernelState:
    """The state of `system` at time 0, before any node has appeared and any route was found."""
    count = len(system.kind)
    kinds, power, first_power, radio = _tables(system)
    nodes = aligned(count, l.NODE)
    nodes["kind"] = system.kind
    nodes["cell"] = nodes["first_task"] = nodes["infra"] = nodes["host"] = -1
    machines, accelerators, points = hardware.machines(
        system.kinds, system.kind, first_power,
        any(load.memory > 0.0 for load in system.workloads), any(load.storage > 0.0 for load in system.workloads),
    )  # fmt: skip
    batteries = hardware.batteries(system.kinds, system.kind)
    for name, rows in (("machine", machines), ("battery", batteries)):
        nodes[name] = -1
        nodes[name][rows["node"]] = np.arange(len(rows))
    infra = np.flatnonzero(system.tier != l.DEVICE).astype(np.int64)
    nodes["infra"][infra] = np.arange(len(infra))
    nodes["up"][infra] = 1
    slots = infra[kinds["cores"][system.kind[infra]] > 0]
    nodes["host"][slots] = np.arange(len(slots))
    hosts = aligned(len(slots), l.HOST)
    kind_of = kinds[system.kind[slots]]
    hosts["slot"], hosts["tier"], hosts["up"] = slots, system.tier[slots], 1
    hosts["cores"], hosts["clock"], hosts["slots"] = kind_of["cores"], kind_of["clock"], kind_of["slots"]
    hosts["speed"] = kind_of["cores"] * kind_of["clock"]
    hosts["memory"] = hosts["storage"] = np.inf
    links, access = _links(system, nodes)
    sources, trace = _sources(system, nodes)
    parts = [part for n in machines["node"] for part in system.kinds[system.kind[n]].accelerators]
    stations = _stations(system, kinds, links, parts)
    mark_plain(stations, kinds, system.kind, machines)
    moving = machines[machines["points"] > 0]
    stations["rate"][processor(moving["node"])] = points["clock"][moving["first_point"] + moving["point"]]
    hosts["frequency"] = stations["rate"][processor(hosts["slot"])]
    meta["scaled"] = any(load.sensitivity != 1.0 for load in system.workloads) and len(moving) > 0
    meta["technology_count"] = technology_count(system)
    meta["first_accelerator"] = first_link_station(count) + 2 * len(links)
    meta["first_event"] = len(sources) + len(stations) + count + 3 * len(machines) + len(batteries)
    meta["ahead"] = meta["first_event"] >= SMALL
    queue.begin(meta)
    meta["end"] = np.finfo(np.float64).max
    events = queue.arrays()
    events |= queue.more_events(meta, events, int(meta["first_event"][0]) + 2 * len(tasks))
    leaves = 1 << max(0, len(hosts) - 1).bit_length()
    workloads = _workloads(system)
    stages, afters, befores = _graphs(system, workloads)
    hosting = [system.kinds[k] for k in np.unique(system.kind[slots])]
    workloads["anywhere"] = [hardware.runs_anywhere(load, hosting) for load in system.workloads]
    allowed, bonds = system.bound or (np.empty((0, 0), np.int32), np.empty((0, 0), np.int32))
    meta["bound"] = system.bound is not None
    meta["widest"] = max((len(load.graph) for load in system.workloads), default=0)
    meta["burst"] = 1 + len(stages) + len(befores)
    return KernelState(
        meta=meta, nodes=nodes, kinds=kinds, power=power, links=links, access=access, hosts=hosts, infra=infra,
        next_hop=np.full((len(infra), len(infra)), -1, np.int32), distance=np.zeros((len(infra), len(infra))),
        reach=np.zeros((len(infra), len(hosts))), scratch=np.zeros(len(hosts)), workloads=workloads,
        part=np.zeros(len(infra), np.int32), exit=np.zeros(len(infra), np.int32),
        hub=np.zeros(len(infra), np.int32), toll=np.zeros(len(infra)),
        near=np.zeros((len(infra), 2), np.int32), second=np.zeros(len(infra)), members=np.zeros(len(hosts), np.int32),
        first_member=np.zeros(len(infra) + 1, np.int32), fewest=np.zeros(2 * leaves, l.FEWEST),
        order=np.zeros((len(infra), 1 + len(hosts)), np.int32),
        sources=sources, stations=stations, tally=np.zeros((max(1, len(system.workloads)), 2 + l.STATUSES), np.int64),
        sums=np.zeros((l.SUMS, 2), np.int64),
        tasks=tasks, ended=ended, **events, stages=stages, afters=afters, befores=befores,
        stage_tally=np.zeros((len(stages), 1 + l.STATUSES), np.int64), jobs=np.zeros(0, l.JOB),
        missing=np.zeros((0, int(meta["widest"][0])), np.int64), site=np.zeros((0, int(meta["widest"][0])), np.int64),
        trace=trace, billed=np.zeros((BILLED + window_count(system.tariffs), count)),
        service=np.zeros((len(system.workloads), len(SERVICE))),
        machines=machines, accelerators=accelerators, points=points,
        batteries=batteries, spells=hardware.spells(machines), radio=radio,
        air=np.zeros((count, technology_count(system), 2)), allowed=allowed, bonds=bonds,
        beside=np.zeros((len(allowed), len(slots)), np.int32),
    )  # fmt: skip


def more_tasks(s: KernelState, more: int) -> KernelState:
    """The state with `more` free rows for tasks and, where there are graphs, for jobs."""
    old = len(s.tasks)

    def longer(array: NDArray[Any], length: int) -> NDArray[Any]:
        made = aligned((length, *array.shape[1:]), array.dtype)
        made[: len(array)] = array
        return made

    def chain(rows: Records, field: str, free: str) -> None:
        rows[field][old:-1] = np.arange(old + 1, old + more)
        rows[field][-1] = s.meta[free][0]
        s.meta[free] = old

    tasks = longer(s.tasks, old + more)
    chain(tasks, "newer", "free")
    old_events = {name: getattr(s, name) for name in queue.ARRAYS}
    s = s._replace(tasks=tasks, **queue.more_events(s.meta, old_events, 2 * more))
    if len(s.stages):
        jobs = longer(s.jobs, old + more)
        chain(jobs, "next", "jobs_free")
        s = s._replace(jobs=jobs, missing=longer(s.missing, old + more), site=longer(s.site, old + more))
    return s


def link_up(s: KernelState) -> KernelState:
    """Write the addresses and sizes of the arrays into `meta`; needed whenever an array is replaced."""
    for name in KernelState._fields:
        if name != "meta":
            s.meta[name] = address_of(getattr(s, name))
    s.meta["node_count"], s.meta["link_count"], s.meta["source_count"] = len(s.nodes), len(s.links), len(s.sources)
    s.meta["station_count"], s.meta["infra_count"], s.meta["host_count"] = len(s.stations), len(s.infra), len(s.hosts)
    s.meta["workload_count"] = len(s.workloads)
    s.meta["task_room"], s.meta["ended_room"] = len(s.tasks), len(s.ended)
    s.meta["machine_count"], s.meta["battery_count"] = len(s.machines), len(s.batteries)
    s.meta["leaves"] = len(s.fewest) // 2
    s.meta["self"] = address_of(s.meta)
    if len(s.machines) or len(s.batteries):
        from cosim.engine.continuum.equipment import place  # takes seconds to compile

        s.meta["equipment"] = place()
    return s

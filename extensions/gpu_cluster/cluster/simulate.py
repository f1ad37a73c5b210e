"""Jobs on a fabric, event by event, with ledgers of GPU seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from cosim.compiled.compiling import address_of
from cosim.contract.branching import Figures
from cosim.contract.records import Floats, Ints, Records
from cosim.engine.continuum.heap import ENTRY
from cosim.extensions.gpu_cluster.cluster import surrogate
from cosim.extensions.gpu_cluster.cluster.engine import kernel
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.fabric import Fabric, formed, routes
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs

NETWORKS = ("packet", "circuits", "routed")
UNBOUND = 1 << 60
ORDERS = ("arrival", "shortest", "largest", "random")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that breaks at `at` s and is repaired after `repair` s."""

    at: float
    kind: str  # gpu, leaf or port
    target: int
    repair: float = math.inf


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How a cluster is run.

    `strict`: a job starts only when the network gives it all that it asks for, and then takes its
    nominal duration. Otherwise it starts with less, and its steps take as much longer.
    """

    network: str = "circuits"  # packet, circuits or routed
    placement: str = "best-fit"
    order: str = "arrival"
    strict: bool = True
    backfill: int = 0  # jobs behind the first in line that may overtake it
    beta: float = 1.0  # circuits of an all-to-all, as a part of what its full rate needs
    topologies: tuple[str, ...] = ("fat-tree",)  # of a routed network; the first one holds at the start
    valiant: bool = False  # routed: over a leaf in between
    rows: int = 65_536  # events kept
    faults: tuple[Fault, ...] = ()
    seed: int = 0  # of the order `random`


@dataclass(frozen=True, slots=True)
class ClusterLedger:
    """GPU s up to `time`. held = useful + slowed + stalled + lost, and held + idle + down = capacity."""

    time: float
    capacity: float
    held: float
    idle: float
    down: float  # GPUs out of order
    useful: float  # work that was kept, at full rate
    slowed: float  # more time because the network was shared or thin
    stalled: float  # while circuits were set up
    lost: float  # work that was done again after a fault

    def faults(self) -> list[str]:
        """Which sums do not close."""
        found = []
        for name, whole, parts in (
            ("held", self.held, self.useful + self.slowed + self.stalled + self.lost),
            ("capacity", self.capacity, self.held + self.idle + self.down),
        ):
            if not math.isclose(whole, parts, rel_tol=1e-9, abs_tol=1e-6):
                found.append(f"{name} is {whole!r} GPU s, its parts give {parts!r}")
        return found


@dataclass(frozen=True, slots=True)
class ClusterOutcome:
    """The figures of a run that has come to its end."""

    makespan: float  # s, end of the last job
    utilisation: float  # useful GPU s by GPUs and makespan
    loaded: float  # mean of busy GPUs until the line was empty for the last time
    waiting: float  # s, mean
    completion: float  # s from arrival to end, mean
    blocked: int  # starts that the network refused
    reconfigured: int
    reused: int
    restarts: int
    done: int
    refused: int
    unfinished: int
    ledger: ClusterLedger = field(repr=False)


class ClusterSimulation:
    """A cluster at a time. `advance` moves it on, `copy` branches it."""

    def __init__(self, fabric: Fabric, jobs: Jobs, settings: ClusterSettings | None = None) -> None:
        self.fabric, self.jobs = fabric, jobs
        self.settings = settings or ClusterSettings()
        self._adopt(_state(fabric, jobs, self.settings))

    def _adopt(self, made: l.ClusterState) -> None:
        """Lay the present out in one piece of memory, and store all addresses in the grid."""
        size = sum(-(-getattr(made, name).nbytes // 64) * 64 for name in l.PRESENT)
        self.memory, placed, at = np.zeros(size, np.uint8), {}, 0
        for name in l.PRESENT:
            array = getattr(made, name)
            if name == "job":
                self._core = at
            placed[name] = self.memory[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
            placed[name][...] = array
            at += -(-array.nbytes // 64) * 64
        self.state = made._replace(**placed)
        grid = self.state.grid
        for name in l.ClusterState._fields:
            if name != "grid":
                grid[name] = address_of(getattr(self.state, name))

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a float or an int, by the field
        """A figure of the kernel's grid record."""
        return self.state.grid[name][0].item()

    def copy(self, faults: Sequence[Fault] = ()) -> ClusterSimulation:
        """The same present, to be continued apart, with more `faults` to come. Routes are shared."""
        other = object.__new__(ClusterSimulation)
        settings = replace(self.settings, faults=(*self.settings.faults, *faults))
        other.fabric, other.jobs, other.settings = self.fabric, self.jobs, settings
        listed = _faults(settings.faults) if faults else self.state.fault
        other._adopt(self.state._replace(row=self.state.row.copy(), scratch=self.state.scratch.copy(), fault=listed))
        other.state.grid["fault_count"] += len(listed) - len(self.state.fault)
        return other

    @property
    def now(self) -> float:
        return float(self["now"])

    @property
    def over(self) -> bool:
        """Whether every job has ended or been refused."""
        return int(self["done"] + self["refused"]) == len(self.jobs)

    def advance(self, until: float = math.inf, *, log: bool = True) -> bool:
        """Let all happen up to `until` s; False: it waits for `decide`."""
        return int(kernel.advance(self.state.grid, float(until), log)) != kernel.ASK

    def decide(self, job: int) -> None:
        """Make waiting `job` the next in line. For simulations with `ask`."""
        state = int(self.state.job["state"][job])
        if state != l.WAITING:
            raise ValueError(f"job {job} is {l.STATES[state]}, not waiting")
        kernel.decide(self.state.grid, int(job))

    def drop(self, job: int) -> None:
        """Refuse a waiting job."""
        kernel.drop(self.state.grid, int(job))

    def asking(self, on: bool = True) -> None:
        """Whether it stops before each job that is first in line, until `decide` was called for it."""
        self.state.grid["ask"] = on

    def try_orders(self, orders: Ints) -> Floats:
        """(orders, 3) s for orders of waiting jobs, each put first in line: the end of all that runs then, the
        last start, the sum of the ends. Nothing else comes or breaks. The present stays as it is."""
        found, orders = np.zeros((len(orders), 3)), np.ascontiguousarray(orders, np.int64)
        job, heap = self.state.job, self.state.heap
        rows = job.view(np.uint8).reshape(len(job), job.itemsize)
        kernel.try_orders(
            self.state.grid, self.memory[: self._core], rows, heap.view(np.uint8), np.unique(orders), orders, found
        )
        return found

    def bound(self, jobs: Sequence[int]) -> float:
        """s at which the running jobs and these waiting ones have ended at the earliest."""
        due = self.state.due
        running = float(np.max(due, initial=self.now, where=np.isfinite(due)))
        longest = float(self.state.job["left"][np.asarray(jobs)].max())
        delay = float(self.fabric.delay.max(initial=0.0)) if self.settings.network == "circuits" else 0.0
        return max(running, self.now + longest + delay)

    def features(self, jobs: Sequence[int], orders: Ints) -> Floats:
        """(orders, FEATURES) of orders, as places in `jobs`, of waiting jobs: what
        `cosim.extensions.gpu_cluster.cluster.surrogate` sees."""
        return surrogate.all_features(self.state.grid, np.asarray(jobs, np.int64), orders)

    def line(self, most: int | None = None) -> list[int]:
        """The waiting jobs, first in line first."""
        found: list[int] = []
        job = int(self["first"])
        while job >= 0 and (most is None or len(found) < most):
            found.append(job)
            job = int(self.state.job["next"][job])
        return found

    def happen(self, kind: str, target: int, *, repair: bool = False) -> None:
        """A fault now, or its repair."""
        kernel.happen(self.state.grid, l.FAULTS.index(kind) + (3 if repair else 0), int(target))

    def switch(self, topology: int) -> int:
        """Form that one of the topologies; how many running jobs had to wait."""
        delay = float(self.fabric.delay.max()) if len(self.fabric.delay) else 0.0
        return int(kernel.switch(self.state.grid, int(topology), delay))

    def limit(self, gpus: float) -> None:
        """Let no job start that would make more than so many GPUs busy."""
        bound = max(0, int(gpus * l.WHOLE)) if gpus < self.fabric.gpus else UNBOUND
        self.state.grid["max_busy"] = bound
        self.state.grid["stuck"] = l.NONE

    def start(
        self, job: int, ranks: Sequence[tuple[int, int]], circuits: Sequence[tuple[int, int]] | None = None
    ) -> bool:
        """Start waiting `job` with so many GPUs on those leaves, and circuits between those ports if they are given.

        False: the network or the power limit does not allow it now. Raises `ValueError` for what cannot be.
        """
        need = int(self.state.job["n"][job])
        against, total = self._against(ranks, circuits or ()), sum(count for _, count in ranks)
        if not against and total != need:
            against = f"gets {total} GPUs, and needs {need}"
        elif self.state.job["milli"][job] < l.WHOLE:
            against = "shares a GPU, which is chosen for it"
        elif circuits is not None and self.settings.network != "circuits":
            against = "gets circuits, and the network has none"
        if against:
            raise ValueError(f"job {job} {against}")
        if circuits is not None:
            for row, end in ((l.UNIT_A, 0), (l.UNIT_B, 1)):
                self.state.scratch[row, : len(circuits)] = [pair[end] for pair in circuits]
        self._allocate(ranks)
        return bool(kernel.start_at(self.state.grid, int(job), len(ranks), -1 if circuits is None else len(circuits)))

    def waits(self, job: int) -> None:
        """Hold `job`, the first in line, until something has changed."""
        self.state.job["decided"][job] = 1
        self.state.grid["stuck"] = job

    def by_hand(self) -> None:
        """Let nothing start by itself: it stops before each job that is first in line and may start."""
        self.state.grid["manual"] = self.state.grid["ask"] = 1

    def _allocate(self, ranks: Sequence[tuple[int, int]]) -> None:
        self.state.scratch[l.AT, : len(ranks)] = [k for k, _ in ranks]
        self.state.scratch[l.COUNT, : len(ranks)] = [count for _, count in ranks]

    def _against(self, ranks: Sequence[tuple[int, int]], circuits: Sequence[tuple[int, int]]) -> str:
        """What is against an allocation and its circuits, in words, or ""."""
        port, leaf = self.state.port, self.state.leaf
        on = {k for k, _ in ranks}
        if len(on) < len(ranks) or not on <= set(range(len(leaf))):
            return "names a leaf twice, or one that there is not"
        for k, count in ranks:
            if not 0 < count <= leaf["free"][k] or leaf["down"][k]:
                return f"has {count} GPUs on leaf {k}, where {leaf['free'][k]} are free"
        used = [p for pair in circuits for p in pair]
        if not set(used) <= set(range(len(port))):
            return "has a circuit over an uplink that there is not"
        if len(set(used)) < len(used) or any(port["holder"][p] >= 0 or port["down"][p] for p in used):
            return "has a circuit over an uplink that is taken or out of order"
        for a, b in circuits:
            if port["ocs"][a] != port["ocs"][b] or port["ocs"][a] < 0:
                return "has a circuit between uplinks that are not on one OCS"
            if {int(port["leaf"][a]), int(port["leaf"][b])} - on or port["leaf"][a] == port["leaf"][b]:
                return "has a circuit between other leaves than its own"
        return ""

    def adopt(self, job: int, ranks: Sequence[tuple[int, int]], circuits: Sequence[tuple[int, int]]) -> str:
        """Let a job that has not arrived run on so many GPUs of those leaves, with circuits between those ports.

        What is against it, in words, or "". Jobs are adopted in the order of their numbers.
        """
        against = self._against(ranks, circuits)
        if against:
            return against
        s = self.state
        port, leaf = s.port, s.leaf
        for a, b in circuits:
            port["mate"][a], port["mate"][b] = b, a
            port["holder"][[a, b]] = job
            leaf["up"][port["leaf"][[a, b]]] -= 1
            s.room[port["leaf"][[a, b]], port["ocs"][a]] -= 1
            s.grid["held_ports"] += 2
        self._allocate(ranks)
        kernel.adopt(self.state.grid, int(job), len(ranks), len(circuits))
        return ""

    def fitting(self, job: int) -> tuple[Ints, Ints, Ints] | None:
        """Leaves, ranks on each, and circuits (leaf, leaf, OCS) that `job` would get now; None: it does not fit."""
        m = int(kernel.fitting(self.state.grid, int(job)))
        if m == 0:
            return None
        scratch, units = self.state.scratch, int(self["wired"])
        at = scratch[l.AT, :m].copy()
        circuits = np.zeros((0, 3), np.int64)
        if self.settings.network == "circuits" and m > 1:
            ends = [at[scratch[row, :units]] for row in (l.UNIT_A, l.UNIT_B)]
            circuits = np.stack([*ends, scratch[l.ON, :units]], axis=1)
        return at, scratch[l.COUNT, :m].copy(), circuits

    def ledger(self) -> ClusterLedger:
        """GPU seconds up to now."""
        kernel.settle_all(self.state.grid)
        g, milli = self.state.grid[0], float(l.WHOLE)
        return ClusterLedger(
            self.now, self.now * self.fabric.gpus, g["held"] / milli, g["idle"] / milli, g["out"] / milli,
            g["useful"] / milli, g["slowed"] / milli, g["stalled"] / milli, g["lost"] / milli,
        )  # fmt: skip

    def by_leaf(self) -> tuple[Floats, Floats]:
        """(leaves,) GPU s that jobs held so far, and s of servers with any job."""
        leaf = self.state.leaf
        span = self.now - leaf["since"]
        return (leaf["held"] + span * leaf["busy"]) / l.WHOLE, leaf["served"] + span * leaf["active"]

    def circuits(self) -> Ints:
        """(held, 4) port, port, OCS, job of every circuit that a job holds."""
        port = self.state.port
        first = np.flatnonzero((port["holder"] >= 0) & (port["mate"] > np.arange(len(port))))
        return np.stack([first, port["mate"][first], port["ocs"][first], port["holder"][first]], axis=1)

    def rows(self) -> Records:
        """What was logged, in order: the last `ClusterSettings.rows` event times."""
        count, size = int(self["rows"]), len(self.state.row)
        if count <= size:
            return self.state.row[:count]
        return np.roll(self.state.row, -(count % size))

    def _sums(self) -> dict[str, float]:
        names = {"completed": "done", **{name: name for name in ("refused", "restarts", "reconfigured")}}
        return {**asdict(self.ledger()), **{name: float(self[field]) for name, field in names.items()}}

    def outcome(self) -> ClusterOutcome:
        """The figures up to now."""
        job, jobs, g = self.state.job, self.jobs, self.state.grid[0]
        ledger = self.ledger()
        done = job["state"] == l.DONE
        makespan = float(job["end"][done].max()) if done.any() else self.now
        begun = job["start"] >= 0.0
        rows, loaded = self.rows(), 0.0
        if len(rows) > 1:
            waiting = np.flatnonzero(rows["waiting"] > 0)
            last = min(int(waiting[-1]) + 1, len(rows) - 1) if len(waiting) else len(rows) - 1
            span = np.diff(rows["time"][: last + 1])
            total = float(rows["time"][last] - rows["time"][0])
            if total > 0.0:
                loaded = float(rows["busy"][:last] @ span) / l.WHOLE / total / self.fabric.gpus
        return ClusterOutcome(
            makespan, ledger.useful / (self.fabric.gpus * makespan) if makespan else 0.0, loaded,
            float((job["start"] - jobs.arrival)[begun].mean()) if begun.any() else 0.0,
            float((job["end"] - jobs.arrival)[done].mean()) if done.any() else 0.0,
            int(g["blocked"]), int(g["reconfigured"]), int(g["reused"]), int(g["restarts"]), int(g["done"]),
            int(g["refused"]), len(jobs) - int(g["done"]) - int(g["refused"]), ledger,
        )  # fmt: skip


def simulate(fabric: Fabric, jobs: Jobs, settings: ClusterSettings | None = None) -> ClusterSimulation:
    """All jobs from beginning to end."""
    made = ClusterSimulation(fabric, jobs, settings)
    made.advance()
    return made


def branch(simulation: ClusterSimulation, candidates: Sequence[Sequence[Fault]], horizon: float) -> Figures:
    """What becomes of the present within `horizon` s under more faults, to the bit as if the settings had them.

    `completed`, `refused`, `restarts` and `reconfigured` count, `response` is the mean s from arrival to end of the
    jobs that ended (NaN without any), those of `ClusterLedger` are GPU s. Raises `ValueError` for a fault that is not
    in the future, and when a policy outside the model has to decide.
    """
    now, rows = simulation.now, []
    if any(not fault.at > now for faults in candidates for fault in faults) or not horizon >= 0.0:
        raise ValueError(f"faults come after {now:g} s, where candidates begin, and horizons are not below 0 s")
    before = simulation.copy()._sums()  # a ledger settles what runs
    for faults in candidates:
        one = simulation.copy(faults)
        if not one.advance(now + horizon):
            raise ValueError("the cluster waits for a decision about its order")
        fresh = (one.state.job["state"] == l.DONE) & (simulation.state.job["state"] != l.DONE)
        times = (one.state.job["end"] - one.jobs.arrival)[fresh]
        sums = {name: value - before[name] for name, value in one._sums().items()}
        rows.append({**sums, "response": float(times.mean()) if len(times) else math.nan})
    return Figures.of(rows)


def keys(jobs: Jobs, order: str, seed: int = 0) -> Floats:
    """By what jobs stand in line, least first: arrival, shortest, largest (GPUs), random."""
    count = len(jobs)
    if order == "shortest":
        return jobs.duration.copy()
    if order == "largest":
        return -jobs.gpus.astype(np.float64)
    if order == "random":
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 5]))).permutation(count).astype(float)
    if order != "arrival":
        raise ValueError(f"there is no order '{order}'; known: {', '.join(ORDERS)}")
    return np.arange(count, dtype=np.float64)


def _state(fabric: Fabric, jobs: Jobs, settings: ClusterSettings) -> l.ClusterState:
    network, placement = NETWORKS.index(settings.network), l.PLACEMENTS.index(settings.placement)
    if settings.network == "circuits" and (len(fabric.delay) == 0 or (fabric.port_ocs < 0).any()):
        raise ValueError("circuits need every uplink on an optical circuit switch")
    if len(fabric.delay) > 60:
        raise ValueError(f"{len(fabric.delay)} optical circuit switches are more than 60")
    leaves, servers, count = fabric.leaves, int(fabric.servers.sum()), len(jobs)
    gpus = servers * fabric.per_server
    job: Records = np.zeros(count, l.JOB)
    for name in ("arrival", "milli", "pattern", "rails", "group", "compute", "network", "overlap", "checkpoint"):
        job[name] = getattr(jobs, name)
    job["n"], job["work"], job["left"], job["rate"] = jobs.gpus, jobs.duration, jobs.duration, 1.0
    job["key"] = keys(jobs, settings.order, settings.seed)
    for name in ("head", "slot", "next", "before"):
        job[name] = l.NONE
    job["start"] = job["end"] = -1.0
    leaf: Records = np.zeros(leaves, l.LEAF)
    leaf["servers"], leaf["first"] = fabric.servers, np.cumsum(fabric.servers) - fabric.servers
    leaf["free"] = leaf["size"] = fabric.servers * fabric.per_server
    leaf["ports"] = np.bincount(fabric.port_leaf, minlength=leaves)
    leaf["port"], leaf["up"] = np.cumsum(leaf["ports"]) - leaf["ports"], leaf["ports"]
    server: Records = np.zeros(servers, l.SERVER)
    server["mask"], server["free"] = (1 << fabric.per_server) - 1, fabric.per_server
    server["leaf"] = np.repeat(np.arange(leaves), fabric.servers)
    gpu: Records = np.zeros(gpus, l.GPU)
    gpu["next"] = gpu["owner"] = l.NONE
    gpu["milli"] = l.WHOLE
    port: Records = np.zeros(len(fabric.port_leaf), l.PORT)
    port["leaf"], port["ocs"] = fabric.port_leaf, fabric.port_ocs
    port["mate"] = port["holder"] = l.NONE
    switch: Records = np.zeros(max(1, len(fabric.delay)), l.SWITCH)
    edges = np.arange(leaves * len(switch)) // len(switch) * (len(switch) + 1) + np.arange(leaves * len(switch)) % len(
        switch
    )
    offset = np.zeros(leaves * (len(switch) + 1), np.int64)
    number = fabric.port_leaf * len(switch) + np.maximum(fabric.port_ocs, 0)
    offset[edges] = np.searchsorted(number, np.arange(leaves * len(switch)))
    offset[len(switch) :: len(switch) + 1] = np.searchsorted(fabric.port_leaf, np.arange(leaves), "right")
    switch["delay"][: len(fabric.delay)] = fabric.delay
    faults, width = _faults(settings.faults), max(leaves, 4096 if settings.network != "packet" else 64)
    rows = max(2, min(settings.rows, 4 * count + 4 + 4 * len(settings.faults)))
    route, cap, carried = _routed(fabric, settings, count)
    most = gpus * l.WHOLE if (jobs.milli < l.WHOLE).any() else gpus
    heap_room = 2 * min(count, most) + 64  # as many that hold no more as run at most
    room = np.bincount(number[fabric.port_ocs >= 0], minlength=leaves * len(switch)).reshape(leaves, len(switch))
    grid: Records = np.zeros(1, l.GRID)
    for name, value in {
        "jobs": count, "first": l.NONE, "last": l.NONE, "stuck": l.NONE, "head": l.NONE, "wired": l.NONE,
        "goal": UNBOUND, "heap_room": heap_room, "leaves": leaves, "servers": servers,
        "gpus": gpus, "per_server": fabric.per_server, "domain": fabric.domain, "free": gpus, "network": network,
        "strict": settings.strict, "placement": placement, "backfill": settings.backfill, "beta": settings.beta,
        "max_busy": UNBOUND, "pieces": 1.0, "switches": len(switch), "fault_count": len(faults),
        "row_count": rows, "links": cap.shape[1], "slots": len(carried) - 1, "width": width, "ports": len(port),
    }.items():  # fmt: skip
        grid[name] = value
    slots = len(carried) - 1
    slot = np.concatenate([[slots], np.arange(slots)[::-1]]).astype(np.int64)
    return l.ClusterState(
        grid, job, leaf, server, gpu, port, offset, switch, faults, np.zeros(rows, l.ROW),
        route, cap, np.zeros(cap.shape[1], np.int64), carried, slot,
        room, np.full(max(1, count), np.inf), np.zeros(heap_room, ENTRY),
        np.zeros((l.SCRATCH, width), np.int64),
    )  # fmt: skip


def _faults(faults: Sequence[Fault]) -> Records:
    listed = []
    for one in faults:
        kind = l.FAULTS.index(one.kind)
        listed.append((one.at, kind, one.target))
        if math.isfinite(one.repair):
            listed.append((one.at + one.repair, kind + 3, one.target))
    listed.sort()
    made: Records = np.zeros(len(listed), l.FAULT)
    for i, (at, kind, target) in enumerate(listed):
        made["at"][i], made["kind"][i], made["target"][i] = at, kind, target
    return made


def _routed(fabric: Fabric, settings: ClusterSettings, jobs: int) -> tuple[Any, Any, Any]:
    if settings.network != "routed":
        return np.zeros((1, 1, 1), np.int32), np.zeros((1, 1), np.int64), np.zeros((1, 1), np.int64)
    made = [routes(formed(fabric, name)[0], settings.valiant) for name in settings.topologies]
    cap = np.stack([one[1] for one in made])
    slots = max(1, min(jobs, fabric.gpus // 2))
    if slots * cap.shape[1] > 1 << 26:
        slots = max(1, (1 << 26) // cap.shape[1])
    return np.stack([one[0] for one in made]), cap, np.zeros((slots + 1, cap.shape[1]), np.int64)

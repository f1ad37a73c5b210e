"""The engine's state: a handful of flat record arrays, and the meaning of every field.

Times are in s, bytes in B, work in cycles, energy in J. Numbers of nodes are *slots*. A record
array is read as columns from Python (`state.tasks["created"]`) and as records in compiled code
(`state.tasks[i].created`).

`cosim.engine.continuum.numbering` defines the numbers of stations.

Events are numbered by their owners as well: sources, stations, a patience timer per node, two
timers per machine (its state, its governor), one per battery, two per row of `tasks`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import codes
from cosim.compiled.rowtypes import LINE, Record
from cosim.contract import entities, equipment
from cosim.contract.quantity import columns, those
from cosim.contract.records import Records
from cosim.engine.continuum import queue

__all__ = ["KernelState", "Record"]

# How a task ended: the positions in the `task` signal's list of statuses.
COMPLETED, NO_COVERAGE, LEFT, CAPACITY, NODE_FAILED, LINK_FAILED, DEADLINE, BATTERY_EMPTY = codes(8)
STATUSES: Final = 8
STATUS_NAMES: Final = (
    "completed", "no-coverage", "left", "capacity", "node-failed", "link-failed", "deadline", "battery-empty",
)  # fmt: skip

# Where a task is in its life. NEW: not yet given a host; MOVE: on its way from one host to another;
# JOIN: at its host, where others of its inputs are still missing.
FREE, NEW, UP, RUN, DOWN, MOVE, JOIN = codes(7)
PARKED, RETRIES = codes(3)[1:]  # what a task without coverage does: wait, or try again at this moment

FIXED, EXPONENTIAL, UNIFORM, LOG_NORMAL = codes(4)  # laws of sizes
POISSON, EVERY, BAG, TRACE = codes(4)  # laws of arrivals
DEVICE, EDGE, CLOUD = codes(3)  # tiers
SHARING, FCFS, PRIORITY, EDF = codes(4)  # disciplines of processors
# rows of `sums`: B of inputs, outputs, and of states moved with running tasks
INPUT_OFFERED, INPUT_DELIVERED, INPUT_DROPPED, OUTPUT_OFFERED, OUTPUT_DELIVERED, OUTPUT_DROPPED = codes(6)
STATE_OFFERED, STATE_DELIVERED, STATE_DROPPED = codes(9)[6:]
SUMS: Final = 9
NOBODY: Final = codes(1)[0] - 1  # no task, node, ...
CUSTOM: Final = -1  # scheduler: ask the caller
INTERVAL: Final = -2  # scheduler: tasks are held until the caller places them

# What a machine is doing. OFF: its node failed. ABSENT: its node is not there.
ON, ASLEEP, WAKING, BOOTING, OFF, ABSENT = codes(6)
STATES: Final = 6
APART, BESIDE = codes(3)[1:]  # bonds of two workloads
USERSPACE, PERFORMANCE, POWERSAVE, ONDEMAND = codes(4)  # governors

# What `cosim.engine.continuum.equipment` is asked to do.
(
    ARRIVE, DEPART, ACCELERATE, COULD_HOLD, NARROW, TICK, GOVERN, TURN_ON, TURN_OFF, SET_POINT, DRAW_POWER,
    SETTLE, CHARGE, TAKE_AWAY, DEPLETE, TAKE_OUT, REFILL,
) = codes(17)  # fmt: skip


def _record(*fields: tuple[str, str]) -> np.dtype[np.void]:
    """A record whose fields need no padding: the 8-byte ones come first."""
    ordered = sorted(fields, key=lambda field: -np.dtype(field[1]).itemsize)
    return np.dtype(ordered, align=True)


def _in_lines(*lines: tuple[tuple[str, str], ...]) -> np.dtype[np.void]:
    """A record of whole cache lines, each with the fields that are needed together; the first is the hot one."""
    names, formats, offsets = [], [], []
    for number, fields in enumerate(lines):
        part = _record(*fields)
        if part.itemsize > LINE:
            raise ValueError(f"{part.itemsize} B do not fit into a cache line")
        for name, (kept, offset, *_) in (part.fields or {}).items():
            names.append(name)
            formats.append(kept)
            offsets.append(number * LINE + offset)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": LINE * len(lines)}, align=True)


TASK = _in_lines(
    (
        ("tag", "f8"),  # station's virtual time at which it is served
        ("entered", "f8"),  # s, when it began to wait for its present station or for coverage
        ("serial", "i8"),  # order of creation
        ("station", "i4"),  # -1: in none
        ("child", "i4"), ("next", "i4"), ("prev", "i4"),  # the station's heap or queue
        ("device", "i4"), ("host", "i4"),  # host -1: none yet
        ("at", "i4"),  # node where its data is
        ("workload", "i4"),
        ("phase", "i1"),  # FREE, NEW, UP, RUN, DOWN, MOVE, JOIN
        ("parked", "i1"),  # 0, PARKED, RETRIES
        ("counted", "i1"),  # counted in its host's `assigned`
        ("held", "i1"),  # waits for the caller's decision
        ("job", "i4"),  # -1: it is no stage of a job
    ),
    (
        ("created", "f8"), ("assigned", "f8"), ("uploaded", "f8"), ("started", "f8"),  # s, NaN: not yet
        ("input", "f8"), ("output", "f8"), ("work", "f8"),  # B, B, cycles
        ("rest", "f8"),  # cycles that were left when it last came to a host
    ),
    (
        ("computed", "f8"),  # s, NaN: not yet
        ("deadline", "f8"),  # s after creation, inf: none
        ("chance", "f8"),  # uniform number in [0, 1) for the scheduler
        ("operations", "f8"),  # FLOP on an accelerator, after the work
        ("older", "i4"), ("newer", "i4"),  # the device's list of its tasks; `newer` also links free rows
        ("accelerator", "i4"),  # kind of accelerator, -1: none
        ("stage", "i4"),
        ("rank", "f8"),  # who is served first: a priority class, or the s of its deadline
        ("waits", "i1"),  # for a server of a station that serves by rank
        ("join", "i4"),  # task to which it brings one more input; -1: a task of its own, -2 - b: with stage b's output
    ),
)  # fmt: skip

STATION = _in_lines(
    (
        ("virtual", "f8"),  # units that every task in service since the start has got
        ("since", "f8"),  # s, time that the accumulated values hold for
        ("rate", "f8"),  # units/s of one server: cycles/s or B/s
        ("served", "f8"),  # units served in all
        ("busy", "f8"),  # s, integral of the busy servers
        ("servers", "i4"),
        ("active", "i4"),  # tasks in service
        ("root", "i4"),  # heap of the tasks in service, -1: none
        ("queued", "i4"),  # tasks that wait (fcfs)
        ("fcfs", "i1"),  # SHARING, FCFS, PRIORITY, EDF
        ("plain", "i1"),  # it draws no power and its servers do not contend: the other line holds nothing
    ),
    (
        ("power", "f8"),  # W now
        ("energy", "f8"),  # J
        ("waited", "f8"),  # s that tasks waited in line, of those that have been served
        ("contention", "f8"),  # slow-down of every busy server by each other one
        ("head", "i4"), ("tail", "i4"),  # of the queue; head: root of the heap of those that wait, by rank
        ("preempts", "i4"),  # whether who comes may take the server of a task of a higher rank
    ),
)  # fmt: skip

NODE = _in_lines(
    (
        ("delay", "f8"),  # s, one way over the air
        ("cell", "i4"),  # serving node, -1
        ("first_task", "i4"),  # newest task in flight, -1
        ("kind", "i4"),  # index into kinds
        ("infra", "i4"),  # number among the nodes that forward, -1 for a device
        ("host", "i4"),  # number among the hosts, -1
        ("first_link", "i4"), ("links", "i4"),  # its fixed links in `access`
        ("machine", "i4"), ("battery", "i4"),  # numbers among the machines and batteries, -1
        ("first_source", "i4"), ("sources", "i4"),
        ("generation", "i4"),
        ("present", "i1"), ("up", "i1"), ("covered", "i1"),
    ),
    (
        ("up_rate", "f8"), ("down_rate", "f8"),  # B/s over the air after loss, as last set
        ("outage", "f8"),  # s, since when there is no coverage
        ("marked_up", "f8"), ("marked_down", "f8"),  # B over the air that are booked to a cell already
    ),
    (
        ("outputs", "f8"), ("inputs", "f8"),  # B of completed outputs and delivered inputs, as a host
        ("cell_received", "f8"), ("cell_sent", "f8"),  # B over the air as a cell, of devices since handed over
        ("completed", "i8"),
    ),
)  # fmt: skip

KIND = _record(
    *columns(entities.HostQuantities),
    ("first_power", "i8"), ("powers", "i8"),  # its table in `power`; 0: none
    ("fcfs", "i8"), ("preempts", "i8"),
    ("technology", "i8"),  # of its cell
    ("first_radio", "i8"),  # its rows in `radio`
)  # fmt: skip

# What a node has beyond a plain processor: memory and storage that limit, accelerators, power states,
# operating points. Nodes without any of these have no row, and their tasks never come here.
MACHINE = _record(
    ("memory", "f8"), ("storage", "f8"),  # B in all, inf: unlimited
    ("free_memory", "f8"), ("free_storage", "f8"),  # B
    *columns(equipment.PowerStates),
    ("since", "f8"),  # s, since when it is in its state
    ("looked", "f8"), ("looked_busy", "f8"),  # s and busy s when the governor last looked
    *columns(equipment.ScalingQuantities),
    ("quota", "f8"), ("quota_period", "f8"), ("burst", "f8"), ("phase", "f8"),  # core-s per s, s; 0: no quota
    ("available", "f8"), ("counted", "f8"),  # core-s left in this period; busy s up to which use is booked
    ("refills", "i8"),  # periods that have begun
    ("node", "i8"), ("state", "i8"), ("wakes", "i8"),
    ("head", "i8"), ("tail", "i8"), ("waiting", "i8"),  # tasks in its queue
    ("resident", "i8"),  # tasks let in: running, or waiting for a core or a unit
    ("first_accelerator", "i8"), ("accelerators", "i8"),
    ("first_point", "i8"), ("points", "i8"), ("point", "i8"),  # operating points, slowest first; the present one
    ("governor", "i8"),
)  # fmt: skip

ACCELERATOR = _record(
    *columns(equipment.AcceleratorQuantities),
    ("completed", "i8"), ("node", "i8"), ("kind", "i8"),
)  # fmt: skip

POINT = _record(("clock", "f8"), ("first_power", "i8"), ("powers", "i8"))

BATTERY = _record(
    ("capacity", "f8"), ("low", "f8"), ("high", "f8"),  # J; bounds of the level in the beginning, J
    ("level", "f8"), ("drain", "f8"), ("since", "f8"),  # J at `since`, W since then
    ("charged", "f8"), ("consumed", "f8"), ("taken", "f8"),  # J brought along, used, gone with nodes that vanished
    ("node", "i8"), ("empty", "i8"),
)  # fmt: skip

LINK = _in_lines(
    (
        ("delay", "f8"), ("added", "f8"), ("jitter", "f8"),  # s: nominal, by events, half width of the law around both
        ("cost", "f8"),  # s, nominal time of a reference transfer
        ("a", "i8"), ("b", "i8"), ("up", "i8"),
    ),
    (("rate", "f8"), ("loss", "f8"), ("back", "f8")),  # B/s, 1: nominal; rate from b to a over that from a to b
)  # fmt: skip

HOST = _record(  # the first eight are the hot ones
    ("speed", "f8"),  # cycles/s of all cores
    ("slot", "i8"), ("tier", "i8"), ("cores", "i8"),
    ("member", "i8"),  # its place in `members`
    ("assigned", "i8"),  # tasks sent here whose computation has not ended, on their way included
    ("running", "i8"),  # tasks on the host, waiting ones included
    ("up", "i8"),
    ("clock", "f8"),
    ("frequency", "f8"),  # cycles/s of a core now; `clock` is the highest
    ("memory", "f8"), ("storage", "f8"),  # B free, inf: unlimited
    ("units", "i8"), ("free_units", "i8"),  # of the accelerator that the present task asks for
    ("state", "i8"),  # ON, ASLEEP, WAKING, BOOTING, OFF
    ("slots", "i8"),
)  # fmt: skip

SOURCE = _in_lines(
    (
        ("key", "u8"),  # of its own random stream
        ("base", "f8"),  # s, last arrival, or start of the periodic pattern
        ("phase_end", "f8"),  # s, end of the active phase
        ("work", "f8"),  # cycles of each of its next tasks, NaN: drawn
        ("drawn", "i4"),  # arrivals drawn so far
        ("step", "i4"),  # periodic arrivals in this pattern, bags so far
        ("phases", "i4"),  # phases drawn so far
        ("left", "i4"),  # tasks that are left in the present bag
        ("first_row", "i4"), ("rows", "i4"),  # its tasks in `trace`
        ("node", "i4"), ("workload", "i4"),
    ),
)  # fmt: skip

WORKLOAD = _record(
    ("rate", "f8"),
    ("input_a", "f8"), ("input_b", "f8"), ("output_a", "f8"), ("output_b", "f8"), ("work_a", "f8"), ("work_b", "f8"),
    *columns(entities.WorkloadQuantities),
    ("arrivals", "i8"),  # POISSON, EVERY, BAG, TRACE
    ("bag_mean", "f8"), ("bag_spread", "f8"),  # tasks in a bag, 1/rate s apart
    ("operations_a", "f8"), ("operations_b", "f8"),  # FLOP
    ("priority", "f8"),  # class of its tasks, the lowest first
    ("anywhere", "i8"),  # whether every host could run its tasks
    ("sensitivity", "f8"),  # c in the slow-down 1 + c (f_max / f - 1)
    ("input_law", "i8"), ("output_law", "i8"), ("work_law", "i8"),
    ("operations_law", "i8"), ("accelerator", "i8"),  # kind of accelerator, -1: none
    ("slow_share", "f8"), ("slow_times", "f8"),  # of its tasks, and by what their work is larger
    ("taken", "f8"),  # share of its tasks that others make now
    ("first_stage", "i8"), ("stages", "i8"),  # its graph; 0: plain tasks
)  # fmt: skip

TRACED = _record(("time", "f8"), ("input", "f8"), ("output", "f8"), ("work", "f8"))  # s, B, B, cycles; NaN: drawn

STAGE = _record(
    ("work_a", "f8"), ("work_b", "f8"), ("output_a", "f8"), ("output_b", "f8"),
    ("operations_a", "f8"), ("operations_b", "f8"), ("slow_share", "f8"), ("slow_times", "f8"),
    ("work_law", "i8"), ("output_law", "i8"), ("operations_law", "i8"), ("accelerator", "i8"),
    ("first_after", "i8"), ("afters", "i8"),  # the stages that get its output, in `afters`
    ("first_before", "i8"), ("befores", "i8"),  # the stages whose outputs it needs, in `befores`
    ("pinned", "i8"),  # runs on the device that made the job
)  # fmt: skip

JOB = _record(
    ("created", "f8"), ("uploaded", "f8"), ("started", "f8"),  # s; of the stage that starts first
    ("computed", "f8"),  # s; last computation
    ("input", "f8"), ("output", "f8"), ("work", "f8"),  # B made, B brought back, cycles computed
    ("deadline", "f8"),
    ("key", "u8"),  # stream and
    ("draw", "i8"),  # number of the draw that made it
    ("serial", "i8"), ("workload", "i8"), ("device", "i8"),
    ("host", "i8"),  # where the last stage was computed
    ("left", "i8"),  # stages that have not ended
    ("failed", "i8"),  # how its first failed stage ended, -1: none has
    ("next", "i8"),  # links free rows
)  # fmt: skip

ENDED = _record(
    ("created", "f8"), ("assigned", "f8"), ("uploaded", "f8"), ("started", "f8"), ("computed", "f8"), ("ended", "f8"),
    ("input", "f8"), ("output", "f8"), ("work", "f8"), ("serial", "i8"),
    *((name, "f8") for name in those(entities.WorkloadQuantities, "reported")),
    ("device", "i8"), ("host", "i8"), ("workload", "i8"), ("status", "i8"), ("late", "i8"),
    ("stage", "i8"), ("job", "i8"),  # number of the stage and serial of its job; -1: a task, or a whole job
)  # fmt: skip

FEWEST = np.dtype([("load", "f8"), ("ties", "i8")])  # tasks per cycle/s; members that have just that load


class KernelState(NamedTuple):
    """Everything that the kernel knows. The arrays are the engine's own; look, do not write."""

    meta: Records  # (1,) META
    nodes: Records  # (slots,) NODE
    kinds: Records  # KIND
    power: NDArray[np.float64]  # W, the power tables one after another
    links: Records  # LINK
    access: NDArray[np.int64]  # links of devices, grouped by device
    hosts: Records  # HOST, edge and cloud nodes with cores
    infra: NDArray[np.int64]  # slots of the nodes that forward
    next_hop: NDArray[np.int32]  # (infra, infra) link of the first hop, -1: no route
    distance: NDArray[np.float64]  # (infra, infra) s of a reference transfer, inf: no route
    reach: NDArray[np.float64]  # (infra, hosts) s of a reference transfer to the host
    scratch: NDArray[np.float64]  # (hosts,) reach of a device with fixed links
    part: NDArray[np.int32]  # (infra,) connected part of the network that the node is in, -1: it is down
    exit: NDArray[np.int32]  # (infra,) the node's only link that is up, -1: it has none or several
    hub: NDArray[np.int32]  # (infra,) the other end of `exit`, by its number among these nodes, -1: as there
    toll: NDArray[np.float64]  # (infra,) s of a reference transfer to the hub
    near: NDArray[np.int32]  # (infra, 2) nearest host, nearest cloud host; -1: none
    second: NDArray[np.float64]  # (infra,) s, least reach of all other hosts, inf: none
    members: NDArray[np.int32]  # hosts that are up, grouped by part, in the order of their numbers
    first_member: NDArray[np.int32]  # (infra + 1,) where each part begins in `members`
    fewest: Records  # (2 x power of 2) FEWEST, a tree of the least loads over `members`
    order: NDArray[np.int32]  # (infra, 1 + hosts) whether sorted; the members of the part by reach, then number
    workloads: Records  # WORKLOAD
    sources: Records  # SOURCE
    stations: Records  # STATION
    tally: NDArray[np.int64]  # (workloads, 2 + STATUSES) created, late, by status; of graphs, the jobs
    sums: NDArray[np.int64]  # (SUMS, 2) B that tasks carried, see `cosim.engine.continuum.sums`
    tasks: Records  # TASK
    ended: Records  # ENDED, the first meta.done rows
    due: NDArray[np.float64]  # s, when each event number is due, inf: not at all
    heap: Records  # the event queue, see `cosim.engine.continuum.queue`
    chunks: Records
    buckets: Records
    ladder: Records
    stages: Records  # STAGE, of all graphs one after another
    afters: NDArray[np.int64]  # stages that follow
    befores: NDArray[np.int64]  # stages that go before
    stage_tally: NDArray[np.int64]  # (stages, 1 + STATUSES) created, by status
    jobs: Records  # JOB, as many as tasks if there are graphs
    missing: NDArray[np.int64]  # (jobs, widest) inputs of a stage that are not made, then: not there yet
    site: NDArray[np.int64]  # (jobs, widest) node where a stage was computed
    trace: Records  # TRACED, the tasks of sources that follow a trace, grouped by source
    billed: NDArray[np.float64]  # (4 + windows, nodes) what was billed at prices that held before, see `billing.bill`
    service: NDArray[np.float64]  # (workloads, 7) what has become of agreements, see `cosim.engine.continuum.agreement`
    machines: Records  # MACHINE
    accelerators: Records  # ACCELERATOR, grouped by machine
    points: Records  # POINT, grouped by machine
    batteries: Records  # BATTERY
    spells: NDArray[np.float64]  # (machines, STATES) s spent in each state before its present spell
    radio: NDArray[np.float64]  # (rows, 2) J/bit sent and received: per kind, one row per technology
    air: NDArray[np.float64]  # (nodes, technologies, 2) B sent and received of what is booked
    allowed: NDArray[np.int32]  # (workloads, nodes) whether its tasks may run there; (0, 0): nothing is constrained
    bonds: NDArray[np.int32]  # (workloads, workloads) APART: not on a host with tasks of the other; BESIDE: only there
    beside: NDArray[np.int32]  # (workloads, hosts) tasks sent there whose computation has not ended


META = _record(
    ("now", "f8"), ("patience", "f8"), ("reference", "f8"),  # s, s, B
    ("seed", "u8"),
    ("serial", "i8"),  # tasks created so far
    ("turn", "i8"),  # decisions taken so far
    ("events", "i8"),  # events handled so far
    ("live", "i8"), ("done", "i8"), ("free", "i8"),  # tasks in flight, rows in `ended`, first free row
    ("peak", "i8"),  # rows of tasks that have ever been in use
    *queue.FIELDS,
    ("burst", "i8"),  # rows that one event may take
    ("jobs_live", "i8"), ("jobs_free", "i8"),  # jobs in flight, first free row
    ("doomed", "i8"),  # first of the jobs that failed and whose other stages have not ended yet, -1
    ("widest", "i8"),  # stages of the largest graph
    ("scheduler", "i8"), ("drop_late", "i8"),
    ("threshold", "f8"),  # tasks per core, for the schedulers that have one
    ("decider", "i8"),  # node that a decision takes time on, -1: none takes any
    ("deciding", "f8"), ("decided", "f8"),  # core-s of a decision, and of all that have come there
    ("consulted", "i8"), ("delayed", "f8"),  # decisions that have had their time, and s by which they delayed tasks
    ("undecided", "i8"), ("serving", "i8"),  # task that waits for the caller's decision, -1; its device's node
    ("workload_count", "i8"),
    ("node_count", "i8"), ("link_count", "i8"), ("source_count", "i8"), ("station_count", "i8"),
    ("infra_count", "i8"), ("host_count", "i8"), ("task_room", "i8"), ("ended_room", "i8"),
    ("machine_count", "i8"), ("battery_count", "i8"), ("technology_count", "i8"),
    ("first_accelerator", "i8"),  # station of the first accelerator
    ("leaves", "i8"),  # of the tree `fewest`
    ("first_event", "i8"),  # event number of the first task's arrival
    ("scaled", "i8"),  # whether some work is less than proportional to the clock
    ("self", "i8"), ("equipment", "i8"),  # addresses of this record and of compiled `equipment`
    ("ahead", "i8"),  # whether rows are asked for ahead of their events
    ("moved", "i8"),  # whether a node that forwards has died since routes were found
    ("bound", "i8"),  # whether `allowed` and `bonds` hold
    ("apart", "i8"),  # whether a region stops where `hybrid` would leave it, see `cosim.engine.continuum.regions`
    *((name, "i8") for name in KernelState._fields if name != "meta"),  # their addresses
)  # fmt: skip


# fields of META with the sizes of the arrays
ROOMS: Final = (
    "node_count", "link_count", "source_count", "station_count", "infra_count", "host_count", "task_room", "ended_room",
)  # fmt: skip


PLACES: Final = ("self", "equipment")  # fields of META that hold addresses besides those of the arrays
WORKER_BITS: Final = 40  # of a serial number that holds for one advance by regions; a worker's number is above them

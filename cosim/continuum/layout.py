"""The engine's state: a handful of flat record arrays, and what every field means.

Times are in s, bytes in B, work in cycles, energy in J. Numbers of nodes are *slots*. A record
array is read as columns from Python (`state.tasks["created"]`) and as records in compiled code
(`state.tasks[i].created`).

Stations are numbered by what they belong to: node n has `3n` its processor, `3n + 1` its radio
uplink, `3n + 2` its radio downlink; link l has, behind all nodes, `2l` from a to b, `2l + 1` back.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray


def codes(count: int) -> tuple[int, ...]:
    """The numbers 0.. as int64: numba would compile a function anew for every literal it is given."""
    return cast(tuple[int, ...], tuple(np.arange(count, dtype=np.int64)))


# How a task ended: the positions in the `task` signal's list of statuses.
COMPLETED, NO_COVERAGE, LEFT, CAPACITY, NODE_FAILED, LINK_FAILED, DEADLINE = codes(7)
STATUSES: Final = 7
STATUS_NAMES: Final = ("completed", "no-coverage", "left", "capacity", "node-failed", "link-failed", "deadline")

# Where a task is in its life. NEW: not yet given a host; MOVE: on its way from one host to another;
# JOIN: at its host, where others of its inputs are still missing.
FREE, NEW, UP, RUN, DOWN, MOVE, JOIN = codes(7)

FIXED, EXPONENTIAL, UNIFORM = codes(3)  # laws of sizes
DEVICE, EDGE, CLOUD = codes(3)  # tiers
NOBODY: Final = codes(1)[0] - 1  # no task, node, ...
CUSTOM: Final = -1  # scheduler: ask the caller
INTERVAL: Final = -2  # scheduler: tasks are held until the caller places them


def _record(*fields: tuple[str, str]) -> np.dtype[np.void]:
    """A record whose fields need no padding: the 8-byte ones come first.

    Integers that are passed around are all 64-bit, so that numba compiles each function once.
    """
    ordered = sorted(fields, key=lambda field: -np.dtype(field[1]).itemsize)
    return np.dtype(ordered, align=True)


TASK = _record(
    ("created", "f8"), ("uploaded", "f8"), ("started", "f8"), ("computed", "f8"),  # s, NaN: not yet
    ("input", "f8"), ("output", "f8"), ("work", "f8"),  # B, B, cycles
    ("deadline", "f8"),  # s after creation, inf: none
    ("entered", "f8"),  # s, when it began to wait for its present station or for coverage
    ("chance", "f8"),  # uniform number in [0, 1) for the scheduler
    ("tag", "f8"),  # station's virtual time at which it is served
    ("rest", "f8"),  # cycles that were left when it last came to a host
    ("serial", "i8"),  # order of creation
    ("workload", "i8"), ("device", "i8"), ("host", "i8"),  # host -1: none yet
    ("at", "i8"),  # node where its data is
    ("station", "i8"),  # -1: in none
    ("child", "i8"), ("next", "i8"), ("prev", "i8"),  # the station's heap or queue
    ("older", "i8"), ("newer", "i8"),  # the device's list of its tasks; `newer` also links free rows
    ("phase", "i8"),  # FREE, NEW, UP, RUN, DOWN, MOVE, JOIN
    ("job", "i8"), ("stage", "i8"),  # -1: it is no stage of a job
    ("join", "i8"),  # task to which it brings one more input; -1: a task of its own, -2 - b: with stage b's output
    ("parked", "i1"),  # waits for coverage
    ("counted", "i1"),  # counted in its host's `assigned`
    ("held", "i1"),  # waits for the caller's decision
)  # fmt: skip

STATION = _record(
    ("virtual", "f8"),  # units that every task in service since the start has got
    ("since", "f8"),  # s, time that the accumulated values hold for
    ("rate", "f8"),  # units/s of one server: cycles/s or B/s
    ("served", "f8"),  # units served in all
    ("busy", "f8"),  # s, integral of the busy servers
    ("power", "f8"),  # W now
    ("energy", "f8"),  # J
    ("servers", "i8"),
    ("active", "i8"),  # tasks in service
    ("root", "i8"),  # heap of the tasks in service, -1: none
    ("head", "i8"), ("tail", "i8"), ("queued", "i8"),  # tasks that wait (fcfs)
    ("fcfs", "i8"),
)  # fmt: skip

NODE = _record(
    ("up_rate", "f8"), ("down_rate", "f8"),  # B/s over the air after loss, as last told
    ("delay", "f8"),  # s, one way over the air
    ("outage", "f8"),  # s, since when there is no coverage
    ("outputs", "f8"), ("inputs", "f8"),  # B of completed outputs and delivered inputs, as a host
    ("completed", "i8"),
    ("generation", "i8"),
    ("cell", "i8"),  # serving node, -1
    ("first_task", "i8"),  # newest task in flight, -1
    ("kind", "i8"),  # index into kinds
    ("infra", "i8"),  # number among the nodes that forward, -1 for a device
    ("host", "i8"),  # number among the hosts, -1
    ("first_source", "i8"), ("sources", "i8"),
    ("first_link", "i8"), ("links", "i8"),  # its fixed links in `access`
    ("present", "i1"), ("up", "i1"), ("covered", "i1"),
)  # fmt: skip

KIND = _record(
    ("clock", "f8"),  # cycles/s
    ("cores", "i8"), ("slots", "i8"),  # slots 0: unlimited
    ("first_power", "i8"), ("powers", "i8"),  # its table in `power`; 0: none
    ("fcfs", "i8"),
)  # fmt: skip

LINK = _record(
    ("rate", "f8"), ("loss", "f8"), ("delay", "f8"),  # B/s, 1, s: nominal
    ("added", "f8"),  # s, added by events
    ("cost", "f8"),  # s, nominal time of a reference transfer
    ("a", "i8"), ("b", "i8"), ("up", "i8"),
)  # fmt: skip

HOST = _record(
    ("speed", "f8"),  # cycles/s of all cores
    ("clock", "f8"),
    ("slot", "i8"), ("tier", "i8"), ("cores", "i8"), ("slots", "i8"),
    ("assigned", "i8"),  # tasks sent here whose computation has not ended, on their way included
    ("running", "i8"),  # tasks on the host, waiting ones included
    ("up", "i8"),
)  # fmt: skip

SOURCE = _record(
    ("key", "u8"),  # of its own random stream
    ("base", "f8"),  # s, last arrival, or start of the periodic pattern
    ("phase_end", "f8"),  # s, end of the active phase
    ("drawn", "i8"),  # arrivals drawn so far
    ("phases", "i8"),  # phases drawn so far
    ("step", "i8"),  # periodic arrivals in this pattern
    ("node", "i8"), ("workload", "i8"),
)  # fmt: skip

WORKLOAD = _record(
    ("rate", "f8"),
    ("input_a", "f8"), ("input_b", "f8"), ("output_a", "f8"), ("output_b", "f8"), ("work_a", "f8"), ("work_b", "f8"),
    ("deadline", "f8"), ("share", "f8"), ("active", "f8"), ("idle", "f8"), ("start", "f8"), ("stop", "f8"),
    ("state", "f8"),  # B that move with a running task, negative: its input
    ("input_law", "i8"), ("output_law", "i8"), ("work_law", "i8"), ("periodic", "i8"),
    ("first_stage", "i8"), ("stages", "i8"),  # its graph; 0: plain tasks
)  # fmt: skip

STAGE = _record(
    ("work_a", "f8"), ("work_b", "f8"), ("output_a", "f8"), ("output_b", "f8"),
    ("work_law", "i8"), ("output_law", "i8"),
    ("first_after", "i8"), ("afters", "i8"),  # the stages that get its output, in `afters`
    ("first_before", "i8"), ("befores", "i8"),  # the stages whose outputs it needs, in `befores`
    ("pinned", "i8"),  # runs on the device that made the job
)  # fmt: skip

JOB = _record(
    ("created", "f8"), ("started", "f8"), ("computed", "f8"),  # s; first start, last computation
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
    ("created", "f8"), ("uploaded", "f8"), ("started", "f8"), ("computed", "f8"), ("ended", "f8"),
    ("input", "f8"), ("output", "f8"), ("work", "f8"), ("deadline", "f8"), ("serial", "i8"),
    ("device", "i8"), ("host", "i8"), ("workload", "i8"), ("status", "i8"), ("late", "i8"),
    ("stage", "i8"), ("job", "i8"),  # number of the stage and serial of its job; -1: a task, or a whole job
)  # fmt: skip

META = _record(
    ("now", "f8"), ("patience", "f8"), ("reference", "f8"),  # s, s, B
    ("input_offered", "f8"), ("input_delivered", "f8"), ("input_dropped", "f8"),  # B
    ("output_offered", "f8"), ("output_delivered", "f8"), ("output_dropped", "f8"),  # B
    ("state_offered", "f8"), ("state_delivered", "f8"), ("state_dropped", "f8"),  # B moved with running tasks
    ("seed", "u8"),
    ("serial", "i8"),  # tasks created so far
    ("turn", "i8"),  # decisions taken so far
    ("events", "i8"),  # events handled so far
    ("live", "i8"), ("done", "i8"), ("free", "i8"),  # tasks in flight, rows in `ended`, first free row
    ("queue", "i8"),  # entries of the event heap
    ("burst", "i8"),  # rows that one event may take
    ("jobs_live", "i8"), ("jobs_free", "i8"),  # jobs in flight, first free row
    ("doomed", "i8"),  # first of the jobs that failed and whose other stages have not ended yet, -1
    ("widest", "i8"),  # stages of the largest graph
    ("scheduler", "i8"), ("drop_late", "i8"),
    ("threshold", "f8"),  # tasks per core, for the schedulers that have one
    ("undecided", "i8"), ("serving", "i8"),  # task that waits for the caller's decision, -1; its device's node
    ("node_count", "i8"), ("link_count", "i8"), ("source_count", "i8"), ("station_count", "i8"),
    ("infra_count", "i8"), ("host_count", "i8"), ("task_room", "i8"), ("ended_room", "i8"),
    # addresses of the arrays of the same names in `State`
    *((name, "i8") for name in (
        "nodes", "kinds", "power", "links", "access", "hosts", "infra", "toward", "distance", "reach", "scratch",
        "workloads", "sources", "stations", "tally", "tasks", "ended", "due", "what", "place",
        "stages", "afters", "befores", "stage_tally", "jobs", "missing", "site",
    )),
)  # fmt: skip


# fields of META that say how large the arrays are
ROOMS: Final = (
    "node_count", "link_count", "source_count", "station_count", "infra_count", "host_count", "task_room", "ended_room",
)  # fmt: skip


class State(NamedTuple):
    """Everything that the kernel knows. The arrays are the engine's own; look, do not write."""

    meta: NDArray[np.void]  # (1,) META
    nodes: NDArray[np.void]  # (slots,) NODE
    kinds: NDArray[np.void]  # KIND
    power: NDArray[np.float64]  # W, the power tables one after another
    links: NDArray[np.void]  # LINK
    access: NDArray[np.int64]  # links of devices, grouped by device
    hosts: NDArray[np.void]  # HOST, edge and cloud nodes with cores
    infra: NDArray[np.int64]  # slots of the nodes that forward
    toward: NDArray[np.int64]  # (infra, infra) link of the first hop, -1: no way
    distance: NDArray[np.float64]  # (infra, infra) s of a reference transfer, inf: no way
    reach: NDArray[np.float64]  # (infra, hosts) s of a reference transfer to the host
    scratch: NDArray[np.float64]  # (hosts,) reach of a device with fixed links
    workloads: NDArray[np.void]  # WORKLOAD
    sources: NDArray[np.void]  # SOURCE
    stations: NDArray[np.void]  # STATION
    tally: NDArray[np.int64]  # (workloads, 2 + STATUSES) created, late, by status; of graphs, the jobs
    tasks: NDArray[np.void]  # TASK
    ended: NDArray[np.void]  # ENDED, the first meta.done rows
    due: NDArray[np.float64]  # event heap: times
    what: NDArray[np.int64]  # event heap: event numbers
    place: NDArray[np.int64]  # event number -> position in the heap, -1
    stages: NDArray[np.void]  # STAGE, of all graphs one after another
    afters: NDArray[np.int64]  # stages that follow
    befores: NDArray[np.int64]  # stages that go before
    stage_tally: NDArray[np.int64]  # (stages, 1 + STATUSES) created, by status
    jobs: NDArray[np.void]  # JOB, as many as tasks if there are graphs
    missing: NDArray[np.int64]  # (jobs, widest) inputs of a stage that are not made, then: not there yet
    site: NDArray[np.int64]  # (jobs, widest) node where a stage was computed


Record = Any  # one row of a record array: mypy cannot see through numpy's void

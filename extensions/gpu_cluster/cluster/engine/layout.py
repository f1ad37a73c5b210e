"""The state of the event kernel: a handful of record arrays, and what every field means."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import codes
from cosim.contract.records import Floats, Ints, Records

# How ranks of a job talk across leaves; `PATTERNS` has their names.
LOCAL, RING, TREE, ALL_TO_ALL, PIPELINE, EXPERTS = codes(6)

# How leaves are joined. PACKET: uplinks into a spine that never binds. CIRCUITS: circuits of its own for
# each job. ROUTED: jobs share the links of a topology.
PACKET, CIRCUITS, ROUTED = codes(3)

# Where a job goes. EXHAUSTIVE: the best of all allocations that fit, while they can be counted.
FIRST_FIT, BEST_FIT, PACK, UPLINKS, BALANCED, PCIE, POWER, EXHAUSTIVE = codes(8)
PLACEMENTS: Final = ("first-fit", "best-fit", "pack", "uplinks", "balanced", "pcie", "power", "exhaustive")

FUTURE, WAITING, RUNNING, DONE, REFUSED = codes(5)
STATES: Final = ("future", "waiting", "running", "done", "refused")

FAIL_GPU, FAIL_LEAF, FAIL_PORT, REPAIR_GPU, REPAIR_LEAF, REPAIR_PORT = codes(6)
FAULTS: Final = ("gpu", "leaf", "port")

WHOLE: Final = 1000  # thousandths of a GPU
UNIT: Final = 1 << 20  # load of a link by one port's full rate; whole numbers, so that sums close exactly
NONE: Final = int(codes(1)[0]) - 1


def _record(*fields: str, reals: tuple[str, ...] = (), whole: str = "i8") -> np.dtype[np.void]:
    return np.dtype([*((name, "f8") for name in reals), *((name, whole) for name in fields)], align=True)


GRID = _record(
    "queued", "heap_room", "due", "heap",  # of `cosim.engine.continuum.heap`: jobs by their end
    # addresses of the other arrays, and how long those are that have no figure of their own
    "room", "job", "leaf", "server", "gpu", "port", "switch", "fault", "row", "route", "cap", "load", "carried", "slot",
    "scratch", "offset", "switches", "fault_count", "row_count", "links", "slots", "width",
    "head",  # of the list of running jobs
    "wired",  # circuits of the allocation that `exhaustive` found, -1: to be chosen anew
    "ports",
    "open",  # leaves with room in OPEN
    "goal",  # starts and refusals after which it stops
    "jobs", "arrived", "first", "last", "waiting", "running", "done", "refused", "faults", "stuck",
    "leaves", "servers", "gpus", "per_server", "domain", "free", "busy", "down", "held_ports",
    "network", "strict", "placement", "backfill", "ask", "manual", "topology", "rows", "max_busy",
    "reconfigured", "reused", "restarts", "blocked", "blocked_power", "active", "starts", "ports_down",
    reals=(
        "now", "beta", "pieces", "useful", "slowed", "stalled", "lost", "held", "idle", "out", "server_time",
        "port_time", "switching", "until",
    ),
)  # fmt: skip
JOB = _record(
    "n", "milli", "pattern", "rails", "group", "state", "head", "leaves", "circuits", "slot", "next", "before",
    "restarts", "blocked", "decided", "servers", "domains", "at", "mark",
    reals=(
        "arrival", "work", "compute", "network", "overlap", "checkpoint", "key", "start", "end", "left", "rate",
        "since", "hold", "lost", "stalled", "factor", "latest",
    ),
)  # fmt: skip
LEAF = _record(
    "free", "up", "first", "servers", "port", "ports", "down", "size", "busy", "active",
    reals=("held", "served", "since")
)  # fmt: skip
SERVER = _record("mask", "free", "leaf", "down", "used", "failed", reals=("until",))  # s, when it has no work any more
GPU = _record("next", "milli", "owner", "down", whole="i4")
PORT = _record("leaf", "ocs", "mate", "holder", "down", whole="i4")
SWITCH = _record("ports", reals=("delay", "power"))
FAULT = _record("kind", "target", reals=("at",))
ROW = _record(
    "busy", "free", "down", "waiting", "running", "circuits", "active", "reconfigured", "topology",
    reals=("time", "useful"),
)  # fmt: skip

Bytes = NDArray[np.uint8]


class ClusterState(NamedTuple):
    """All that the kernel reads and writes; `useful` of a row is GPU s of kept work so far."""

    grid: Records  # (1,)
    job: Records  # (jobs,) in the order of arrival
    leaf: Records  # (leaves,)
    server: Records  # (servers,)
    gpu: Records  # (gpus,)
    port: Records  # (ports,) by leaf, and then by OCS
    offset: Ints  # (leaves, OCSes + 1) first port of each leaf on each OCS
    switch: Records  # (OCSes,)
    fault: Records  # (faults,) ascending in time
    row: Records  # (rows,) written once per event time; the last ones only when there are more
    route: NDArray[np.int32]  # (topologies, leaves * leaves, links) share of a flow on a link, in UNIT
    cap: Ints  # (topologies, links) ports
    load: Ints  # (links,) in UNIT
    carried: Ints  # (slots, links) by the running jobs that span leaves
    slot: Ints  # (1 + slots,) free slots: how many, then which
    room: Ints  # (leaves, OCSes) free ports of each leaf on each OCS
    due: Floats  # (jobs,) end of each running job, inf: it does not run
    heap: Records  # (room,) ends in order
    scratch: Ints  # (SCRATCH, width)


# The arrays that lie one after the other in a piece of memory of their own, which is the present; the
# others are constant, or hold nothing that lasts. Those of CORE come first; of the others a short look
# ahead changes few rows only.
CORE: Final = ("grid", "leaf", "server", "gpu", "port", "room", "load", "carried", "slot")
PRESENT: Final = (*CORE, "job", "due", "heap")

# Rows of `scratch`: the allocation under test, the best one, its circuits one by one, counts per switch.
(
    AT, COUNT, BEST_AT, BEST_COUNT, END_A, END_B, CIRCUITS_OF, LOAD_OF, UNIT_A, UNIT_B, ON, TRIED, SORTED, GROUP,
    TRY, FREE, DEGREE, STANDING, OPEN,
) = codes(19)  # fmt: skip
SCRATCH: Final = 19

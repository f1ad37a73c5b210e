"""Where the peer's results differ from the physics that is meant, one name each.

The compatible mode has all of `compatible("cosco")` on and follows the peer step by step; the
corrected mode has none. `simtune` adds the defect of that fork. Source: the published code of COSCO
(Tuli et al., IEEE TPDS 33(1), 2022) and SimTune (Tuli, Casale, Jennings, 2022).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Peer = Literal["cosco", "simtune"]


@dataclass(frozen=True, slots=True)
class Quirk:
    """A behaviour of the peer that can be switched on alone."""

    peers: tuple[Peer, ...]
    part: Literal["step", "fleet", "workload", "cost"]  # what it belongs to
    wrong: str  # why


_BOTH: tuple[Peer, ...] = ("cosco", "simtune")

QUIRKS: Mapping[str, Quirk] = {
    "last-host-source": Quirk(
        _BOTH, "step",
        "the image of a new container comes from the last host of the list, because its host is -1; "
        "corrected: from a registry behind the router",
    ),
    "order-dependent": Quirk(
        _BOTH, "step",
        "containers run one after the other on shares that those before have changed, so the order of the slots "
        "decides; corrected: all run at once, and shares change when one comes or ends",
    ),
    "negative-run-time": Quirk(
        _BOTH, "step",
        "a transfer longer than the interval gives a negative time of execution, which takes work back; "
        "corrected: the transfer goes on in the next interval",
    ),
    "finished-keeps-share": Quirk(
        _BOTH, "step",
        "CPU and power of an interval are those at its end, a container that has finished counted with its share "
        "of the spare MIPS; corrected: the integral over the interval",
    ),
    "truncated-mips": Quirk(
        _BOTH, "step", "the MIPS in use on a host are cut to an integer before the CPU share is taken"
    ),
    "execution-only-response": Quirk(
        _BOTH, "step",
        "the response time is execution plus transfers and leaves the time in the queue out; "
        "corrected: from creation to the end of the work",
    ),
    "zero-retires": Quirk(
        _BOTH, "step",
        "a demand of 0 MIPS in the trace is taken for the end of the container, its work done or not; "
        "corrected: it idles",
    ),
    "overload-stops": Quirk(
        _BOTH, "step",
        "when the demands on a host outgrow it, all its containers stand still; corrected: they run in proportion",
    ),
    "lost-spare": Quirk(
        _BOTH, "step",
        "spare MIPS that a container at its peak cannot use are lost; corrected: the others share them",
    ),
    "rates-unchecked": Quirk(
        _BOTH, "step",
        "read and write rates of memory and disk do not limit a placement; corrected: they do",
    ),
    "refused-moves-count": Quirk(
        _BOTH, "step",
        "moves that do not take place take their share of the bandwidth; corrected: only those that do",
    ),
    "whole-intervals": Quirk(
        _BOTH, "step",
        "the end of a container is noticed when the next interval begins: it is late when the number of that "
        "interval exceeds its deadline, and waiting counts from one interval too early; corrected: to the moment",
    ),
    "empty-slots-in-fairness": Quirk(
        _BOTH, "step", "Jain's index counts free slots as containers with 0 MIPS; corrected: containers only"
    ),
    "first-task-load": Quirk(
        ("simtune",), "step",
        "all containers have the number 0, so the load of a host is that of the first container of all, times the "
        "number of containers on the host",
    ),
    "deadline-twice": Quirk(
        ("simtune",), "workload",
        "the creation interval is in the deadline already and is added to it once more",
    ),
    "moves-recounted": Quirk(
        _BOTH, "step",
        "the transfers out of a host are counted anew before each move, from where the containers are by then: one "
        "that has moved in this interval counts at its new host; only with order-dependent; corrected: counted once, "
        "from where they start",
    ),
    "new-counted-apart": Quirk(
        _BOTH, "step",
        "new containers take the uplink of the last host and share it among themselves, and moves off that host "
        "do the same, without regard to each other; only with last-host-source and order-dependent",
    ),
    "latency-by-index": Quirk(
        _BOTH, "fleet",
        "the first 60 % of the hosts (rounded) are near, whatever their type; corrected: small types near, the large "
        "one far",
    ),
    "swapped-bandwidth": Quirk(
        _BOTH, "fleet", "uplink and downlink of a host are exchanged when it is made"
    ),
    "bitbrains-units": Quirk(
        _BOTH, "workload",
        "memory is a quarter of what the trace says, its read and write rates are the network's, disk rates are "
        "divided by 4 and 12; corrected: 1 MB is 1000 kB, and the trace says nothing of the rates of memory",
    ),
    "constant-cost": Quirk(
        _BOTH, "cost",
        "the cost of any run is 782.4: 500 min times the prices per hour of ten hosts; "
        "corrected: the hours that each host is on times its price",
    ),
}  # fmt: skip

NAMES = tuple(QUIRKS)
(
    LAST_HOST_SOURCE, ORDER_DEPENDENT, NEGATIVE_RUN_TIME, FINISHED_KEEPS_SHARE, TRUNCATED_MIPS,
    EXECUTION_ONLY_RESPONSE, ZERO_RETIRES, OVERLOAD_STOPS, LOST_SPARE, RATES_UNCHECKED, REFUSED_MOVES_COUNT,
    WHOLE_INTERVALS, EMPTY_SLOTS_IN_FAIRNESS, FIRST_TASK_LOAD, DEADLINE_TWICE,
    MOVES_RECOUNTED, NEW_COUNTED_APART,
) = range(17)  # fmt: skip
CORRECTED: frozenset[str] = frozenset()
CONSTANT_COST = 500.0 * (4 * 0.0472 + 2 * 0.189 + 2 * 0.166 + 2 * 0.333)  # the plotter's own figure


def compatible(peer: Peer = "cosco") -> frozenset[str]:
    """The quirks that `peer` has."""
    return frozenset(name for name, quirk in QUIRKS.items() if peer in quirk.peers)


def switches(names: Iterable[str]) -> NDArray[np.bool_]:
    """One flag per quirk, in the order of `QUIRKS`. Raises `ValueError` for a name that is none."""
    wanted = set(names)
    unknown = sorted(wanted - set(NAMES))
    if unknown:
        raise ValueError(f"there is no quirk {', '.join(map(repr, unknown))}; known: {', '.join(NAMES)}")
    return np.array([name in wanted for name in NAMES])

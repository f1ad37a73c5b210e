"""The state of the interval model: a few flat arrays, and the meaning of their fields.

H hosts, S slots (places for containers), P profiles (what containers demand over their age), T
samples of the longest profile. Work is in MI (million instructions), speeds in MIPS, memory and disk
in MB, their rates and bandwidths in MB/s, times in s unless given in intervals. Interval n, counted
from 1, lasts from (n - 1) to n times its length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cosim.compiled.compiling import address_of
from cosim.contract.records import Floats, Records

Record = Any  # one row of a record array: mypy cannot see through numpy's void

NONE = -1  # no host, no container, no slot
POWER_POINTS = 11  # of a power table: W at 0, 10, ..., 100 % of the MIPS

# columns of demands
D_MIPS, D_RAM, D_RAM_READ, D_RAM_WRITE, D_DISK_READ, D_DISK_WRITE = range(6)
DEMANDS = 6

GIVEN, POISSON, NORMAL = range(3)  # laws of arrivals
FIXED, SAMPLES = range(2)  # laws of work

# placement policies; CALLER: the caller decides
CALLER, RANDOM, SHUFFLE, FIRST_FIT, BEST_FIT, LEAST_LOADED, ROUND_ROBIN = range(7)
POLICIES = ("caller", "random", "shuffle", "first-fit", "best-fit", "least-loaded", "round-robin")

COMPLETED, NODE_FAILED = 0, 4  # how a container ended, as in the `task` signal

# a row of figures about one interval
FIGURES = (
    "arrived",  # containers created
    "started",  # containers that got a host for the first time
    "migrated",  # containers that moved from one host to another
    "refused",  # decisions that did not fit
    "completed",  # containers that ended (compatible: found to have ended when the interval began)
    "late",  # of these, after their deadline
    "response",  # s, sum over `completed`
    "wait",  # intervals in the queue, sum over `completed`
    "transfer",  # s, sum over `completed`
    "energy",  # J
    "utilisation",  # mean over hosts, 0..1
    "fairness",  # Jain's index of the containers' MIPS
    "cost",  # in the currency of the prices
    "active",  # containers with a host at the end
    "waiting",  # containers in the queue at the end
    "work",  # MI done on all hosts (compatible: at the rates of the end)
    "left",  # s that the containers with a host would still take at the rates of the end
    "present",  # s that containers were in the system, the queue included: over the length, their mean number
    "ahead",  # J that these hosts would still take for their containers at the rates of the end
)
(
    F_ARRIVED, F_STARTED, F_MIGRATED, F_REFUSED, F_COMPLETED, F_LATE, F_RESPONSE, F_WAIT, F_TRANSFER, F_ENERGY,
    F_UTILISATION, F_FAIRNESS, F_COST, F_ACTIVE, F_WAITING, F_WORK, F_LEFT, F_PRESENT, F_AHEAD,
) = range(len(FIGURES))  # fmt: skip


FIGURE = np.dtype([(name, "f8") for name in FIGURES])  # what `branch` returns


def _record(*fields: tuple[str, str]) -> np.dtype[np.void]:
    return np.dtype(list(fields), align=True)


HOST = _record(
    # what it is
    ("mips", "f8"), ("ram", "f8"), ("disk", "f8"), ("ram_read", "f8"), ("ram_write", "f8"), ("disk_read", "f8"),
    ("disk_write", "f8"), ("up_link", "f8"), ("down_link", "f8"), ("latency", "f8"), ("price", "f8"),  # per hour
    # how it is
    ("up", "i8"),  # 0: failed
    ("on", "i8"),  # 0: was switched off in the last interval
    ("first", "i8"),  # the lowest slot on it, -1: none
    ("count", "i8"),  # containers on it
    # its meters
    ("used", "f8"),  # MIPS, mean of the last interval; compatible: at its end
    ("joules", "f8"),  # J in the last interval
    ("energy", "f8"), ("busy", "f8"), ("cost", "f8"), ("completed", "i8"),  # J, MI, currency, containers so far
    # scratch of one call
    ("into", "i8"), ("out_of", "i8"),  # transfers of the interval
    ("plan_mips", "f8"), ("plan_ram", "f8"), ("plan_disk", "f8"),  # demanded, decisions of the policy included
)  # fmt: skip

SLOT = _record(
    ("container", "i8"),  # number in order of creation, -1: the slot is free
    ("host", "i8"),  # -1: not placed yet
    ("profile", "i8"),
    ("created", "i8"),  # intervals that had ended by then
    ("start", "i8"),  # interval in which it got its slot
    ("next", "i8"),  # next slot on the same host, -1: none
    ("sample", "i8"),  # where in `demand` its present sample is
    ("mips", "f8"), ("ram", "f8"),  # MIPS and MB that it demands in this interval
    ("peak", "f8"), ("disk", "f8"),  # MIPS, MB
    ("work", "f8"), ("done", "f8"),  # MI
    ("deadline", "f8"),  # intervals after creation
    ("running", "f8"), ("transfer", "f8"),  # s of execution and of transfers so far
    ("left", "f8"),  # s of transfers still to come
    ("begun", "f8"), ("finish", "f8"),  # s, end of the first transfer and of the work; NaN: not yet
    ("rate", "f8"),  # MIPS at the end of the last interval
    ("fresh", "f8"),  # s of transfer that this interval's decision gave it, -1: none
    ("offset", "f8"),  # s into the interval from which it may run
)  # fmt: skip

PROFILE = _record(
    ("peak", "f8"), ("disk", "f8"),  # MIPS, MB
    ("share", "f8"),  # chance of this profile and all before
    ("work", "f8"),  # MI, law FIXED
    ("length", "i8"),  # samples; a container that gets older begins again
    ("due_least", "i8"), ("due_most", "i8"),  # intervals, law FIXED
)  # fmt: skip

PAIR = _record(
    ("slot", "i8"), ("host", "i8"),  # a decision
    ("source", "i8"), ("counted", "i8"),  # scratch: host when the interval began; 1: shares the bandwidth
)  # fmt: skip
WAITING = _record(("container", "i8"), ("created", "i8"))  # as in SLOT

ARRAYS = ("hosts", "power", "slots", "profiles", "demand", "sums", "given", "queue", "pairs", "ended", "row")

RULES = _record(
    ("length", "f8"),  # s of an interval
    ("router", "f8"),  # MB/s, shared by all transfers of an interval
    ("overhead", "f8"),  # s that any transfer takes besides
    ("boot", "f8"),  # s until a host that was off runs
    ("mean", "f8"), ("deviation", "f8"),  # of arrivals per interval
    ("duration", "f8"), ("duration_deviation", "f8"),  # intervals, law SAMPLES
    ("spread", "f8"),  # sigma of the log-normal factor on the work
    ("policy", "i8"), ("arrivals", "i8"), ("work", "i8"),  # codes
    ("switch_off", "i8"),  # 1: hosts without containers are off
    ("quirks", "i8"),  # a bit per quirk
    # how far it is
    ("seed", "u8"),
    ("now", "i8"),  # number of the interval
    ("open", "i8"),  # 1: containers have arrived and wait for decisions
    ("created", "i8"),  # containers so far
    ("head", "i8"), ("queued", "i8"),  # of the ring of waiting containers
    ("turn", "i8"),  # of the policy round-robin
    ("ended_count", "i8"),  # rows of `ended` in use
    # sizes and addresses of the arrays of `IntervalState`
    ("host_count", "i8"), ("slot_count", "i8"), ("profile_count", "i8"), ("samples", "i8"), ("given_count", "i8"),
    ("queue_room", "i8"), ("ended_room", "i8"), ("row_room", "i8"),
    ("branch", "i8"),  # address of the rules of the world in which candidates are tried, 0: none
    *((name, "i8") for name in ARRAYS),
)  # fmt: skip

ENDED = _record(
    ("container", "i8"), ("profile", "i8"), ("host", "i8"), ("status", "i8"),
    ("created", "f8"), ("begun", "f8"), ("finish", "f8"),  # s
    ("response", "f8"),  # s, as the physics counts it
    ("work", "f8"),  # MI
    ("deadline", "f8"),  # s after creation
    ("late", "i8"),
)  # fmt: skip


class IntervalState(NamedTuple):
    """All arrays of one simulation. Compiled code gets `rules`, which holds the addresses of the others."""

    rules: Records  # (1,) RULES
    hosts: Records  # (H,) HOST
    power: Floats  # (H, 11) W
    slots: Records  # (S,) SLOT
    profiles: Records  # (P,) PROFILE
    demand: Floats  # (P, T, 6)
    sums: Floats  # (P, T + 1) MI of the first n samples
    given: Floats  # (N, 4) interval of creation (inf: free row), profile, MI, deadline; in order of creation
    queue: Records  # (Q,) WAITING, a ring, in order of creation
    pairs: Records  # (2 S,) PAIR
    ended: Records  # (R,) ENDED; R = 0: none are kept
    row: Floats  # (len(FIGURES),) of the interval under way


CHANGING = ("rules", "hosts", "slots", "given", "queue", "ended", "row")  # what a snapshot holds


def link_up(w: IntervalState) -> IntervalState:
    """Write sizes and addresses of the arrays into `rules`; needed whenever an array is replaced."""
    for name in ARRAYS:
        w.rules[name] = address_of(getattr(w, name))
    w.rules["host_count"], w.rules["slot_count"], w.rules["profile_count"] = map(len, (w.hosts, w.slots, w.profiles))
    w.rules["samples"] = w.demand.shape[1]
    w.rules["given_count"], w.rules["queue_room"] = len(w.given), len(w.queue)
    w.rules["ended_room"], w.rules["row_room"] = len(w.ended), len(w.row)
    return w

"""Policies that come with the product beside the compiled ones. All take the state of `cosim.schedulers.state`."""

from __future__ import annotations

import math

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.schedulers import fuzzy as rules
from cosim.schedulers.state import CLOUD, EDGE, GRAPH, KEEP, REFERENCE, Ended, State, decides

_MEGABIT = 1e6
_MEGA = 1e6


def _in_order(state: State, order: Ints, seconds: Floats) -> Ints:
    """Tasks without a host take, in this order, the host that would finish them first, each seeing those before."""
    found = np.full(len(state.tasks), KEEP, np.int64)
    load = np.zeros(len(state.hosts))  # tasks given to each host in this call
    room = state.hosts["memory"].copy()
    base = np.maximum(state.hosts["tasks"], 0.0)
    slow = np.maximum(1.0, (base + 1.0) / state.hosts["cores"])
    for t in order:
        again = np.maximum(1.0, (base + load + 1.0) / state.hosts["cores"]) / slow
        time = np.where(room >= state.tasks["memory"][t], seconds[t] * again, np.inf)
        best = int(time.argmin())
        if math.isfinite(time[best]):
            found[t] = best
            load[best] += 1.0
            room[best] -= state.tasks["memory"][t]
    return found


@decides("task", "interval")
def edf(state: State) -> Ints:
    """Earliest deadline first: in the order of their deadlines, tasks take the host that finishes them first."""
    waiting = np.flatnonzero(state.tasks["host"] < 0.0)
    order = waiting[np.lexsort((state.tasks["task"][waiting], state.tasks["deadline"][waiting]))]
    return _in_order(state, order, state.seconds())


@decides("task", "interval")
def priority(state: State) -> Ints:
    """Workloads in the order of the file; only those with a deadline take fast hosts, others the idlest part."""
    tasks = state.tasks
    waiting = np.flatnonzero(tasks["host"] < 0.0)
    order = waiting[np.lexsort((tasks["task"][waiting], tasks["workload"][waiting]))]
    seconds = state.seconds()
    patient = ~np.isfinite(tasks["deadline"])
    load = state.hosts["demand"] / np.maximum(state.hosts["speed"], 1.0)
    seconds[patient] = np.where(np.isfinite(seconds[patient]), 1.0 + load, np.inf)
    return _in_order(state, order, seconds)


@decides("task")
def fuzzy(state: State) -> Ints:
    """Fuzzy inference in two stages (Sonmez, Ozgovde, Ersoy 2019): nearest or best other edge host; that or the cloud.

    The rule bases and sets are the published ones (doi 10.1109/TNSM.2019.2901346). Loads are the shares
    of cores asked for; the delay of the MAN is what the other host is farther away; the sensitivity to
    delay is the part of the deadline that the task takes alone at the nearest host, 0 without a deadline.
    """
    found = np.full(len(state.tasks), KEEP, np.int64)
    hosts = state.hosts
    load = 100.0 * np.minimum(1.0, hosts["tasks"] / hosts["cores"])
    for t in range(len(found)):
        reach = np.where(hosts["up"] != 0.0, state.reach[t], np.inf)
        edge = np.where(hosts["tier"] == EDGE, reach, np.inf)
        cloud = np.where(hosts["tier"] == CLOUD, reach, np.inf)
        near, far = int(edge.argmin()), int(cloud.argmin())
        if not math.isfinite(edge[near]):
            found[t] = far if math.isfinite(cloud[far]) else KEEP
            continue
        others = np.where(np.isfinite(edge), load, np.inf)
        others[near] = np.inf
        other = int(others.argmin())
        remote = float(others[other]) if math.isfinite(others[other]) else -1.0
        task = state.tasks[t]
        alone = task["work"] / (hosts["speed"][near] / hosts["cores"][near])
        sensitivity = min(1.0, alone / task["deadline"]) if task["deadline"] > 0.0 else 1.0
        rate = min(8.0 * REFERENCE / _MEGABIT / max(cloud[far], 1e-9), 21.0)
        delay = max(edge[other] - edge[near], 1e-6) if remote >= 0.0 else 0.0
        size = min(task["work"] / _MEGA, 50_000.0)  # the sets end there
        found[t] = (near, other, far)[rules.choose(load[near], remote, delay, size, rate, sensitivity)]
    return found


@decides("task")
class Bandit:
    """Lower confidence bounds of the seconds per cycle of each host, learned from the tasks that end (ALTO).

    Sun et al. 2019, doi 10.1109/TVT.2019.2895593: the least of mean - scale sqrt((1 - x) ln t / n) over
    hosts, n times tried, t tasks so far, x the work between the least and the greatest seen. A host that
    has not been tried begins with the expected seconds. A task that fails counts as ten times its expected seconds.
    """

    def __init__(self) -> None:
        self._mean = self._tried = np.empty(0)
        self._rounds = 0
        self._least, self._most = math.inf, -math.inf

    def __call__(self, state: State) -> Ints:
        """(T,) the hosts with the least bound."""
        found = np.full(len(state.tasks), KEEP, np.int64)
        seconds = state.seconds()
        if len(self._mean) != len(state.hosts):
            self._mean, self._tried = np.full(len(state.hosts), np.nan), np.zeros(len(state.hosts))
        for t in range(len(found)):
            work = max(float(state.tasks["work"][t]), 1.0)
            there = np.isfinite(seconds[t])
            if not there.any():
                continue
            new = there & np.isnan(self._mean)
            self._mean[new] = seconds[t][new] / work
            self._tried[new] = 1.0
            self._rounds += 1
            self._least, self._most = min(self._least, work), max(self._most, work)
            x = (work - self._least) / (self._most - self._least) if self._most > self._least else 0.0
            scale = float(self._mean[there].mean())
            spread = np.sqrt((1.0 - x) * math.log(self._rounds + 1) / np.maximum(self._tried, 1.0))
            found[t] = int(np.where(there, self._mean - scale * spread, np.inf).argmin())
        return found

    def learn(self, ended: Ended) -> None:
        """Take in how long tasks and stages took."""
        names = ("host", "work", "seconds", "completed", "part")
        for host, work, seconds, completed, part in zip(*(ended[name].tolist() for name in names), strict=True):
            if part == GRAPH:  # its stages were placed one by one
                continue
            if not 0 <= host < len(self._mean) or math.isnan(self._mean[host]):
                continue
            cost = seconds / max(work, 1.0) if completed else 10.0 * self._mean[host]
            self._tried[host] += 1.0
            self._mean[host] += (cost - self._mean[host]) / self._tried[host]


@decides("task")
class Game:
    """Each device's share for the cloud moves to where its costs at edge and cloud balance, given the others' shares.

    The game of EdgeCloudSim's vehicular application: p = (E - C) / (7.2 L (1 - product of 1 - p r over
    the other devices)) within 0.01 and 0.99, E and C the expected seconds at the best edge and cloud
    host, L the deadline (1 s without one), r the device's rate of tasks against the greatest.
    """

    def __init__(self) -> None:
        self._share: dict[int, float] = {}
        self._sent: dict[int, int] = {}

    def __call__(self, state: State) -> Ints:
        """(T,) the best edge or the best cloud host, by a draw."""
        found = np.full(len(state.tasks), KEEP, np.int64)
        seconds = state.seconds()
        for t in range(len(found)):
            edge = np.where(state.hosts["tier"] == EDGE, seconds[t], np.inf)
            cloud = np.where(state.hosts["tier"] == CLOUD, seconds[t], np.inf)
            near, far = int(edge.argmin()), int(cloud.argmin())
            if not math.isfinite(min(edge[near], cloud[far])):
                continue
            if not (math.isfinite(edge[near]) and math.isfinite(cloud[far])):
                found[t] = near if math.isfinite(edge[near]) else far
                continue
            share = self._play(state, t, float(edge[near] - cloud[far]))
            found[t] = far if state.tasks["chance"][t] < share else near
        return found

    def _play(self, state: State, t: int, gain: float) -> float:
        device = int(state.tasks["device"][t])
        self._sent[device] = self._sent.get(device, 0) + 1
        most = max(self._sent.values())
        idle = math.prod(
            1.0 - share * self._sent[other] / most for other, share in self._share.items() if other != device
        )
        limit = float(state.tasks["deadline"][t])
        limit = limit if 0.0 < limit < math.inf else 1.0
        busy = 1.0 - idle
        share = gain / (7.2 * limit * busy) if busy > 0.0 else float(gain > 0.0)
        self._share[device] = min(0.99, max(0.01, share))
        return self._share[device]

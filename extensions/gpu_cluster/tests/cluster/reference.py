"""The cluster again in plain Python, one job after the other, all allocations enumerated: the oracle of the kernel.

Written from the description in docs/cluster.md, with dictionaries and recursion in place of records
and loops. It does neither faults nor shared links.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field


@dataclass
class Job:
    gpus: int
    duration: float
    pattern: str  # ring or all-to-all
    rails: int
    start: float = -1.0
    end: float = -1.0


@dataclass
class Cluster:
    room: int  # GPUs of each leaf
    leaves: int
    uplinks: int
    switches: int  # 0: uplinks into a spine
    delay: float = 0.0
    free: list = field(default_factory=list)
    holder: dict = field(default_factory=dict)  # (leaf, port) -> job
    mate: dict = field(default_factory=dict)  # (leaf, port) -> (leaf, port)
    running: dict = field(default_factory=dict)  # job -> (end, allocation, uplinks by leaf)

    def __post_init__(self):
        self.free = [self.room] * self.leaves
        self.spare = [self.uplinks] * self.leaves

    def needs(self, job, allocation):
        """[(leaf, leaf, circuits)] of an allocation {leaf: ranks}."""
        leaves = sorted(allocation)
        if len(leaves) < 2:
            return []
        if job.pattern == "ring":
            rails = min(job.rails, min(allocation.values()))
            pairs = list(itertools.pairwise(leaves))
            if len(leaves) > 2:
                pairs.append((leaves[-1], leaves[0]))
            return [(a, b, rails) for a, b in pairs]
        return [
            (a, b, max(1, math.ceil(allocation[a] * allocation[b] / (job.gpus - 1) - 1e-9)))
            for a, b in itertools.combinations(leaves, 2)
        ]

    def packet_needs(self, job, allocation):
        if len(allocation) < 2:
            return {}
        if job.pattern == "ring":
            return dict.fromkeys(allocation, min(job.rails, min(allocation.values())))
        n = job.gpus
        return {k: max(1, math.ceil(a * (n - a) / (n - 1) - 1e-9)) for k, a in allocation.items()}

    def open_ports(self, leaf, switch):
        return [p for p in range(self.uplinks) if p % self.switches == switch and (leaf, p) not in self.holder]

    def standing(self, a, b, switch):
        return [
            (a, p) for p in self.open_ports(a, switch)
            if (a, p) in self.mate and self.mate[a, p][0] == b and self.mate[a, p] not in self.holder
        ]  # fmt: skip

    def wires(self, pairs):
        """A switch for every circuit, or None: the first choice of a depth-first search that works."""
        units = [(a, b) for a, b, count in pairs for _ in range(count)]
        room = {(k, x): len(self.open_ports(k, x)) for k in range(self.leaves) for x in range(self.switches)}

        def go(u, chosen):
            if u == len(units):
                return chosen
            a, b = units[u]
            used, v = {}, u - 1
            while v >= 0 and units[v] == (a, b):
                used[chosen[v]] = used.get(chosen[v], 0) + 1
                v -= 1

            def worth(x):
                return min(room[a, x], room[b, x]) + (100_000 if len(self.standing(a, b, x)) > used.get(x, 0) else 0)

            ways = [x for x in range(self.switches) if min(room[a, x], room[b, x]) > 0]
            for x in sorted(ways, key=lambda x: (-worth(x), x)):
                room[a, x] -= 1
                room[b, x] -= 1
                found = go(u + 1, [*chosen, x])
                if found is not None:
                    return found
                room[a, x] += 1
                room[b, x] += 1
            return None

        found = go(0, [])
        return None if found is None else list(zip(units, found, strict=True))

    def place(self, job):
        """The best allocation of all that fit, with its circuits."""
        best = None
        for counts in itertools.product(*(range(min(f, job.gpus) + 1) for f in self.free)):
            if sum(counts) != job.gpus:
                continue
            allocation = {k: c for k, c in enumerate(counts) if c}
            if self.switches:
                pairs = self.needs(job, allocation)
                circuits = self.wires(pairs)
                if circuits is None:
                    continue
                cost = len(circuits)
            else:
                needs = self.packet_needs(job, allocation)
                if any(need > self.spare[k] for k, need in needs.items()):
                    continue
                circuits, cost = needs, sum(needs.values())
            rest = sum(self.free[k] - c for k, c in allocation.items())
            goal = (cost, len(allocation), rest)
            if best is None or goal < best[0]:
                best = goal, allocation, circuits
        return best

    def begin(self, number, job, now):
        found = self.place(job)
        if found is None:
            return False
        _, allocation, circuits = found
        for k, count in allocation.items():
            self.free[k] -= count
        late = 0.0
        if self.switches:
            fresh = []
            for (a, b), x in circuits:
                there = self.standing(a, b, x)
                if there:
                    p = there[0]
                    self.holder[p] = self.holder[self.mate[p]] = number
                else:
                    fresh.append((a, b, x))
            for a, b, x in fresh:
                ends = []
                for k in (a, b):
                    ports = self.open_ports(k, x)
                    ends.append((k, next((p for p in ports if (k, p) not in self.mate), ports[0])))
                for end in ends:
                    self.mate.pop(self.mate.pop(end, None), None)
                self.mate[ends[0]], self.mate[ends[1]] = ends[1], ends[0]
                self.holder[ends[0]] = self.holder[ends[1]] = number
                late = self.delay
        else:
            for k, need in circuits.items():
                self.spare[k] -= need
        job.start, job.end = now, now + late + job.duration
        self.running[number] = (job.end, allocation, circuits)
        return True

    def end(self, number):
        _, allocation, circuits = self.running.pop(number)
        for k, count in allocation.items():
            self.free[k] += count
        if self.switches:
            self.holder = {port: job for port, job in self.holder.items() if job != number}
        else:
            for k, need in circuits.items():
                self.spare[k] += need


def run(cluster, jobs):
    """All jobs there at the start, strictly in order; the makespan.

    Left out are jobs of more GPUs than there are, and those that the empty cluster refuses.
    """
    most = cluster.room * cluster.leaves
    line, now = [(i, job) for i, job in enumerate(jobs) if job.gpus <= most], 0.0
    while line or cluster.running:
        while line:
            if cluster.begin(*line[0], now) or not cluster.running:
                line.pop(0)
            else:
                break
        if cluster.running:
            now = min(end for end, _, _ in cluster.running.values())
            for number in [n for n, (end, _, _) in cluster.running.items() if end <= now]:
                cluster.end(number)
    return max(0.0, *(job.end for job in jobs))

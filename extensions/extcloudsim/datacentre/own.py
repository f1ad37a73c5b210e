"""Consolidation with a placement function of the user's: the procedure of `control`, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cosim.extensions.extcloudsim.datacentre.detect import entries, overloaded
from cosim.extensions.extcloudsim.datacentre.layout import (
    FLAGS,
    Bools,
    Floats,
    Hosts,
    Ints,
    Kinds,
    Machines,
    Rules,
    Wan,
)
from cosim.extensions.extcloudsim.datacentre.tally import View

Choose = Callable[[int, Floats, Floats, Bools], int]  # machine, loads, free MB, closed hosts -> host, -1 none


class Plain:
    """One period's decisions, made by looking at everything anew each time."""

    def __init__(
        self, hosts: Hosts, kinds: Kinds, machines: Machines, view: View, rules: Rules, wan: Wan, choose: Choose
    ) -> None:
        self.hosts, self.kinds, self.machines, self.wan = hosts, kinds, machines, wan
        self.view, self.rules, self.choose = view, rules, choose
        self.on: list[list[int]] = [[] for _ in hosts.kind]
        for v in view.order:
            if view.at[v] >= 0:
                self.on[view.at[v]].append(int(v))

    def judged(self, h: int, on: Sequence[int]) -> float:
        """The load that the detectors compare with the threshold."""
        slow = self.kinds.slowdown[self.hosts.kind[h], self.machines.work[on], self.view.point[h]]
        share = self.view.demand[on] / self.hosts.mips[h]
        return float((share / slow if self.rules.fallback_divides else share * slow).sum())

    def slowed(self, h: int) -> float:
        """The load with slow-downs."""
        on = self.on[h]
        slow = self.kinds.slowdown[self.hosts.kind[h], self.machines.work[on], self.view.point[h]]
        return float((self.view.demand[on] / self.hosts.mips[h] * slow).sum())

    def over(self, h: int, more: Sequence[int] = ()) -> bool:
        """Whether a host is over-loaded, with `more` machines on it."""
        on = [*self.on[h], *more]
        if not on:
            return False
        load = self.judged(h, on)
        if self.rules.detector == FLAGS:
            return load > self.rules.threshold if more else bool(self.view.flags[h])
        slow = self.kinds.slowdown[self.hosts.kind[h], self.machines.work[on], self.view.past_point[h]]
        past = (self.view.history[on] * (1.0 if more else slow[:, None])).sum(axis=0) / self.hosts.mips[h]
        here = self.hosts.place[h]
        ahead = float(np.ceil(self.machines.ram[on].max() / self.wan.bandwidth[here, here] / self.rules.interval))
        r = self.rules
        return bool(overloaded(r.detector, r.threshold, r.safety, r.unweighted, load, past, entries(past), ahead))

    def loads(self) -> tuple[Floats, Floats]:
        """(share of the capacity, free MB) per host as things stand."""
        load = np.array([self.view.demand[on].sum() for on in self.on]) / self.hosts.mips
        free = self.hosts.ram * self.rules.overcommit - np.array([self.machines.ram[on].sum() for on in self.on])
        return load, free

    def by_demand(self, who: Sequence[int]) -> list[int]:
        """In the order of falling demand."""
        return sorted(who, key=lambda v: -self.view.demand[v])

    def shed(self, over: Bools) -> list[int]:
        """Take machines off over-loaded hosts."""
        leaving = [int(v) for v in self.view.order if self.view.at[v] < 0]
        for _ in range(1 + self.rules.listed_twice):
            for h in map(int, np.flatnonzero(over)):
                while can := [v for v in self.on[h] if self.view.movable[v]]:
                    v = min(can, key=lambda v: self.view.score[v])
                    self.on[h].remove(v)
                    leaving.append(v)
                    if not self.sheds(h):
                        break
        return leaving

    def sheds(self, h: int) -> bool:
        """Whether over-loaded host h, some machines less, must give up another."""
        return self.judged(h, self.on[h]) > self.rules.threshold if self.rules.detector == FLAGS else self.over(h)

    def insisted(self, over: Bools, stays: Sequence[int]) -> list[tuple[int, int]]:
        """Moves of other machines of the hosts whose first choices fitted nowhere."""
        made = []
        tried = set(stays)
        for h in map(int, np.flatnonzero(over)):
            while tried.intersection(self.on[h]) and self.sheds(h):
                can = [v for v in self.on[h] if self.view.movable[v] and v not in tried]
                if not can:
                    break
                v = min(can, key=lambda v: self.view.score[v])
                self.on[h].remove(v)
                target = self.choose(v, *self.loads(), over | ~self.view.up)
                if target < 0:
                    tried.add(v)
                self.on[target if target >= 0 else h].append(v)
                if target >= 0:
                    made.append((v, target))
        return made

    def moves(self) -> tuple[Ints, Ints]:
        """(machines that move, their new hosts)."""
        count = len(self.hosts.kind)
        start = np.array([self.slowed(h) for h in range(count)])
        idle = np.array([not on for on in self.on])
        over = np.array([self.over(h) for h in range(count)])
        moved: list[tuple[int, int]] = []
        stays = []
        for v in self.by_demand(self.shed(over)):
            target = self.choose(v, *self.loads(), over | ~self.view.up)
            if target < 0:
                stays.append(v)
                continue
            self.on[target].append(v)
            moved.append((v, target))
        for v in self.view.order:
            if v in stays and self.view.at[v] >= 0:
                self.on[self.view.at[v]].append(int(v))
        if not self.rules.gives_up:
            moved += self.insisted(over, stays)
        tried, closed = over | idle, over | idle
        tried[[h for _, h in moved]] = True
        while self.rules.evacuate:
            candidates = [h for h in range(count) if not tried[h] and 0.0 < start[h] < 1.0]
            if not candidates:
                break
            h = min(candidates, key=lambda h: start[h])
            tried[h] = closed[h] = True
            made = self.emptied(h, closed)
            moved += made
            tried[[target for _, target in made]] = True
        who, where = np.array(moved, np.int64).reshape(-1, 2).T
        return who, where

    def emptied(self, h: int, closed: Bools) -> list[tuple[int, int]]:
        """The moves that empty host h, or none if its machines do not all fit elsewhere."""
        if not all(self.view.movable[self.on[h]]):
            return []
        before = [list(on) for on in self.on]
        made = []
        for v in self.by_demand(self.on[h]):
            target = self.choose(v, *self.loads(), closed | ~self.view.up)
            if target < 0:
                self.on = before
                return []
            self.on[h].remove(v)
            self.on[target].append(v)
            made.append((v, target))
        return made

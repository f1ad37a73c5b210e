"""CloudSim's own statistics of a run, which ExtCloudSim prints beside its figures and decides nothing by.

They follow the demand between two lines of a trace, not the mean of a period, and know neither slow-downs nor operating
points. Demand is sampled at every decision and at every arrival of a machine. A machine on its way gets 90 % of its
demand where it comes from. Its target gives it another 10 %, though all of it is asked for there too. A host of more
demand than capacity gives whole units. Energy is the trapezoid between two samples by a table of SPECpower, and nothing
after a sample without load. A host is active while it gives anything, and counts as active before its first sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STEP = 300.0  # s between two decisions
OFFSET = 0.1  # s by which a decision is later than a line of a trace
LAN = 125.0  # MB/s of a migration
# W at 0, 10, ..., 100 % of load, whatever the platform
WATTS = (14.7, 18.7, 22.7, 26.7, 30.7, 34.7, 38.7, 43.0, 46.7, 50.7, 54.7)
AWAY = 0.1  # part of a machine on its way that is lost where it comes from, and given where it goes


class Sample(NamedTuple):
    """What a machine or a host asks for and gets from a moment on."""

    time: float  # s
    given: float
    asked: float

    @property
    def less(self) -> bool:
        """Whether it gets less than it asks for."""
        return self.given < self.asked


def note(course: list[Sample], sample: Sample) -> None:
    """Add a sample; of several at the same moment the last one holds."""
    if course and course[-1].time == sample.time:
        course.pop()
    course.append(sample)


def spans(courses: list[list[Sample]]) -> Iterator[tuple[Sample, float]]:
    """Each sample with the seconds until the next one."""
    for course in courses:
        for one, following in pairwise(course):
            yield one, following.time - one.time


def watts(load: float) -> float:
    """W of a host by SPECpower."""
    i = min(int(10.0 * load), 9)
    return WATTS[i] + (WATTS[i + 1] - WATTS[i]) * (10.0 * load - i)


class Sampled:
    """Which machine is on which host, and what was sampled so far."""

    def __init__(self, lines: Floats, mips: Floats, capacity: float, hosts: int, at: Sequence[int]) -> None:
        self.lines, self.mips, self.capacity, self.at = lines, mips, capacity, list(at)
        self.on = [[v for v, host in enumerate(at) if host == h] for h in range(hosts)]
        self.leaving: set[int] = set()
        self.machines: list[list[Sample]] = [[] for _ in mips]
        self.hosts: list[list[Sample]] = [[] for _ in range(hosts)]
        self.energy = 0.0  # J

    def sample(self, time: float) -> None:
        """What everybody gets at this moment, and the energy since the last one."""
        k = int(time // STEP)
        slope = (self.lines[:, k + 1] - self.lines[:, k]) / STEP
        asked = ((self.lines[:, k] + slope * (time - k * STEP)) * self.mips).tolist()
        for h, course in enumerate(self.hosts):
            before = course[-1] if course else Sample(time, 0.0, 0.0)
            if course and not self.on[h] and before.given == 0.0:
                continue  # it was empty before too
            self._share(h, time, asked)
            if before.given > 0.0:
                both = watts(before.given / self.capacity) + watts(course[-1].given / self.capacity)
                self.energy += 0.5 * both * (time - before.time)

    def _share(self, h: int, time: float, asked: list[float]) -> None:
        """Divide host h among its machines and those that are on their way to it."""
        parts = [asked[v] * (1.0 if self.at[v] == h else AWAY) for v in self.on[h]]
        scale = min(1.0, self.capacity / (sum(parts) or 1.0))
        total = 0.0
        for v, part in zip(self.on[h], parts, strict=True):
            slowed = 1.0 - AWAY if self.at[v] == h and v in self.leaving else 1.0
            given = part * scale * slowed
            given = float(int(given)) if scale < 1.0 else given
            if self.at[v] == h:
                note(self.machines[v], Sample(time, given, asked[v]))
            total += given / slowed
        note(self.hosts[h], Sample(time, total, sum(asked[v] for v in self.on[h])))

    def send(self, time: float, moves: list[tuple[int, int]]) -> None:
        """Machines begin to move to other hosts."""
        self.sample(time)
        for v, h in moves:
            self.leaving.add(v)
            self.on[h].append(v)
        self.sample(time)

    def arrive(self, time: float, moves: list[tuple[int, int]]) -> None:
        """Machines have come to their new hosts, where they are the last ones."""
        self.sample(time)
        for v, h in moves:
            self.on[self.at[v]].remove(v)
            self.on[h].remove(v)
            self.on[h].append(v)
            self.leaving.discard(v)
            self.at[v] = h
        self.sample(time)


def statistics(
    lines: Floats, mips: Floats, ram: Floats, capacity: float, hosts: int, at: Sequence[int],
    moves: Sequence[tuple[int, int, int, int]], end: float,
) -> dict[str, Any]:  # fmt: skip
    """The figures of a run, by the names of the recorded columns.

    lines (machines, times) utilisation every `STEP` s, mips (machines,) in the unit of the hosts' `capacity`, ram
    (machines,) MB, `at` (machines,) first hosts, moves (decision, machine, from, to) in their order, `end` in s.
    """
    run = Sampled(lines, mips, capacity, hosts, at)
    sent = {k: [(v, h) for _, v, _, h in some] for k, some in groupby(moves, lambda move: move[0])}
    for k in range(1, int((end - OFFSET) // STEP) + 1):
        run.send(time := STEP * k + OFFSET, sent.get(k, []))
        due = [(time + ram[v] / LAN, v, h) for v, h in sent.get(k, [])]
        for at_once, some in groupby(sorted(due, key=lambda one: one[0]), lambda one: one[0]):
            if at_once <= end:
                run.arrive(at_once, [(v, h) for _, v, h in some])
    active = [(one, seconds) for one, seconds in spans(run.hosts) if one.given > 0.0]
    short = [1.0 - one.given / one.asked for one, _ in spans(run.machines) if one.less]
    asked = sum(one.asked * seconds for one, seconds in spans(run.machines))
    given = sum(one.given * seconds for one, seconds in spans(run.machines))
    over = sum(seconds for one, seconds in active if one.less)
    return {
        "legacy_specpower_energy_Ws": run.energy,
        "sla_time_per_active_host_pct": 100.0 * over / sum(seconds for _, seconds in active),
        "sla_overall_pct": 100.0 * (1.0 - given / asked),
        "sla_average_pct": 100.0 * float(np.mean(short or 0.0)),
        "host_shutdowns": sum(
            before.given > 0.0 >= one.given
            for course in run.hosts
            for before, one in pairwise([Sample(0.0, 1.0, 1.0), *course])
        ),
    }

"""The frozen suite that schedulers are compared on: eight worlds of the interval model, five seeds.

A run has `ARRIVING` intervals in which containers come and `ENDING` in which none do, under every scheduler. A
container that has not ended by then counts as late, and with the seconds that it has been there. Equal seeds give
every scheduler the same containers. `DIGEST` freezes all figures: results of another digest are of another suite.
"""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from cosim.extensions.cosco.interval import (
    ContainerArrivals,
    ContainerWorkload,
    HostFleet,
    Interval,
    Type,
    aiotbench,
    azure_fog,
    metanet_fleet,
    simtune_testbed,
    static,
    traces,
)
from cosim.extensions.cosco.interval.fleet import POWER
from cosim.extensions.cosco.interval.layout import D_MIPS, D_RAM, POLICIES
from cosim.extensions.cosco.state import per_interval
from cosim.schedulers import scheduler
from cosim.schedulers.state import Policy

ARRIVING, ENDING = 60, 20  # intervals
SEEDS = (11, 12, 13, 14, 15)
DIGEST = "69be0e13ecc699ca"
HOUR, KWH = 3600.0, 3.6e6
_Seen = TypeVar("_Seen")


@dataclass(frozen=True, eq=False)
class World:
    """A fleet, its work and its rules."""

    name: str
    summary: str
    fleet: HostFleet
    workload: ContainerWorkload
    length: float  # s of an interval
    slots: int
    switch_off: bool = False
    boot: float = 0.0  # s

    def begin(self, seed: int, policy: str | None = None) -> Interval:
        """A run of this world, at its beginning."""
        return Interval(
            self.fleet, self.workload, seed, policy=policy, length=self.length, slots=self.slots,
            switch_off=self.switch_off, boot=self.boot,
        )  # fmt: skip


class WorldOutcome(NamedTuple):
    """What one scheduler made of one world under one seed."""

    energy: float  # kWh
    response: float  # s, mean over all containers
    late: float  # share of the containers that ended after their deadline, or not at all
    cost: float  # USD: hours that hosts were on times their prices
    waiting: float  # s from creation to the first instruction, mean
    migrations: float  # per container
    unfinished: float  # share of the containers
    cpu: float  # ms of a decision, mean
    wall: float  # ms of a decision, mean
    tasks: float = 0.0  # containers that came


FIGURES = WorldOutcome._fields[:-1]  # that are compared


def _memory(workload: ContainerWorkload, factor: float) -> ContainerWorkload:
    demand = workload.demand.copy()
    demand[:, :, D_RAM] *= factor
    return replace(workload, demand=demand)


def _slow(fleet: HostFleet, rate: float) -> HostFleet:
    """All links at `rate` MB/s, the router at ten times that."""
    return replace(fleet, types=tuple(replace(kind, up=rate, down=rate) for kind in fleet.types), router=10.0 * rate)


def _gateways() -> HostFleet:
    """16 small computers and 8 servers, whose watts per instruction differ."""
    pi = Type(4029, 8590, 32212, (4000, 4000), (40, 40), 117, 117, POWER["raspberry-pi-4b"], 0.003, 0.01)
    xeon = Type(20000, 34360, 1e6, (1e4, 1e4), (500, 500), 1250, 1250, POWER["xeon-x5570"], 0.020, 0.3)
    return HostFleet((pi, xeon), (0,) * 16 + (1,) * 8)


def _daily(count: int = 40, samples: int = 48) -> ContainerWorkload:
    """Demands that rise and fall, each profile in its own time; drawn once and for all."""
    rng = np.random.Generator(np.random.PCG64(20))
    base, phase = rng.uniform(300.0, 1500.0, count), rng.uniform(0.0, 2.0 * np.pi, count)
    swing = 1.0 + 0.7 * np.sin(2.0 * np.pi * np.arange(samples) / 24.0 + phase[:, None])
    demand = np.zeros((count, samples, 6))
    demand[:, :, D_MIPS] = np.round(base[:, None] * swing * rng.lognormal(0.0, 0.2, (count, samples)), 3)
    demand[:, :, D_RAM] = np.round(rng.uniform(200.0, 1200.0, count), 3)[:, None]
    found = traces([f"vm-{k}" for k in range(count)], demand, 3000.0 + np.zeros(count), np.full(count, 100.0))
    return replace(found, arrivals=ContainerArrivals("poisson", 3.0), duration=(10.0, 2.0))


def worlds() -> tuple[World, ...]:
    """The eight worlds."""

    def each(mean: float) -> ContainerArrivals:
        return ContainerArrivals("poisson", mean)

    return (
        World("small", "12 hosts, always on", azure_fog(12), static(300.0, each(1.5)), 300.0, 24),
        World("fog", "50 hosts, always on, half loaded", azure_fog(50), static(300.0, each(5.0)), 300.0, 80),
        World("sleep", "50 hosts that are off without work, 30 s to boot", azure_fog(50), static(300.0, each(3.0)),
              300.0, 80, True, 30.0),
        World("testbed", "SimTune's 50 hosts, image networks, light load", simtune_testbed(),
              aiotbench(2e6, each(4.0)), 300.0, 60),
        World("fleet", "MetaNet's 100 hosts, intervals of 10 s, off without work", metanet_fleet(),
              aiotbench(6e4, each(10.0)), 10.0, 100, True),
        World("busy", "24 hosts, four fifths loaded, sizes that vary", azure_fog(24),
              replace(static(300.0, each(3.6)), spread=0.5), 300.0, 60),
        World("links", "24 hosts behind slow links, large images", _slow(azure_fog(24), 20.0),
              _memory(aiotbench(3e6, each(4.0)), 3.0), 300.0, 60, True, 60.0),
        World("gateways", "16 small computers and 8 servers, demands of a day", _gateways(), _daily(), 300.0, 60, True,
              60.0),
    )  # fmt: skip


@cache
def names() -> tuple[str, ...]:
    """Of the eight worlds."""
    return tuple(one.name for one in worlds())


def digest() -> str:
    """Of all figures of the suite."""
    found = hashlib.sha256(json.dumps([ARRIVING, ENDING, SEEDS]).encode())
    for one in worlds():
        hosts, power = one.fleet.hosts()
        text = (one.name, one.length, one.slots, one.switch_off, one.boot, one.fleet.router, one.workload.laws())
        found.update(json.dumps(text, sort_keys=True).encode())
        for array in (hosts, power, *one.workload.arrays(one.length)):
            found.update(array.tobytes())
    return found.hexdigest()[:16]


def run(
    world: World, policy: str | Policy, seed: int, arriving: int = ARRIVING, limit: float | None = None
) -> WorldOutcome:
    """Run one scheduler by its name, or `module:name`, or a policy, for `arriving` intervals and those that end.

    With a `limit` (s of wall time) a decision that takes longer, or making the policy, ends this process by SIGALRM:
    the kernel does it whatever the policy's code is at. Raises `SchedulerError` when there is no such policy.
    """
    spent = [0.0, 0.0, 0.0]
    if isinstance(policy, str) and policy in POLICIES:
        one = world.begin(seed, policy)
    else:
        one = world.begin(seed)
        with limited(limit):
            made = scheduler(policy).policy("interval") if isinstance(policy, str) else policy
        one.decide_by(timed(per_interval(made, one), spent, limit))
    rows = [one.step() for _ in range(arriving - 1)]
    mean = float(one.world.rules["mean"][0])
    one.expect(0.0)
    rows += [one.step() for _ in range(ENDING + 1)]
    one.expect(mean)
    end = (arriving + ENDING) * world.length
    ended = one.drain()
    created = sum(row["arrived"] for row in rows)
    left = created - len(ended["response"])
    present = sum(row["present"] for row in rows)
    begun = np.asarray(ended["begun"], np.float64) - np.asarray(ended["created"], np.float64)
    slots = one.world.slots
    there = slots[slots["container"] >= 0]
    still = np.where(np.isnan(there["begun"]), end, there["begun"]) - there["created"] * world.length
    return WorldOutcome(
        energy=sum(row["energy"] for row in rows) / KWH,
        response=present / created,
        late=(float(np.asarray(ended["late"]).sum()) + left) / created,
        cost=one.cost(),
        waiting=float(begun.sum() + still.sum()) / created,
        migrations=sum(row["migrated"] for row in rows) / created,
        unfinished=left / created,
        cpu=1e3 * spent[0] / max(spent[2], 1),
        wall=1e3 * spent[1] / max(spent[2], 1),
        tasks=created,
    )


@contextmanager
def limited(limit: float | None, late: Callable[..., object] | signal.Handlers = signal.SIG_DFL) -> Iterator[None]:
    """Where what is done within takes more than `limit` s, let the kernel end this process, or call `late`."""
    if limit is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def timed(
    decide: Callable[[_Seen], ArrayLike], spent: list[float], limit: float | None
) -> Callable[[_Seen], ArrayLike]:
    """`decide`, each call within `limit` s; `spent` adds up s of CPU, s, and calls."""

    def made(seen: _Seen) -> ArrayLike:
        with limited(limit):
            cpu, wall = time.process_time(), time.perf_counter()
            found = decide(seen)
            spent[0] += time.process_time() - cpu
            spent[1] += time.perf_counter() - wall
        spent[2] += 1
        return found

    return made

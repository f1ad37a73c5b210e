"""Worlds to learn from, and the interval model's results of many decisions in each.

Fleets, loads and rules are drawn by a seed. None of them is one of the worlds of `suite`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cosim.contract.records import Floats, Ints, Records
from cosim.extensions.cosco.interval import (
    ContainerArrivals,
    ContainerWorkload,
    HostFleet,
    Interval,
    Type,
    aiotbench,
    azure_fog,
    static,
)
from cosim.extensions.cosco.interval.fleet import POWER
from cosim.extensions.cosco.state import per_interval
from cosim.extensions.metanet.catalogue.features import Features, features
from cosim.schedulers.objective import Scale, costs
from cosim.schedulers.placing import full, packed, settle, spread, there
from cosim.schedulers.state import State, decides


class DecisionResults(NamedTuple):
    """The model's results of K decisions in one state."""

    features: Features
    hosts: Ints  # (K, T) the host of each task
    energy: Floats  # (K,) in units of the fleet's full power times an interval
    response: Floats  # (K,) intervals per task
    busy: Floats  # (H,) share of each host's speed that the interval used, under the decision `taken`
    taken: int


def world(rng: np.random.Generator) -> Interval:
    """A fleet of 6 to 60 hosts under a load of 0.2 to 0.9 of its speed."""
    kinds = (
        *azure_fog(10).types,
        Type(4029, 4295, 32212, (1e4, 1e4), (1e4, 1e4), 125, 125, (2.7, 6.4), 0.003, 0.01),
        Type(20000, 24000, 1e5, (1e4, 1e4), (1e4, 1e4), 1250, 1250, POWER["xeon-x5570"], 0.02, 0.3),
    )
    chosen = rng.choice(len(kinds), int(rng.integers(1, 4)), replace=False)
    factor = rng.uniform(0.6, 1.6, len(chosen))
    slow = float(rng.choice([1.0, 1.0, 0.1, 0.01]))
    types = tuple(
        Type(
            kinds[k].mips * f, kinds[k].ram * f, kinds[k].disk, (1e5, 1e5), (1e5, 1e5), kinds[k].up * slow,
            kinds[k].down * slow, kinds[k].power, kinds[k].latency, kinds[k].price,
        )
        for k, f in zip(chosen, factor, strict=True)
    )  # fmt: skip
    count = int(rng.integers(6, 61))
    fleet = HostFleet(types, tuple(rng.integers(0, len(types), count).tolist()))
    length = float(rng.choice([10.0, 60.0, 300.0]))
    speed = sum(types[k].mips for k in fleet.place)
    load = float(rng.uniform(0.2, 0.9)) * speed * length
    sizes: ContainerWorkload = static(length)
    if rng.random() >= 0.5:
        sizes = aiotbench(float(rng.uniform(0.5, 8.0)) * 2000.0 * length)
    demand = sizes.demand.copy()
    demand[:, :, 1] *= float(rng.uniform(0.5, 4.0))
    assert sizes.work is not None
    work = sizes.work * (min(1.0, 15.0 * speed / count / 4000.0))
    peak = sizes.peak * float(rng.uniform(0.7, 2.0))
    mean = float(np.average(work, weights=sizes.share))
    workload = ContainerWorkload(
        sizes.names, demand, sizes.length, peak, sizes.disk, sizes.share,
        ContainerArrivals("poisson", min(load / mean, 12.0)), work=work, spread=float(rng.uniform(0.0, 0.5)),
        due=sizes.due,
    )  # fmt: skip
    off = bool(rng.random() < 0.5)
    return Interval(
        fleet, workload, int(rng.integers(2**62)), policy=None, length=length, slots=max(count, 24), switch_off=off,
        boot=0.1 * length * off * float(rng.integers(0, 2)),
    )  # fmt: skip


def candidates(state: State, rng: np.random.Generator, count: int) -> Ints:
    """(count, T) decisions that can be carried out: simple ones and more and less changed ones."""
    shape = (len(state.tasks), len(state.hosts))
    rows = [spread(state), packed(state)]
    near = there(state)
    while len(rows) < count:
        base = np.full(len(state.tasks), -1) if rng.random() < 0.2 else full(state, rows[int(rng.integers(2))])
        scores = rng.random(shape)
        kept = rng.random(shape[0]) >= float(rng.choice([0.03, 0.1, 0.3, 1.0]))
        kept &= base >= 0
        scores[kept, base[kept]] = 10.0
        if rng.random() < 0.3:  # empty a host
            scores[:, int(rng.integers(shape[1]))] = -1.0
        if rng.random() < 0.3:  # gather on few
            scores[:, rng.choice(shape[1], max(1, shape[1] // 4), replace=False)] += 1.0
        rows.append(settle(state, np.where(near, scores, -1e9)))
    return np.stack(rows)


def tried(state: State, scale: Scale, rows: Ints, figures: Records, pick: int) -> DecisionResults | None:
    """The results of `branch` for decisions (K, T), of which `pick` is carried out; None if too few can be compared."""
    good = (figures["refused"] == 0.0) & (figures["waiting"] == figures["waiting"].min())
    good[pick] = True
    whole = np.array([full(state, row) for row in rows])
    good &= (whole >= 0).all(axis=1)
    if good.sum() < 4 or not good[pick]:
        return None
    power = float(state.hosts["full_power"].sum()) * state.interval
    energy = (figures["energy"] + figures["ahead"]) / power
    response = (figures["present"] + figures["left"]) / (len(state.tasks) * state.interval)
    none = np.zeros(len(state.hosts))
    return DecisionResults(
        features(state, scale), whole[good], energy[good], response[good], none, int(good[:pick].sum())
    )


def collect(seed: int, worlds: int, intervals: int = 12, count: int = 24) -> Iterator[DecisionResults]:
    """States of `worlds` worlds, met under decisions that are sometimes the best tried and sometimes any."""
    rng = np.random.Generator(np.random.PCG64(seed))
    for _ in range(worlds):
        one, scale = world(rng), Scale()
        found: list[DecisionResults] = []

        def act(state: State, scale: Scale = scale, found: list[DecisionResults] = found) -> Ints:
            scale.see(state)
            if len(state.tasks) == 0:
                return np.empty(0, np.int64)
            assert state.branch is not None
            rows = candidates(state, rng, count)
            figures = state.branch(rows)
            values = costs(figures, state, scale)
            pick = int(values.argmin()) if rng.random() < 0.5 else int(rng.integers(count))
            said = tried(state, scale, rows, figures, pick)
            if said is not None:
                found.append(said)
            chosen: Ints = rows[pick]
            return chosen

        policy: Any = decides("interval")(act)
        one.decide_by(per_interval(policy, one))
        one.run(int(rng.integers(0, 4)))
        for _ in range(intervals):
            before = len(found)
            one.step()
            if len(found) > before:
                hosts = one.world.hosts
                yield found[-1]._replace(busy=hosts["used"] / hosts["mips"])

"""Small systems for the engine's tests."""

from __future__ import annotations

import numba
import numpy as np

from cosim.engine.continuum import Engine, Kind, System, WorkloadStream
from cosim.engine.continuum.layout import CLOUD, DEVICE, EDGE, EXPONENTIAL, FIXED
from cosim.engine.continuum.queue import put

CLOCK = 1e9


def fixed(value):
    return (int(FIXED), value, 0.0)


def exponential(mean):
    return (int(EXPONENTIAL), mean, 0.0)


def system(tiers, kinds, workloads=(), sources=(), links=(), present=None):
    """A system from lists: `sources` of (node, workload), `links` of (a, b, bit/s, s[, loss, J/bit])."""
    rows = np.array([(*link, 0.0, 0.0)[:6] for link in links], np.float64).reshape(-1, 6)
    pairs = np.array(sources, np.int64).reshape(-1, 2)
    return System(
        kinds=tuple(kinds),
        kind=np.arange(len(tiers)),
        tier=np.array([{"device": DEVICE, "edge": EDGE, "cloud": CLOUD}[tier] for tier in tiers], np.int64),
        present=np.ones(len(tiers), np.bool_) if present is None else np.array(present, np.bool_),
        workloads=tuple(workloads),
        source_node=pairs[:, 0],
        source_workload=pairs[:, 1],
        link_a=rows[:, 0].astype(np.int64),
        link_b=rows[:, 1].astype(np.int64),
        link_rate=rows[:, 2],
        link_delay=rows[:, 3],
        link_loss=rows[:, 4],
        link_energy=rows[:, 5],
    )


def queue(rate, mean_work, cores=1, fcfs=False, seed=1, slots=0):
    """An M/M/c station: one host that makes its own tasks, work in units of a core's second."""
    host = Kind(cores=cores, clock=CLOCK, fcfs=fcfs, slots=slots)
    load = WorkloadStream(rate=rate, work=exponential(mean_work * CLOCK))
    return Engine(system(["edge"], [host], [load], [(0, 0)]), seed, 0)


def every(period, work, size=0.0, back=0.0, **options):
    """A periodic stream of equal tasks."""
    return WorkloadStream(
        rate=1 / period, periodic=True, work=fixed(work), input=fixed(size), output=fixed(back), **options
    )


def field(
    load, devices=1, scheduler=0, *, host=None, cloud=None, links=None, seed=3, present=None, device=None, **options
):
    """Node 0: edge host with a cell, 1: second one, 2: cloud, 3..: devices that make `load`."""
    host = host or Kind(cores=2, clock=CLOCK, power=(10.0, 20.0))
    cloud = cloud or Kind(cores=8, clock=3 * CLOCK, power=(100.0, 300.0))
    links = [(0, 1, 8e6, 0.001), (0, 2, 80e6, 0.010), (1, 2, 80e6, 0.010)] if links is None else links
    tiers = ["edge", "edge", "cloud"] + ["device"] * devices
    kinds = [host, host, cloud] + [device or Kind()] * devices
    sources = [(3 + k, 0) for k in range(devices)]
    made = system(tiers, kinds, [load], sources, links, present)
    return Engine(made, seed, scheduler, **options)


def attach(engine, slot, cell, rate=8e6, delay=0.0, loss=0.0):
    """Serve one device: `rate` bit/s both ways."""
    engine.set_radio([slot], [cell], [rate], [rate], [delay], [loss])


@numba.njit
def _move(meta, number, time):
    put(meta[0], number, time)


def move(engine, number, time):
    """Let event `number` happen at another time."""
    _move(engine.state.meta, number, time)

"""Schedulers that decide once per interval, for many tasks at a time.

    engine = Engine(system, seed=7, scheduler=INTERVAL)
    view = engine.step(1.0)  # the tasks of the first second wait
    while engine.now < 60.0:
        view = engine.step(1.0, Decisions(view.pending["serial"], hosts_chosen))

Decisions hold at the beginning of the interval, in their order. They place waiting tasks and move
placed ones: a task on its way goes on to the new host from where it is, a running one stops, its
state travels over the links, and what is left of its work continues there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.contract.records import Floats
from cosim.engine.continuum.layout import DOWN, FREE, JOIN, MOVE, NEW, RUN, UP, KernelState
from cosim.engine.continuum.ledger import read_links, read_meters
from cosim.engine.continuum.looking import look_at
from cosim.engine.continuum.numbering import first_link_station, processor


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """Hosts of tasks: `host[k]` for the task with the serial number `task[k]`.

    A host is its number among the hosts, -2 for the device itself, or -1 for none: then a task
    whose device has no coverage waits for it and is pending again, and any other fails.
    """

    task: ArrayLike = field(default_factory=lambda: np.empty(0, np.int64))  # (n,) serial numbers
    host: ArrayLike = field(default_factory=lambda: np.empty(0, np.int64))  # (n,)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What a scheduler sees at the end of an interval. All arrays are the caller's own.

    `pending`, `placed`, `hosts` and `links` are columns by name, `ended` those of `Engine.drain`.
    """

    time: float  # s
    pending: dict[str, NDArray[Any]]  # (p,) tasks that wait for a decision, see `PENDING`
    reach: Floats  # (p, hosts) s of a reference transfer (100 kB) from the data, inf: no route or unable to run it
    placed: dict[str, NDArray[Any]]  # (q,) tasks with a host, see `PLACED`
    moves: Floats  # (q, hosts) s of a reference transfer from the host that they have
    hosts: dict[str, NDArray[Any]]  # (hosts,) see `HOSTS`
    links: dict[str, NDArray[Any]]  # (links,) see `LINKS`
    ended: dict[str, NDArray[Any]]  # (r,) tasks that ended in the interval


PENDING = {
    "serial": "serial number of the task",
    "device": "slot of its device",
    "workload": "number of its workload",
    "stage": "number of its stage in the graph, -1: none",
    "created": "s",
    "deadline": "s after creation, inf: none",
    "input": "B to be sent",
    "output": "B to be sent back",
    "work": "cycles",
    "accelerator": "kind of accelerator that it needs, -1: none",
    "operations": "FLOP on it",
    "memory": "B that it takes at its host",
    "storage": "B that it takes at its host",
    "at": "slot of the node where its input is",
    "own_speed": "cycles/s of its device's own cores together, 0: it could not compute it",
    "own_tasks": "tasks on its device's own cores",
}
PLACED = {
    "serial": "serial number of the task",
    "device": "slot of its device",
    "workload": "number of its workload",
    "host": "number of its host, -2: its device",
    "phase": "UP on the way, MOVE between hosts, JOIN waits for inputs, RUN on the host, DOWN on the way back",
    "created": "s",
    "deadline": "s after creation, inf: none",
    "input": "B",
    "work": "cycles",
    "left": "cycles that are still to be done",
    "movable": "whether it can be moved to another host",
}
DERIVED = ("stage", "own_speed", "own_tasks", "memory", "storage", "host", "left", "movable")  # no columns of TASK
HOSTS = {
    "slot": "node",
    "tier": "1 edge, 2 cloud",
    "cores": "cores",
    "clock": "cycles/s of a core",
    "slots": "tasks admitted at once, 0: unlimited",
    "assigned": "tasks sent there that are not computed",
    "running": "tasks on the host",
    "up": "whether it works",
    "frequency": "cycles/s of a core now",
    "memory": "B free, inf: unlimited",
    "storage": "B free, inf: unlimited",
    "state": "0 on, 1 asleep, 2 waking, 3 booting, 4 off",
    "utilisation": "mean share of the cores in use in the interval",
    "power": "mean W in the interval, without any time in it that of now",
    "energy": "J in the interval",
}
LINKS = {
    "a": "node at one end",
    "b": "node at the other end",
    "up": "whether it works",
    "rate": "B/s now, each way",
    "delay": "s now",
    "sent": "B carried from a to b in the interval",
    "received": "B carried from b to a in the interval",
    "active": "transfers under way, both ways",
}


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """Meters at the beginning of an interval."""

    time: float  # s
    busy: Floats  # (hosts,) s
    energy: Floats  # (hosts,) J
    carried: Floats  # (2 links,) B


def read(s: KernelState) -> Readings:
    """What the meters show now."""
    meters = read_meters(s, s.hosts["slot"])
    return Readings(float(s.meta["now"][0]), meters.busy, meters.energy, read_links(s))


def rows_of(s: KernelState, decisions: Decisions, *, check: bool = True) -> NDArray[np.int64]:
    """(n, 2) rows of the tasks and hosts of the decisions. Raises `ValueError` for one that cannot be, on `check`."""
    serial, host = np.asarray(decisions.task, np.int64), np.asarray(decisions.host, np.int64)
    if serial.shape != host.shape or serial.ndim != 1:
        raise ValueError(f"{serial.shape} tasks and {host.shape} hosts: decisions name one host for each task")
    live = np.flatnonzero(s.tasks["phase"] != FREE)
    live = live[np.argsort(s.tasks["serial"][live])]
    place = np.searchsorted(s.tasks["serial"][live], serial)
    known = place < len(live)
    known[known] = s.tasks["serial"][live[place[known]]] == serial[known]
    if not known.all():
        raise ValueError(f"task {serial[~known][0]} is not in flight, so it cannot be placed")
    rows = live[place]
    if len(np.unique(rows)) < len(rows):
        raise ValueError("a task is named twice; decide once about each")
    wrong = (host < -2) | (host >= len(s.hosts))
    if wrong.any():
        raise ValueError(
            f"host {host[wrong][0]} for task {serial[wrong][0]}; expected 0..{len(s.hosts) - 1}, -1 for none or -2 "
            "for the device itself"
        )
    tasks = s.tasks[rows]
    placed = tasks["held"] == 0
    fixed = placed & (
        ~np.isin(tasks["phase"], (UP, RUN, MOVE))
        | ((tasks["phase"] == UP) & (tasks["job"] >= 0))
        | (host == -1)
        | ((host == -2) & (s.stations["servers"][processor(tasks["device"])] == 0))
    )
    if check and fixed.any():
        raise ValueError(
            f"task {serial[fixed][0]} cannot be moved to {host[fixed][0]}: only tasks on their way to a host or "
            "running can, to a host or to a device with a processor, and stages when they run"
        )
    return np.stack([rows, host], axis=1)


def look(s: KernelState, before: Readings, ended: dict[str, NDArray[Any]]) -> View:
    """The view at the present time of the interval that began with the readings `before`."""
    after = read(s)
    span = after.time - before.time
    number = np.flatnonzero(s.tasks["phase"] != FREE)
    number = number[np.argsort(s.tasks["serial"][number])]
    live = s.tasks[number]
    waits = live["held"] != 0
    held = live[waits]
    has = (live["host"] >= 0) & (live["join"] < 0)
    placed = live[has]
    pending = {name: held[name].copy() for name in PENDING if name not in DERIVED}
    for name in ("memory", "storage"):
        pending[name] = s.workloads[name][held["workload"]]
    pending["stage"] = np.where(held["job"] >= 0, held["stage"] - s.workloads["first_stage"][held["workload"]], -1)
    reach, _, pending["own_speed"] = look_at(s.meta, number[waits])
    own = s.stations[processor(held["device"])]
    pending["own_tasks"] = own["active"] + own["queued"]
    where = s.nodes["host"][placed["host"]]
    rows = {name: placed[name].copy() for name in PLACED if name not in DERIVED}
    rows["host"] = np.where(where < 0, -2, where)
    moves, rows["left"], _ = look_at(s.meta, number[has])
    rows["movable"] = (where >= 0) & ((placed["phase"] == RUN) | ((placed["phase"] == UP) & (placed["job"] < 0)))
    busy, joules = after.busy - before.busy, after.energy - before.energy
    safe = span if span > 0.0 else 1.0
    hosts = {name: s.hosts[name].copy() for name in HOSTS if name in (s.hosts.dtype.names or ())}
    hosts["utilisation"] = busy / (safe * s.hosts["cores"]) if span > 0.0 else np.zeros(len(busy))
    hosts["power"] = joules / safe if span > 0.0 else read_meters(s, s.hosts["slot"]).power
    hosts["energy"] = joules
    stations = s.stations[first_link_station(len(s.nodes)) : int(s.meta["first_accelerator"][0])]
    carried = after.carried - before.carried
    links = {
        "a": s.links["a"].copy(), "b": s.links["b"].copy(), "up": s.links["up"].copy(),
        "rate": stations["rate"][0::2].copy(), "delay": s.links["delay"] + s.links["added"],
        "sent": carried[0::2].copy(), "received": carried[1::2].copy(),
        "active": stations["active"][0::2] + stations["active"][1::2],
    }  # fmt: skip
    return View(after.time, pending, reach, rows, moves, hosts, links, ended)


# the phases that a view names
__all__ = ["DOWN", "HOSTS", "JOIN", "LINKS", "MOVE", "NEW", "PENDING", "PLACED", "RUN", "UP", "Decisions", "View"]

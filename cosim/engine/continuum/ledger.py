"""Meters and books, read from the state without changing it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import address_of
from cosim.contract.records import Floats, Records
from cosim.engine.continuum import layout as l
from cosim.engine.continuum.agreement import AgreementAccount, account, conclude
from cosim.engine.continuum.billing import BILLED, bill
from cosim.engine.continuum.layout import KernelState
from cosim.engine.continuum.numbering import downlink, first_link_station, processor, uplink
from cosim.engine.continuum.resources import accelerator_use
from cosim.engine.continuum.sidebyside import side_by_side
from cosim.engine.continuum.sums import value
from cosim.engine.continuum.system import System

_MANY = 50_000  # rows that are sorted by compiled code
_EACH = np.array([processor(0), uplink(0), downlink(0)])[:, None]  # stations of a node, from its first on
_BLOCK = 1024  # rows that stay in a processor's cache while their columns are copied


@dataclass(frozen=True, slots=True, eq=False)
class NodeMeters:
    """Readings of some nodes, all since the start of the run and of all generations of the slot."""

    running: NDArray[np.int64]  # (n,) tasks on the node
    busy: Floats  # (n,) s, integral of the cores in use
    energy: Floats  # (n,) J of the node's electrical power, its accelerators included, its radio apart
    power: Floats  # (n,) W now
    completed: NDArray[np.int64]  # (n,) tasks completed with this node as host
    up: NDArray[np.bool_]  # (n,)
    transferred: Floats  # (n,) B of inputs got and of outputs that reached their device, as host
    uploads: NDArray[np.int64]  # (n,) transfers under way over the air
    downloads: NDArray[np.int64]
    sent: Floats  # (n,) B over the air, of unfinished transfers too
    received: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RunLedger:
    """The books of a run; every list of the same thing has the same sum."""

    tally: NDArray[np.int64]  # (workloads, 2 + STATUSES) created, late, then by status
    in_flight: NDArray[np.int64]  # (workloads,) tasks; of graphs, jobs
    unfinished: tuple[NDArray[np.int64], Floats]  # of those, workload and s since creation of each
    stages: NDArray[np.int64]  # (stages, 1 + STATUSES) tasks of each stage of all graphs: created, by status
    stages_in_flight: NDArray[np.int64]  # (stages,)
    input: tuple[float, float, float, float]  # B offered, delivered, dropped, in transit
    output: tuple[float, float, float, float]
    state: tuple[float, float, float, float]  # B moved with running tasks
    energy: Floats  # (nodes,) J
    radio: Floats  # (nodes,) J spent by the node's radio
    cells: Floats  # (nodes,) J spent by the node's cell
    links: Floats  # (links,) J
    cost_cpu: Floats  # (nodes,)
    cost_transfer: Floats  # (nodes,)
    cost_energy: Floats  # (nodes,)
    cost_own: Floats  # (nodes,) of owning them up to now
    carbon: Floats  # (nodes,) g of CO2, of nodes with a tariff
    green: Floats  # (nodes,) J of green energy, of nodes with a tariff
    brown: Floats  # (nodes,) J of the other energy of nodes with a tariff
    windows: Floats  # (windows, nodes) J in each price window of the node's tariff
    services: Mapping[int, AgreementAccount]  # by workload, of those with an agreement

    @property
    def penalty(self) -> float:
        """Currency owed for agreements that were not kept."""
        return math.fsum(service.penalty for service in self.services.values())

    @property
    def cost(self) -> float:
        """Currency: cores, transfers, energy, owning and penalties."""
        return float((self.cost_cpu + self.cost_transfer + self.cost_energy + self.cost_own).sum()) + self.penalty


def _upto(stations: Records, at: Any, now: float) -> tuple[Floats, Floats, Floats]:  # noqa: ANN401 - an index
    """(units served, busy server-seconds, J) at `now` of the stations `at`; whole records would be slow to pick."""
    span, rate = now - stations["since"][at], stations["rate"][at]
    used = np.where(rate > 0.0, np.minimum(stations["active"][at], stations["servers"][at]), 0)
    served = stations["served"][at] + rate * used * span
    return served, stations["busy"][at] + used * span, stations["energy"][at] + stations["power"][at] * span


def read_links(s: KernelState) -> Floats:
    """B served by the stations of the links up to the present time."""
    links = slice(first_link_station(len(s.nodes)), int(s.meta["first_accelerator"][0]))
    return _upto(s.stations, links, float(s.meta["now"][0]))[0]


def read_meters(s: KernelState, slots: NDArray[np.int_]) -> NodeMeters:
    """The meters of nodes at the present time."""
    nodes, stations = s.nodes, s.stations
    at = processor(slots) + _EACH  # (3, n)
    (_, sent, received), (busy, _, _), (energy, _, _) = _upto(stations, at, float(s.meta["now"][0]))
    active, power = stations["active"][at], stations["power"][at[0]]
    if len(s.accelerators):
        more, watts = accelerator_use(s)
        energy, power = energy + more[slots], power + watts[slots]
    running = active[0] + stations["queued"][at[0]]
    if len(s.machines):
        machine = nodes["machine"][slots]
        mine = machine >= 0
        machines = s.machines[machine[mine]]
        running[mine] = machines["resident"] + machines["waiting"]
    return NodeMeters(
        running=running,
        busy=busy,
        energy=energy,
        power=power,
        completed=nodes["completed"][slots],
        up=nodes["up"][slots] != 0,
        transferred=nodes["inputs"][slots] + nodes["outputs"][slots],
        uploads=active[1],
        downloads=active[2],
        sent=sent,
        received=received,
    )


def owned(s: KernelState, system: System) -> Floats:
    """(nodes,) s for which nodes that are there from the start are paid for."""
    now = float(s.meta["now"][0])
    found = np.full(len(s.nodes), now)
    rented = np.array([kind.rented for kind in system.kinds])[system.kind] & (s.nodes["machine"] >= 0)
    if rented.any():
        machines = s.nodes["machine"][rented]
        rows = s.machines[machines]
        found[rented] -= s.spells[machines, l.OFF] + np.where(rows["state"] == l.OFF, now - rows["since"], 0.0)
    return found


def bills(s: KernelState, system: System, energy: Floats) -> Floats:
    """(4 + windows, nodes) what energy under tariffs cost, at the present time, see `billing.bill`."""
    tariff = np.array([kind.tariff for kind in system.kinds])[s.nodes["kind"]]
    return bill(s.billed, energy, tariff, system.tariffs, float(s.meta["now"][0]))


def services(s: KernelState, system: System) -> dict[int, AgreementAccount]:
    """The standing of all agreements at the present time, tasks that are not drained included."""
    agreements = {number: load.sla for number, load in enumerate(system.workloads) if load.sla is not None}
    if not agreements:
        return {}
    service = s.service.copy()
    account(service, agreements, sorted_rows(s))
    return conclude(service, agreements, float(s.meta["now"][0]))


def sorted_rows(s: KernelState, threads: int = 1) -> dict[str, NDArray[Any]]:
    """The tasks that ended and are not drained, by time of their end, then serial number."""
    rows = s.ended[: int(s.meta["done"][0])]
    if len(rows) > _MANY:
        return _sorted_many(rows, threads)
    names = rows.dtype.names or ()
    found = {name: np.empty(len(rows), rows.dtype[name]) for name in names}
    for begin in range(0, len(rows), _BLOCK):  # a row is read from memory once, not once per column
        part = rows[begin : begin + _BLOCK]
        for name in names:
            found[name][begin : begin + _BLOCK] = part[name]
    ended, serial = found["ended"], found["serial"]
    if np.all((ended[1:] > ended[:-1]) | ((ended[1:] == ended[:-1]) & (serial[1:] > serial[:-1]))):
        return found
    order = np.lexsort((serial, ended))
    return {name: column[order] for name, column in found.items()}


def _sorted_many(rows: Records, threads: int) -> dict[str, NDArray[Any]]:
    """The same in compiled code, which small systems do not wait for."""
    from cosim.engine.continuum import dividing
    from cosim.engine.continuum.regions import order_by

    names = l.ENDED.names or ()
    words, fields, count = rows.view(np.int64), len(names), len(rows)
    time, serial = np.empty(count), np.empty(count, np.int64)
    in_order = dividing.keys(words, count, fields, names.index("ended"), names.index("serial"), time, serial)
    order = np.arange(count) if in_order else order_by(time, serial, np.empty(0, np.int64), threads)
    columns = np.empty(fields * count, np.int64)
    ends = [count * k // threads for k in range(threads + 1)]
    turn = partial(dividing.turn, address_of(words), words, order, fields)
    side_by_side([partial(turn, first, last, columns) for first, last in pairwise(ends)])
    return {name: columns[k * count : (k + 1) * count].view(l.ENDED[name]) for k, name in enumerate(names)}


def radio_energy(s: KernelState, meters: NodeMeters) -> Floats:
    """(nodes,) J of the nodes' radios, each byte by the technology that carried it; meters of all nodes."""
    if len(s.radio) == len(s.kinds):
        sent, received = s.radio[s.nodes["kind"]].T
        plain: Floats = 8.0 * (meters.sent * sent + meters.received * received)
        return plain
    nodes, air = s.nodes, s.air.copy()
    cell = nodes["cell"]
    now = np.where(cell >= 0, s.kinds["technology"][nodes["kind"][cell]], 0)
    every = np.arange(len(nodes))
    air[every, now, 0] += meters.sent - nodes["marked_up"]
    air[every, now, 1] += meters.received - nodes["marked_down"]
    technologies = air.shape[1]
    rows = s.kinds["first_radio"][nodes["kind"]][:, None] + np.arange(technologies)
    joules: Floats = 8.0 * (air * s.radio[rows]).sum(axis=(1, 2))
    return joules


def cell_energy(s: KernelState, meters: NodeMeters, system: System) -> Floats:
    """(nodes,) J of the nodes' cells; what is not booked yet is the present cell's. Meters of all nodes."""
    nodes = s.nodes
    tariff = np.array([(kind.cell_sent, kind.cell_received) for kind in system.kinds])
    if not tariff.any():
        return np.zeros(len(nodes))
    per_sent, per_received = tariff[nodes["kind"]].T
    served = np.flatnonzero(nodes["cell"] >= 0)
    cell, count = nodes["cell"][served], len(nodes)
    received = np.bincount(cell, weights=(meters.sent - nodes["marked_up"])[served], minlength=count)
    sent = np.bincount(cell, weights=(meters.received - nodes["marked_down"])[served], minlength=count)
    joules: Floats = 8.0 * ((nodes["cell_received"] + received) * per_received + (nodes["cell_sent"] + sent) * per_sent)
    return joules


def close_books(s: KernelState, system: System) -> RunLedger:
    """The books at the present time. What is in flight is counted, not inferred."""
    meta = s.meta[0]
    live = s.tasks[s.tasks["phase"] != l.FREE]
    inward = np.isin(live["phase"], (l.NEW, l.UP))
    outward = live["phase"] == l.DOWN
    slots = np.arange(len(s.nodes))
    meters = read_meters(s, slots)
    links = read_links(s)

    def each(name: str) -> Floats:
        return np.array([getattr(kind, name) for kind in system.kinds], np.float64)[system.kind]

    def amounts(first: int, in_transit: float) -> tuple[float, float, float, float]:
        return value(s.sums, first), value(s.sums, first + 1), value(s.sums, first + 2), in_transit

    billed = bills(s, system, meters.energy)
    has_tariff = each("tariff") >= 0
    moving = live[live["phase"] == l.MOVE]
    sizes = s.workloads["state"][moving["workload"]]
    moved = np.where(sizes >= 0.0, sizes, moving["input"])
    own = live[live["join"] < 0]
    single, busy = own[own["job"] < 0], np.unique(own["job"][own["job"] >= 0])  # a job in flight has a task in flight
    loads = np.concatenate([single["workload"].astype(np.int64), s.jobs["workload"][busy]])
    ages = float(meta["now"]) - np.concatenate([single["created"], s.jobs["created"][busy]])
    order = np.lexsort((ages, loads))  # rows of tasks are where there was room

    return RunLedger(
        tally=s.tally.copy(),
        in_flight=np.bincount(loads, minlength=len(s.tally)),
        unfinished=(loads[order], ages[order]),
        stages=s.stage_tally.copy(),
        stages_in_flight=np.bincount(own["stage"][own["job"] >= 0], minlength=len(s.stages)),
        state=amounts(l.STATE_OFFERED, math.fsum(moved)),
        input=amounts(l.INPUT_OFFERED, math.fsum(live["input"][inward])),
        output=amounts(l.OUTPUT_OFFERED, math.fsum(live["output"][outward])),
        energy=meters.energy,
        radio=radio_energy(s, meters),
        cells=cell_energy(s, meters, system),
        links=8.0 * (links[0::2] + links[1::2]) * system.link_energy,
        cost_cpu=meters.busy * each("price_cpu"),
        cost_transfer=meters.transferred * each("price_transfer"),
        cost_energy=np.where(has_tariff, billed[1], meters.energy * each("price_energy")),
        cost_own=np.where(system.present, owned(s, system), 0.0) * each("price_own"),
        carbon=billed[2],
        green=billed[3],
        brown=np.where(has_tariff, meters.energy - billed[3], 0.0),
        windows=billed[BILLED:],
        services=services(s, system),
    )

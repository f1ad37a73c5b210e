"""A scene as the engine wants it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.continuum import affinity, demand, equipment
from cosim.adapters.continuum.config import ContinuumConfig
from cosim.contract.entities import Node, PricedQuantities, Scene, SlotRange, WorkloadQuantities, alike
from cosim.contract.laws import Law
from cosim.contract.quantity import carried
from cosim.contract.signals import ACCELERATORS
from cosim.engine.continuum import tariff
from cosim.engine.continuum.hardware import Quota
from cosim.engine.continuum.layout import CLOUD, DEVICE, EDGE, EXPONENTIAL, FIXED, LOG_NORMAL, UNIFORM
from cosim.engine.continuum.system import Kind, System, WorkloadStream

_TIERS = {"device": DEVICE, "edge": EDGE, "cloud": CLOUD}
_DISCIPLINES = ("sharing", "fcfs", "priority", "edf")  # by their numbers in the engine
_LAWS = {"fixed": FIXED, "exponential": EXPONENTIAL, "uniform": UNIFORM, "log-normal": LOG_NORMAL}


@dataclass(frozen=True, slots=True, eq=False)
class ContinuumWorld:
    """The engine's system, and whose books a slot goes into."""

    system: System
    names: tuple[str, ...]  # static nodes by id, then fleets by name
    group: NDArray[np.int64]  # (slots,) index into names
    tier: NDArray[np.int64]  # (slots,)


def slots_of(ranges: Iterable[SlotRange]) -> NDArray[np.int64]:
    """All slots of some ranges, each once, ascending."""
    parts = [np.arange(part.first, part.first + part.count, dtype=np.int64) for part in ranges]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def _law(law: Law) -> tuple[int, float, float]:
    return _LAWS[law.law], law.a, law.b


def _kind(node: Node, config: ContinuumConfig, numbers: dict[str, int], tariffs: dict[str, int]) -> Kind:
    cell = node.cell
    chosen = config.discipline if isinstance(config.discipline, str) else config.discipline.get(node.kind, "sharing")
    quota = config.quotas.get(node.kind)
    return Kind(
        power=equipment.power_table(node.power, node.cores),
        fcfs=_DISCIPLINES.index(chosen), preempts=config.preemption,
        quota=None if quota is None else Quota(quota.period, quota.quota, quota.burst),
        rented=node.kind in config.autoscale, tariff=tariffs.get(node.tariff, -1),
        radio_by_technology=equipment.radio_by_technology(node, numbers),
        technology=numbers[cell.technology or ""] if cell else 0,
        cell_sent=cell.energy_sent if cell else 0.0, cell_received=cell.energy_received if cell else 0.0,
        accelerators=equipment.accelerators(node), states=node.states,
        scaling=equipment.scaling(node.scaling), battery=equipment.battery(node), **carried(node, PricedQuantities),
    )  # fmt: skip


def _pairs(scene: Scene) -> list[NDArray[np.float64]]:
    """One row per link: a, b, rate, delay, loss, energy, rate back over rate, jitter. A later row of a pair holds."""
    blocks = []
    for link in scene.links:
        a, b = slots_of(link.a), slots_of(link.b)
        ends = np.stack([np.repeat(a, len(b)), np.tile(b, len(a))], axis=1).astype(np.float64)
        ends = ends[ends[:, 0] != ends[:, 1]]
        state = link.state
        back = link.back.rate / state.rate if state.rate else 1.0
        row = [state.rate, state.delay, state.loss, link.energy, back, state.jitter]
        values = np.tile(row, (len(ends), 1))
        blocks.append(np.hstack([ends, values]))
    if not blocks:
        return [np.empty(0)] * 8
    rows = np.concatenate(blocks)
    low, high = rows[:, :2].min(axis=1), rows[:, :2].max(axis=1)
    last = len(rows) - 1 - np.unique((low * scene.capacity + high)[::-1], return_index=True)[1]
    return list(rows[np.sort(last)].T)


def build(scene: Scene, config: ContinuumConfig, root: Path, duration: float) -> ContinuumWorld:
    """The engine's system for a `scene` that `check` has accepted.

    `root` is the folder in which the files of traces and tariffs lie; tariffs repeat up to `duration` (s).
    """
    templates: Sequence[Node] = (*scene.nodes, *(fleet.template for fleet in scene.fleets))
    numbers = equipment.technologies(templates)
    group = np.arange(scene.capacity, dtype=np.int64)
    for number, fleet in enumerate(scene.fleets, len(scene.nodes)):
        group[fleet.first : fleet.first + fleet.capacity] = number
    tier = np.array([_TIERS[node.tier] for node in templates], np.int64)[group]
    sources = [slots_of(load.sources) for load in scene.workloads]
    tariffs = {tariff.name: k for k, tariff in enumerate(scene.tariffs)}
    a, b, rate, delay, loss, energy, back, jitter = _pairs(scene)
    sorts, sort = alike(templates)
    kinds = [_kind(node, config, numbers, tariffs) for node in sorts]
    system = System(
        kinds=tuple(kinds[which] for which in sort),
        kind=group,
        tier=tier,
        present=np.arange(scene.capacity) < len(scene.nodes),
        workloads=tuple(
            WorkloadStream(
                rate=load.rate, work=_law(load.work), slow=(load.work.share, load.work.times),
                input=_law(load.input), output=_law(load.output),
                periodic=load.arrivals == "every", priority=config.priorities.get(load.name, 0),
                accelerator=ACCELERATORS.index(load.accelerator) if load.accelerator else -1,
                operations=_law(load.operations), sensitivity=load.sensitivity,
                graph=demand.graph(load, _law), sla=demand.sla(load.agreement),
                bag=load.bag if load.arrivals == "bag" else None, trace=demand.trace(load, slots, scene, root),
                **carried(load, WorkloadQuantities),
            )
            for load, slots in zip(scene.workloads, sources, strict=True)
        ),
        source_node=np.concatenate(sources) if sources else np.empty(0, np.int64),
        source_workload=np.repeat(np.arange(len(sources)), [len(slots) for slots in sources]).astype(np.int64),
        link_a=a.astype(np.int64), link_b=b.astype(np.int64), link_rate=rate, link_delay=delay, link_loss=loss,
        link_energy=energy, link_back=back, link_jitter=jitter, tariffs=tariff.rates(scene, root, duration),
        bound=affinity.tables(scene),
    )  # fmt: skip
    return ContinuumWorld(system, tuple(node.id for node in templates), group, tier)

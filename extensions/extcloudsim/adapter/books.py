"""The ledgers at the end of a run."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from cosim.contract.adapter import Summary
from cosim.contract.entities import Scene
from cosim.extensions.extcloudsim.adapter.world import DatacentreWorld
from cosim.extensions.extcloudsim.datacentre.model import Datacentres


def summary(model: Datacentres, world: DatacentreWorld, scene: Scene) -> Summary:
    """Energy, cost, service and migrations.

    `energy.total` is the sum over `by_node` plus `links` and `cooling`, and over `by_place` plus the same;
    `cost.total` is the sum of `energy`, `penalty.total` and `transfer`. Costs are in the currency of the prices.
    """
    books = model.ledger()
    names = [scene.nodes[slot].id for slot in world.slot]
    tiers = np.array([scene.nodes[slot].tier for slot in world.slot])
    by_place = np.bincount(world.hosts.place, books.energy, len(world.places))
    penalties = {"overload": books.overload, "migration": books.migration, "crash": books.crash, "memory": books.memory}
    total = {cause: float(amount.sum()) for cause, amount in penalties.items()}
    per_group = sum(penalties.values(), np.zeros(len(world.group)))

    def grouped(amount: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, float]:
        sums = np.bincount(world.group, amount, len(world.groups))
        return {name: float(value) for name, value in zip(world.groups, sums, strict=True)}

    by_key = {"energy": books.gpu_energy, "busy": books.gpu_busy}
    by_host = {key: dict(zip(names, map(float, of), strict=True)) for key, of in by_key.items()}
    gpus = {"accelerators": {"gpu": by_host}} if world.hosts.gpus.any() else {}
    used = model.sums.busy / (model.time or 1.0)
    return {
        "utilisation": dict(zip(names, map(float, used), strict=True)),
        "energy": {
            "total": float(books.energy.sum()) + books.link_energy + float(books.cooling.sum()),
            "by_node": {name: float(value) for name, value in zip(names, books.energy, strict=True)},
            "by_tier": {tier: float(books.energy[tiers == tier].sum()) for tier in ("edge", "cloud")},
            "by_place": {name: float(value) for name, value in zip(world.places, by_place, strict=True)},
            "memory": float(books.active @ world.memory),
            "waking": float(books.wake_energy.sum()),
            "radio": 0.0,
            "links": books.link_energy,
            **({"gpus": float(books.gpu_energy.sum())} if gpus else {}),
            **({"cooling": float(books.cooling.sum())} if world.cooling else {}),
        },
        "cost": {
            "total": books.cost,
            "energy": float(books.energy_cost.sum()),
            "energy_by_place": {name: bill.cost for name, bill in zip(world.places, books.bills, strict=True)},
            "penalty": {"total": books.penalty, **total, "by_group": grouped(per_group)},
            "transfer": float(books.transfer.sum()),
            "revenue": float(books.paid.sum()),
        },
        "carbon": {
            "grams": sum(bill.carbon for bill in books.bills),
            "green_energy": sum(bill.green for bill in books.bills),
            "brown_energy": sum(bill.brown for bill in books.bills),
        },
        "machines": {
            "count": len(world.group),
            "migrations": books.migrations,
            "between_places": books.inter,
            "restarts": books.restarts,
            "moved": books.moved_mb * 1e6,
            "away": grouped(books.away),
            "short_of_memory": grouped(books.cramped),
            "periods": books.served,
            "violating_periods": books.violating,
        },
        "hosts": {
            "active": float(books.active.sum()),
            "down": float(books.down.sum()),
            "overloaded_periods": books.over_periods,
            "active_periods": books.active_periods,
        },
        "cap": {
            name: {"above": float(above), "excess": float(excess)}
            for name, above, excess in zip(world.places, books.above, books.excess, strict=True)
            if world.caps
        },
        **gpus,
        "sla": asdict(books.levels),
        "work": {
            "wanted": books.wanted,
            "done": books.done,
            "dropped": books.dropped,
            "waiting": books.waiting,
        },
    }

"""What a run of vehicles comes to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.contract.records import Records
from cosim.physics.vehicles import VehicleFleet
from cosim.physics.vehicles import phases as ph
from cosim.physics.vehicles.engagement import Engagements
from cosim.physics.vehicles.study import fit


def summary(
    records: Records,
    pairs: Engagements,
    roster: VehicleRoster,
    fleet: VehicleFleet,
    travelled: NDArray[np.float64],
    weeded: NDArray[np.float64],
) -> Mapping[str, Any]:
    """JSON values; events that did not occur are null.

    `weeded` (pairs,) m^2: the area that a target covered in the rows of a field while its drone followed it.
    """
    s, charge = fleet.state, fleet.charge()
    vehicles = {
        name: {
            "travelled": float(travelled[k]),
            "energy": float(s["energy"][k]),
            "charge": float(charge[k]),
            "crashed": bool(s["crashed"][k]),
        }
        for k, name in enumerate(roster.ids)
    }
    used = {name: figures["energy"] for name, figures in vehicles.items()}
    surface = fit(records)
    outcome = [ph.OUTCOMES[code] for code in records["outcome"]]
    return {
        "vehicles": vehicles,
        "energy": {"total": math.fsum(used.values()), "by_node": used, "vehicles": math.fsum(used.values())},
        "engagements": [_row(record, pairs, roster) for record in records],
        "engaged": {name: outcome.count(name) for name in ph.OUTCOMES},
        "means": {name: _mean(records[name]) for name in ("t_engage", "error_mean", "t_return", "t_land", "coverage")},
        "area_seen": None if pairs.log.coverage is None else pairs.log.coverage.total(),
        "weeded": _weeded(weeded, pairs, roster, fleet) if weeded.any() else None,
        "surface": {
            "constant": _known(surface.constant),
            "per_metre": _known(surface.per_metre),
            "per_speed": _known(surface.per_speed),
            "explained": _known(surface.explained),
        },
    }


def _row(record: np.void, pairs: Engagements, roster: VehicleRoster) -> Mapping[str, Any]:
    pair = int(record["pair"])
    return {
        "drone": roster.ids[int(pairs.drones[pair])],
        "target": roster.ids[int(pairs.targets[pair])],
        "number": int(record["number"]),
        "outcome": ph.OUTCOMES[int(record["outcome"])],
        "reason": ph.REASONS[int(record["reason"])],
        **{name: _known(float(record[name])) for name in ph.METRICS},
    }


def _weeded(
    weeded: NDArray[np.float64], pairs: Engagements, roster: VehicleRoster, fleet: VehicleFleet
) -> Mapping[str, Any]:
    """The area in all, and by the energy of the drones that were engaged and by the time of the run."""
    drones = np.unique(pairs.drones)
    area, energy = float(weeded.sum()), float(fleet.state["energy"][drones].sum())
    by_drone = {roster.ids[drone]: float(weeded[pairs.drones == drone].sum()) for drone in drones}
    return {
        "area": area,
        "by_drone": by_drone,
        "per_Wh": area / (energy / 3600.0) if energy > 0.0 else None,
        "per_minute": area / (fleet.now / 60.0) if fleet.now > 0.0 else None,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _mean(values: NDArray[np.float64]) -> float | None:
    there = values[np.isfinite(values)]
    return float(there.mean()) if len(there) else None

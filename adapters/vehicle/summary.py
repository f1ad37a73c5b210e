"""What a run of vehicles comes to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.vehicle.roster import VehicleRoster
from cosim.vehicles import VehicleFleet
from cosim.vehicles import phases as ph
from cosim.vehicles.engagement import Engagements
from cosim.vehicles.study import fit


def summary(
    records: NDArray[np.void],
    pairs: Engagements,
    roster: VehicleRoster,
    fleet: VehicleFleet,
    travelled: NDArray[np.float64],
) -> Mapping[str, Any]:
    """JSON values; what did not come to pass is null."""
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
    used = {name: told["energy"] for name, told in vehicles.items()}
    surface = fit(records)
    outcome = [ph.OUTCOMES[code] for code in records["outcome"]]
    return {
        "vehicles": vehicles,
        "energy": {"total": math.fsum(used.values()), "by_node": used, "vehicles": math.fsum(used.values())},
        "engagements": [_row(record, pairs, roster) for record in records],
        "engaged": {name: outcome.count(name) for name in ph.OUTCOMES},
        "means": {name: _mean(records[name]) for name in ("t_engage", "error_mean", "t_return", "t_land", "coverage")},
        "area_seen": None if pairs.log.coverage is None else pairs.log.coverage.total(),
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


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _mean(values: NDArray[np.float64]) -> float | None:
    there = values[np.isfinite(values)]
    return float(there.mean()) if len(there) else None

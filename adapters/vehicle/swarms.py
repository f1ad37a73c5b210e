"""Swarms of a scenario: they take off, fly by their policies, and keep apart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cosim.adapters.vehicle.config import Place, SwarmPart
from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.contract.records import Floats
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.swarm import Formation, LaneSweep, Policy, RelayChain, SwarmGroups, assigned

_SOON = 1e-9  # s
_HEIGHT = 15.0  # m, of places without a height


class Swarms:
    """The swarms `parts` by name; places are dealt out when a swarm takes off, the nearest first."""

    def __init__(self, parts: Mapping[str, SwarmPart], roster: VehicleRoster, fleet: VehicleFleet) -> None:
        self._fleet = fleet
        self._parts = dict(parts)
        self._rows = {name: np.array([roster.row[node] for node in part.members]) for name, part in parts.items()}
        self._groups: dict[str, SwarmGroups] = {}

    def tick(self) -> None:
        """Whatever is due at the fleet's time."""
        for name, part in self._parts.items():
            if name in self._groups:
                self._groups[name].tick()
            elif self._fleet.now >= part.start - _SOON:
                self._begin(name, part)

    def _begin(self, name: str, part: SwarmPart) -> None:
        rows, fleet = self._rows[name], self._fleet
        policy = policy_of(part)
        homes = np.column_stack([fleet.state[rows][f"home_{axis}"] for axis in "xyz"])
        points = policy(0.0, len(rows))
        order = assigned(homes, points)
        fleet.arm(rows)
        fleet.take_off(rows, np.maximum(points[order, 2] - homes[:, 2], 1.0))
        dealt = _dealt(policy, order)
        self._groups[name] = SwarmGroups(
            fleet, rows, [dealt], part.separation, margin=part.margin, speed=1.25 * part.speed
        )

    def summary(self) -> Mapping[str, object]:
        """Per swarm its members, and the least distance in m of two of them (null: it has not begun)."""
        figures = {}
        for name, part in self._parts.items():
            group = self._groups.get(name)
            if group is not None:
                group.watch()
            figures[name] = {
                "members": len(part.members),
                "separation": part.separation,
                "nearest": None if group is None else float(group.nearest[0]),
            }
        return figures


def _dealt(policy: Policy, order: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Policy:
    def points(time: float, members: int) -> Floats:
        return np.asarray(policy(time, members)[order])

    return points


def policy_of(part: SwarmPart) -> Policy:
    """What the members of a swarm do. Raises `ValueError`."""
    if part.formation is not None:
        course = [_place(place) for place in part.formation.course]
        return Formation(course, part.formation.shape, part.formation.spacing, part.speed)
    if part.relay is not None:
        return RelayChain(_place(part.relay.begin), _place(part.relay.end))
    assert part.sweep is not None
    (west, south), (wide, high) = part.sweep.corner, part.sweep.size
    return LaneSweep((west, south, west + wide, south + high), part.sweep.height, part.sweep.lane, part.speed)


def _place(place: Place) -> tuple[float, float, float]:
    return place[0], place[1], place[2] if len(place) == 3 else _HEIGHT

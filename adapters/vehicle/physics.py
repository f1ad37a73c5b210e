"""Copters of our autopilot on the physics of other programs, one at each address."""

from __future__ import annotations

from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.keys import Vehicle
from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.autopilot.json_pilot import JsonPilot
from cosim.autopilot.table import address
from cosim.contract.entities import Node
from cosim.physics.vehicles import VehicleFleet


def moved_elsewhere(
    fleet: VehicleFleet, roster: VehicleRoster, config: VehicleConfig, nodes: list[Node]
) -> list[MovedElsewhere]:
    """One for each of `nodes`, which have `physics`."""
    made = []
    for node in nodes:
        vehicle = Vehicle.of(node)
        assert vehicle is not None
        assert vehicle.physics is not None
        settings, row = vehicle.physics, roster.row[node.id]
        at = address(settings.address, f"nodes.{node.id}.vehicle.physics.address")
        pilot = JsonPilot(fleet, row, at, rate=settings.rate, expo=settings.expo)
        made.append(MovedElsewhere(node.id, row, pilot, config.real.patience))
    return made


class MovedElsewhere:
    """A vehicle of the fleet that our autopilot flies and another program moves."""

    part = "physics"

    def __init__(self, name: str, row: int, pilot: JsonPilot, patience: float) -> None:
        """`patience`: s of wall time without an answer after which the program counts as gone."""
        self.name, self.row = name, row
        self._pilot, self._patience, self._until = pilot, patience, 0.0

    def seek(self) -> bool:
        """Whether the program answers."""
        return self._pilot.seek()

    def fly(self, until: float, there: bool) -> bool:
        """Bring the vehicle's row to `until` s; a program that comes back goes on from where it has its vehicle."""
        if not there:
            if not self._pilot.seek():
                self._until = until
                return False
            self._pilot.begin(self._until)
        found = self._pilot.fly(until, self._patience)
        self._until = until
        return found

    def unknown(self) -> tuple[str, ...]:
        """Nothing: the battery is ours."""
        return ()

    def orders(self) -> None:
        """Nothing else: our autopilot obeys the row."""

    def close(self) -> None:
        """Send no more."""
        self._pilot.close()

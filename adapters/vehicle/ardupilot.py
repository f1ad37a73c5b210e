"""Vehicles on our physics under real ArduPilots that the user starts, each at a UDP port of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.autopilot.ardupilot import ArduPilot, words
from cosim.autopilot.geodesy import Ground
from cosim.autopilot.table import PHYSICS_PORT, TCP_STEP, Address, address
from cosim.contract.adapter import Context, Requirement
from cosim.physics.vehicles import Rover, VehicleFleet

log = logging.getLogger(__name__)  # below "adapters": its warnings are printed as well


def ardupilots(
    context: Context, fleet: VehicleFleet, roster: VehicleRoster, config: VehicleConfig, names: list[str]
) -> Iterator[ArduPilot]:
    """One for each of `names`, nodes with `autopilot: ardupilot-json`; logs a table of commands that start them."""
    path, geo, lines = f"adapters.{context.name}.ardupilot.bind", context.scene.geo, list[str]()
    first = address(config.ardupilot.bind, path)
    ground = None if geo is None else Ground((geo.latitude, geo.longitude, geo.height))
    mavlink = not Requirement("pymavlink", "vehicles").missing()
    for number, name in enumerate(names):
        at, row = Address(first.host, first.port + TCP_STEP * number), roster.row[name]
        heading, level = float(roster.headings[row]), float(roster.levels[row])
        made = ArduPilot(
            name, row, fleet, roster.airframes[row], roster.homes[row], at,
            heading=heading, level=level, patience=config.real.patience, mavlink=mavlink, warn=log.warning,
        )  # fmt: skip
        yield made
        if name in roster.commanded:
            assert ground is not None, "check has seen to it"
            made.obey(ground, config.ardupilot.arming)
        program = "ardurover" if isinstance(roster.airframes[row], Rover) else "arducopter"
        instance, rest = divmod(at.port - PHYSICS_PORT, TCP_STEP)
        home = None if ground is None else ground.place(*roster.homes[row])
        lines.append(f"{name}  UDP {at}  {' '.join(words(program, at.host, -1 if rest else instance, home, heading))}")
    log.warning("physics for ArduPilots of %s:\n%s", context.name, "\n".join(lines))

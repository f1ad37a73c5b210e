"""Vehicles that are not all ours: a real ArduPilot on our physics, our autopilot on another, any MAVLink end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.vehicle.config import LONGER, VehicleConfig
from cosim.adapters.vehicle.keys import Vehicle, vehicles_of
from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.autopilot.ardupilot import ArduPilot, words
from cosim.autopilot.geodesy import Ground
from cosim.autopilot.json_pilot import JsonPilot
from cosim.autopilot.table import PHYSICS_PORT, TCP_STEP, Address, address
from cosim.contract.adapter import Context, Requirement
from cosim.contract.entities import Node
from cosim.contract.errors import RunError
from cosim.contract.frame import Array
from cosim.physics.vehicles import Rover, VehicleFleet
from cosim.physics.vehicles.layout import COPTER

if TYPE_CHECKING:
    from cosim.autopilot.mavlink_pilot import MavlinkPilot

log = logging.getLogger(__name__)
_BY = {"autopilot": "flown by its own autopilot", "physics": "moved by a physics of its own"}
_LOOK = 0.01  # s of wall time between two looks while the run waits for autopilots


class VehicleSource(Protocol):
    """The autopilot of one vehicle, or the physics."""

    name: str
    row: int  # of the fleet
    part: str  # which part of it is external: autopilot or physics

    def seek(self) -> bool:
        """Whether it is there, before the run starts; then the vehicle's row shows it."""

    def fly(self, until: float, there: bool) -> bool:
        """Bring the vehicle's row to `until` s. Whether its autopilot was there; `there`: whether it was before."""

    def unknown(self) -> tuple[str, ...]:
        """Columns of `vehicle` that it does not report."""
        return ()

    def orders(self) -> MavlinkPilot | None:
        """What carries out the orders in its row, if it takes any while it is there."""
        return None

    def close(self) -> None:
        """Release everything; may be called twice."""


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


class MovedElsewhere(VehicleSource):
    """A vehicle of the fleet that our autopilot flies and another program moves.

    Its battery is ours, and our autopilot obeys the row.
    """

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

    def close(self) -> None:
        """Send no more."""
        self._pilot.close()


class Outside:
    """The vehicles of the fleet with `autopilot: ardupilot-json` and `external`, and those with `physics`.

    While an autopilot is absent its vehicle is flown here: by its orders, and without any it holds where it was.
    Raises `SetupError` for what cannot be opened, `ScenarioError` for what the scenario lacks, and `RunError` when
    a vehicle is missing that may not be.
    """

    def __init__(self, context: Context, fleet: VehicleFleet, roster: VehicleRoster, config: VehicleConfig) -> None:
        self._fleet, self._ready = fleet, config.real.ready
        self._missing = {node.id: node.missing for node in context.scene.nodes}
        self._sources: list[VehicleSource] = []
        self._news: list[tuple[int, float, str]] = []  # row, when (s), which of `EVENTS`
        try:
            json, external = (
                [node for _, node, vehicle in vehicles_of(context.scene) if vehicle.autopilot == kind]
                for kind in ("ardupilot-json", "external")
            )
            for one in ardupilots(context, fleet, roster, config, [node.id for node in json]) if json else ():
                self._sources.append(one)  # each at once, for `close`
            moved = [node for _, node, vehicle in vehicles_of(context.scene) if vehicle.physics is not None]
            self._sources += moved_elsewhere(fleet, roster, config, moved)
            if external:
                from cosim.adapters.vehicle.external import externals  # needs pymavlink

                for end in externals(context, fleet, roster, external):
                    self._sources.append(end)
            self.absences = {source.name: 0 for source in self._sources}  # times that each was missed
            self._there = self._wait(self._ready)
        except BaseException:
            self.close()
            raise

    def advance(self, until: float, others: Callable[[float], None]) -> None:
        """Let all vehicles move on, those of `others` by calling it."""
        state = self._fleet.state
        rows = np.array([source.row for source in self._sources if source.name in self._there], np.int64)
        kept = state[rows].copy()
        others(until)
        state[rows] = kept  # theirs are moved by their own autopilots only
        for source in self._sources:
            before = source.name in self._there
            after = source.fly(until, before)
            if before and not after:
                self._news.append((source.row, until, "gone"))
                self._lose(source, until)
            elif after and not before:
                log.warning("%s is %s", source.name, _BY[source.part])
                self._news.append((source.row, until, "back"))
                self._there.add(source.name)
            if (pilot := source.orders()) is not None:
                for at, event, text in pilot.news():
                    log.warning("%.1f s: the autopilot of %s %s", at, source.name, text)
                    self._news.append((source.row, at, event))

    def unready(self) -> NDArray[np.bool_]:
        """(n,) of the fleet: whose autopilots were ordered to arm, and have not."""
        found = np.zeros(len(self._fleet.state), bool)
        for source in self._sources:
            if (pilot := source.orders()) is not None and source.name in self._there:
                found[source.row] = pilot.unready
        return found

    def news(self) -> list[tuple[int, float, str]]:
        """What has happened since the last call: row of the fleet, when (s), and which of `EVENTS`."""
        found, self._news = self._news, []
        return found

    def amend(self, columns: dict[str, Array]) -> None:
        """Write into columns of `vehicle` what autopilots report of themselves, and NaN where they report nothing."""
        for source in self._sources:
            if source.name in self._there:
                for name in source.unknown():
                    columns[name][source.row] = np.nan
                if (pilot := source.orders()) is not None:
                    columns["armed"][source.row] = pilot.armed

    def close(self) -> None:
        """Part from all autopilots; may be called twice."""
        for source in self._sources:
            source.close()

    def _wait(self, ready: float) -> set[str]:
        """Wait up to `ready` s of wall time for all; who has come."""
        end, missing = time.monotonic() + ready, list(self._sources)
        while True:
            missing = [source for source in missing if not source.seek()]
            if not missing or time.monotonic() >= end:
                break
            time.sleep(_LOOK)
        needed = [source.name for source in missing if self._missing[source.name] != "model"]
        if needed:
            what = " or ".join(sorted({source.part for source in missing if source.name in needed}))
            raise RunError(f"no {what} has come for {', '.join(needed)} within {ready:g} s; {LONGER}")
        for source in missing:
            log.warning("no %s has come for %s within %g s; it is flown here", source.part, source.name, ready)
            self._news.append((source.row, 0.0, "gone"))
        return {source.name for source in self._sources} - {source.name for source in missing}

    def _lose(self, source: VehicleSource, until: float) -> None:
        """Handle a vehicle whose autopilot is gone as the scenario specifies."""
        self.absences[source.name] += 1
        if self._missing[source.name] == "fail":
            raise RunError(
                f"the {source.part} of '{source.name}' does not answer, and 'missing: fail' ends the run then"
            )
        if self._missing[source.name] == "wait":
            log.warning("the %s of %s does not answer; waiting", source.part, source.name)
            end = time.monotonic() + self._ready
            while not source.fly(until, True):
                if time.monotonic() >= end:
                    raise RunError(
                        f"the {source.part} of '{source.name}' has not come back within {self._ready:g} s; {LONGER}"
                    )
                time.sleep(_LOOK)
            return
        self._there.discard(source.name)
        pilot = source.orders()
        if pilot is not None and pilot.active:
            log.warning("the %s of %s does not answer; it is flown here", source.part, source.name)
            pilot.part()
            return
        log.warning("the %s of %s does not answer; it holds where it is", source.part, source.name)
        row, state = source.row, self._fleet.state
        state["armed"][row] = state["landed"][row] == 0 or self._fleet.frames["kind"][row] != COPTER
        self._fleet.hold([row])

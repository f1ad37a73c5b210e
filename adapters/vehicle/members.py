"""Vehicles that are real nodes: each is flown by the program of its own container or namespace."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.vehicle.config import LONGER, VehicleConfig
from cosim.adapters.vehicle.keys import vehicles_of
from cosim.adapters.vehicle.roster import VehicleRoster, written_systems
from cosim.adapters.vehicle.signals import EVENTS
from cosim.autopilot.remote import Hub, HubVehicle, Lock, MemberStep, flown, take
from cosim.autopilot.table import plan
from cosim.contract.adapter import Context
from cosim.contract.entities import Node
from cosim.contract.errors import RunError, SetupError
from cosim.physics.vehicles import VehicleFleet
from cosim.testbed.launch.keys import name_of

log = logging.getLogger(__name__)


class Members:
    """The vehicles of the fleet that are flown elsewhere while their programs are there, and here while not.

    Raises `SetupError` when there is no address to listen at, and `RunError` when a vehicle that may
    not be missing is.
    """

    def __init__(self, context: Context, fleet: VehicleFleet, roster: VehicleRoster, config: VehicleConfig) -> None:
        scene, part = context.scene, config.real
        address, folder = context.service("vehicles"), context.service("keys")
        if not address or not folder:
            raise SetupError(
                f"adapters.{context.name}: no address and no keys for the programs of vehicles; `cosim run --nodes "
                "netns` and the compose file set COSIM_VEHICLES and COSIM_KEYS"
            )
        self._fleet, self._part = fleet, part
        found = vehicles_of(scene)
        self._nodes: dict[str, Node] = {n.id: n for _, n, _ in found if n.runs is not None}
        self._row = {name: roster.row[name] for name in self._nodes}
        self.absences = dict.fromkeys(self._nodes, 0)  # times that each was missed
        self.heard: dict[str, Mapping[str, Sequence[float]]] = {}  # by listener and speaker, as `Heard`
        self._unready = np.zeros(len(fleet.state), bool)
        self._news: list[tuple[int, float, str]] = []  # row, when (s), which of `EVENTS`
        vehicles = {node.id: vehicle for _, node, vehicle in found}
        planned = plan(
            [(name, v.persona, v.frame) for name, v in vehicles.items()],
            named=written_systems(list(vehicles.values()), roster.ids),
        )
        systems = {slot.name: slot.sysid for slot in planned}
        geo = scene.geo
        origin = (geo.latitude, geo.longitude, geo.height) if geo is not None else (0.0, 0.0, 0.0)
        entries = {
            name: HubVehicle(
                fleet.frames[row : row + 1].tobytes(),
                {
                    "system": systems[name],
                    "systems": systems,
                    "persona": vehicles[name].persona,
                    "origin": list(origin),
                    "arming": config.ardupilot.arming,
                },
            )
            for (name, node), row in zip(self._nodes.items(), self._row.values(), strict=True)
        }
        lock = Lock(Path(folder), name_of)
        self._hub = Hub(entries, self._rows(), address, lock=lock, terrain=fleet.terrain)
        self._hub.open()
        self._there = frozenset[str]()
        missing = self._hub.wait(self._nodes, part.ready)
        needed = sorted(name for name in missing if self._nodes[name].missing != "model")
        if needed:
            self.close()
            raise RunError(f"no program has come for {', '.join(needed)} within {part.ready:g} s; {LONGER}")
        for name in sorted(missing):
            log.warning("no program has come for %s within %g s; it is flown here", name, part.ready)
        self._there, self._losses = self._hub.present, dict(self._hub.losses)

    def advance(self, until: float) -> None:
        """Let all vehicles move on, each where it is flown. Raises `RunError` for one that may not be missing."""
        self._hub.rest()
        before = self._rows()
        winds = {name: self._fleet.wind[row].tolist() for name, row in self._row.items()}
        places = self._fleet.places()
        self._fleet.advance(until)
        done = self._hub.advance(before, until, winds, self._part.patience)
        for name, what in done.items():
            self._take(name, what)
        if self._fleet.contacts is not None and done:  # their programs know neither obstacles nor each other
            moved = np.isin(np.arange(len(places)), [self._row[name] for name in done])
            self._fleet.contacts.settle(self._fleet.state, self._fleet.frames, places, until, moved)
        self._watch()

    def flies(self, name: str) -> bool:
        """Whether a vehicle is flown by its own program right now."""
        return name in self._there

    def unready(self) -> NDArray[np.bool_]:
        """(n,) of the fleet: whose autopilots, not ours, were ordered to arm, and have not."""
        return self._unready

    def news(self) -> list[tuple[int, float, str]]:
        """What has happened with them since the last call: row of the fleet, when (s), and which of `EVENTS`."""
        found, self._news = self._news, []
        return found

    def close(self) -> None:
        """Send bye to the programs, since the run is over; may be called twice."""
        self._hub.close()

    def _rows(self) -> dict[str, tuple[bytes, bytes]]:
        return {name: flown(self._fleet, row) for name, row in self._row.items()}

    def _take(self, name: str, what: MemberStep) -> None:
        take(self._fleet, self._row[name], what.row, what.items)
        self.heard[name] = what.heard
        for text in what.said:
            log.info("%s: %s", name, text)
        self._unready[self._row[name]] = what.unready
        for at, event, text in what.news:
            log.warning("%.1f s: %s", at, f"the autopilot of {name} {text}" if event else text)
            if event in EVENTS:
                self._news.append((self._row[name], at, event))

    def _watch(self) -> None:
        """Notice who has gone, be it for a moment only, and who is back."""
        losses = self._hub.losses
        gone = sorted(name for name in self._nodes if losses[name] > self._losses.get(name, 0))
        for name in gone:
            self.absences[name] += losses[name] - self._losses.get(name, 0)
            self._unready[self._row[name]] = False  # it is flown here
            if self._nodes[name].missing == "fail":
                raise RunError(f"the program of '{name}' does not answer, and 'missing: fail' ends the run then")
            waits = self._nodes[name].missing == "wait"
            log.warning("the program of %s does not answer; %s", name, "waiting" if waits else "it is flown here")
            if waits and self._hub.wait([name], self._part.ready):
                raise RunError(f"the program of '{name}' has not come back within {self._part.ready:g} s; {LONGER}")
        there = self._hub.present
        for name in sorted(there - (self._there - set(gone))):
            log.warning("%s is flown by its own program", name)
        self._there, self._losses = there, dict(losses)

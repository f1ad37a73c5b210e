"""For what the vehicle model refuses a scene."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from cosim.adapters.vehicle.config import MavlinkPart, VehicleConfig
from cosim.adapters.vehicle.keys import Vehicle, vehicles_of
from cosim.autopilot.geodesy import HIGHEST, LOWEST
from cosim.autopilot.table import PHYSICS_PORT, TCP_STEP, Address, address, plan
from cosim.contract.adapter import Context, Requirement
from cosim.contract.delimited import content
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import Problem, ScenarioError, refusals
from cosim.contract.node_keys import ARDUPILOT
from cosim.contract.quantity import carried
from cosim.contract.reading.geojson import features, raised
from cosim.physics.vehicles.quantities import PackQuantities

if TYPE_CHECKING:
    from cosim.adapters.vehicle.roster import VehicleRoster

BYTES_PER_CELL = 100  # of a terrain, of memory at the peak: its text and its numbers


def problems(config: VehicleConfig, context: Context) -> list[Problem]:
    """Vehicles, missions, engagements and addresses that cannot be."""
    vehicles = [(node, vehicle) for _, node, vehicle in vehicles_of(context.scene)]
    found = list(_scene(context.scene))
    if not vehicles:
        return found
    from cosim.adapters.vehicle.legs import warnings_of  # needs numpy
    from cosim.adapters.vehicle.roster import VehicleRoster, aboard, written_systems

    names = [node.id for node, _ in vehicles]
    try:
        roster = VehicleRoster(context, config)
        found += _heights(config, context, roster) or warnings_of(roster, config.wind, f"adapters.{context.name}")
        if roster.terrain is not None:
            cells = roster.terrain.heights.size
            text = f"'{config.terrain}' has {cells} cells of {roster.terrain.box[2]:g} m"
            where = f"adapters.{context.name}.terrain"
            found.append(Problem(text, where, fatal=False, note=True, memory=BYTES_PER_CELL * cells))
    except ScenarioError as error:
        found += error.problems
    twice = refusals(lambda: written_systems([vehicle for _, vehicle in vehicles], names))
    found += twice
    if config.mavlink is not False and not twice:
        part = config.mavlink if isinstance(config.mavlink, MavlinkPart) else MavlinkPart()
        found += _mavlink(part, context, vehicles)
    if any(vehicle.autopilot == "ardupilot-json" for _, vehicle in vehicles):
        found += _ardupilots(config, context, vehicles)
    for name in aboard(context.scene):
        found += _origin(context, f"'{ARDUPILOT}' needs the scenario's origin", f"nodes.{name}.runs")
    found += _unable(config, vehicles, f"adapters.{context.name}")
    found += context.unreached(_begins(config, f"adapters.{context.name}"))
    found += _raised(config, context, f"adapters.{context.name}")
    found += _pauses(config, f"adapters.{context.name}.missions")
    found += _physics([(node, vehicle) for node, vehicle in vehicles if vehicle.physics is not None])
    found += _external(context, [(node, vehicle) for node, vehicle in vehicles if vehicle.autopilot == "external"])
    if config.aeroloop is not None:
        at = f"adapters.{context.name}.aeroloop"
        found += _origin(context, "AeroLoop's positions need the scenario's origin", at)
        found += refusals(lambda: address(str(config.aeroloop).removeprefix("tcp://"), at))
    return found


def listens(config: VehicleConfig, context: Context) -> dict[str, set[tuple[str, int]]]:
    """The addresses and ports of ground stations and of positions, by key; each vehicle has a port."""
    count = sum(1 for _ in vehicles_of(context.scene))
    part = MavlinkPart() if config.mavlink is True else config.mavlink
    found = {}
    if part and part.tcp is not None:
        found["mavlink"] = {("127.0.0.1", part.tcp + TCP_STEP * k) for k in range(count)}
    if config.aeroloop is not None and count:
        host, _, port = config.aeroloop.removeprefix("tcp://").rpartition(":")
        found["aeroloop"] = {(host, int(port))}
    return found


def _heights(config: VehicleConfig, context: Context, roster: VehicleRoster) -> list[Problem]:
    """Homes and places that no vehicle can be at: below all land, or beyond the air."""
    at, sea = f"adapters.{context.name}", context.scene.geo.height if context.scene.geo else 0.0
    every = [(f"nodes.{name}.at", float(home[2])) for name, home in zip(roster.ids, roster.homes, strict=True)]
    for m in roster.missions:
        every += [(f"{at}.missions.{roster.ids[m.vehicle]}", point.z) for point in m.course]
    every += [(f"{at}.engage.{k}.height", part.rule().height) for k, part in enumerate(config.engage)]
    for name, part in config.swarms.items():
        places = [
            *(part.formation.course if part.formation else ()),
            *((part.relay.begin, part.relay.end) if part.relay else ()),
        ]
        every += [(f"{at}.swarms.{name}", place[2]) for place in places if len(place) == 3]
        every += [(f"{at}.swarms.{name}.sweep.height", part.sweep.height)] if part.sweep else []
    wrong = {path: z for path, z in every if not LOWEST <= sea + z <= HIGHEST}
    hint = "heights count from the scenario's origin; is the unit right?"
    return [
        Problem(f"{sea + z:g} m above the sea is out of reach: {LOWEST:g} to {HIGHEST:g} m", path, hint=hint)
        for path, z in wrong.items()
    ]


def _unable(config: VehicleConfig, vehicles: list[tuple[Node, Vehicle]], at: str) -> Iterator[Problem]:
    """Warnings of drones that may not rise to where they are to be, and of vehicles that begin without charge."""
    for number, part in enumerate(config.engage):
        rule = part.rule()
        if 0.0 < rule.ceiling < rule.height:
            text = f"the drone is to be {rule.height:g} m high and may rise to {rule.ceiling:g} m"
            yield Problem(text, f"{at}.engage.{number}.ceiling", hint="raise it, or lower 'height'", fatal=False)
    for node, vehicle in vehicles:
        level, critical = vehicle.battery.level, carried(vehicle.battery, PackQuantities)["critical"]
        if vehicle.frame == "copter" and level <= critical:
            text = f"begins with a charge of {100 * level:g} %, at which it lands wherever it is"
            where, hint = f"nodes.{node.id}.vehicle.battery.level", f"'critical' is {100 * critical:g} %"
            yield Problem(text, where, hint=hint, fatal=False)


def _raised(config: VehicleConfig, context: Context, at: str) -> Iterator[Problem]:
    """Warnings of heights in a map that have no effect."""
    for key, hint in (("obstacles", "the property 'height' says how high they are"), ("weeds", "a field is flat")):
        file = getattr(config, key)
        with suppress(OSError, ValueError):  # reported where it is read
            data = json.loads(content(context.path(file))) if file is not None else None
            if isinstance(data, dict) and (high := raised(features(data))):
                text = f"of {high} features of '{file}' the third coordinate, a height, has no effect"
                yield Problem(text, f"{at}.{key}", hint=hint, fatal=False)


def _begins(config: VehicleConfig, at: str) -> Iterator[tuple[str, float]]:
    """When the orders of vehicles begin (s), by path."""
    for name, mission in config.missions.items():
        yield f"{at}.missions.{name}.start", mission.start
        yield from ((f"{at}.missions.{name}.pauses.{k}.at", pause.at) for k, pause in enumerate(mission.pauses))
    for number, part in enumerate(config.engage):
        yield from ((f"{at}.engage.{number}.commands.{k}.at", one.at) for k, one in enumerate(part.commands))
    yield from ((f"{at}.swarms.{name}.start", swarm.start) for name, swarm in config.swarms.items())


def _pauses(config: VehicleConfig, at: str) -> Iterator[Problem]:
    """Warnings of pauses that begin while another lasts, and of those that end before there is anything to pause."""
    for name, mission in config.missions.items():
        until = -1.0
        for k, pause in sorted(enumerate(mission.pauses), key=lambda one: one[1].at):
            path, end = f"{at}.{name}.pauses.{k}", pause.at + pause.span
            if pause.at < until:
                text = f"begins at {pause.at:g} s, while another pause lasts until {until:g} s; they are one pause"
                yield Problem(text, f"{path}.at", hint="begin it later, or write one pause", fatal=False)
            if end <= mission.start:
                text = f"ends at {end:g} s, before the mission begins at {mission.start:g} s, so it changes nothing"
                yield Problem(text, path, hint="begin it later, or leave it out", fatal=False)
            until = max(until, end)


def _scene(scene: Scene) -> Iterator[Problem]:
    for fleet in scene.fleets:
        if Vehicle.of(fleet.template) is not None:
            hint = "write static nodes instead, for example uav-[1..8]: {...}"
            yield Problem(f"'{fleet.name}' is a fleet; vehicles are static nodes", f"nodes.{fleet.name}", hint=hint)
    vehicles = vehicles_of(scene)
    for _, node, vehicle in vehicles:
        own = "physics" if vehicle.physics is not None else "autopilot" if vehicle.autopilot != "builtin" else ""
        if scene.real and own and node.runs is not None:
            text = f"'{node.id}' has {'a' if own == 'physics' else 'an'} {own} and a program of its own"
            yield Problem(text, f"nodes.{node.id}", hint=f"remove '{own}' or 'runs'")
    if not vehicles:
        hint = "give a node a vehicle, for example uav-1: {kind: uav, at: [0 m, 0 m], vehicle: {frame: copter}}"
        yield Problem("no node of the scenario has a 'vehicle' block", "nodes", hint=hint)


def _origin(context: Context, message: str, path: str) -> list[Problem]:
    hint = "write geo: {origin: [lat, lon]}"
    return [Problem(message, path, hint=hint)] if context.scene.geo is None else []


def _mavlink(part: MavlinkPart, context: Context, vehicles: list[tuple[Node, Vehicle]]) -> list[Problem]:
    """Endpoints need an origin, addresses that can be, and a system id for each vehicle."""
    at = f"adapters.{context.name}.mavlink"
    found = _origin(context, "MAVLink endpoints need the scenario's origin", at)
    if part.udp is not None:
        udp = part.udp
        found += refusals(lambda: address(udp, f"{at}.udp"))
    named = {node.id: vehicle.system for node, vehicle in vehicles if vehicle.system}
    tcp = None if part.tcp is None else Address("127.0.0.1", part.tcp)
    every = [(node.id, vehicle.persona, vehicle.frame) for node, vehicle in vehicles]
    found += [Problem(one.message, f"{at}.{one.path}" if one.path == "tcp" else at, hint=one.hint)
              for one in refusals(lambda: plan(every, [], tcp, named=named))]  # fmt: skip
    return found


def _ardupilots(config: VehicleConfig, context: Context, vehicles: list[tuple[Node, Vehicle]]) -> list[Problem]:
    path = f"adapters.{context.name}.ardupilot.bind"
    found = refusals(lambda: address(config.ardupilot.bind, path))
    count = sum(vehicle.autopilot == "ardupilot-json" for _, vehicle in vehicles)
    if not found and address(config.ardupilot.bind, path).port + TCP_STEP * (count - 1) > 65535:
        text = f"{count} UDP ports from {config.ardupilot.bind} in steps of {TCP_STEP} end beyond 65535"
        found.append(Problem(text, path, hint="begin with a lower port"))
    settings = {*config.missions, *(part.drone for part in config.engage)}
    ordered = [node.id for node, vehicle in vehicles if vehicle.autopilot == "ardupilot-json" and node.id in settings]
    if not ordered or found:
        return found
    who = f"the ArduPilot of '{ordered[0]}' gets its orders by MAVLink, which"
    found += _origin(context, f"{who} needs the scenario's origin", f"nodes.{ordered[0]}.vehicle.autopilot")
    if missing := Requirement("pymavlink", "vehicles").missing():
        found.append(Problem(f"{who} needs pymavlink: {missing}", path))
    if (port := address(config.ardupilot.bind, path).port) < PHYSICS_PORT:
        hint = f"write {PHYSICS_PORT} + 10 N for ArduPilot's instance N: its serial1 listens at TCP 5762 + 10 N"
        found.append(Problem(f"{who} is not where UDP {port} leads", path, hint=hint))
    return found


def _physics(vehicles: list[tuple[Node, Vehicle]]) -> Iterator[Problem]:
    """Programs that move a vehicle each, at addresses of their own."""
    seen: dict[str, str] = {}
    for node, vehicle in vehicles:
        assert vehicle.physics is not None
        settings, path = vehicle.physics.address, f"nodes.{node.id}.vehicle.physics.address"
        yield from refusals(partial(address, settings, path))
        if settings in seen:
            text = f"'{seen[settings]}' and '{node.id}' have one physics, {settings}"
            yield Problem(text, path, hint="give each its own port; ArduPilot's instance N has 9002 + 10 N")
        seen.setdefault(settings, node.id)


def _external(context: Context, vehicles: list[tuple[Node, Vehicle]]) -> Iterator[Problem]:
    """Check that vehicles with external autopilots run in real time, at addresses that distinguish them."""
    if not vehicles:
        return
    first = vehicles[0][0].id
    if context.pacing != 1.0:
        text = f"'{first}' has an external autopilot, which knows the wall clock only"
        yield Problem(text, "run.pacing", hint="write run: {pacing: real-time}")
    yield from _origin(context, "an external autopilot needs the scenario's origin", f"nodes.{first}.vehicle.autopilot")
    every = [str(vehicle.address) for _, vehicle in vehicles]
    for node, vehicle in vehicles:
        path = f"nodes.{node.id}.vehicle"
        scheme, _, rest = str(vehicle.address).partition("://")
        if scheme not in ("udp", "tcp") or not rest:
            hint = "write udp://HOST:PORT or tcp://HOST:PORT"
            yield Problem(f"'{vehicle.address}' is not an address", f"{path}.address", hint=hint)
        else:
            yield from refusals(partial(address, rest, f"{path}.address"))
        if every.count(str(vehicle.address)) > 1 and not vehicle.system:
            hint = "give each its MAVLink system id, so that they can be distinguished"
            text = f"'{node.id}' shares {vehicle.address} with other vehicles"
            yield Problem(text, f"{path}.system", hint=hint)

"""For what the vehicle model refuses a scene."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from adapters.vehicle.config import MavlinkPart, VehicleConfig
from adapters.vehicle.keys import Vehicle, vehicles_of
from cosim.autopilot.table import TCP_STEP, Address, address, plan
from cosim.contract.adapter import Context
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import Problem, refusals


def problems(config: VehicleConfig, context: Context) -> list[Problem]:
    """Vehicles, missions, engagements and addresses that cannot be."""
    vehicles = [(node, vehicle) for _, node, vehicle in vehicles_of(context.scene)]
    found = list(_scene(context.scene))
    if not vehicles:
        return found
    from adapters.vehicle.roster import VehicleRoster, written_systems  # needs numpy

    names = [node.id for node, _ in vehicles]
    found += refusals(lambda: VehicleRoster(context, config))
    twice = refusals(lambda: written_systems([vehicle for _, vehicle in vehicles], names))
    found += twice
    if config.mavlink is not False and not twice:
        part = config.mavlink if isinstance(config.mavlink, MavlinkPart) else MavlinkPart()
        found += _mavlink(part, context, vehicles)
    if any(vehicle.autopilot == "ardupilot-json" for _, vehicle in vehicles):
        found += _ardupilots(config, context, vehicles)
    found += _external(context, [(node, vehicle) for node, vehicle in vehicles if vehicle.autopilot == "external"])
    if config.aeroloop is not None:
        at = f"adapters.{context.name}.aeroloop"
        found += _origin(context, "AeroLoop's positions need the scenario's origin", at)
        found += refusals(lambda: address(str(config.aeroloop).removeprefix("tcp://"), at))
    return found


def _scene(scene: Scene) -> Iterator[Problem]:
    for fleet in scene.fleets:
        if Vehicle.of(fleet.template) is not None:
            hint = "write static nodes instead, for example uav-[1..8]: {...}"
            yield Problem(f"'{fleet.name}' is a fleet; vehicles are static nodes", f"nodes.{fleet.name}", hint=hint)
    vehicles = vehicles_of(scene)
    for _, node, vehicle in vehicles:
        if scene.real and vehicle.autopilot != "builtin" and node.runs is not None:
            text = f"'{node.id}' has an autopilot and a program of its own"
            yield Problem(text, f"nodes.{node.id}", hint="remove 'autopilot' or 'runs'")
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
    return found


def _external(context: Context, vehicles: list[tuple[Node, Vehicle]]) -> Iterator[Problem]:
    """Vehicles that somebody else's autopilot flies, in real time, at addresses that tell them apart."""
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
            hint = "give each its MAVLink system id, so that they can be told apart"
            text = f"'{node.id}' shares {vehicle.address} with other vehicles"
            yield Problem(text, f"{path}.system", hint=hint)

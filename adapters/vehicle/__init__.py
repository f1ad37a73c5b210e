"""Drones and rovers on the bus: dynamics, missions, and drones that are engaged to follow a target."""

from typing import Any

from cosim.adapters.vehicle.signals import AUTOPILOT, BEHAVIOUR, ENGAGEMENT, IMPACT, PICTURE, PICTURE_TRUTH, PROXIMITY
from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.entities import Scene
from cosim.contract.signals import Signal

EXAMPLE = """\
vehicle:
  missions:
    uav-2: [[200 m, 60 m, 30 m], [200 m, 200 m, 30 m]]
  engage:
    - {drone: uav-1, target: uav-2, controller: edge-1, height: 20 m, commands: [{at: 1 s, for: 60 s}]}
"""

_READS = (Read("peer_link", delayed=True, required=False),)
_WRITES = ("mobility", "vehicle", "behaviour", "engagement", "autopilot", "impact")


def _ports(config: Any) -> Ports:  # noqa: ANN401 - its configuration, which is not imported to list it
    asks = ("demand",) if any(part.work is not None for part in config.cameras.values()) else ()
    writes = (*_WRITES, *(signal.name for signal in _signals(config)[4:]), *asks)
    reads: tuple[Read, ...] = _READS
    if any(mission.alarm for mission in config.missions.values()):
        reads = (*reads, Read("alarm", delayed=True))
    if config.ordered:
        reads = (*reads, Read("destination", delayed=True, required=False))
    if not any(part.engage for part in config.engage):
        return Ports(reads=reads, writes=writes)
    from cosim.adapters.vehicle.looking import others

    more = tuple(Read(name, delayed=True, required=False) for name in sorted(others(config)))
    return Ports(reads=(*reads, *more), writes=writes)


def _signals(config: Any) -> tuple[Signal, ...]:  # noqa: ANN401
    pictures = (PICTURE, PICTURE_TRUTH) if config.cameras else ()
    near = (PROXIMITY,) if config.obstacles is not None else ()
    return (BEHAVIOUR, ENGAGEMENT, AUTOPILOT, IMPACT, *pictures, *near)


def _programs(config: Any, scene: Scene) -> str:  # noqa: ANN401 - as above
    from cosim.adapters.vehicle.keys import vehicles_of

    if config.mavlink is not False or config.aeroloop is not None:
        return "programs outside the run are connected to its vehicles ('mavlink', 'aeroloop')"
    if scene.real or any(v.autopilot != "builtin" or v.physics is not None for _, _, v in vehicles_of(scene)):
        return "programs outside the run fly its vehicles"
    return ""


ADAPTER = AdapterKind(
    name="vehicle",
    summary="drones and rovers: dynamics, battery, missions over fields, drones that follow a tractor",
    config="cosim.adapters.vehicle.config:VehicleConfig",
    factory="cosim.adapters.vehicle.adapter:VehicleAdapter",
    check="cosim.adapters.vehicle.check:problems",
    listens="cosim.adapters.vehicle.check:listens",
    acts_on=frozenset({"fail"}),
    outside=_programs,
    can_fail=lambda _, node: "vehicle" in dict(node.keys),
    node={"vehicle": "cosim.adapters.vehicle.keys:Vehicle"},
    events={
        "engage": "cosim.adapters.vehicle.keys:Engage",
        "disengage": "cosim.adapters.vehicle.keys:Disengage",
        "go": "cosim.adapters.vehicle.orders:Go",
    },
    services=("vehicles", "keys"),
    ports=_ports,
    offers=("weeds", "pictures", "ordered"),
    signals=_signals,
    compiled="cosim.physics.vehicles.fleet:compiled",
    example=EXAMPLE,
)

"""Drones and rovers on the bus: dynamics, missions, and drones that are engaged to follow a target."""

from typing import Any

from cosim.adapters.vehicle.signals import AUTOPILOT, BEHAVIOUR, ENGAGEMENT, PICTURE, PICTURE_TRUTH, PROXIMITY
from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.signals import Signal

EXAMPLE = """\
vehicle:
  missions:
    uav-2: [[200 m, 60 m, 30 m], [200 m, 200 m, 30 m]]
  engage:
    - {drone: uav-1, target: uav-2, controller: edge-1, height: 20 m, commands: [{at: 1 s, for: 60 s}]}
"""

_READS = (Read("peer_link", delayed=True, required=False),)
_WRITES = ("mobility", "vehicle", "behaviour", "engagement", "autopilot")


def _ports(config: Any) -> Ports:  # noqa: ANN401 - its configuration, which is not imported to list it
    asks = ("demand",) if any(part.work is not None for part in config.cameras.values()) else ()
    writes = (*_WRITES, *(signal.name for signal in _signals(config)[3:]), *asks)
    reads: tuple[Read, ...] = _READS
    if any(mission.alarm for mission in config.missions.values()):
        reads = (*reads, Read("alarm", delayed=True))
    if config.ordered:
        reads = (*reads, Read("destination", delayed=True))
    if not any(part.engage for part in config.engage):
        return Ports(reads=reads, writes=writes)
    from cosim.adapters.vehicle.looking import others

    more = tuple(Read(name, delayed=True, required=False) for name in sorted(others(config)))
    return Ports(reads=(*reads, *more), writes=writes)


def _signals(config: Any) -> tuple[Signal, ...]:  # noqa: ANN401
    pictures = (PICTURE, PICTURE_TRUTH) if config.cameras else ()
    return (BEHAVIOUR, ENGAGEMENT, AUTOPILOT, *pictures, *((PROXIMITY,) if config.obstacles is not None else ()))


ADAPTER = AdapterKind(
    name="vehicle",
    summary="drones and rovers: dynamics, battery, missions over fields, drones that follow a tractor",
    config="cosim.adapters.vehicle.config:VehicleConfig",
    factory="cosim.adapters.vehicle.adapter:VehicleAdapter",
    check="cosim.adapters.vehicle.check:problems",
    acts_on=frozenset({"fail"}),
    can_fail=lambda _, node: "vehicle" in dict(node.keys),
    node={"vehicle": "cosim.adapters.vehicle.keys:Vehicle"},
    services=("vehicles", "keys"),
    ports=_ports,
    tells=("weeds", "pictures", "ordered"),
    signals=_signals,
    compiled="cosim.physics.vehicles.fleet:compiled",
    example=EXAMPLE,
)

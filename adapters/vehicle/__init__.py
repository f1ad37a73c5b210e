"""Drones and rovers on the bus: dynamics, missions, and drones that are engaged to follow somebody."""

from typing import Any

from adapters.vehicle.signals import BEHAVIOUR, ENGAGEMENT
from cosim.contract.adapter import AdapterKind, Ports, Read

EXAMPLE = """\
vehicle:
  missions:
    uav-2: [[200 m, 60 m, 30 m], [200 m, 200 m, 30 m]]
  engage:
    - {drone: uav-1, target: uav-2, controller: edge-1, height: 20 m, commands: [{at: 1 s, for: 60 s}]}
"""

_READS = (Read("peer_link", delayed=True, required=False),)
_WRITES = ("mobility", "vehicle", "behaviour", "engagement")


def _ports(config: Any) -> Ports:  # noqa: ANN401 - its configuration, which is not imported to list it
    if not any(part.engage for part in config.engage):
        return Ports(reads=_READS, writes=_WRITES)
    from adapters.vehicle.looking import others

    more = tuple(Read(name, delayed=True, required=False) for name in sorted(others(config)))
    return Ports(reads=(*_READS, *more), writes=_WRITES)


ADAPTER = AdapterKind(
    name="vehicle",
    summary="drones and rovers: dynamics, battery, missions over fields, drones that follow a tractor",
    config="adapters.vehicle.config:VehicleConfig",
    factory="adapters.vehicle.adapter:VehicleAdapter",
    check="adapters.vehicle.check:problems",
    node={"vehicle": "adapters.vehicle.keys:Vehicle"},
    services=("vehicles", "keys"),
    ports=_ports,
    signals=(BEHAVIOUR, ENGAGEMENT),
    compiled="cosim.vehicles.fleet:compiled",
    example=EXAMPLE,
)

"""Drones and rovers on the bus: dynamics, missions, and drones that are engaged to follow somebody."""

from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.signals import Column, Signal
from cosim.vehicles.phases import METRICS, OUTCOMES, REASONS, STATES

BEHAVIOUR = Signal("behaviour", "what a vehicle with a mission or an engagement is about", (
    Column("state", "int8", "", "its state", "code", STATES),
    Column("row", "int32", "", "row of the field being worked, -1: none"),
    Column("target", "int32", "", "slot of the node that it is to follow, -1: none", "slot"),
    Column("age", "float64", "s", "age of the target's last received position, NaN: none", low=0.0, optional=True),
))  # fmt: skip

ENGAGEMENT = Signal("engagement", "an engagement that ended; the row's slot is the drone", (
    Column("target", "int32", "", "slot of the node that it was to follow", "slot"),
    Column("number", "int64", "", "of the drone's engagements, from 1"),
    Column("outcome", "int8", "", "how it ended", "code", OUTCOMES),
    Column("reason", "int8", "", "why it ended", "code", REASONS),
    *(Column(name, "float64", unit, meaning, optional=True) for name, (unit, meaning) in METRICS.items()),
), rows="event")  # fmt: skip

EXAMPLE = """\
vehicle:
  missions:
    uav-2: [[200 m, 60 m, 30 m], [200 m, 200 m, 30 m]]
  engage:
    - {drone: uav-1, target: uav-2, controller: edge-1, height: 20 m, commands: [{at: 1 s, for: 60 s}]}
"""

ADAPTER = AdapterKind(
    name="vehicle",
    summary="drones and rovers: dynamics, battery, missions over fields, drones that follow a tractor",
    config="adapters.vehicle.config:VehicleConfig",
    factory="adapters.vehicle.adapter:VehicleAdapter",
    check="adapters.vehicle.check:problems",
    node={"vehicle": "adapters.vehicle.keys:Vehicle"},
    services=("vehicles", "keys"),
    ports=Ports(
        reads=(Read("peer_link", delayed=True, required=False),),
        writes=("mobility", "vehicle", "behaviour", "engagement"),
    ),
    signals=(BEHAVIOUR, ENGAGEMENT),
    compiled="cosim.vehicles.fleet:compiled",
    example=EXAMPLE,
)

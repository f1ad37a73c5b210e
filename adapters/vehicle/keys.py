"""What authors write for the vehicles at nodes, and what the adapter reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from cosim.contract import units
from cosim.contract.block import Block, EventKey, NodeKey, OnlyWith
from cosim.contract.declared import keys_of
from cosim.contract.entities import Node, Scene
from cosim.contract.quantity import carried
from cosim.contract.trust import Trusted, Words
from cosim.contract.units import Fraction
from cosim.physics.vehicles.quantities import CopterQuantities, PackQuantities, RoverQuantities

_OTHER = "connects to another program"
Charge = Annotated[float, units.Unit("charge", gt=0.0)]
Bearing = Annotated[float, units.Unit("angle", ge=-360.0, le=360.0)]


@keys_of(PackQuantities)
class Pack(Block):
    """The battery that a vehicle moves on: cells in series. Its electronics and its radio are inside `idle`."""

    capacity: Charge | None = Field(None, description="when full; default: 5.2 Ah in a copter, 40 Ah in a rover")
    level: Fraction = Field(1.0, description="charge in the beginning")
    action: Literal["return", "land", "none"] = Field("return", description="at the charge `low`")

    @model_validator(mode="after")
    def _ordered(self) -> Pack:
        given = PackQuantities(**carried(self, PackQuantities))
        if given.critical > given.low:
            raise ValueError("'critical' is above 'low'")
        return self


class OtherPhysics(Block):
    """A program that moves the vehicle, over ArduPilot's JSON interface; our autopilot makes the motor outputs."""

    address: Annotated[str, Trusted(_OTHER)] = Field(
        "127.0.0.1:9002", pattern=r"^[^:\s]+:\d{1,5}$", description="UDP, where the program listens"
    )
    rate: Annotated[int, Field(ge=100, le=2000, strict=True)] = Field(
        400, description="motor outputs per second, in Hz"
    )
    expo: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.65, description="of its motors: thrust in proportion to the pulse (0), to its square (1), or between"
    )


@keys_of(RoverQuantities)
@keys_of(CopterQuantities)
class Vehicle(NodeKey):
    """A drone or a rover. Keys that are not given have the values of `cosim.physics.vehicles`; `at` is its home."""

    KEY: ClassVar[str] = "vehicle"
    frame: Literal["copter", "rover"] = Field(description="flies or drives")
    dynamics: Literal["point", "rigid"] = Field("point", description="of a copter: mass with a lag, or four rotors")
    steering: Annotated[Literal["skid", "ackermann"], OnlyWith("frame", "rover")] = Field(
        "skid", description="of a rover"
    )
    heading: Bearing = Field(0.0, description="in the beginning, clockwise from north")
    battery: Pack = Field(Pack(), description="what it moves on")
    autopilot: Annotated[Literal["builtin", "ardupilot-json", "external"], Trusted(_OTHER)] = Field(
        "builtin", description="ours, a real ArduPilot that flies our dynamics, or any MAVLink vehicle"
    )
    physics: Annotated[OtherPhysics | None, Trusted(_OTHER)] = Field(
        None, description="of another program, as Gazebo Sim; default: ours"
    )
    persona: Literal["ardupilot", "px4"] = Field("ardupilot", description="whose MAVLink dialect ours speaks")
    system: Annotated[int, Field(ge=1, le=254, strict=True)] | None = Field(
        None, description="MAVLink system id; default: numbered in the order of the file"
    )
    address: Annotated[str | None, Trusted(_OTHER)] = Field(
        None, description="of an external autopilot: udp://HOST:PORT or tcp://HOST:PORT"
    )

    @model_validator(mode="after")
    def _sound(self) -> Vehicle:
        if self.frame == "rover" and self.dynamics == "rigid":
            raise ValueError("'dynamics: rigid' is for copters")
        if self.physics is not None and (self.frame != "copter" or self.autopilot != "builtin"):
            raise ValueError("'physics' is for copters with our autopilot")
        if (self.autopilot == "external") != (self.address is not None):
            raise ValueError("'autopilot: external' and 'address' go together")
        return self


def vehicles_of(scene: Scene) -> list[tuple[int, Node, Vehicle]]:
    """Slot, node and block of every static node that is a vehicle, in the order of slots."""
    found = ((slot, node, Vehicle.of(node)) for slot, node in enumerate(scene.nodes))
    return [(slot, node, vehicle) for slot, node, vehicle in found if vehicle is not None]


class _VehicleOrder(EventKey):
    NEEDS: ClassVar[str] = "vehicle"
    target: Words | None = Field(None, description="of the engagement; default: that of the drone's only one")

    def refusal(self, config: Any, nodes: Sequence[str]) -> str:  # noqa: ANN401 - `VehicleConfig`, which imports this
        pairs = [(part.drone, part.target) for part in config.engage if self.target in (None, part.target)]
        counts = [sum(drone == name for drone, _ in pairs) for name in nodes]
        if nodes and not any(counts):
            behind = f" behind '{self.target}'" if self.target else ""
            return f"'{nodes[0]}' is the drone of no engagement{behind}: name one of 'engage' of the adapter"
        several = [name for name, count in zip(nodes, counts, strict=True) if count > 1]
        return f"'{several[0]}' has several engagements: name the 'target'" if several else ""


class Engage(_VehicleOrder):
    """Controllers order drones to follow their targets."""

    UNDO: ClassVar[str] = "disengage"
    do: Literal["engage"]


class Disengage(_VehicleOrder):
    """Controllers call drones off."""

    do: Literal["disengage"]

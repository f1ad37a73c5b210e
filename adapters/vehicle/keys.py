"""What authors write for the vehicles at nodes, and what the adapter reads."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from cosim.contract import units
from cosim.contract.block import Block, NodeKey, OnlyWith
from cosim.contract.entities import Node, Scene
from cosim.contract.units import Fraction, Power

Mass = Annotated[float, units.Unit("mass", gt=0.0)]
Charge = Annotated[float, units.Unit("charge", gt=0.0)]
Resistance = Annotated[float, units.Unit("resistance", ge=0.0)]
Bearing = Annotated[float, units.Unit("angle", ge=-360.0, le=360.0)]
Acceleration = Annotated[float, units.Unit("acceleration", gt=0.0)]


class Pack(Block):
    """The battery that a vehicle moves on: cells in series. Its electronics and its radio are inside `idle`."""

    capacity: Charge | None = Field(None, description="when full; default: 5.2 Ah in a copter, 40 Ah in a rover")
    cells: Annotated[int, Field(ge=1, le=100, strict=True)] | None = Field(
        None, description="in series; default: 4 in a copter, 7 in a rover"
    )
    resistance: Resistance | None = Field(None, description="of the pack; default: 20 mohm, 30 mohm in a rover")
    level: Fraction = Field(1.0, description="charge in the beginning")
    low: Fraction = Field(0.2, description="charge at which `action` is taken")
    critical: Fraction = Field(0.08, description="charge at which a copter lands wherever it is")
    action: Literal["return", "land", "none"] = Field("return", description="at the charge `low`")

    @model_validator(mode="after")
    def _ordered(self) -> Pack:
        if self.critical > self.low:
            raise ValueError("'critical' is above 'low'")
        return self


class OtherPhysics(Block):
    """A program that moves the vehicle, over ArduPilot's JSON interface; our autopilot makes the motor outputs."""

    address: str = Field("127.0.0.1:9002", pattern=r"^[^:\s]+:\d{1,5}$", description="UDP, where the program listens")
    rate: Annotated[int, Field(ge=100, le=2000, strict=True)] = Field(
        400, description="motor outputs per second, in Hz"
    )
    expo: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.65, description="of its motors: thrust in proportion to the pulse (0), to its square (1), or between"
    )


class Vehicle(NodeKey):
    """A drone or a rover. Keys that are not given have the values of `cosim.physics.vehicles`; `at` is its home."""

    KEY: ClassVar[str] = "vehicle"
    frame: Literal["copter", "rover"] = Field(description="flies or drives")
    dynamics: Literal["point", "rigid"] = Field("point", description="of a copter: mass with a lag, or four rotors")
    steering: Annotated[Literal["skid", "ackermann"], OnlyWith("frame", "rover")] = Field(
        "skid", description="of a rover"
    )
    heading: Bearing = Field(0.0, description="in the beginning, clockwise from north")
    mass: Mass | None = Field(None, description="default: 1.5 kg, rovers 60 kg")
    speed: Annotated[float, units.Unit("speed", gt=0.0)] | None = Field(
        None, description="greatest over ground; default: 10 m/s, rovers 2 m/s"
    )
    climb: Annotated[Annotated[float, units.Unit("speed", gt=0.0)] | None, OnlyWith("frame", "copter")] = Field(
        None, description="default: 2.5 m/s"
    )
    descent: Annotated[Annotated[float, units.Unit("speed", gt=0.0)] | None, OnlyWith("frame", "copter")] = Field(
        None, description="default: 1.5 m/s"
    )
    acceleration: Acceleration | None = Field(None, description="default: 2.5 m/s2, rovers 1 m/s2")
    wheelbase: Annotated[Annotated[float, units.Unit("length", gt=0.0)] | None, OnlyWith("steering", "ackermann")] = (
        Field(None, description="of an Ackermann rover; default: 0.8 m")
    )
    hover_power: Annotated[Power | None, OnlyWith("frame", "copter")] = Field(
        None, description="from the battery; default: by momentum theory"
    )
    battery: Pack = Field(Pack(), description="what it moves on")
    autopilot: Literal["builtin", "ardupilot-json", "external"] = Field(
        "builtin", description="ours, a real ArduPilot that flies our dynamics, or any MAVLink vehicle"
    )
    physics: OtherPhysics | None = Field(None, description="of another program, as Gazebo Sim; default: ours")
    persona: Literal["ardupilot", "px4"] = Field("ardupilot", description="whose MAVLink dialect ours speaks")
    system: Annotated[int, Field(ge=1, le=254, strict=True)] | None = Field(
        None, description="MAVLink system id; default: numbered in the order of the file"
    )
    address: str | None = Field(None, description="of an external autopilot: udp://HOST:PORT or tcp://HOST:PORT")

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

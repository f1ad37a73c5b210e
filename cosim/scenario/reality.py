"""The blocks of what a node may be beyond a computer: a vehicle, a Wi-Fi station, a container, a live machine."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from cosim.contract import units
from cosim.contract.block import Block, Name
from cosim.contract.units import Distance, Duration, Fraction, Frequency, Gain, Level, Period, Power

Positive = Annotated[float, Field(gt=0.0)]
Mass = Annotated[float, units.Unit("mass", gt=0.0)]
Charge = Annotated[float, units.Unit("charge", gt=0.0)]
Resistance = Annotated[float, units.Unit("resistance", ge=0.0)]
Angle = Annotated[float, units.Unit("angle", gt=0.0)]
Bearing = Annotated[float, units.Unit("angle", ge=-360.0, le=360.0)]
Acceleration = Annotated[float, units.Unit("acceleration", gt=0.0)]


class PackBlock(Block):
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
    def _ordered(self) -> PackBlock:
        if self.critical > self.low:
            raise ValueError("'critical' is above 'low'")
        return self


class VehicleBlock(Block):
    """A drone or a rover. Keys that are not given have the values of `cosim.vehicles`; `at` is its home."""

    frame: Literal["copter", "rover"] = Field(description="flies or drives")
    dynamics: Literal["point", "rigid"] = Field("point", description="of a copter: mass with a lag, or four rotors")
    steering: Literal["skid", "ackermann"] = Field("skid", description="of a rover")
    heading: Bearing = Field(0.0, description="in the beginning, clockwise from north")
    mass: Mass | None = Field(None, description="default: 1.5 kg, rovers 60 kg")
    speed: Annotated[float, units.Unit("speed", gt=0.0)] | None = Field(
        None, description="greatest over ground; default: 10 m/s, rovers 2 m/s"
    )
    climb: Annotated[float, units.Unit("speed", gt=0.0)] | None = Field(None, description="default: 2.5 m/s")
    descent: Annotated[float, units.Unit("speed", gt=0.0)] | None = Field(None, description="default: 1.5 m/s")
    acceleration: Acceleration | None = Field(None, description="default: 2.5 m/s2, rovers 1 m/s2")
    wheelbase: Annotated[float, units.Unit("length", gt=0.0)] | None = Field(
        None, description="of an Ackermann rover; default: 0.8 m"
    )
    hover_power: Power | None = Field(None, description="from the battery; default: by momentum theory")
    battery: PackBlock = Field(PackBlock(), description="what it moves on")
    autopilot: Literal["builtin", "ardupilot-json", "external"] = Field(
        "builtin", description="ours, a real ArduPilot that flies our dynamics, or any MAVLink vehicle"
    )
    persona: Literal["ardupilot", "px4"] = Field("ardupilot", description="whose MAVLink dialect ours speaks")
    system: Annotated[int, Field(ge=1, le=254, strict=True)] | None = Field(
        None, description="MAVLink system id; default: numbered in the order of the file"
    )
    address: str | None = Field(None, description="of an external autopilot: udp://HOST:PORT or tcp://HOST:PORT")

    @model_validator(mode="after")
    def _sound(self) -> VehicleBlock:
        if self.frame == "rover" and self.dynamics == "rigid":
            raise ValueError("'dynamics: rigid' is for copters")
        if (self.autopilot == "external") != (self.address is not None):
            raise ValueError("'autopilot: external' and 'address' go together")
        return self


class WifiBlock(Block):
    """A Wi-Fi interface of a node."""

    mode: Literal["adhoc", "station", "access-point"] = Field("adhoc", description="how it joins its network")
    network: Name = Field("wifi", description="those of one network hear each other")
    carrier: Frequency = Field(5.18e9, description="carrier frequency; 5.18 GHz is channel 36")
    bandwidth: Frequency = Field(20e6, description="channel bandwidth")
    power: Level = Field(20.0, description="transmit power")
    gain: Gain = Field(0.0, description="antenna gain")
    noise_figure: Gain = Field(7.0, description="default of ns-3's Wi-Fi receiver")
    height: Distance = Field(0.0, description="of the antenna above the node's position")


def _or_name(schema: dict[str, Any]) -> None:
    """Also the name of the image alone."""
    block = {key: schema.pop(key) for key in list(schema)}
    schema["description"] = block.pop("description")
    schema["anyOf"] = [{"type": "string"}, block]


class RunsBlock(Block):
    """The software of a node when nodes are real: `runs: vuav`, or its keys."""

    model_config = ConfigDict(json_schema_extra=_or_name)
    image: Annotated[str, Field(pattern=r"^[a-z0-9][A-Za-z0-9._/:@-]{0,199}$")] = Field(
        description="vuav, vrover, vedgenode, or any container image"
    )
    command: list[str] = Field([], description="instead of the image's own")
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = Field(
        {}, description="variables of its processes"
    )
    ports: list[Annotated[int, Field(ge=1, le=65535, strict=True)]] = Field(
        [], description="ports shown on the host's loopback"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, found: object) -> object:
        return {"image": found} if isinstance(found, str) else found


def _ipv4(text: str) -> str:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        raise ValueError("not an IPv4 address, as 192.168.7.21") from None
    if address.is_multicast or address.is_loopback or address.is_unspecified or address.is_reserved:
        raise ValueError("no IPv4 address of a machine in a network, as 192.168.7.21")
    return str(address)


class LiveBlock(Block):
    """The slot of a machine that attaches with `cosim attach`."""

    key: Name | None = Field(
        None,
        description="name of the public key that may take this slot; default: the node's name",
    )
    lease: Period = Field(10.0, description="without a sign of life for so long, the machine has left")
    tasks: bool = Field(True, description="the scenario's tasks may be sent to it")
    shaping: bool = Field(
        False, description="its own links to the addresses of other live nodes may be made as the models say"
    )
    address: Annotated[str, AfterValidator(_ipv4)] | None = Field(
        None, description="IPv4 address of the machine where the others reach it, for their shaping"
    )
    interval: Period = Field(1.0, description="between two reports of the machine")
    wait: Duration = Field(60.0, description="`missing: wait`: how long before the run starts or goes on")

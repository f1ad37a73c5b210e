"""What authors write for LoRa at nodes and events, and what the adapter reads."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cosim.contract.block import EventKey, NodeKey
from cosim.contract.units import Frequency, Level


class Lora(NodeKey):
    """A LoRa radio."""

    KEY: ClassVar[str] = "lora"
    role: Literal["device", "gateway"] = Field("device", description="gateways serve devices")
    spreading: Annotated[int, Field(ge=7, le=12)] = Field(7, description="spreading factor of a device")
    carrier: Frequency = Field(868.1e6, description="carrier frequency; the first European channel")
    bandwidth: Frequency = Field(125e3, description="channel bandwidth")
    power: Level = Field(14.0, description="transmit power; the limit of the European channels")


class Jam(EventKey):
    """Noise at a gateway."""

    UNDO: ClassVar[str] = "unjam"
    do: Literal["jam"]
    level: Level = Field(description="power of the noise at the gateway")


class Storm(EventKey):
    """Rain on every link."""

    TARGET: ClassVar[Literal["node", "link", ""]] = ""
    UNDO: ClassVar[str] = "calm"
    do: Literal["storm"]
    loss: Annotated[float, Field(ge=0.0)] = Field(description="dB on every path")

"""The blocks of what a node may be beyond a computer: a Wi-Fi station, a container, a live machine."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from cosim.contract.block import Block, Name, or_text
from cosim.contract.units import Distance, Duration, Frequency, Gain, Level, Period


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


class RunsBlock(Block):
    """The software of a node when nodes are real: `runs: vuav`, or its keys."""

    model_config = or_text("image")
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

"""Keys of nodes that several adapters read: one class each, for what authors write and what adapters get.

A key that one adapter alone reads stands in that adapter's folder, see `cosim.contract.block.NodeKey`.
Quantities are written with their units and held in SI; `Cell.si(power=46.0)` is for code that has numbers.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from cosim.contract import units
from cosim.contract.block import Block, Name, TextBlock
from cosim.contract.declared import keys_of
from cosim.contract.hints import nearest
from cosim.contract.laws import Law, LawText, TextForm
from cosim.contract.link import BackQuantities, LinkState
from cosim.contract.quantity import carried
from cosim.contract.trust import Trusted, Words
from cosim.contract.units import Distance, Duration, EnergyPerBit, Frequency, Gain, Level, Period

_BY = "the adapter, or the medium, that serves it; default: any radio adapter"  # see `Context.serves`


class Radio(Block):
    """The radio of a device (user equipment)."""

    power: Level = Field(23.0, description="transmit power; 3GPP TS 38.101-1 power class 3")  # dBm
    gain: Gain = Field(0.0, description="antenna gain")  # dB
    noise_figure: Gain = Field(9.0, description="3GPP TR 38.901 table 7.8-1 convention for user equipment")  # dB
    height: Distance = Field(1.5, description="of the antenna above the node's position; 3GPP TR 38.901 user terminal")
    by: Name | None = Field(None, description=_BY)


class Cell(Block):
    """The radio cell of a base station."""

    power: Level = Field(30.0, description="transmit power")  # dBm
    gain: Gain = Field(8.0, description="antenna gain; 3GPP TR 38.901 element gain")  # dB
    noise_figure: Gain = Field(5.0, description="3GPP convention for a gNB")  # dB
    height: Distance = Field(10.0, description="of the antenna above the node's position; 3GPP TR 38.901 UMi")  # m
    carrier: Frequency = Field(3.5e9, description="carrier frequency; 3.5 GHz is NR band n78")  # Hz
    bandwidth: Frequency = Field(20e6, description="channel bandwidth")  # Hz
    technology: Name | None = Field(None, description="by which the `radio_energy` of devices goes: wifi, lte, nr")
    energy_sent: EnergyPerBit = Field(0.0, description="what sending costs the cell")  # J/bit
    energy_received: EnergyPerBit = Field(0.0, description="what receiving costs the cell")  # J/bit
    by: Name | None = Field(None, description=_BY)

    @model_validator(mode="after")
    def _fits(self) -> Cell:
        fits(self.carrier, self.bandwidth)
        return self


def fits(carrier: float, bandwidth: float) -> None:
    """Raise `ValueError` for a channel (Hz) that reaches below 0 Hz."""
    if bandwidth > 2.0 * carrier:
        reported = (
            f"{units.show(bandwidth, 'frequency')} does not fit around a carrier of {units.show(carrier, 'frequency')}"
        )
        raise ValueError(f"a channel of {reported}; is the unit right?")


class RadioEnergy(Block):
    """What a device's radio takes under one technology."""

    sent: EnergyPerBit = Field(0.0, description="to send")  # J/bit
    received: EnergyPerBit = Field(0.0, description="to receive")  # J/bit


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a battery holds, written `18.75 Wh` or `5000 mAh x 11.1 V`."""

    joules: float


def _read_capacity(text: object) -> Capacity:
    if not isinstance(text, str):
        return Capacity(units.parse(text, "energy"))
    charge, times, voltage = text.partition(" x ")
    if not times and text.rstrip().endswith("Ah"):
        raise ValueError(f"'{text}' is a charge; write it with its voltage, for example '5000 mAh x 11.1 V'")
    joules = units.parse(charge, "charge" if times else "energy")
    joules *= units.parse(voltage, "voltage") if times else 1.0
    if joules <= 0.0:
        raise ValueError(f"'{text}' must be more than 0")
    return Capacity(joules)


CapacityText = Annotated[
    Capacity,
    TextForm(
        Capacity,
        _read_capacity,
        lambda value: units.show(value.joules, "energy"),
        {
            "pattern": rf"^\s*({units.pattern('energy')}|{units.pattern('charge')} x {units.pattern('voltage')})\s*$",
            "description": "energy, or charge x voltage",
            "examples": ["18.75 Wh", "5000 mAh x 11.1 V"],
        },
    ),
]


class Battery(TextBlock):
    """What a node lives on, `18.75 Wh` or its keys; its power and its radio drain it, and empty it is dead."""

    TEXT: ClassVar[str] = "capacity"
    capacity: CapacityText = Field(description="when it is full")
    level: Annotated[Law, LawText("fraction")] = Field(
        Law(law="fixed", a=1.0), description="in the beginning: a part of the capacity, fixed or uniform"
    )

    @model_validator(mode="after")
    def _possible(self) -> Battery:
        if self.level.law in ("exponential", "log-normal") or max(self.level.a, self.level.b) > 1.0:
            raise ValueError("'level' is a part of the capacity, such as '80 %' or 'uniform 50 % .. 100 %'")
        return self

    @property
    def levels(self) -> tuple[float, float]:
        """Lowest and highest part of the capacity in the beginning, with everything between them alike."""
        return self.level.a, self.level.b if self.level.law == "uniform" else self.level.a


class Wifi(Block):
    """A Wi-Fi interface of a node."""

    mode: Literal["adhoc", "station", "access-point"] = Field("adhoc", description="how it joins its network")
    network: Name = Field("wifi", description="those of one network hear each other")
    carrier: Frequency = Field(5.18e9, description="carrier frequency; 5.18 GHz is channel 36")  # Hz
    bandwidth: Frequency = Field(20e6, description="channel bandwidth")  # Hz
    power: Level = Field(20.0, description="transmit power")  # dBm
    gain: Gain = Field(0.0, description="antenna gain")  # dB
    noise_figure: Gain = Field(7.0, description="default of ns-3's Wi-Fi receiver")  # dB
    height: Distance = Field(0.0, description="of the antenna above the node's position")  # m

    @model_validator(mode="after")
    def _fits(self) -> Wifi:
        fits(self.carrier, self.bandwidth)
        return self


ARDUPILOT = "vuav-ardupilot"  # a vehicle that the ArduPilot named by `command` flies
IMAGES = ("vuav", ARDUPILOT, "vrover", "vedgenode")  # ours


def _known(image: str) -> str:
    """`image`, unless an engine would look for a misspelt name of ours in a registry."""
    meant = "" if "/" in image or image in IMAGES else nearest(image, IMAGES)
    if meant:
        raise ValueError(
            f"'{image}' is none of our images; did you mean '{meant}'? For one of yours use a name with a /"
        )
    return image


_Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_Port = Annotated[int, Field(ge=1, le=65535, strict=True)]
_PROGRAM = "runs a program"


class Software(TextBlock):
    """The software of a node when nodes are real: `runs: vuav`, or its keys."""

    TEXT: ClassVar[str] = "image"
    image: Annotated[Words, Field(pattern=r"^[a-z0-9][A-Za-z0-9._/:@-]{0,199}$"), AfterValidator(_known)] = Field(
        description="vuav, vuav-ardupilot, vrover, vedgenode, or any container image"
    )
    command: Annotated[tuple[str, ...], Trusted(_PROGRAM)] = Field(
        (), description="instead of the image's own; of vuav-ardupilot: path of the program, and its arguments"
    )
    environment: Annotated[dict[_Variable, str], Trusted(_PROGRAM)] = Field(
        {}, description="variables of its processes"
    )
    ports: Annotated[tuple[_Port, ...], Trusted("listens on a network")] = Field(
        (), description="ports shown on the host's loopback"
    )


@keys_of(LinkState)
@keys_of(BackQuantities)
class LinkKeys(Block):
    """What a link does to packets."""

    @model_validator(mode="after")
    def _bursts_are_possible(self) -> LinkKeys:
        state = self.state
        if state.burst and not 0.0 < state.loss < 1.0:
            raise ValueError("'burst' needs a 'loss' between 0 and 100 %: how many packets are lost in all")
        if state.burst and state.burst * (1.0 - state.loss) < state.loss:
            least = state.loss / (1.0 - state.loss)
            raise ValueError(f"'burst' is {state.burst:g}, and with this 'loss' {least:.3g} at least are lost in a row")
        if state.reorder and not state.delay:
            raise ValueError("'reorder' needs a 'delay', without which no packet passes another")
        return self

    @property
    def state(self) -> LinkState:
        """From the first selection to the second, or from the node."""
        return LinkState(**carried(self, LinkState))

    @property
    def back(self) -> LinkState:
        """The other way."""
        return self.state.back(**carried(self, BackQuantities))


class Uplink(LinkKeys, TextBlock):
    """A link from a real node to the network of the host that runs it: `uplink: host`, or its keys."""

    TEXT: ClassVar[str] = "to"
    to: Literal["host"] = Field(description="the host, and what the host reaches")


def _ipv4(text: str) -> str:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        raise ValueError("not an IPv4 address, as 192.168.7.21") from None
    if address.is_multicast or address.is_loopback or address.is_unspecified or address.is_reserved:
        raise ValueError("no IPv4 address of a machine in a network, as 192.168.7.21")
    return str(address)


class Live(Block):
    """The slot of a machine that attaches with `cosim attach`."""

    key: Name | None = Field(
        None,
        description="name of the public key that may take this slot; default: the node's name",
    )
    lease: Period = Field(10.0, description="without a sign of life for so long, the machine has left")  # s
    tasks: bool = Field(True, description="the scenario's tasks may be sent to it")
    shaping: bool = Field(
        False, description="its own links to the addresses of other live nodes may be made as the models say"
    )
    address: Annotated[str, AfterValidator(_ipv4), Trusted("connects to a machine")] | None = Field(
        None, description="IPv4 address of the machine where the others reach it, for their shaping"
    )
    interval: Period = Field(1.0, description="between two reports of the machine")  # s
    wait: Duration = Field(60.0, description="`missing: wait`: how long before the run starts or goes on")  # s

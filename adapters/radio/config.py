"""The `radio` block of a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from cosim.contract import units
from cosim.contract.adapter import AdapterConfig
from cosim.contract.block import Block, OnlyWith
from cosim.contract.hints import known_or_own
from cosim.contract.trust import NoCode, Words

SPACING = {"15 kHz": 15e3, "30 kHz": 30e3}  # Hz
Decibels = Annotated[float, units.Unit("gain", ge=0.0)]  # dB
RESPONSES = ("other-cell", "other-carrier", "spare-cell", "relay-drone", "disconnect")


class LinkFailure(Block):
    """Radio link failure by timers, TS 38.331 5.3.10 with N310 = N311 = 1, and what follows."""

    in_sync: units.Gain = Field(-6.0, description="SINR that ends T310; Q_in, 2 % errors on the control channel")
    t310: units.Duration = Field(1.0, description="for how long the link may be out of sync; a value of TS 38.331 T310")
    access: units.Duration = Field(
        0.2, description="from radio link failure to the next attempt: cell selection and random access"
    )


class ModemSnr(Block):
    """The SNR that a phone's modem reports; the defaults are fitted to phones on 5G (Raca et al., MMSys 2020)."""

    offset: units.Gain = Field(-1.3, description="reported at a SINR of 0 dB")
    slope: float = Field(0.24, ge=0.0, le=2.0, description="dB that it rises per dB of the channel's SINR")
    spread: Decibels = Field(5.7, description="standard deviation of single reports")


def _known(name: str) -> str:
    return known_or_own(name, RESPONSES, "response")


class Response(Block):
    """What a device does when a detector raises an alarm for it."""

    do: Annotated[str, AfterValidator(_known), NoCode()] = Field(
        description="other-cell, other-carrier: leave for one; spare-cell, relay-drone: for one that is woken, or "
        "that a drone carries; disconnect: leave the air; or module:function, a policy of your own"
    )
    spare: tuple[Words, ...] = Field(
        (), description="base stations that are silent until there is an alarm, and again `hold` after the last one"
    )
    hold: units.Period = Field(10.0, description="for how long after the last alarm it stays away")
    settle: units.Duration = Field(
        10.0, description="for how long after a response alarms are not about the new cell; longer than their windows"
    )
    to: Literal["mission", "alarms"] = Field(
        "mission", description="where relay drones fly: along their missions, or to the middle of the alarms near them"
    )
    height: units.Length = Field(30.0, description="of relay drones that fly to alarms, above the scenario's origin")

    @property
    def own(self) -> bool:
        """Whether it is a policy of the user's own."""
        return ":" in self.do

    @property
    def sends(self) -> bool:
        """Whether it decides where drones are to fly."""
        return self.own or self.to == "alarms"


class RadioConfig(AdapterConfig):
    """How links are modelled. Carrier, bandwidth and powers stand with the nodes (`cell`, `radio`)."""

    model: Literal["ci", "umi", "free-space", "rma-av", "uma-av", "umi-av"] = Field(
        "ci",
        description="path loss: close-in law, 3GPP TR 38.901 urban micro street canyon, free space, or for devices in "
        "the air 3GPP TR 36.777 rural macro, urban macro, urban micro",
    )
    exponent: Annotated[float, OnlyWith("model", "ci")] = Field(
        3.1, ge=1.0, le=8.0, description="of the ci law; 3.1 is what the MLSysOps 5G extension of EdgeCloudSim states"
    )
    shadowing: Annotated[Decibels, OnlyWith("model", "ci")] = Field(
        8.1, description="standard deviation for ci; same source as the exponent. the 3GPP laws have their own"
    )
    decorrelation: units.Distance = Field(
        13.0, description="of the shadowing along the path, for ci; TR 38.901 table 7.5-6, urban micro without sight"
    )
    height_loss: units.Gain = Field(
        0.0, description="that the ci law loses per 100 m of a device's height; a fit to flights gives it"
    )
    hysteresis: Decibels = Field(
        3.0, description="by which another cell must be stronger; A3 offset, TS 38.331 5.5.4.4"
    )
    time_to_trigger: units.Duration = Field(
        0.16, description="for how long it must be so; a value of TS 38.331 TimeToTrigger"
    )
    coverage: units.Level = Field(
        -120.0,
        description="least RSRP of a serving cell; thermal noise of a 30 kHz subcarrier at a noise figure of 9 dB",
    )
    minimum_sinr: units.Gain = Field(
        -8.0, description="below it the radio link has failed; Q_out, 10 % errors on the control channel, TS 38.133"
    )
    interference: bool = Field(True, description="cells on the same carrier disturb each other as far as they send")
    background: Annotated[units.Fraction, Field(lt=1.0)] = Field(
        0.0, description="part of the airtime that users outside the scenario take in every cell"
    )
    downlink_share: Annotated[units.Fraction, Field(gt=0.0, lt=1.0)] = Field(
        0.75, description="part of the time for the downlink (TDD); about that of the pattern DDDSU"
    )
    spacing: Literal["15 kHz", "30 kHz"] = Field("30 kHz", description="between subcarriers; usual at 3.5 GHz: 30 kHz")
    layers: int = Field(1, ge=1, le=4, description="MIMO layers in either direction; 1 is the cautious choice")
    implementation: float = Field(
        0.75,
        gt=0.0,
        le=1.0,
        description="part of Shannon's bound that a receiver reaches; TR 36.942 annex A: 0.6 to 0.75",
    )
    bler_slope: float = Field(1.5, gt=0.0, le=20.0, description="of the logistic block error curve, per dB")
    packet: Annotated[float, units.Unit("bytes", gt=0.0)] = Field(
        1500.0, description="size of the packets that queue; the Ethernet MTU"
    )
    queue_limit: units.Duration = Field(0.1, description="longest queueing delay; a buffer holds no more")
    access_delay: units.Duration = Field(
        0.004, description="scheduling and processing, one way; the user-plane target of TR 38.913 7.5"
    )
    fading: Literal["none", "rayleigh", "rician"] = Field(
        "none", description="fast fading of the serving link, by block of the channel and Doppler"
    )
    rician: Annotated[Decibels, OnlyWith("fading", "rician")] = Field(
        9.0, description="K factor in line of sight; TR 38.901 table 7.5-6, urban micro"
    )
    delay_spread: Annotated[units.Period, OnlyWith("fading", "rayleigh", "rician")] = Field(
        100e-9, description="rms; sets the coherence bandwidth 1 / (5 tau); TR 38.901 table 7.5-6, urban micro: 65 ns"
    )
    surroundings: Annotated[units.Speed, OnlyWith("fading", "rayleigh", "rician")] = Field(
        1.0, description="speed of what moves around, which adds to a device's own in the fading; a walk"
    )
    link_adaptation: Literal["ideal", "outer-loop"] = Field(
        "ideal", description="MCS from the present SINR, or from the report and an offset that holds the block errors"
    )
    cqi_delay: Annotated[units.Duration, OnlyWith("link_adaptation", "outer-loop")] = Field(
        0.0, description="age of the report that the outer loop starts from"
    )
    harq: Literal["independent", "combining"] = Field(
        "independent", description="retransmissions taken as independent, or with Chase combining"
    )
    scheduler: Literal["round-robin", "proportional-fair"] = Field(
        "round-robin",
        description="equal airtime on all of the channel, or blocks of the channel to those that fade least on them",
    )
    link_failure: LinkFailure | None = Field(
        None, description="timers of the radio link; default: it fails at once below minimum_sinr"
    )
    response: Response | None = Field(
        None, description="to the alarms of a detector, which another adapter writes as the signal alarm"
    )
    log: bool = Field(
        False, description="write what phones and base stations log (ue, gnb), and the hidden truth about jammers"
    )
    modem_snr: ModemSnr | None = Field(
        None, description="the phones' log has the SNR as a modem reports it; default: the channel's SINR"
    )
    neighbours: int = Field(
        0, ge=0, le=64, description="write the signal neighbour_cell with as many nearest cells of each device"
    )
    range: Annotated[float, units.Unit("length", gt=0.0)] | None = Field(
        None,
        description="farthest distance at which a cell is taken into account; default: where it sinks in the noise",
    )

"""The `radio` block of a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cosim.contract import units
from cosim.contract.adapter import AdapterConfig

SPACING = {"15 kHz": 15e3, "30 kHz": 30e3}  # Hz
Decibels = Annotated[float, units.Unit("gain", ge=0.0)]  # dB


class RadioConfig(AdapterConfig):
    """How links are modelled. Carrier, bandwidth and powers stand with the nodes (`cell`, `radio`)."""

    model: Literal["ci", "umi", "free-space"] = Field(
        "ci", description="path loss: close-in law, 3GPP TR 38.901 urban micro street canyon, or free space"
    )
    exponent: float = Field(
        3.1, ge=1.0, le=8.0, description="of the ci law; 3.1 is what the MLSysOps 5G extension of EdgeCloudSim states"
    )
    shadowing: Decibels = Field(
        8.1, description="standard deviation for ci; same source as the exponent. umi has its own: 4 and 7.82 dB"
    )
    decorrelation: units.Distance = Field(
        13.0, description="of the shadowing along the path, for ci; TR 38.901 table 7.5-6, urban micro without sight"
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
    background: units.Fraction = Field(
        0.0, description="part of the airtime that users outside the scenario take in every cell"
    )
    downlink_share: units.Fraction = Field(
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
    range: Annotated[float, units.Unit("length", gt=0.0)] | None = Field(
        None,
        description="farthest distance at which a cell is taken into account; default: where it sinks in the noise",
    )

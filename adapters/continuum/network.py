"""The `network` block of a scenario's `continuum` block."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cosim.contract import units
from cosim.contract.block import Block, OnlyWith


class NetworkConfig(Block):
    """How devices reach edge nodes, and these the cloud. Figures are taken anew at every step and hold for a step."""

    model: Literal["empirical-wlan", "mm1", "cellular", "close-in"] = Field(
        description="measured 802.11 throughput, M/M/1 per access point, fixed rate per cell, path loss and Shannon"
    )
    delay: units.Duration = Field(0.0, description="one way, besides the transmission")
    range: Annotated[float, units.Unit("length", gt=0.0)] | None = Field(
        None, description="farthest access point that serves; default: any"
    )
    gain: Annotated[float, OnlyWith("model", "empirical-wlan")] = Field(
        3.0, gt=0.0, description="empirical-wlan: over measured 802.11n; 3 is taken for 802.11ac"
    )
    rate: Annotated[Annotated[float, units.Unit("rate", gt=0.0)] | None, OnlyWith("model", "mm1", "cellular")] = Field(
        None, description="mm1, cellular: of an access point, in each direction"
    )
    window: Annotated[float, units.Unit("time", gt=0.0), OnlyWith("model", "mm1")] = Field(
        60.0, description="mm1: over which the load is averaged"
    )
    queue_limit: Annotated[units.Duration, OnlyWith("model", "mm1")] = Field(5.0, description="mm1: longest mean wait")
    attach: Annotated[Literal["nearest", "strongest"], OnlyWith("model", "close-in")] = Field(
        "strongest", description="close-in: the serving access point"
    )
    exponent: Annotated[float, OnlyWith("model", "close-in")] = Field(
        3.1, ge=1.0, le=8.0, description="close-in: path loss exponent, as of the radio adapter"
    )
    efficiency: Annotated[float, OnlyWith("model", "close-in")] = Field(
        0.6, gt=0.0, le=1.0, description="close-in: part of Shannon's bound; TR 36.942 annex A"
    )
    minimum_snr: Annotated[units.Gain, OnlyWith("model", "close-in")] = Field(
        -8.0, description="close-in: no coverage below it, as of the radio adapter"
    )
    wan: Literal["links", "empirical"] = Field(
        "links", description="links to cloud nodes as the scenario has them, or by measured throughput"
    )

    @model_validator(mode="after")
    def _has_rate(self) -> NetworkConfig:
        if self.model in ("mm1", "cellular") and self.rate is None:
            raise ValueError(f"model '{self.model}' needs 'rate', for example 100 Mbit/s")
        return self

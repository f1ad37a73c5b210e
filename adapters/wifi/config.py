"""The `wifi` block of a scenario."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cosim.contract import units
from cosim.contract.adapter import AdapterConfig


class WifiConfig(AdapterConfig):
    """How links are modelled. Carrier, bandwidth, powers and modes stand with the nodes (`wifi`)."""

    exponent: float = Field(
        2.7, ge=1.0, le=8.0, description="of the close-in path loss; 2.7 is what the calibration of the rates used"
    )
    fading: float = Field(
        0.0, ge=0.0, le=100.0, description="Nakagami's m, 1 is Rayleigh; 0: no fading, links end at a sharp edge"
    )
    packet: Annotated[float, units.Unit("bytes", gt=0.0, le=7900.0)] = Field(
        1400.0, description="payload of a packet, by which goodput is counted; that of the calibration"
    )
    retries: int = Field(7, ge=0, le=100, description="of a lost packet; dot11ShortRetryLimit")
    hysteresis: Annotated[float, units.Unit("gain", ge=0.0)] = Field(
        4.0, description="by which another access point must be stronger before a station changes to it"
    )
    energy_detection: units.Level = Field(
        -62.0,
        description="of jammers per 20 MHz from which no station sends; IEEE 802.11-2020 19.3.19.5, ns-3's default",
    )
    log: bool = Field(False, description="write the hidden truth about jammers: jamming and jammer")

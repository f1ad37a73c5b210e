"""The `lora` block of a scenario."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cosim.contract.adapter import AdapterConfig
from cosim.contract.units import Unit


class LoraConfig(AdapterConfig):
    """How LoRa links are modelled."""

    exponent: float = Field(2.7, ge=1.0, le=8.0, description="of the log-distance law beyond 1 m")
    duty_cycle: Annotated[float, Unit("fraction", gt=0.0, le=1.0)] = Field(
        0.01,
        description="of a device: after a packet it is silent until its share is kept (LoRaWAN 1.0.4, ETSI EN 300 220)",
    )
    real: bool = Field(False, description="packets of real nodes count as well; needs the adapter network")

"""The `lora` block of a scenario."""

from __future__ import annotations

from pydantic import Field

from cosim.contract.adapter import AdapterConfig


class LoraConfig(AdapterConfig):
    """How LoRa links are modelled."""

    exponent: float = Field(2.7, ge=1.0, le=8.0, description="of the log-distance law beyond 1 m")

"""The `network` block of a scenario."""

from __future__ import annotations

from pydantic import Field

from cosim.bus.adapter import AdapterConfig
from cosim.units import Duration, Fraction, Period


class NetworkConfig(AdapterConfig):
    """How links are imposed. While all nodes are simulated (`run.nodes: process`) the adapter does nothing."""

    commands: str | None = Field(
        None, description="address of the network service for link states; default: COSIM_NETWORK"
    )
    reports: str | None = Field(None, description="address of its reports; default: COSIM_REPORTS")
    ready: Duration = Field(30.0, description="for the nodes to hand over their interfaces before the run starts")
    silence: Period = Field(
        10.0, description="without a word of the network service for so long the run ends; shorter gaps are counted"
    )
    jitter: Fraction = Field(0.0, description="of the delay, for links of cells, whose model has none")

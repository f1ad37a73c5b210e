"""The `network` block of a scenario."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cosim.bus.adapter import AdapterConfig
from cosim.units import Duration, Fraction, Period


class NetworkConfig(AdapterConfig):
    """How links are imposed. While all nodes are simulated (`run.nodes: process`) the adapter does nothing."""

    backend: Literal["linkd", "linkd-python", "ns3", "tc", "auto"] = Field(
        "linkd",
        description="who imposes the links: linkd, compiled where there is a compiler, or in Python; ns3, whose own "
        "Wi-Fi decides by positions; tc, the kernel's traffic control, or linkd where the kernel has no netem; auto: "
        "tc where it can, else linkd",
    )
    radio: dict[str, int | float | str] = Field(
        {}, description="parameters of ns3 by its own names, for example fading: 1.5; default: as the nodes' wifi says"
    )
    commands: str | None = Field(
        None, description="address of the network service for link states; default: COSIM_NETWORK"
    )
    reports: str | None = Field(None, description="address of its reports; default: COSIM_REPORTS")
    ready: Duration = Field(30.0, description="for the nodes to hand over their interfaces before the run starts")
    silence: Period = Field(
        10.0, description="without a word of the network service for so long the run ends; shorter gaps are counted"
    )
    jitter: Fraction = Field(0.0, description="of the delay, for links of cells, whose model has none")

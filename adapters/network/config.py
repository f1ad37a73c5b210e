"""The `network` block of a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cosim.contract.adapter import AdapterConfig
from cosim.contract.block import Block
from cosim.contract.trust import Trusted
from cosim.contract.units import Duration, Fraction, Period


class Threshold(Block):
    """How far what is measured may be off."""

    delay: Duration = Field(10e-3, description="of the mean of one way")
    loss: Fraction = Field(0.02, description="beyond the interval of what was counted (99.9 %)")
    rate: Fraction = Field(0.2, description="of the rate, relative")


class ProbeConfig(Block):
    """Measurements of links from inside the nodes."""

    at_start: bool = Field(True, description="measure once, from the first step on that has links")
    pairs: int = Field(8, ge=1, le=256, description="links to be measured, spread over all that are up both ways")
    threshold: Threshold = Field(Threshold.si(), description="beyond which a link counts as deviating")
    fail: bool = Field(False, description="end the run when a link deviates, or is up and cannot be measured")


class NetworkConfig(AdapterConfig):
    """How links are imposed. While all nodes are simulated (`run.nodes: process`) the adapter does nothing."""

    backend: Literal["linkd", "ns3", "tc", "auto"] = Field(
        "linkd",
        description="who imposes the links: linkd, which outside containers a C compiler builds; ns3, whose own "
        "Wi-Fi decides by positions; tc, the kernel's traffic control, or linkd where the kernel has no netem; auto: "
        "tc where it can, else linkd",
    )
    radio: Annotated[dict[str, int | float | str], Trusted("is for programs")] = Field(
        {}, description="parameters of ns3 by its own names, for example fading: 1.5; default: as the nodes' wifi says"
    )
    commands: Annotated[str | None, Trusted("connects to a program elsewhere")] = Field(
        None, description="address of the network service for link states; default: COSIM_NETWORK"
    )
    reports: Annotated[str | None, Trusted("connects to a program elsewhere")] = Field(
        None, description="address of its reports; default: COSIM_REPORTS"
    )
    ready: Duration = Field(30.0, description="for the nodes to hand over their interfaces before the run starts")
    silence: Period = Field(
        10.0, description="without a word of the network service for so long the run ends; shorter gaps are counted"
    )
    jitter: Fraction = Field(0.0, description="of the delay, for links of cells, whose model has none")
    probe: ProbeConfig | None = Field(
        None, description="measure links from inside the nodes and set them against what was asked; default: none"
    )

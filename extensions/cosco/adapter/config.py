"""The adapter's block in a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from cosim.contract import units
from cosim.contract.adapter import AdapterConfig
from cosim.contract.block import Block, OnlyWith
from cosim.contract.hints import known_or_own
from cosim.contract.trust import NoCode, Words
from cosim.schedulers import scheduler_names, takes

POLICIES = ("random", "shuffle", "first-fit", "best-fit", "least-loaded", "round-robin")
Clock = Annotated[float, units.Unit("frequency", gt=0.0)]


def _known(name: str) -> str:
    if name in POLICIES or ":" in name or takes(name, "interval"):
        return name
    return known_or_own(name, dict.fromkeys((*POLICIES, *scheduler_names("interval"))), "policy")


class Container(Block):
    """What the containers of one workload demand."""

    demand: Clock | None = Field(None, description="cycles per second that a container is given at least")
    peak: Clock | None = Field(None, description="cycles per second that it can use at most")


class IntervalConfig(AdapterConfig):
    """How containers are placed, and what transfers between hosts take. `step` is the length of an interval."""

    policy: Annotated[str, AfterValidator(_known), NoCode()] = Field(
        "least-loaded",
        description="a name that `cosim schedulers` lists for interval, or module:function",
    )
    physics: Literal["corrected", "compatible"] = Field(
        "corrected", description="compatible: the rules of COSCO as published, step by step"
    )
    quirks: dict[Words, bool] = Field({}, description="single deviations of the published rules, on or off")
    demand: Clock = Field(1e9, description="cycles per second that a container is given at least")
    peak: Clock = Field(4e9, description="cycles per second that it can use at most")
    containers: dict[Words, Container] = Field({}, description="workload -> its own demand and peak")
    slots: int | None = Field(
        None, ge=1, le=1_000_000, description="containers with a place at once; default: one per host"
    )
    uplink: units.BitRate = Field(40e9, description="of every host; the 5000 MB/s of the published fleet")
    downlink: units.BitRate = Field(40e9, description="of every host; the 5000 MB/s of the published fleet")
    router: units.BitRate = Field(80e9, description="shared by all transfers; the published 10,000 MB/s")
    edge_latency: units.Duration = Field(0.003, description="to edge hosts; published")
    cloud_latency: units.Duration = Field(0.076, description="to cloud hosts; published")
    overhead: units.Duration = Field(0.0, description="that every transfer takes besides")
    switch_off: bool = Field(False, description="hosts without containers are off")
    boot: Annotated[units.Duration, OnlyWith("switch_off")] = Field(
        0.0, description="until a host that was off runs containers"
    )

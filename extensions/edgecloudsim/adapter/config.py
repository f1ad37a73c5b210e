"""The adapter's block in a scenario: what the model needs beyond nodes and workloads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from cosim.contract.adapter import AdapterConfig
from cosim.contract.block import Block, OnlyWith
from cosim.contract.hints import did_you_mean
from cosim.contract.trust import NoCode, Words
from cosim.contract.units import BitRate, Bytes, Duration, Energy, EnergyPerBit, Fraction, Power
from cosim.extensions.edgecloudsim.offloading.quirks import QUIRKS
from cosim.extensions.edgecloudsim.offloading.study import Architecture, Model

Cores = Annotated[int, Field(ge=1, le=100_000, strict=True)]
Mips = Annotated[float, Field(gt=0.0, le=1e15)]


class MachineBlock(Block):
    """Equal virtual machines of one host."""

    count: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(1, description="how many")
    cores: Cores = Field(description="of each")
    mips: Mips = Field(description="million instructions per second, of each core")
    image: Bytes = Field(0.0, description="storage; only a quirk of app6 reads it")


Host = Annotated[list[MachineBlock], Field(min_length=1)]


class PlaceBlock(Block):
    """An edge datacentre, at the scenario's node of the same name, and the access point beside it."""

    wlan: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        None, description="number of its access point; default: its position in the list"
    )
    attractiveness: Annotated[int, Field(ge=0, le=2, strict=True)] = Field(
        0, description="0, 1 or 2: which of the three dwell times, or road speeds, holds here"
    )
    hosts: list[Host] | None = Field(
        None, min_length=1, description="machines of each host; default: one machine with the node's cpu"
    )


class LinksBlock(Block):
    """The networks between device, edge and cloud."""

    wlan: BitRate | None = Field(None, description="between devices and access point; not used by tables")
    man: BitRate | None = Field(None, description="between places")
    wan: BitRate | None = Field(None, description="between access point and cloud")
    gsm: BitRate | None = Field(None, description="between devices and cloud")
    lan_delay: Duration = Field(0.0, description="inside the edge network")
    wan_propagation: Duration = Field(0.0, description="to the cloud")
    gsm_propagation: Duration = Field(0.0, description="to the cloud, past the access point")
    wlan_servers: Literal[1, 2] = Field(1, description="of the queue at the access point; 2 with tutorial5 only")


class ApplicationBlock(Block):
    """What the model needs to know of a workload, besides the workload's own keys."""

    cores: Cores = Field(1, description="that a task asks for")
    cloud_probability: Fraction = Field(0.0, description="of the basic policies' choice of the cloud")
    delay_sensitivity: Annotated[float, Field(ge=0.0, le=1.0)] = Field(0.0, description="0 to 1")
    load_edge: Fraction = Field(0.0, description="part of an edge machine that a task takes")
    load_cloud: Fraction = Field(0.0, description="part of a cloud machine that a task takes")
    load_mobile: Fraction = Field(0.0, description="part of the device's machine that a task takes")


class EnergyBlock(Block):
    """Devices' batteries and the power of devices and cloud; app6 only."""

    device_idle: Power = Field(1.0, description="of a device at no load")
    device_max: Power = Field(3.3, description="of a device at full load")
    cloud_idle: Power = Field(0.0, description="of a cloud host at no load")
    cloud_max: Power = Field(5776.0, description="of a cloud host at full load")
    battery: Energy = Field(18.75 * 3600.0, description="capacity")
    initial: Annotated[list[Fraction], Field(min_length=2, max_length=2)] = Field(
        [0.05, 0.5], description="part of the capacity at the start, drawn uniformly between the two"
    )
    mortal: bool = Field(True, description="whether an empty battery ends a device")
    per_bit: dict[Words, EnergyPerBit] = Field({}, description="radio and network energy by kind of transfer")


class OffloadingConfig(AdapterConfig):
    """One study of the offloading model."""

    model: Model = Field("app1", description="app1 to app6 or tutorial5: network, mobility and orchestration")
    physics: Literal["corrected", "compatible"] = Field(
        "corrected", description="compatible: with all quirks of EdgeCloudSim's model; corrected: with none"
    )
    quirks: dict[Words, bool] = Field({}, description="single quirks switched on or off, whatever `physics` says")
    architecture: Architecture = Field(
        "two-tier-with-eo", description="single-tier: edge; two-tier: and cloud; -with-eo: any place's edge"
    )
    policy: Annotated[str, NoCode()] = Field(
        "next-fit", description="who gets a task: next-fit, hybrid, fuzzy-based, mab, ..., or module:function"
    )
    devices: Annotated[int, Field(ge=1, le=2_000_000, strict=True)] = Field(description="members of the fleet")
    warm_up: Duration = Field(0.0, description="tasks made before are left out of the logs' figures")
    dwell: Annotated[list[Duration], Field(min_length=3, max_length=3)] = Field(
        [0.0, 0.0, 0.0], description="mean stay at places of attractiveness 0, 1 and 2"
    )
    links: LinksBlock = Field(LinksBlock(), description="rates and delays of the networks")
    cloud: list[Host] | None = Field(
        None, description="machines of each cloud host; default: one machine with the cloud node's cpu"
    )
    device_machine: Annotated[list[MachineBlock], Field(min_length=2, max_length=2)] | None = Field(
        None, description="bounds between which each device's own machine is drawn"
    )
    load_interval: Duration = Field(6.0, description="between samples of the machines' load; 0: none")
    location_interval: Duration = Field(0.0, description="between counts of the devices per place; 0: none")
    access_interval: Duration = Field(0.0, description="between samples of the access delay; 0: none")
    energy: Annotated[EnergyBlock | None, OnlyWith("model", "app6")] = Field(
        None, description="batteries and power, app6 only"
    )
    applications: Annotated[dict[Words, ApplicationBlock], Field(min_length=1)] = Field(
        description="workload -> what the model needs to know of it"
    )
    places: Annotated[dict[Words, PlaceBlock], Field(min_length=1)] = Field(description="edge node -> its place")
    logs: Literal["edgecloudsim", "unical"] | None = Field(
        None, description="also write the log files of EdgeCloudSim, or of its UNICAL extension"
    )

    @field_validator("quirks")
    @classmethod
    def _known(cls, quirks: dict[str, bool]) -> dict[str, bool]:
        for name in quirks:
            if name not in QUIRKS:
                raise ValueError(f"there is no quirk '{name}'; {did_you_mean(name, QUIRKS)}")
        return quirks

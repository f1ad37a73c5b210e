"""The input of one run of the offloading model: places, applications, links, policy.

Times are in s, sizes in B (as drawn: the peer's KB times 1000), rates in bit/s, work in MI (million
instructions), speeds in MIPS per core, loads of virtual machines in percent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Model = Literal["app1", "app2", "app3", "app4", "app5", "app6", "tutorial5"]
Architecture = Literal["single-tier", "two-tier", "two-tier-with-eo"]


@dataclass(frozen=True, slots=True)
class Application:
    """An application; each device runs one of them for the whole run."""

    name: str
    usage: float  # %, share of the devices
    interarrival: float  # s, mean, within an active period
    active: float  # s
    idle: float  # s
    upload: float  # kB, mean
    download: float  # kB, mean
    length: float  # MI, mean
    cores: int = 1
    cloud_probability: float = 0.0  # %, of the basic orchestrator
    delay_sensitivity: float = 0.0  # 0..1
    max_delay: float = 0.0  # s, allowed service time; 0: none stated
    load_edge: float = 0.0  # % of a virtual machine that a task takes
    load_cloud: float = 0.0
    load_mobile: float = 0.0


@dataclass(frozen=True, slots=True)
class Vm:
    """A virtual machine."""

    cores: int
    mips: float  # per core
    image: float = 0.0  # MB, its storage (only the UNICAL energy quirk reads it)


@dataclass(frozen=True, slots=True)
class EdgePlace:
    """An edge datacentre and the access point beside it."""

    name: str
    x: float  # m
    y: float  # m
    wlan: int  # its access point's number
    attractiveness: int  # class of dwell time or of road speed
    hosts: tuple[tuple[Vm, ...], ...]  # the virtual machines of every host
    costs: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  # per kB, s, MB of memory, MB of storage
    power: tuple[float, float] = (0.0, 0.0)  # W idle and at full load, of the datacentre's hosts each


@dataclass(frozen=True, slots=True)
class StudyLinks:
    """Networks between device, edge and cloud; a rate of 0 is "not given"."""

    wlan: float = 0.0  # bit/s
    man: float = 0.0
    wan: float = 0.0
    gsm: float = 0.0
    lan_delay: float = 0.0  # s, inside the edge network
    wan_propagation: float = 0.0  # s
    gsm_propagation: float = 0.0  # s
    wlan_servers: int = 1  # of the queue at the access point, 1 or 2 (tutorial5)


@dataclass(frozen=True, slots=True)
class Energy:
    """Power, batteries and radio energy of the UNICAL extension; the figures default to its sample's."""

    device_idle: float = 1.0  # W
    device_max: float = 3.3
    cloud_idle: float = 0.0
    cloud_max: float = 5776.0
    battery: float = 18.75  # Wh, capacity
    initial: tuple[float, float] = (5.0, 50.0)  # %, of the capacity, drawn uniformly per device
    mortal: bool = True  # whether an empty battery ends a device
    nanojoule_per_bit: dict[str, float] = field(default_factory=dict)  # by the peer's property names, without suffix


@dataclass(frozen=True, slots=True)
class OffloadingStudy:
    """All parameters of one run but its seed."""

    model: Model
    architecture: Architecture
    policy: str  # the peer's word in small letters with dashes: next-fit, network-based, fuzzy-competitor, mab
    devices: int
    duration: float  # s
    warm_up: float  # s
    applications: tuple[Application, ...]
    places: tuple[EdgePlace, ...]
    links: StudyLinks
    cloud: tuple[tuple[Vm, ...], ...] = ()  # the virtual machines of every cloud host
    device_vm: tuple[Vm, Vm] | None = None  # bounds between which each device's own machine is drawn
    dwell: tuple[float, float, float] = (0.0, 0.0, 0.0)  # s, mean stay by attractiveness
    load_interval: float = 6.0  # s, between two samples of the virtual machines' load; 0: none
    location_interval: float = 0.0  # s, between two counts of the devices per place; 0: none
    access_interval: float = 0.0  # s, between two samples of the access delay; 0: none
    energy: Energy | None = None
    quirks: frozenset[str] = frozenset()  # names of cosim.extensions.edgecloudsim.offloading.quirks.QUIRKS

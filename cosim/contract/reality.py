"""Records of what nodes may be beyond computers: vehicles, Wi-Fi stations, containers, live machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Pack:
    """What a vehicle moves on; None: the default of its frame in `cosim.vehicles`."""

    capacity: float | None = None  # A s
    cells: int | None = None
    resistance: float | None = None  # ohm
    level: float = 1.0  # part of the capacity in the beginning
    low: float = 0.2
    critical: float = 0.08
    action: Literal["return", "land", "none"] = "return"


@dataclass(frozen=True, slots=True)
class Vehicle:
    """A drone or rover; None: the default of its frame in `cosim.vehicles`."""

    frame: Literal["copter", "rover"]
    dynamics: Literal["point", "rigid"] = "point"
    steering: Literal["skid", "ackermann"] = "skid"
    heading: float = 0.0  # deg clockwise from north
    mass: float | None = None  # kg
    speed: float | None = None  # m/s
    climb: float | None = None  # m/s
    descent: float | None = None  # m/s
    acceleration: float | None = None  # m/s^2
    wheelbase: float | None = None  # m
    hover_power: float | None = None  # W
    battery: Pack = Pack()
    autopilot: Literal["builtin", "ardupilot-json", "external"] = "builtin"
    persona: Literal["ardupilot", "px4"] = "ardupilot"
    system: int = 0  # MAVLink system id, 0: numbered in the order of the nodes
    address: str = ""  # of an external autopilot


@dataclass(frozen=True, slots=True)
class Wifi:
    """A Wi-Fi interface."""

    mode: Literal["adhoc", "station", "access-point"]
    network: str
    carrier: float  # Hz
    bandwidth: float  # Hz
    power: float  # dBm
    gain: float  # dB
    noise_figure: float  # dB
    height: float  # m above the node's position


@dataclass(frozen=True, slots=True)
class Software:
    """The software of a node when nodes are real."""

    image: str
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Live:
    """The slot of a machine that attaches."""

    key: str
    lease: float  # s
    tasks: bool
    shaping: bool
    interval: float  # s
    wait: float  # s
    address: str = ""  # IPv4, where other machines reach it

"""Records of what nodes may be beyond computers: Wi-Fi stations, containers, live machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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

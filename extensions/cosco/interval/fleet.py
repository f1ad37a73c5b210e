"""Fleets of hosts, with the published figures of the peer and power tables of SPECpower.

Every fleet repeats its pattern of types for any number of hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats, Records
from cosim.extensions.cosco.interval.layout import HOST, POWER_POINTS

# W at 0, 10, ..., 100 % of the CPU: SPECpower_ssj2008 results that the peer assigns to machine types
POWER = {
    "B2s": (75.2, 78.2, 84.1, 89.6, 94.9, 100.0, 105.0, 109.0, 112.0, 115.0, 117.0),
    "B4ms": (71.0, 77.9, 83.4, 89.2, 95.6, 102.0, 108.0, 114.0, 119.0, 123.0, 126.0),
    "B8ms": (68.7, 78.3, 84.0, 88.4, 92.5, 97.3, 104.0, 111.0, 121.0, 131.0, 137.0),
    "raspberry-pi-3b": (0.45, 0.78, 0.90, 1.03, 1.65, 1.66, 1.69, 1.71, 1.72, 1.74, 1.75),
    "xeon-x5570": (81.4, 110.0, 125.0, 139.0, 153.0, 167.0, 182.0, 199.0, 214.0, 229.0, 244.0),
    "one-watt": (1.0,) * POWER_POINTS,
    "raspberry-pi-4b": (2.7, 6.4),  # W at rest and with all cores busy, as measured by many at the plug; linear here
}

NEAR, FAR = 0.003, 0.076  # s, of hosts at the edge and in the cloud
_NEAR_SHARE = 0.6  # of the hosts, by their index
ROUTER = 10_000.0  # MB/s


@dataclass(frozen=True, slots=True)
class Type:
    """A type of host."""

    mips: float  # MIPS in all
    ram: float  # MB
    disk: float  # MB
    ram_rates: tuple[float, float]  # MB/s read and write
    disk_rates: tuple[float, float]  # MB/s read and write
    up: float  # MB/s
    down: float  # MB/s
    power: tuple[float, ...]  # W at equal steps of the load from 0 to 1
    latency: float = 0.0  # s
    price: float = 0.0  # per hour


@dataclass(frozen=True, slots=True, eq=False)
class HostFleet:
    """Hosts by type; `place` is the type of each host."""

    types: tuple[Type, ...]
    place: tuple[int, ...]
    latency: tuple[float, ...] | None = None  # s per host, when it does not go by type
    router: float = ROUTER  # MB/s
    swapped: bool = False  # quirk swapped-bandwidth

    def hosts(self) -> tuple[Records, Floats]:
        """Records of `layout.HOST` (H,) and power tables (H, 11). Raises `ValueError` for impossible figures."""
        if not self.place:
            raise ValueError("a fleet needs at least one host")
        rows: Records = np.zeros(len(self.place), HOST)
        rows["up"] = rows["on"] = 1
        rows["first"] = -1
        for number, kind in enumerate(self.types):
            mine = np.array(self.place) == number
            up, down = (kind.down, kind.up) if self.swapped else (kind.up, kind.down)
            values = {
                "mips": kind.mips, "ram": kind.ram, "disk": kind.disk, "ram_read": kind.ram_rates[0],
                "ram_write": kind.ram_rates[1], "disk_read": kind.disk_rates[0], "disk_write": kind.disk_rates[1],
                "up_link": up, "down_link": down, "latency": kind.latency, "price": kind.price,
            }  # fmt: skip
            if min(kind.mips, up, down, self.router) <= 0.0 or min(values.values()) < 0.0:
                raise ValueError("MIPS, bandwidths and the router's rate must be positive, and no figure negative")
            for name, value in values.items():
                rows[name][mine] = value
        if self.latency is not None:
            rows["latency"] = self.latency
        tables = np.stack([table(kind.power) for kind in self.types])
        return rows, tables[list(self.place)]


def table(points: Sequence[float] | ArrayLike) -> Floats:
    """A power table of any number of equal steps at the 11 steps that the model has, linear in between."""
    given = np.asarray(points, np.float64)
    if given.ndim != 1 or len(given) < 2 or not np.all(given >= 0.0):
        raise ValueError("a power table needs two points or more, none of them negative")
    return np.interp(np.linspace(0.0, 1.0, POWER_POINTS), np.linspace(0.0, 1.0, len(given)), given)


_B2S = Type(4029, 4295, 32212, (1860, 1000), (67.1, 10.11), 5000, 5000, POWER["B2s"], NEAR, 0.0472)
_B4MS = Type(4029, 17180, 32212, (1800, 1525), (51.9, 6.19), 5000, 5000, POWER["B4ms"], NEAR, 0.189)
_B8MS = Type(16111, 34360, 32212, (1882.7, 1333.75), (58.2, 11.64), 5000, 5000, POWER["B8ms"], FAR, 0.333)


def azure_fog(hosts: int, quirks: frozenset[str] = frozenset()) -> HostFleet:
    """Azure machines in the pattern 4 B2s, 4 B4ms, 2 B8ms; the peer's default, there with 50 hosts at most."""
    pattern = (0, 0, 0, 0, 1, 1, 1, 1, 2, 2)
    near = round(hosts * _NEAR_SHARE)
    latency = tuple(NEAR if i < near else FAR for i in range(hosts)) if "latency-by-index" in quirks else None
    place = tuple(pattern[i % len(pattern)] for i in range(hosts))
    return HostFleet((_B2S, _B4MS, _B8MS), place, latency, swapped="swapped-bandwidth" in quirks)


def _three(mips: tuple[float, float, float], hosts: int, quirks: frozenset[str]) -> HostFleet:
    pi = POWER["raspberry-pi-3b"]
    return HostFleet(
        (
            Type(mips[0], 3000, 30000, (3000, 3000), (2000, 2000), 1000, 2000, POWER["one-watt"]),
            Type(mips[1], 4000, 40000, (2000, 2000), (2000, 2000), 2000, 4000, pi),
            Type(mips[2], 8000, 80000, (3000, 3000), (3000, 3000), 5000, 10000, pi),
        ),
        tuple(i % 3 for i in range(hosts)),
        swapped="swapped-bandwidth" in quirks,
    )


def bitbrain_fog(hosts: int, quirks: frozenset[str] = frozenset()) -> HostFleet:
    """Three types of 5000, 10000 and 50000 MIPS in turn; no latency."""
    return _three((5000, 10000, 50000), hosts, quirks)


def simple_fog(hosts: int, quirks: frozenset[str] = frozenset()) -> HostFleet:
    """Three types of 20000, 30000 and 40000 MIPS in turn; no latency."""
    return _three((20000, 30000, 40000), hosts, quirks)


def _pi(memory: float) -> Type:
    """A Raspberry Pi 4B with `memory` MB. No paper states its MIPS: those of the smallest machine here."""
    return Type(4029, memory, 32212, (4000, 4000), (40, 40), 117, 117, POWER["raspberry-pi-4b"], NEAR, 0.0)


def simtune_testbed() -> HostFleet:
    """SimTune's testbed: 16 Raspberry Pi 4B (half with 4, half with 8 GB), 20 machines in one region, 14 in another."""
    types = (_pi(4295), _pi(8590), _B2S, _B4MS, replace(_B4MS, latency=FAR), _B8MS)
    return HostFleet(types, (0,) * 8 + (1,) * 8 + (2,) * 10 + (3,) * 10 + (4,) * 7 + (5,) * 7)


def metanet_fleet() -> HostFleet:
    """MetaNet's 100 machines: 60 B2s and 20 B4ms near, 20 B8ms far."""
    return HostFleet((_B2S, _B4MS, _B8MS), (0,) * 60 + (1,) * 20 + (2,) * 20)

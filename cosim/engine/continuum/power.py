"""Electrical power of processors: laws over utilisation, and platforms with operating points.

Every function takes floats or arrays of one shape (or shapes that broadcast) and gives W at the plug.
Utilisation is the share of the processor in use, 0..1. Compiled functions may call all but `table`.

Sources: `linear`, `cubic` and `table` are the common laws of the field (Beloglazov and Buyya 2012,
doi 10.1002/cpe.1867, for the first and the last). `voltage_frequency` and the three platforms were
measured at the plug for the cloud simulator of the MLSysOps project (deliverable D4.3, section 2.2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import part

Floats = Any  # a float or an array of floats; numba reads no annotation

# Classes of work by what a lower clock does to it.
COMPUTE, MEMORY, HYBRID, IO = "compute", "memory", "hybrid", "io"
CLASSES: Final = (COMPUTE, MEMORY, HYBRID, IO)


@part
def linear(u: Floats, idle: Floats, full: Floats) -> Floats:
    """idle + (full - idle) u."""
    return idle + (full - idle) * u


@part
def cubic(u: Floats, idle: Floats, full: Floats) -> Floats:
    """idle + (full - idle) u^3: utilisation that comes from a clock scaled with its voltage."""
    return idle + (full - idle) * u * u * u


def table(u: Floats, watts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Linear between `watts` at equal steps of utilisation from 0 to 1, as SPECpower reports them."""
    return np.asarray(np.interp(u, np.linspace(0.0, 1.0, len(watts)), watts))


@part
def voltage_frequency(u: Floats, a: Floats, v: Floats, f: Floats, s: Floats) -> Floats:
    """a u v^2 f + s: switching at voltage v (V) and clock f (GHz), a in W / (V^2 GHz), and static s (W)."""
    return a * u * v * v * f + s


@part
def slowdown(sensitivity: Floats, f: Floats, f_max: Floats) -> Floats:
    """How many times longer work takes at clock f: 1 + c (f_max / f - 1), c 1 when it only computes."""
    return 1.0 + sensitivity * (f_max / f - 1.0)


@dataclass(frozen=True, slots=True)
class Platform:
    """A processor with operating points, slowest first."""

    name: str
    activity: float  # W / (V^2 GHz)
    static: float  # W
    frequency: tuple[float, ...]  # GHz
    voltage: tuple[float, ...]  # V, nominal
    undervolted: tuple[tuple[float, ...], ...]  # V, per class of safe margin
    measured: Mapping[str, tuple[float, ...]]  # class of work -> times longer than at the highest point

    def watts(self, u: Floats, point: int, margin: int | None = None) -> Floats:
        """W at utilisation `u` of operating point `point`, at the voltage of a margin class if one is given."""
        volts = self.voltage if margin is None else self.undervolted[margin]
        return voltage_frequency(u, self.activity, volts[point], self.frequency[point], self.static)

    def sensitivity(self, work: str) -> float:
        """The c of `slowdown` for a class of work, fitted by least squares to what was measured.

        Work of class `io` waits for devices whose clock is not scaled: 0.
        """
        if work == IO:
            return 0.0
        longer = self.frequency[-1] / np.array(self.frequency) - 1.0
        return float(longer @ (np.array(self.measured[work]) - 1.0) / (longer @ longer))


PLATFORMS: Final[Mapping[str, Platform]] = {
    platform.name: platform
    for platform in (
        Platform(
            "xeon-1220", 18.98, 34.01, (2.0, 2.5, 3.0, 3.3), (0.851, 0.922, 1.075, 1.146),
            ((0.666, 0.741, 0.865, 0.929), (0.655, 0.730, 0.852, 0.916), (0.643, 0.718, 0.838, 0.902)),
            {
                HYBRID: (1.348819874, 1.152160567, 1.037112444, 1.0),
                MEMORY: (1.038686363, 1.022875707, 1.020408163, 1.0),
                COMPUTE: (1.611362471, 1.306596118, 1.102805429, 1.0),
            },
        ),
        Platform(
            "x-gene-2", 8.39, 35.99, (0.3, 1.0, 1.7, 2.4), (0.98, 0.98, 0.98, 0.98),
            ((0.98, 0.98, 0.98, 0.98), (0.78, 0.79, 0.93, 0.95), (0.78, 0.79, 0.93, 0.95)),
            {
                MEMORY: (2.4, 1.23, 1.07, 1.0),
                HYBRID: (4.9, 1.60, 1.16, 1.0),
                COMPUTE: (8.0, 2.4, 1.41, 1.0),
            },
        ),
        Platform(
            "x-gene-3", 34.37582083, 52.47789038, (0.4, 1.3, 2.2, 3.0), (0.88, 0.88, 0.88, 0.88),
            ((0.79, 0.79, 0.83, 0.84),) * 3,
            {
                MEMORY: (2.438970852, 1.288533597, 1.083896821, 1.0),
                HYBRID: (5.151956971, 1.761310697, 1.142691761, 1.0),
                COMPUTE: (7.50001875, 2.307694083, 1.303636983, 1.0),
            },
        ),
    )
}  # fmt: skip


def platform(name: str) -> Platform:
    """The platform of that name; letters' case, blanks and dashes do not matter, nor does the maker's name.

    Raises `KeyError` with the known names.
    """
    found = re.sub(r"[^a-z0-9]", "", name.lower())
    for known, one in PLATFORMS.items():
        model = known.replace("-", "")
        if found and (found.endswith(model) or found == model.removesuffix("1220")):
            return one
    raise KeyError(f"there is no platform '{name}'; known: {', '.join(PLATFORMS)}")

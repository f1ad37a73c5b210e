"""What the model knows, as flat arrays: hosts, their kinds, virtual machines, and the rules of a run.

Capacity (`mips`) has any unit as long as hosts and virtual machines share it; loads are shares of a
host's capacity at its highest operating point. Sizes are in MB, powers in W, times in s, money in the
currency of the prices. All arrays are C-contiguous; compiled functions take these tuples as they are.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.power import CLASSES

Bools = NDArray[np.bool_]

HISTORY: Final = 30  # periods that detectors look back at most
LAN: Final = 125.0  # MB/s: 1 Gbit/s
WITHOUT: Floats = np.zeros(0)  # stands for a 0 of each host or machine

# Detectors of over-load, by number
THR, IQR, MAD, LR, LRR, FOP, FLAGS = range(7)
DETECTORS: Final = {
    "thr": THR, "sno": THR, "foh": THR, "iqr": IQR, "mad": MAD, "lr": LR, "lrr": LRR, "fop": FOP,
}  # fmt: skip

# Placement policies
BEST_FIT, POWER_AWARE, DVFS_FIT, FIRST_FIT, WORST_FIT, COST_AWARE = range(6)
PLACERS: Final = {
    "best-fit": BEST_FIT, "power-aware": POWER_AWARE, "dvfs": DVFS_FIT, "first-fit": FIRST_FIT,
    "worst-fit": WORST_FIT, "cost-aware": COST_AWARE,
}  # fmt: skip

SELECTORS: Final = ("mmt", "mc", "mu", "rs", "mct")
CAPPINGS: Final = ("foreseen", "worst-case", "none")
GOVERNORS: Final = ("performance", "powersave", "ondemand", "cost")
CLASS_NUMBER: Final = {name: number for number, name in enumerate(CLASSES)}

# Laws of power over utilisation: idle + span u, idle + span u^3, a table
LINEAR, CUBIC, TABLE = range(3)


class Kinds(NamedTuple):
    """Kinds of hosts; rows are padded to the most operating points of any kind."""

    points: Ints  # (kinds,) operating points
    frequency: Floats  # (kinds, points) GHz
    idle: Floats  # (kinds, points) W at no load
    span: Floats  # (kinds, points) W more at full load
    law: Ints  # (kinds,) LINEAR, CUBIC, TABLE
    table: Floats  # (kinds, entries) W at equal steps of load
    slowdown: Floats  # (kinds, classes, points) times longer than at the highest point
    resting: Floats  # (kinds,) W of an empty host: asleep or off
    waking: Floats  # (kinds,) s until an empty host takes a machine
    waking_power: Floats  # (kinds,) W meanwhile


class Hosts(NamedTuple):
    """Hosts, any number of kinds and places."""

    kind: Ints  # (hosts,)
    place: Ints  # (hosts,) datacentre
    mips: Floats  # (hosts,) capacity at the highest operating point
    ram: Floats  # (hosts,) MB
    failures: Floats  # (hosts,) 1/s, expected; the cost-aware placement looks at it
    gpus: Floats = WITHOUT  # (hosts,) each is one machine's alone, as by PCI passthrough
    gpu_idle: Floats = WITHOUT  # (hosts,) W of each GPU of a host that is awake
    gpu_span: Floats = WITHOUT  # (hosts,) W more of a GPU that is fully used


class Machines(NamedTuple):
    """Virtual machines."""

    mips: Floats  # (machines,) capacity asked for
    ram: Floats  # (machines,) MB
    work: Ints  # (machines,) class: position in `cosim.engine.continuum.power.CLASSES`
    rate: Floats  # (machines,) weight q of the service level
    price: Floats  # (machines,) currency/s that the user pays
    gpus: Floats = WITHOUT  # (machines,) asked for


class Wan(NamedTuple):
    """The way between places."""

    bandwidth: Floats  # (places, places) MB/s for one migration
    distance: Floats  # (places, places) km
    factor: Floats  # (places, places) times the penalty of a migration within a place
    transfer_cost: Floats  # (places, places) currency/MB


class PeriodRules(NamedTuple):
    """The numbers that steer one period of consolidation."""

    detector: int
    placer: int
    threshold: float  # of load
    safety: float  # parameter of iqr, mad, lr
    in_order: int  # 1: place machines in the order given, not by falling demand
    evacuate: int  # 1: try to empty under-loaded hosts
    relocate: int  # 1: follow prices between places
    horizon: float  # s that a move must pay off in
    interval: float  # s, the period
    overcommit: float  # times the RAM of a host that its machines may ask for together
    worst_case: int  # 1: a host counts with its power at full load when a place's cap is kept


def contiguous(values: Any, dtype: Any = np.float64) -> Any:  # noqa: ANN401 - an array of that type
    """`values` as a new C-contiguous array of one type, which compiled functions insist on."""
    return np.array(values, dtype, order="C")


_WHOLE = frozenset({"kind", "place", "points", "law", "work"})  # fields that hold int64


def owned(arrays: Hosts | Kinds | Machines | Wan) -> list[Any]:
    """New arrays with the same values, each of its field's type.

    Compiled functions have one signature; views and read-only arrays would make another.
    """
    return [
        contiguous(np.zeros(len(arrays[0])) if one is WITHOUT else one, np.int64 if name in _WHOLE else np.float64)
        for name, one in zip(arrays._fields, arrays, strict=True)
    ]

"""The books of a run: every sum is kept once per cause, so that totals can be checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cosim.continuum.datacentre.layout import Floats, Ints
from cosim.continuum.datacentre.sla import Levels
from cosim.continuum.price import Bill


@dataclass(slots=True, eq=False)
class Sums:
    """What has come together so far."""

    energy: Floats  # (hosts,) J
    wake_energy: Floats  # (hosts,) J of it for waking up
    energy_cost: Floats  # (hosts,) currency
    busy: Floats  # (hosts,) s
    active: Floats  # (hosts,) s
    short: Floats  # (hosts,) s over-loaded
    point_periods: Ints  # (hosts, points) periods with load at each operating point
    down: Floats  # (hosts,) s failed
    overload: Floats  # (machines,) currency
    migration: Floats  # (machines,) currency
    crash: Floats  # (machines,) currency
    transfer: Floats  # (machines,) currency for bytes between places
    paid: Floats  # (machines,) currency that users paid
    away: Floats  # (machines,) s without a host
    moves: Ints  # (machines,)
    asked: float = 0.0  # s of a host
    given: float = 0.0
    lost: float = 0.0  # s of a host, lost to migrations
    wanted: float = 0.0  # capacity x s
    done: float = 0.0
    dropped: float = 0.0  # capacity x s that nobody will do any more
    shortfalls: float = 0.0
    short_counts: int = 0
    inter: int = 0  # migrations between places
    restarts: int = 0
    moved_mb: float = 0.0
    link_energy: float = 0.0  # J
    violating: int = 0  # machine-periods with less given than asked for
    served: int = 0  # machine-periods
    over_periods: int = 0  # host-periods with more asked for than there is
    active_periods: int = 0  # host-periods with load

    @staticmethod
    def none(hosts: int, machines: int, points: int) -> Sums:
        """Empty books."""
        of_hosts = ("energy", "wake_energy", "energy_cost", "busy", "active", "short", "down")
        of_machines = ("overload", "migration", "crash", "transfer", "paid", "away")
        arrays: dict[str, Any] = {name: np.zeros(hosts) for name in of_hosts}
        arrays |= {name: np.zeros(machines) for name in of_machines}
        return Sums(**arrays, point_periods=np.zeros((hosts, points), np.int64), moves=np.zeros(machines, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """The books of a run; each total is the sum of its parts."""

    energy: Floats  # (hosts,) J, waking included
    wake_energy: Floats  # (hosts,) J
    link_energy: float  # J of the network for migrations
    energy_cost: Floats  # (hosts,) currency
    bills: tuple[Bill, ...]  # per place
    overload: Floats  # (machines,) currency, penalties by cause
    migration: Floats
    crash: Floats
    transfer: Floats  # (machines,) currency
    paid: Floats  # (machines,) currency that users paid
    migrations: int
    inter: int  # of them between places
    restarts: int
    moved_mb: float
    active: Floats  # (hosts,) s with load
    busy: Floats  # (hosts,) s, integral of the load
    down: Floats  # (hosts,) s failed
    away: Floats  # (machines,) s without a host
    point_periods: Ints  # (hosts, points)
    active_periods: int
    over_periods: int
    violating: int
    served: int
    wanted: float  # capacity x s; done + dropped + still to do
    done: float
    dropped: float
    waiting: float
    levels: Levels

    @property
    def penalty(self) -> float:
        """Currency owed to users, of all causes."""
        return float(self.overload.sum() + self.migration.sum() + self.crash.sum())

    @property
    def cost(self) -> float:
        """Currency: energy, penalties and transfers."""
        return float(self.energy_cost.sum() + self.transfer.sum()) + self.penalty

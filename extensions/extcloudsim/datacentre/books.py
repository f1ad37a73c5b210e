"""The books of a run: every sum is kept once per cause, so that totals can be checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.price import Bill
from cosim.extensions.extcloudsim.datacentre.account import PeriodOutcome
from cosim.extensions.extcloudsim.datacentre.layout import Bools
from cosim.extensions.extcloudsim.datacentre.sla import SlaLevels


@dataclass(eq=False, kw_only=True)
class Sums:
    """What has come together so far."""

    energy: Floats  # (hosts,) J
    wake_energy: Floats  # (hosts,) J of it for waking up
    gpu_energy: Floats  # (hosts,) J of it in GPUs
    gpu_busy: Floats  # (hosts,) s of GPUs in use
    energy_cost: Floats  # (hosts,) currency
    busy: Floats  # (hosts,) s
    active: Floats  # (hosts,) s
    short: Floats  # (hosts,) s over-loaded
    down: Floats  # (hosts,) s failed
    overload: Floats  # (machines,) currency
    migration: Floats  # (machines,) currency
    crash: Floats  # (machines,) currency
    memory: Floats  # (machines,) currency
    transfer: Floats  # (machines,) currency for bytes between places
    paid: Floats  # (machines,) currency that users paid
    away: Floats  # (machines,) s without a host
    cramped: Floats  # (machines,) s with less memory than asked for
    above: Floats  # (places,) s in which more was drawn than the cap
    excess: Floats  # (places,) J of it above the cap
    cooling: Floats  # (places,) J of cooling and power supply, beside the hosts'
    moves: Ints  # (machines,)
    asked: float = 0.0  # s of a host
    given: float = 0.0
    wanted: float = 0.0  # capacity x s
    done: float = 0.0
    dropped: float = 0.0  # capacity x s that will never be done
    inter: int = 0  # migrations between places
    restarts: int = 0
    moved_mb: float = 0.0
    link_energy: float = 0.0  # J

    @staticmethod
    def none(hosts: int, machines: int, places: int = 1) -> Sums:
        """Empty books."""
        of_hosts = ("energy", "wake_energy", "gpu_energy", "gpu_busy", "energy_cost", "busy", "active", "short", "down")
        of_machines = ("overload", "migration", "crash", "memory", "transfer", "paid", "away", "cramped")
        arrays: dict[str, Any] = {name: np.zeros(hosts) for name in of_hosts}
        arrays |= {name: np.zeros(places) for name in ("above", "excess", "cooling")}
        arrays |= {name: np.zeros(machines) for name in of_machines}
        return Sums(**arrays, moves=np.zeros(machines, np.int64))


@dataclass(eq=False, kw_only=True)
class PeriodCounts:
    """What is counted by the period, however many stretches it was simulated in."""

    point_periods: Ints  # (hosts, points) periods with load at each operating point
    lost: float = 0.0  # s of a host, lost to migrations
    shortfalls: float = 0.0  # sum of (asked - given) / asked
    short_counts: int = 0  # of so many machine-periods
    violating: int = 0  # machine-periods with less given than asked for, of the processor or of memory
    served: int = 0  # machine-periods
    over_periods: int = 0  # host-periods with more asked for than there is
    active_periods: int = 0  # host-periods with load


class Open:
    """The period that is under way."""

    def __init__(self, hosts: int, machines: int) -> None:
        self._asked, self._given, self._away = np.zeros(machines), np.zeros(machines), np.zeros(machines)
        self._cramped = np.zeros(machines, np.bool_)
        self._there, self._moved = np.zeros(machines, np.bool_), np.zeros(machines, np.bool_)
        self._loaded, self._over = np.zeros(hosts, np.bool_), np.zeros(hosts, np.bool_)
        self._point = np.zeros(hosts, np.int64)

    def note(self, o: PeriodOutcome, away: Floats, there: Bools, moved: Bools, point: Ints) -> None:
        """Another stretch, with the machines that were there and on their way, and the operating points."""
        self._asked += o.asked
        self._given += o.given
        self._away += away
        self._cramped |= o.cramped > 0.0
        self._there |= there
        self._moved |= moved
        self._loaded |= o.active > 0.0
        self._over |= o.peak > 1.0 + 1e-12
        self._point = point.copy()

    def count(self, into: PeriodCounts) -> None:
        """Add the period to the counts."""
        missing = self._asked - self._given
        part = np.where(self._asked > 0.0, missing / np.where(self._asked > 0.0, self._asked, 1.0), 0.0)
        less = part > 1e-9
        on = np.flatnonzero(self._loaded)
        into.point_periods[on, self._point[on]] += 1
        into.active_periods += len(on)
        into.over_periods += int(self._over.sum())
        into.lost += float(missing[self._moved].sum())
        into.shortfalls += float(part[less].sum())
        into.short_counts += int(less.sum())
        into.violating += int((less | self._cramped | (self._away > 0.0)).sum())
        into.served += int(self._there.sum())


@dataclass(eq=False, kw_only=True)
class DatacentreLedger(Sums, PeriodCounts):
    """The books of a run; each total is the sum of its parts."""

    bills: tuple[Bill, ...]  # per place
    waiting: float  # capacity x s; wanted = done + dropped + waiting

    @property
    def levels(self) -> SlaLevels:
        """The usual figures of service levels."""
        active, asked = float(self.active.sum()) or 1.0, self.asked or 1.0
        slatah, pdm = float(self.short.sum()) / active, self.lost / asked
        missing = (self.asked - self.given) / asked
        return SlaLevels(slatah, pdm, slatah * pdm, missing, self.shortfalls / (self.short_counts or 1))

    @property
    def migrations(self) -> int:
        """Moves of all machines."""
        return int(self.moves.sum())

    @property
    def penalty(self) -> float:
        """Currency owed to users, of all causes."""
        return float(self.overload.sum() + self.migration.sum() + self.crash.sum() + self.memory.sum())

    @property
    def cost(self) -> float:
        """Currency: energy, penalties and transfers."""
        return float(self.energy_cost.sum() + self.transfer.sum()) + self.penalty

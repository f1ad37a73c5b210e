"""Which host each VM is on, in the order in which they are asked for: whether it fits, and what it costs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Flags, Floats
from cosim.extensions.importers.cloudsim.environment import DatacenterEntry, VmEntry

_TIME, _SPACE, _OVER = range(3)
_CODES = {"TimeShared": _TIME, "SpaceShared": _SPACE, "TimeSharedOverSubscription": _OVER}


@dataclass(slots=True)
class _Room:
    """The hosts of one datacenter and what is left on them."""

    entry: DatacenterEntry
    pes: Floats  # (hosts,)
    mips: Floats  # of a PE
    scheduler: NDArray[np.int8]
    free_pes: Floats
    free_mips: Floats  # of all PEs
    free: Floats  # (3, hosts): MB of RAM, Mbit/s, MB of storage
    used: Flags


class Placing:
    """Puts VMs on hosts, one after another."""

    def __init__(self, datacenters: Sequence[DatacenterEntry]) -> None:
        self._rooms = [_room(entry) for entry in datacenters for _ in range(entry.amount) if _count(entry)]

    @property
    def hosts_used(self) -> int:
        return sum(int(room.used.sum()) for room in self._rooms)

    def place(self, vm: VmEntry) -> DatacenterEntry | None:
        """The datacenter that takes the VM, the first with a host for it; None when it fits nowhere."""
        for room in self._rooms:
            fits = _fits(room, vm)
            if not fits.any():
                continue
            hosts = np.flatnonzero(fits)
            if room.entry.placement == "Simple":  # the host with the most free PEs
                host = int(hosts[np.argmax(room.free_pes[hosts])])
            elif room.entry.placement == "BestFit":
                host = int(hosts[np.argmin(room.free_pes[hosts])])
            else:
                host = int(hosts[0])
            room.free_pes[host] -= vm.pes
            room.free_mips[host] -= vm.pes * vm.mips
            room.free[:, host] -= (vm.ram, vm.bw, vm.size)
            room.used[host] = True
            return room.entry
        return None


def _count(entry: DatacenterEntry) -> int:
    return sum(host.amount for host in entry.hosts)


def _room(entry: DatacenterEntry) -> _Room:
    amounts = [host.amount for host in entry.hosts]

    def column(values: list[float]) -> Floats:
        return np.repeat(np.array(values, np.float64), amounts)

    pes = column([host.pes for host in entry.hosts])
    mips = column([host.mips for host in entry.hosts])
    codes = [_CODES[host.scheduler] for host in entry.hosts]
    free = np.stack([column([getattr(host, name) for host in entry.hosts]) for name in ("ram", "bw", "storage")])
    used = np.zeros(len(pes), np.bool_)
    return _Room(entry, pes, mips, np.repeat(np.array(codes, np.int8), amounts), pes.copy(), pes * mips, free, used)


def _fits(room: _Room, vm: VmEntry) -> Flags:
    """(hosts,) A VM has PEs to itself on space-shared hosts, MIPS on time-shared ones."""
    fits = (vm.pes <= room.pes) & (vm.mips <= room.mips)
    fits &= np.all(room.free >= np.array([[vm.ram], [vm.bw], [vm.size]]), axis=0)
    enough = np.where(room.scheduler == _SPACE, vm.pes <= room.free_pes, vm.pes * vm.mips <= room.free_mips)
    return np.asarray(fits & (enough | (room.scheduler == _OVER)))

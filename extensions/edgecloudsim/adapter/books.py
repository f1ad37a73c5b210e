"""Rows about hosts, and the ledgers at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import Scene
from cosim.contract.frame import Frame, constant
from cosim.contract.records import Floats, Ints, Records
from cosim.contract.unfinished import reported
from cosim.extensions.edgecloudsim.adapter.world import OffloadingWorld
from cosim.extensions.edgecloudsim.offloading.books import OffloadingOutcome
from cosim.extensions.edgecloudsim.offloading.layout import CAUSES, COMPLETED, MOBILE

Columns = Mapping[str, NDArray[Any]]

# Ends of tasks by the model's names -> the words of the signal `task`.
STATUS = {
    "completed": "completed", "capacity": "capacity",
    "mobility": "no-coverage",  # the result arrived where the device no longer was
    "range": "no-coverage",
    "wlan": "link-failed", "man": "link-failed", "wan": "link-failed", "gsm": "link-failed",  # it had no capacity left
    "death": "node-failed",  # the device's battery is empty
}  # fmt: skip


class OffloadingAccounts:
    """What each host, an edge place or the cloud, has done so far.

    Energy is the host's power, linear between idle and full load, over the share of its cores in use;
    the cost of a completed task is its seconds on the machine and the bytes of its input and output,
    each by the host's price (CloudSim's rule).
    """

    def __init__(self, world: OffloadingWorld, scene: Scene) -> None:
        study = world.study
        self._world = world
        groups = [(place, group) for place, centre in enumerate(study.places) for group in centre.hosts]
        groups += [(len(study.places), group) for group in study.cloud]
        slots = [*world.places, world.cloud] if study.cloud else list(world.places)
        self._slots = constant(np.array(slots, np.int32))
        self._up = constant(np.ones(len(slots), np.bool_))
        self._node = np.array([node for node, _ in groups], np.int64)  # of each host, index into slots
        self._host = np.repeat(np.arange(len(groups)), [len(group) for _, group in groups])  # of each machine
        self._cores = np.array([sum(vm.cores for vm in group) for _, group in groups], np.float64)  # of each host
        self._all_cores = self._over_hosts(self._cores)
        nodes = [scene.nodes[slot] for slot in slots]
        power = [node.power.table if node.power else (0.0, 0.0) for node in nodes]
        self._idle, self._full = np.array([table[0] for table in power]), np.array([table[-1] for table in power])
        prices = np.array([(node.price_cpu, node.price_transfer) for node in nodes]).reshape(-1, 2)
        self._prices = np.zeros_like(prices) if "cost-never-set" in study.quirks else prices
        self._names = [node.id for node in nodes]
        self._tiers = [node.tier for node in nodes]
        self.allowed = np.array([a.max_delay or np.inf for a in study.applications])  # s, of each application
        self._completed = np.zeros(len(nodes), np.int64)
        self._late = np.zeros(len(study.applications), np.int64)
        self._cost = np.zeros((2, len(nodes)))  # of computing, of transfers
        self._before = np.zeros((3, len(nodes)))  # s, busy core seconds and J at the last row

    def _over_hosts(self, values: Floats) -> Floats:
        """Sums of the hosts' `values` by node."""
        return np.bincount(self._node, values, len(self._slots)).astype(np.float64)

    def slot_of(self, machine: Ints) -> NDArray[np.int32]:
        """Slot of the node of each machine, -1 for those of devices and for none."""
        known = (machine >= 0) & (machine < len(self._host))
        found = np.full(len(machine), -1, np.int32)
        found[known] = self._slots[self._node[self._host[machine[known]]]]
        return found

    def _busy(self, machines: Records) -> Floats:
        """Busy core seconds of each host."""
        return np.bincount(self._host, machines["busy"][: len(self._host)], len(self._node)).astype(np.float64)

    def _note(self, ended: Columns) -> None:
        done = ended["cause"] == COMPLETED
        late = done & (ended["ended"] - ended["created"] > self.allowed[ended["application"]])
        self._late += np.bincount(ended["application"][late], minlength=len(self._late))
        hosted = done & (ended["tier"] != MOBILE)
        node = self._node[self._host[ended["vm"][hosted]]]
        self._completed += np.bincount(node, minlength=len(self._slots))
        seconds = (ended["computed"] - ended["arrived"])[hosted]
        moved = 1e3 * (ended["upload"] + ended["download"])[hosted]
        # task by task, so that how finely time is stepped changes no bit of the sums
        np.add.at(self._cost[0], node, self._prices[node, 0] * seconds)
        np.add.at(self._cost[1], node, self._prices[node, 1] * moved)

    def host_frame(self, time: float, machines: Records, ended: Columns) -> Frame:
        """One row per place and for the cloud, after taking note of the tasks that ended."""
        self._note(ended)
        busy = self._busy(machines)
        used, joules = self._over_hosts(busy), self._energy(time, busy)
        span = time - self._before[0]
        safe = np.where(span > 0.0, span, 1.0)
        active = machines["active"][: len(self._host)]
        columns: dict[str, NDArray[Any]] = {
            "running": np.bincount(self._node[self._host], active, len(self._slots)).astype(np.int32),
            "utilisation": (used - self._before[1]) / (safe * self._all_cores),
            "power": np.where(span > 0.0, (joules - self._before[2]) / safe, self._idle),
            "energy": joules,
            "cost": self._cost.sum(axis=0),
            "completed": self._completed.copy(),
            "up": self._up,
        }
        self._before[:] = np.full(len(used), time), used, joules
        return Frame("host", time, self._slots, columns)

    def _energy(self, time: float, busy: Floats) -> Floats:
        """J of each node: its power at no load, and what full load adds, over the share of each host's cores."""
        hosts = np.bincount(self._node, minlength=len(self._slots))
        joules: Floats = self._idle * time * hosts + (self._full - self._idle) * self._over_hosts(busy / self._cores)
        return joules

    def summary(self, outcome: OffloadingOutcome, machines: Records) -> dict[str, Any]:
        """The ledgers: tasks, bytes, energy in J and cost. `causes` has the model's own words."""
        applications = outcome.study.applications
        loads = {application.name: _tasks(outcome, k, int(self._late[k])) for k, application in enumerate(applications)}
        busy = self._busy(machines)
        hosts = self._energy(outcome.time, busy)
        used = self._over_hosts(busy) / (self._all_cores * (outcome.time or 1.0))
        by_node = dict(zip(self._names, map(float, hosts), strict=True))
        devices, links = (outcome.energy.get(meter, 0.0) for meter in ("mobile", "network"))
        by_node[self._world.fleet.name] = devices
        tiers = {"device": devices, "edge": 0.0, "cloud": 0.0}
        for tier, joules in zip(self._tiers, hosts, strict=True):
            tiers[tier] += float(joules)
        cost = self._cost.sum(axis=0)
        return {
            "tasks": _added(list(loads.values()), outcome.created),
            "workloads": loads,
            "causes": {cause: int(outcome.tally[cause].sum()) for cause in CAUSES},
            "energy": {
                "total": sum(by_node.values()) + links,
                "by_node": by_node,
                "by_tier": tiers,
                "radio": 0.0,
                "links": links,
            },
            "cost": {
                "total": float(cost.sum()),
                "by_node": dict(zip(self._names, map(float, cost), strict=True)),
                "cpu": float(self._cost[0].sum()),
                "transfer": float(self._cost[1].sum()),
                "energy": 0.0,
            },
            "utilisation": dict(zip(self._names, map(float, used), strict=True)),
            "cores": dict(zip(self._names, map(float, self._all_cores), strict=True)),
            "events": outcome.events,
        }


def _tasks(outcome: OffloadingOutcome, application: int, late: int) -> dict[str, Any]:
    """The book of one application's tasks."""
    rows = outcome.tally[:, application]
    failed: dict[str, int] = {}
    for cause, status in tuple(STATUS.items())[1:]:
        count = int(rows[cause].sum())
        if count:
            failed[status] = failed.get(status, 0) + count
    completed, left = int(rows["completed"].sum()), int(outcome.uncompleted[:, application].sum())
    created = completed + sum(failed.values()) + left
    of, ages = outcome.left
    return {
        "created": created, "completed": completed, "late": late, "failed": failed, "in_flight": left,
        "ages": reported(ages[of == application]),
    }  # fmt: skip


def _added(entries: list[dict[str, Any]], created: int) -> dict[str, Any]:
    """All tasks; `created` is what the devices have counted, not the sum of how tasks ended."""
    failed: dict[str, int] = {}
    for entry in entries:
        for status, count in entry["failed"].items():
            failed[status] = failed.get(status, 0) + count
    completed, late, left = (sum(entry[key] for entry in entries) for key in ("completed", "late", "in_flight"))
    return {"created": created, "completed": completed, "late": late, "failed": failed, "in_flight": left}

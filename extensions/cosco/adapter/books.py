"""Rows about hosts and containers, and the ledgers at the end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import Summary
from cosim.contract.entities import Scene
from cosim.contract.frame import Frame, constant
from cosim.contract.signals import OF_WORKLOADS, TASK_STATUS
from cosim.contract.unfinished import reported
from cosim.extensions.cosco.adapter.world import MEGA, IntervalWorld
from cosim.extensions.cosco.interval.layout import COMPLETED
from cosim.extensions.cosco.interval.quirks import CONSTANT_COST
from cosim.extensions.cosco.interval.simulator import Interval

_NODE_FAILED = TASK_STATUS.index("node-failed")
_TIERS = ("device", "edge", "cloud")


class IntervalAccounts:
    """What has happened so far."""

    def __init__(self, simulation: Interval, world: IntervalWorld, scene: Scene) -> None:
        self._simulation, self._world, self._scene = simulation, world, scene
        self._slots = constant(world.slots)
        self._made: list[NDArray[np.int64]] = [np.empty(0, np.int64)]  # devices, by container; -1: it has ended
        loads = max(len(scene.workloads), 1)
        self._created, self._late = np.zeros(loads, np.int64), np.zeros(loads, np.int64)
        self._ended = np.zeros((loads, len(TASK_STATUS)), np.int64)
        self._price = np.array([node.price_energy for node in world.nodes])
        self._constant = "constant-cost" in world.quirks
        self._used = np.zeros(len(world.nodes))  # intervals, each times the share in use

    def note(self, makers: NDArray[np.int64]) -> None:
        """These devices have made the next containers."""
        self._made.append(makers)

    def tasks(self, time: float) -> Frame:
        """The containers that ended since the last frame."""
        ended = self._simulation.drain()
        failed = ended["status"] != COMPLETED
        self._made = [np.concatenate(self._made)]
        container = ended["container"].astype(np.int64)
        device = self._made[0][container]
        self._made[0][container] = -1
        finish = np.where(failed, np.nan, ended["finish"].astype(np.float64))
        load = ended["profile"].astype(np.int64)
        status = np.where(failed, _NODE_FAILED, 0)
        np.add.at(self._ended, (load, status), 1)
        np.add.at(self._late, load, ended["late"].astype(np.int64))
        columns = dict.fromkeys(OF_WORKLOADS, np.zeros(len(load))) | {
            "task": container,
            "workload": load.astype(np.int16),
            "host": self._world.slots[ended["host"].astype(np.int64)],
            "status": status.astype(np.int8),
            "created": ended["created"].astype(np.float64),
            "uploaded": ended["begun"].astype(np.float64),
            "started": ended["begun"].astype(np.float64),
            "computed": finish,
            "ended": np.where(failed, time, finish),
            "input": self._world.workload.demand[load, 0, 1] * MEGA,
            "output": np.zeros(len(load)),
            "work": ended["work"].astype(np.float64) * MEGA,
            "deadline": ended["deadline"].astype(np.float64),
            "late": ended["late"] != 0,
        }
        return Frame("task", time, device.astype(np.int32), columns)

    def _cost(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(H,) of the hosts' time and of their energy."""
        hosts = self._simulation.world.hosts
        if self._constant:
            return np.full(len(hosts), CONSTANT_COST / len(hosts)), np.zeros(len(hosts))
        return hosts["cost"].copy(), hosts["energy"] * self._price

    def hosts(self, time: float) -> Frame:
        """One row per host."""
        hosts = self._simulation.world.hosts
        idle = self._simulation.world.power[:, 0].copy()
        time_cost, energy_cost = self._cost()
        used = hosts["used"] / hosts["mips"]
        self._used += used
        columns = {
            "running": hosts["count"].astype(np.int32),
            "utilisation": used,
            "power": hosts["joules"] / self._simulation.length if time > 0.0 else idle,
            "energy": hosts["energy"].copy(),
            "cost": time_cost + energy_cost,
            "completed": hosts["completed"].copy(),
            "up": hosts["up"] != 0,
        }
        return Frame("host", time, self._slots, columns)

    def summary(self) -> Summary:
        """Tasks by workload, energy and cost by node. What happened at the very end is in flight."""
        world = self._simulation.world
        count = int(world.rules["created"][0])
        load = world.given[:count, 1].astype(np.int64)
        created = np.bincount(load, minlength=len(self._ended))
        intervals = self._simulation.interval - 1
        left = np.concatenate(self._made)[:count] >= 0
        ages = (intervals - world.given[:count, 0]) * self._simulation.length
        energy = world.hosts["energy"]
        names = [node.id for node in self._world.nodes]
        time_cost, energy_cost = self._cost()
        tiers = {
            tier: float(sum(energy[k] for k, node in enumerate(self._world.nodes) if node.tier == tier))
            for tier in _TIERS
        }
        return {
            "tasks": _tasks(int(created.sum()), self._ended.sum(axis=0), int(self._late.sum()), ages[left]),
            "workloads": {
                one.name: _tasks(int(created[k]), self._ended[k], int(self._late[k]), ages[left & (load == k)])
                for k, one in enumerate(self._scene.workloads)
            },
            "energy": {
                "total": float(energy.sum()),
                "by_node": {name: float(value) for name, value in zip(names, energy, strict=True)},
                "by_tier": tiers,
            },
            "cost": {
                "total": float((time_cost + energy_cost).sum()),
                "by_node": {n: float(v) for n, v in zip(names, time_cost + energy_cost, strict=True)},
                "cpu": float(time_cost.sum()),
                "transfer": 0.0,
                "energy": float(energy_cost.sum()),
            },
            "utilisation": dict(zip(names, map(float, self._used / max(intervals, 1)), strict=True)),
            "cores": {node.id: node.cores for node in self._world.nodes},
            "quirks": sorted(self._world.quirks),
            "intervals": intervals,
        }


def _tasks(created: int, ended: NDArray[np.int64], late: int, ages: NDArray[np.float64]) -> dict[str, object]:
    failed = {name: int(n) for name, n in zip(TASK_STATUS, ended, strict=True) if n and name != "completed"}
    return {
        "created": created,
        "completed": int(ended[0]),
        "late": late,
        "failed": failed,
        "in_flight": created - int(ended.sum()),
        "ages": reported(ages),
    }

"""Energy, cost and jobs of a run, by node, and the ledgers at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import Summary
from cosim.contract.entities import Node
from cosim.contract.records import Floats, Ints
from cosim.contract.unfinished import reported
from cosim.engine.continuum.billing import Rates
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.engine.layout import STATES
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSimulation


class Books:
    """What the leaves of each node used. Spines and optical switches are the network's: `links`."""

    def __init__(
        self,
        simulation: ClusterSimulation,
        node: Ints,
        nodes: Sequence[Node],
        tariffs: Sequence[Rates],
        tariff: Sequence[int],
    ) -> None:
        self._simulation, self._node, self._nodes = simulation, node, nodes
        self._tariffs, self._tariff = tariffs, tariff
        fabric, count = simulation.fabric, len(nodes)
        servers = np.bincount(node, fabric.servers, count)
        self._gpus = servers * fabric.per_server
        leaves = np.bincount(node, minlength=count)
        self._base = (
            self._gpus * fabric.gpu_power[0]
            + servers * fabric.server_power[0]
            + leaves * fabric.leaf_power / fabric.leaves
        )  # W when nothing runs
        self._more = (fabric.gpu_power[1] - fabric.gpu_power[0], fabric.server_power[1] - fabric.server_power[0])
        self._network = fabric.spine_power + float(fabric.ocs_power.sum())  # W
        self._energy, self._held = np.zeros(count), np.zeros(count)  # J, GPU s at the last bill
        self._cost, self._carbon, self._green = np.zeros(count), np.zeros(count), np.zeros(count)
        self._time, self._row = 0.0, (0.0, np.zeros(count), np.zeros(count))  # of the last row: s, J, GPU s
        self.completed = np.zeros(count, np.int64)
        self._counted = np.zeros(len(simulation.jobs), bool)

    def bill(self) -> None:
        """Pay for all energy since the last bill, at the rates that have held since."""
        simulation, count = self._simulation, len(self._nodes)
        of_leaf, served_by_leaf = simulation.by_leaf()
        held: Floats = np.bincount(self._node, of_leaf, count).astype(np.float64)
        served: Floats = np.bincount(self._node, served_by_leaf, count).astype(np.float64)
        energy = self._base * simulation.now + self._more[0] * held + self._more[1] * served
        used = energy - self._energy
        for i, tariff in enumerate(self._tariff):
            if tariff < 0:
                self._cost[i] += used[i] * self._nodes[i].price_energy
                continue
            price, carbon, green, _ = self._tariffs[tariff].at(self._time)
            self._cost[i] += used[i] * price
            self._carbon[i] += used[i] * carbon
            self._green[i] += used[i] * green
        self._energy, self._held, self._time = energy, held, simulation.now

    def means(self, time: float) -> dict[str, Floats]:
        """Columns of `host`: means since the last call, and what was used so far."""
        self.bill()
        done = self._simulation.state.job["state"] == l.DONE
        fresh = done & ~self._counted
        self._counted |= fresh
        self.completed += np.bincount(self._node[self.first_leaf(np.flatnonzero(fresh))], minlength=len(self._nodes))
        before, energy, held = self._row
        span = time - before
        safe = span if span > 0.0 else 1.0
        self._row = (time, self._energy.copy(), self._held.copy())
        return {
            "utilisation": np.minimum((self._held - held) / safe / self._gpus, 1.0),
            "power": (self._energy - energy) / safe,
            "energy": self._energy.copy(),
            "cost": self._cost.copy(),
        }

    def first_leaf(self, jobs: NDArray[np.intp]) -> Ints:
        """The leaf of the first rank of each job that has run."""
        return np.asarray(self._simulation.state.job["at"][jobs], np.int64)

    def jobs_by_node(self) -> Ints:
        """Running jobs that have their first rank there."""
        running = np.flatnonzero(self._simulation.state.job["state"] == l.RUNNING)
        return np.bincount(self._node[self.first_leaf(running)], minlength=len(self._nodes)).astype(np.int64)

    def gpus_within(self, power: float) -> float:
        """How many GPUs may be busy so that the cluster never draws more than `power` W, wherever they are."""
        fabric = self._simulation.fabric
        left = power - float(self._base.sum()) - self._network
        gpu, server = self._more
        servers = float(fabric.servers.sum())
        scattered = left / (gpu + server) if gpu + server > 0.0 else np.inf  # each GPU wakes a server of its own
        if scattered <= servers:
            return float(max(0.0, np.floor(scattered)))
        return float(np.floor((left - servers * server) / gpu)) if gpu > 0.0 else np.inf

    def summary(self) -> Summary:
        """The ledgers: GPU seconds, energy by node and of the network, cost, and jobs by what became of them."""
        self.bill()
        simulation = self._simulation
        outcome, job = simulation.outcome(), simulation.state.job
        names = [node.id for node in self._nodes]
        tiers = np.array([node.tier for node in self._nodes])
        links = self._network * simulation.now
        faults = outcome.ledger.faults()
        counts = {name: int((job["state"] == i).sum()) for i, name in enumerate(STATES)}
        whole = (job["state"] == l.DONE) & (job["milli"] == l.WHOLE) & (job["n"] <= simulation.fabric.domain)
        began = job["start"] >= 0.0
        under_way = np.isin(job["state"], (STATES.index("waiting"), STATES.index("running")))
        return {
            "tasks": {
                "created": len(job) - counts["future"], "completed": counts["done"], "late": 0,
                "failed": {"capacity": counts["refused"]} if counts["refused"] else {},
                "in_flight": int(under_way.sum()), "ages": reported(simulation.now - job["arrival"][under_way]),
            },
            "energy": {
                "total": float(self._energy.sum()) + links,
                "by_node": dict(zip(names, self._energy.tolist(), strict=True)),
                "by_tier": {t: float(self._energy[tiers == t].sum()) for t in sorted(set(tiers.tolist()))},
                "radio": 0.0,
                "links": links,
            },
            "cost": {
                "total": float(self._cost.sum()), "energy": float(self._cost.sum()), "cpu": 0.0, "transfer": 0.0,
                "by_node": dict(zip(names, self._cost.tolist(), strict=True)),
            },
            "carbon": {
                "grams": float(self._carbon.sum()), "green_energy": float(self._green.sum()),
                "brown_energy": float(self._energy.sum() - self._green.sum()),
            },
            "gpu_seconds": asdict(outcome.ledger) | {"closes": not faults},
            "jobs": {
                **counts, "restarts": outcome.restarts, "mean_waiting": outcome.waiting,
                "mean_completion": outcome.completion, "waiting_by_network": int((job["blocked"][began] > 0).sum()),
                "within_one_pcie_domain": float((job["domains"][whole] == 1).mean()) if whole.any() else None,
            },
            "cluster": {
                "gpus": simulation.fabric.gpus, "makespan": outcome.makespan, "utilisation": outcome.utilisation,
                "loaded_utilisation": outcome.loaded, "starts_blocked_by_network": outcome.blocked,
                "starts_blocked_by_power": int(simulation["blocked_power"]),
                "circuits_set_up": outcome.reconfigured, "circuits_found_standing": outcome.reused,
                "uplinks_in_use": float(simulation["port_time"]) / simulation.now / max(1, len(simulation.state.port))
                if simulation.now > 0.0 else 0.0,
                "network_power": self._network,
                "faults": faults,
            },
        }  # fmt: skip

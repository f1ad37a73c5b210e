"""Fig. 9 and 10 of MLSysOps D4.3, made again."""

from __future__ import annotations

from cosim.extensions.gpu_cluster.cluster import order
from cosim.extensions.gpu_cluster.cluster.fabric import plain
from cosim.extensions.gpu_cluster.cluster.generate import uniform
from cosim.extensions.gpu_cluster.cluster.rank import ranked
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSettings, ClusterSimulation, simulate

ORDERS = {"as they came": order.arrival, "by the model": ranked, "best of all": order.best}  # of five jobs


def figure9(_: str, seed: int, __: None, *, jobs: int, leaves: int) -> dict[str, dict[str, float]]:
    """Makespan and utilisation of the cluster by who orders each window of five jobs."""
    found = {}
    for name, one in ORDERS.items():
        made = ClusterSimulation(plain(leaves), uniform(seed, jobs), ClusterSettings("circuits", "exhaustive"))
        order.in_windows(made, one)
        end = made.outcome()
        found[name] = {"makespan, h": end.makespan / 3600.0, "mean utilisation, %": 100.0 * end.utilisation}
    return found


def figure10(_: str, seed: int, __: None, *, jobs: int, leaves: int) -> dict[str, dict[str, float]]:
    """Mean utilisation of the cluster, and makespan, with a spine that never binds and with circuits instead."""
    work = uniform(seed, jobs)
    made = {
        "fat tree": simulate(plain(leaves, ocs=0), work, ClusterSettings("packet", "best-fit")).outcome(),
        "OCS": simulate(plain(leaves), work, ClusterSettings("circuits", "exhaustive")).outcome(),
    }
    return {
        name: {"mean utilisation, %": 100.0 * one.utilisation, "makespan, h": one.makespan / 3600.0}
        for name, one in made.items()
    }

"""Which topology the optical switches form for the jobs that are there.

The present is branched: each topology is formed in a copy, the waiting and running jobs are followed
to their end without new arrivals, and the one whose jobs end soonest on average is formed, the
present one unless another is better by more than the time in which circuits are down.
"""

from __future__ import annotations

import numpy as np

from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSimulation

AHEAD = 40  # waiting jobs that are followed, first in line first


def worth(simulation: ClusterSimulation, topology: int, ahead: int = AHEAD) -> float:
    """GPU s that the jobs there, and the first `ahead` of those in line, hold until all of them have ended."""
    branch = simulation.copy()
    followed = np.zeros(len(simulation.jobs), bool)
    followed[branch.line(ahead)] = True
    followed |= branch.state.job["state"] == l.RUNNING
    for job in branch.line():
        if not followed[job]:
            branch.drop(job)
    branch.state.grid["jobs"] = branch["arrived"]  # nothing else arrives, and no fault is foreseen
    branch.state.grid["fault_count"] = branch["faults"]
    branch.asking(False)
    branch.switch(topology)
    branch.advance(log=False)
    job = branch.state.job[followed & (branch.state.job["state"] == l.DONE)]
    weight = (job["n"] * job["milli"]).astype(np.float64)
    return float((weight * (job["end"] - simulation.now)).sum())


def choose(simulation: ClusterSimulation, ahead: int = AHEAD) -> int:
    """Form the best topology of `Settings.topologies` for the jobs that are there; its number."""
    present = int(simulation["topology"])
    if int(simulation["waiting"]) + int(simulation["running"]) == 0:
        return present
    cost = [worth(simulation, k, ahead) for k in range(len(simulation.settings.topologies))]
    best = int(np.argmin(cost))
    if best != present and cost[best] < cost[present] * (1.0 - 1e-6):
        simulation.switch(best)
        return best
    return present

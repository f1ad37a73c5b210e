"""Branches of a cluster: each is a run that has the same faults in its settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.fabric import plain
from cosim.extensions.gpu_cluster.cluster.generate import uniform
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSettings, ClusterSimulation, Fault, branch

NOW, HORIZON = 6000.0, 14_000.0
COMES = Fault(300.0, "leaf", 1, repair=400.0), Fault(9000.0, "gpu", 4)  # whatever is tried
COURSES = [
    (),
    (Fault(6000.5, "leaf", 0, repair=100.0),),
    (Fault(7000.0, "gpu", 9), Fault(9000.0, "leaf", 5), Fault(15_000.0, "leaf", 2, repair=1.0)),
]
NETWORKS = {
    "packet": (0, ClusterSettings("packet", "best-fit")),
    "circuits": (8, ClusterSettings("circuits", "exhaustive")),
    "routed": (8, ClusterSettings("routed", "pack", strict=False, topologies=("rings", "torus"))),
}


def at(network, faults, until):
    ocs, settings = NETWORKS[network]
    one = ClusterSimulation(plain(8, ocs=ocs), uniform(seed=3, jobs=60), replace(settings, faults=faults))
    one.advance(NOW)
    one.advance(until)
    return one


@pytest.mark.parametrize("network", NETWORKS)
def test_every_candidate_is_a_run_with_its_faults(network):
    present, begun = at(network, COMES, NOW), at(network, COMES, NOW)
    found = branch(present, COURSES, HORIZON)
    before = begun.outcome()
    assert before.done > 0
    for k, course in enumerate(COURSES):
        run = at(network, (*COMES, *course), NOW + HORIZON)
        outcome, job = run.outcome(), run.state.job
        for name in ("held", "idle", "down", "useful", "slowed", "stalled", "lost"):
            assert found[name][k] == getattr(outcome.ledger, name) - getattr(before.ledger, name)
        for name in ("restarts", "refused", "reconfigured"):
            assert found[name][k] == getattr(outcome, name) - getattr(before, name)
        fresh = (job["state"] == l.DONE) & (begun.state.job["state"] != l.DONE)
        assert found["completed"][k] == fresh.sum() > 0
        assert found["response"][k] == (job["end"] - run.jobs.arrival)[fresh].mean()
    assert len(set(found["useful"])) == len(COURSES)
    present.advance(NOW + HORIZON)  # as if nothing had been tried
    alone = at(network, COMES, NOW + HORIZON)
    assert present.outcome() == alone.outcome()
    assert (present.state.job == alone.state.job).all()


def test_what_cannot_be_branched_is_refused():
    present = at("packet", (), NOW)
    with pytest.raises(ValueError, match="faults come after 6000 s"):
        branch(present, [(Fault(NOW, "gpu", 0),)], 1.0)
    with pytest.raises(ValueError, match="not below 0 s"):
        branch(present, [()], np.nan)
    present.asking()
    with pytest.raises(ValueError, match="waits for a decision"):
        branch(present, [()], HORIZON)

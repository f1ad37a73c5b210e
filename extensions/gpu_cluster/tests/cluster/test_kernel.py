"""The kernel against the oracle in plain Python, its ledgers, and what must hold after every event."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.fabric import plain
from cosim.extensions.gpu_cluster.cluster.generate import MIX, uniform
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs
from cosim.extensions.gpu_cluster.cluster.order import all_orders
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSettings, ClusterSimulation, Fault, simulate
from cosim.extensions.gpu_cluster.tests.cluster import reference

NAMES = {l.RING: "ring", l.ALL_TO_ALL: "all-to-all"}


def small(seed):
    """A random cluster of 2 to 4 leaves and 2 to 5 jobs, ours and the oracle's."""
    rng = np.random.default_rng(seed)
    leaves, per_server = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    servers, switches = int(rng.integers(1, 3)), int(rng.integers(0, 3))
    up = int(rng.integers(1, 5))
    count = int(rng.integers(2, 6))
    most = leaves * servers * per_server
    jobs = Jobs(
        np.zeros(count), rng.integers(1, most + 2, count), np.round(rng.uniform(1.0, 20.0, count), 3),
        rng.choice([l.RING, l.ALL_TO_ALL], count), rails=rng.integers(1, 4, count),
    )  # fmt: skip
    fabric = plain(leaves, servers, up, switches, per_server, delay=0.125)
    settings = ClusterSettings("circuits" if switches else "packet", "exhaustive")
    theirs = reference.Cluster(servers * per_server, leaves, up, switches, 0.125)
    return fabric, jobs, settings, theirs


def of(jobs, order=None):
    rows = range(len(jobs)) if order is None else order
    return [
        reference.Job(int(jobs.gpus[i]), float(jobs.duration[i]), NAMES[int(jobs.pattern[i])], int(jobs.rails[i]))
        for i in rows
    ]


@pytest.mark.parametrize("seed", range(40))
def test_a_small_cluster_does_what_the_oracle_does(seed):
    fabric, jobs, settings, theirs = small(seed)
    ours = simulate(fabric, jobs, settings)
    listed = of(jobs)
    makespan = reference.run(theirs, listed)
    found = ours.state.job
    assert found["start"].tolist() == [job.start for job in listed]
    assert np.allclose(found["end"], [job.end for job in listed], rtol=0, atol=1e-9)
    assert ours.outcome().makespan == pytest.approx(makespan)
    assert ours.ledger().faults() == []


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_all_orders_is_the_oracles(seed):
    fabric, jobs, settings, theirs = small(seed)
    jobs = jobs.take(slice(0, 4))
    orders = all_orders(len(jobs))
    ours = []
    for order in orders:
        simulation = ClusterSimulation(fabric, jobs, settings)
        simulation.state.job["key"][order] = np.arange(len(jobs))
        simulation.advance()
        ours.append(simulation.outcome().makespan)
    theirs = [
        reference.run(
            reference.Cluster(theirs.room, theirs.leaves, theirs.uplinks, theirs.switches, 0.125), of(jobs, o)
        )
        for o in orders
    ]
    assert np.allclose(ours, theirs, rtol=0, atol=1e-9)


def check(s):
    """What must hold at any time: ports, GPUs and counts."""
    port, leaf, gpu, job = s.state.port, s.state.leaf, s.state.gpu, s.state.job
    mate, holder = port["mate"], port["holder"]
    joined = np.flatnonzero(mate >= 0)
    assert (mate[mate[joined]] == joined).all()  # every port in one circuit at most, both ends agree
    assert (port["ocs"][joined] == port["ocs"][mate[joined]]).all()
    assert (port["leaf"][joined] != port["leaf"][mate[joined]]).all()
    held = np.flatnonzero(holder >= 0)
    if s.settings.network == "circuits":
        assert (mate[held] >= 0).all()
        assert (holder[mate[held]] == holder[held]).all()
        assert (job["state"][holder[held]] == l.RUNNING).all()
        free = np.bincount(port["leaf"][(holder < 0) & (port["down"] == 0)], minlength=len(leaf))
        assert (leaf["up"] == free).all()
        running = job["state"] == l.RUNNING
        assert (np.bincount(holder[held], minlength=len(job))[running] == 2 * job["circuits"][running]).all()
    assert (leaf["up"] >= 0).all()
    owned = np.bincount(gpu["owner"][gpu["owner"] >= 0], minlength=len(job))
    whole = (job["state"] == l.RUNNING) & (job["milli"] == l.WHOLE)
    assert (owned == np.where(whole, job["n"], 0)).all()
    assert (gpu["milli"] >= 0).all()
    bits = np.array([bin(m).count("1") for m in s.state.server["mask"]])
    assert (bits == s.state.server["free"]).all()
    assert (np.bincount(s.state.server["leaf"], bits, len(leaf)) == leaf["free"]).all()
    assert bits.sum() == s["free"]
    assert not (gpu["down"][gpu["owner"] >= 0]).any()
    if s.settings.network == "routed" and s.settings.strict:
        assert (s.state.load <= s.state.cap[s["topology"]] * l.UNIT).all()


def disturbed(seed, network, placement, jobs=60, *, strict=True):
    """A run with faults of all kinds, jobs of all patterns, and parts of GPUs."""
    rng = np.random.default_rng(seed)
    fabric = plain(8, 2, 8, 4 if network == "circuits" else 0, 8)
    mix = {"llm": 1, "dlrm": 1, "tree": 1, "pipeline": 1, "experts": 1, "local": 1}
    made = uniform(seed, jobs, mix, sizes=(1, 60), durations=(5.0, 200.0), gap=10.0, rails=4, checkpoint=20.0)
    milli = np.where((made.gpus == 1) | (rng.random(jobs) < 0.2), rng.integers(1, 1001, jobs), 1000)
    made = replace(made, gpus=np.where(milli < 1000, 1, made.gpus), milli=milli)
    ports = len(fabric.port_leaf)
    kinds = [("gpu", fabric.gpus, 8), ("leaf", 8, 2), ("port", ports, 8 if network == "circuits" else 0)]
    faults = tuple(
        Fault(float(rng.uniform(0, 900)), kind, int(rng.integers(size)), float(rng.choice([30.0, 100.0])))
        for kind, size, count in kinds
        for _ in range(count)
    )
    topologies = ("torus", "rings") if network == "routed" else ("fat-tree",)
    return ClusterSimulation(
        fabric,
        made,
        ClusterSettings(network, placement, strict=strict, backfill=3, faults=faults, topologies=topologies),
    )


CASES = [
    *((network, placement, True) for network in ("packet", "circuits") for placement in l.PLACEMENTS),
    ("routed", "pack", True), ("routed", "balanced", False), ("circuits", "pack", False),
]  # fmt: skip


@pytest.mark.parametrize(("network", "placement", "strict"), CASES)
def test_ports_gpus_and_ledgers_hold_after_every_event(network, placement, strict):
    s = disturbed(3, network, placement, strict=strict)
    for time in np.arange(1.0, 2500.0, 13.0):
        s.advance(time)
        check(s)
        assert s.ledger().faults() == []
        assert s.by_leaf()[0].sum() == pytest.approx(s.ledger().held)
        assert s.by_leaf()[1].sum() * 1000.0 == pytest.approx(s["server_time"] * 1000.0)
        if network == "routed" and not strict and int(time) % 5 == 0:
            s.switch(int(time) % 2)
    s.advance()
    check(s)
    outcome = s.outcome()
    assert outcome.unfinished == 0
    assert outcome.restarts > 0
    assert outcome.ledger.lost > 0.0
    assert s["busy"] == 0
    assert not s.state.load.any()
    done = s.state.job["state"] == l.DONE
    weights = s.jobs.gpus * s.jobs.milli / 1000.0
    assert outcome.ledger.useful == pytest.approx(float((weights * s.jobs.duration)[done].sum()))


def test_circuits_that_stand_are_used_again_and_those_of_others_are_not_touched():
    fabric = plain(4, 1, 4, 1, 4, delay=0.5)
    jobs = Jobs(np.array([0.0, 0.0, 10.0]), np.array([8, 8, 8]), np.array([5.0, 30.0, 5.0]), np.full(3, l.RING))
    s = ClusterSimulation(fabric, jobs, ClusterSettings("circuits", "best-fit"))
    s.advance(6.0)
    kept = s.state.port["mate"][s.state.port["holder"] == 1].copy()
    s.advance()
    assert s.state.job["end"].tolist() == [5.5, 30.5, 15.0]  # the third one finds its circuits standing
    assert s["reused"] == 4
    assert (s.state.port["mate"][np.isin(np.arange(16), s.state.port["mate"][kept])] == kept).all()


def test_branches_and_tried_orders_leave_the_present_alone():
    fabric = plain(8, 4, 16, 4)
    s = ClusterSimulation(fabric, uniform(1, 20), ClusterSettings("circuits", "exhaustive"))
    s.asking()
    s.advance()
    line = s.line(4)

    def present():
        s.state.heap[s["queued"] :] = 0  # what is behind the last entry means nothing
        return s.memory.copy()

    before = present()
    found = s.try_orders(np.array(list(itertools.permutations(line))))
    assert (present() == before).all()
    other = s.copy()
    other.asking(False)
    other.advance()
    assert (present() == before).all()
    assert other.over
    backwards = s.try_orders(np.array(list(itertools.permutations(line)))[::-1])
    assert (backwards[::-1] == found).all()  # no order leaves a trace that another one sees
    for row, order in zip(found, itertools.permutations(line), strict=True):
        alone = s.copy()
        for job in reversed(order):
            alone.decide(job)
        alone.advance()  # up to the start of the last one
        job = alone.state.job
        running = job["state"] == l.RUNNING
        assert row[1] == max(job["start"][j] for j in order)
        assert row[0] == pytest.approx(alone.state.due[running].max())


def test_elastic_jobs_take_as_much_longer_as_their_circuits_are_fewer():
    fabric = plain(2, 1, 2, 1, 8, delay=0.0)
    jobs = Jobs(
        np.zeros(1), np.array([16]), np.array([100.0]), np.array([l.RING]), compute=np.array([0.6]),
        network=np.array([0.4]), overlap=np.array([0.5]), rails=np.array([8]),
    )  # fmt: skip
    s = simulate(fabric, jobs, ClusterSettings("circuits", "pack", strict=False))
    best = max(0.6, 0.5 * 0.4) + 0.5 * 0.4
    step = max(0.6, 0.5 * 1.6) + 0.5 * 1.6  # two circuits of the eight that it would use
    assert s.state.job["end"][0] == pytest.approx(100.0 * step / best)
    assert s.outcome().ledger.slowed == pytest.approx(16 * 100.0 * (step / best - 1.0))


def test_jobs_share_the_links_of_a_torus():
    fabric = plain(4, 1, 4, 0, 4)
    jobs = Jobs(
        np.zeros(2),
        np.array([8, 8]),
        np.array([10.0, 10.0]),
        np.array([l.RING, l.RING]),
        compute=np.zeros(2),
        network=np.ones(2),
    )
    s = ClusterSimulation(fabric, jobs, ClusterSettings("routed", "best-fit", strict=False, topologies=("rings",)))
    s.advance(0.0)
    # leaves 0-1 and 2-3 are neighbours on the ring, each pair joined by two ports: four rails are halved
    assert s.state.job["factor"].tolist() == [2.0, 2.0]
    s.advance()
    assert s.outcome().makespan == pytest.approx(20.0)


def test_the_same_seed_gives_the_same_bits():
    one, two = (disturbed(5, "circuits", "exhaustive") for _ in range(2))
    for s in (one, two):
        s.advance()
    assert (one.state.job == two.state.job).all()
    assert (one.rows() == two.rows()).all()


def test_a_job_that_the_empty_cluster_cannot_hold_is_refused():
    fabric = plain(2, 1, 1, 1, 4)
    jobs = Jobs(np.zeros(2), np.array([9, 8]), np.array([1.0, 1.0]), np.full(2, l.ALL_TO_ALL))
    s = simulate(fabric, jobs, ClusterSettings("circuits", "exhaustive"))
    assert s.over
    assert s.outcome().refused == 2


def test_optical_circuits_lose_little_against_a_spine():
    """Our result for the published settings: within a point at as many uplinks as GPU ports (few seeds here)."""
    used = []
    for network, ocs in (("packet", 0), ("circuits", 8)):
        runs = [
            simulate(plain(32, ocs=ocs), uniform(k, 200, MIX), ClusterSettings(network, "exhaustive")) for k in range(4)
        ]
        used.append(np.mean([run.outcome().utilisation for run in runs]))
    assert used[0] - used[1] < 0.01

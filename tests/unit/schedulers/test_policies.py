"""Policies written once, on every model that asks for their decisions."""

from dataclasses import replace

import numpy as np
import pytest

from cosim.adapters.continuum import ADAPTER as CONTINUUM
from cosim.adapters.continuum.tests.test_continuum_adapter import CLOUD, EDGE, UAV, load, scene
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Link, SlotRange
from cosim.contract.errors import ScenarioError
from cosim.contract.link import LinkState
from cosim.schedulers import (
    BUILTIN,
    POLICIES,
    known_models,
    list_schedulers,
    scheduler,
    scheduler_names,
)
from cosim.schedulers.policies import Bandit, Game, edf
from cosim.schedulers.state import GRAPH, HOST, KEEP, LOCAL, TASK, WHOLE, State, decides
from tests.extensions import named


def state(hosts=3, **tasks):
    """Idle hosts of 1, 2, 4 GHz; the last is the cloud, 50 ms away."""
    h = np.zeros(hosts, HOST)
    h["tier"], h["cores"], h["up"], h["memory"] = 1.0, 1.0, 1.0, np.inf
    h["tier"][-1] = 2.0
    h["speed"] = 1e9 * 2.0 ** np.arange(hosts)
    count = len(next(iter(tasks.values())))
    t = np.zeros(count, TASK)
    t["host"], t["deadline"], t["work"], t["input"] = KEEP, np.inf, 1e9, 1e5
    t["task"] = t["chance"] = np.arange(count)
    for name, values in tasks.items():
        t[name] = values
    return State(0.0, 0.0, h, t, np.tile(np.where(h["tier"] == 2.0, 0.05, 0.001), (count, 1)))


def run(adapter, world, steps=40, period=0.5, **config):
    one = adapter.build(adapter.load_config()(**config))
    one.start(Context("it", world, period, duration=steps * period, seed=(1, 2, 3), root=".", scratch="."))
    frames = [one.step(k * period, Inputs()) for k in range(steps + 1)]
    return one.finish(), frames


def busy():
    """Four sources by wire at two edge hosts and a cloud, with 8 tasks/s each."""
    nodes = (EDGE, replace(EDGE, id="edge-2"), CLOUD, *(replace(UAV, id=f"u{k}") for k in range(4)))
    links = [Link((SlotRange(0),), (SlotRange(1, 2),), LinkState(100e6, 0.02), energy=1e-9)]
    links += [Link((SlotRange(3 + k),), (SlotRange(k % 2),), LinkState(50e6, 0.002)) for k in range(4)]
    return scene(*nodes, links=tuple(links), workloads=(load(SlotRange(3, 4), rate=8.0, arrivals="poisson"),))


@pytest.mark.parametrize("name", named("schedulers", scheduler_names("task")))
def test_every_policy_per_task_runs_on_the_continuum_by_name(name):
    if name == "local":
        pytest.skip("these devices have no cpu")
    found, _ = run(CONTINUUM, busy(), scheduler=name)
    again, _ = run(CONTINUUM, busy(), scheduler=name)
    assert found == again
    assert found["tasks"]["completed"] > 500


def few():
    """One source at an edge host and a cloud, three tasks in five seconds."""
    world = busy()
    return replace(world, workloads=(load(SlotRange(3, 1), rate=0.6, arrivals="every"),))


@pytest.mark.parametrize("decide", [None, "500 ms"])
@pytest.mark.parametrize("name", named("schedulers", scheduler_names("interval")))
def test_every_policy_per_interval_runs_on_the_continuum_by_name(name, decide):
    """When a task is made, or by the clock; the same answer of the catalogue's table."""
    if name in BUILTIN:
        pytest.skip("the continuum's own decides per task")
    if name == "corais-exact":
        pytest.importorskip("highspy")
    (listed,) = (one for one in list_schedulers() if one.name == name)
    assert listed.answers["continuum"].startswith("yes")
    found, frames = run(CONTINUUM, few(), steps=10, scheduler=name, decide=decide)
    assert found["tasks"]["completed"] >= 2
    sent = np.concatenate([step[0]["started"] - step[0]["created"] for step in frames])  # 20 ms or 60 ms by wire
    assert (sent > 0.1).any() == (decide is not None)
    assert (sent < 0.6).all()


@decides("interval")
def in_bulk(state):
    """Waiting tasks in turn over the hosts; the oldest task on host 0 moves to host 1."""
    found = np.where(state.tasks["host"] < 0, np.arange(len(state.tasks)) % len(state.hosts), KEEP)
    there = np.flatnonzero(state.tasks["host"] == 0)
    found[there[:1]] = 1
    return found


def test_a_policy_per_interval_runs_on_the_continuum():
    found, frames = run(CONTINUUM, busy(), scheduler=f"{__name__}:in_bulk")
    tasks = found["tasks"]
    assert tasks["completed"] > 500
    assert tasks["created"] == tasks["completed"] + sum(tasks["failed"].values()) + tasks["in_flight"]
    rows = np.concatenate([step[0].columns["assigned" if "assigned" in step[0].columns else "host"] for step in frames])
    assert len(rows) == tasks["completed"] + sum(tasks["failed"].values())


def test_a_policy_that_decides_otherwise_is_refused():
    with pytest.raises(ScenarioError, match="'nearest' decides when a task is made, not by the clock"):
        run(CONTINUUM, busy(), scheduler="nearest", decide="1 s")


def test_edf_serves_the_tightest_first():
    """Three equal tasks on one idle core each: the tightest gets the fastest host, though it came last."""
    found = edf(state(deadline=[9.0, 5.0, 1.0]))
    assert found.tolist() == [2, 1, 2]  # 0.30 s on 4 GHz; 0.50 s on 2 GHz; two on 4 GHz 0.60 s against 1.0 s each


def test_a_bandit_leaves_the_host_that_turns_out_slow():
    bandit = Bandit()
    one = state(work=[1e9])
    first = int(bandit(one)[0])
    for _ in range(60):
        host = int(bandit(one)[0])
        slow = 5.0 if host == first else 0.6
        bandit.learn({"host": np.array([host]), "work": np.array([1e9]), "seconds": np.array([slow]),
                      "completed": np.array([True]), "part": np.array([WHOLE])})  # fmt: skip
    assert int(bandit(one)[0]) != first
    known = bandit._mean.copy()
    bandit.learn({"host": np.array([first]), "work": np.array([1e9]), "seconds": np.array([90.0]),
                  "completed": np.array([True]), "part": np.array([GRAPH])})  # fmt: skip
    assert np.array_equal(bandit._mean, known)  # of whose stages it has heard already


def test_shares_of_the_game_follow_the_gain():
    """With the cloud 1.0 s sooner than the edge and L = 1 s: p = 1 / 7.2 when another device always sends."""
    game = Game()
    game._share, game._sent = {7: 1.0}, {7: 1}
    one = state(work=[2e9], deadline=[1.0], chance=[0.2])
    edge, cloud = 0.001 + 1.0, 0.05 + 0.5
    assert game(one).tolist() == [1]
    assert game._share[0] == pytest.approx((edge - cloud) / 7.2)


@pytest.mark.slow
def test_search_takes_least_of_energy_and_time_together_on_the_continuum():
    """The same tasks at the same hosts under every scheduler; a task cannot know those that come after it."""
    totals = {}
    for name in ("least-loaded", "nearest", "edf", "search"):
        found, frames = run(CONTINUUM, busy(), steps=24, scheduler=name)
        seconds = np.concatenate([step[0]["ended"] - step[0]["created"] for step in frames])
        totals[name] = found["energy"]["total"], seconds.mean()
    energy, seconds = totals.pop("search")
    assert energy < 0.99 * min(totals["least-loaded"][0], totals["edf"][0])
    assert seconds < 1.02 * min(mean for _, mean in totals.values())
    assert energy * seconds < min(joules * mean for joules, mean in totals.values())


def test_a_state_of_the_continuum_has_what_it_knows_and_nan_for_the_rest():
    """Powers are of the hosts' tables; what runs on the device's own core is not listed."""
    seen = []

    @decides("interval")
    def look(state):
        seen.append(state)
        return np.where(state.tasks["host"] == KEEP, np.where(np.arange(len(state.tasks)) % 2, 0, LOCAL), KEEP)

    from cosim.engine.continuum import Engine
    from cosim.schedulers.models import PerState
    from tests.unit.engine.continuum.happenings import CLOCK, KINDS, served, world

    engine = served(world(), 11, PerState(look, 0.5, waits=False))
    assert isinstance(engine, Engine)
    engine.advance(4.0)
    last = seen[-1]
    assert last.hosts["idle_power"].tolist() == [kind.power[0] for kind in KINDS[:3]]
    assert last.hosts["full_power"].tolist() == [kind.power[-1] for kind in KINDS[:3]]
    assert last.hosts["price"][:2].tolist() == [3600 * 0.5, 3600 * 2 * 0.2]
    assert np.isnan(last.hosts["price"][2])
    assert (last.tasks["host"] >= KEEP).all()
    waiting = last.tasks[last.tasks["host"] == KEEP]
    assert set(waiting["own_speed"].tolist()) <= {0.0, CLOCK / 4}
    assert all((np.diff(state.tasks["task"][state.tasks["host"] == KEEP]) > 0).all() for state in seen)


def test_the_catalogue_names_what_the_models_have():
    listed = {one.name: one for one in list_schedulers()}
    for model, one in known_models().items():
        assert all(model in listed[name].models for name in one.compiled)
    for name, (_, decisions, _) in POLICIES.items():
        assert scheduler(name).decisions == decisions
        assert set(listed[name].models) == {model for model, one in known_models().items() if one.decisions & decisions}
    for one in listed.values():
        assert all(answer == "yes" or len(answer) > 8 for answer in one.answers.values()), (
            one.name
        )  # a no has its reason
    assert listed["search"].answers["radio"] == "no: it decides per interval; asked per response"

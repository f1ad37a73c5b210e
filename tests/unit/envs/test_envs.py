"""Scenario files as environments: the libraries' own checkers, seeds, and equality with a plain run."""

import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
parallel_test = pytest.importorskip("pettingzoo.test")

from gymnasium.utils.env_checker import check_env  # noqa: E402

import cosim  # noqa: E402
import cosim.envs  # noqa: E402
from cosim.contract.extras import how_to_install  # noqa: E402
from cosim.envs import MultiEdge  # noqa: E402
from cosim.envs.session import KEYS, Session  # noqa: E402
from cosim.schedulers import scheduler  # noqa: E402
from tests.extensions import needs  # noqa: E402


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    """A small fog: containers on three edge hosts and a cloud, from two cameras."""
    path = tmp_path_factory.mktemp("fog") / "scenario.cosim.yaml"
    path.write_text("""
apiVersion: cosim/v1
kind: Scenario
name: small-fog
run: {duration: 20 min, step: 1 min, seed: 3}
adapters:
  ADAPTER
nodes:
  edge-1: {kind: edge, cpu: 2 x 2 GHz, memory: 4 GB, power: {idle: 50 W, max: 100 W}}
  edge-2: {kind: edge, cpu: 2 x 2 GHz, memory: 4 GB, power: {idle: 50 W, max: 100 W}}
  cloud: {kind: cloud, cpu: 16 x 2 GHz, power: {idle: 100 W, max: 300 W}}
  camera: {kind: device}
links:
  - {between: [camera, edge-1], rate: 50 Mbit/s, delay: 2 ms}
  - {between: [edge-1, edge-2], rate: 100 Mbit/s, delay: 5 ms}
  - {between: [edge-1, cloud], rate: 100 Mbit/s, delay: 20 ms}
workloads:
  jobs: {from: camera, arrivals: poisson 0.05 Hz, input: 1 MB, output: 0 B, work: exponential 40 Gcycles}
""")

    def with_adapter(name):
        file = path.with_name(f"{name}.cosim.yaml")
        file.write_text(path.read_text().replace("ADAPTER", f"{name}: {{}}"))
        return file

    return with_adapter


def played(env, seed, steps=15):
    """Observations and rewards under actions by the environment's own seeded space."""
    seen, _ = env.reset(seed=seed)
    env.action_space.seed(1)
    found = [seen]
    rewards = []
    for _ in range(steps):
        seen, reward, over, cut, _ = env.step(env.action_space.sample())
        found.append(seen)
        rewards.append(reward)
        if over or cut:
            break
    return found, rewards


@pytest.mark.parametrize(("name", "adapter"), [
    pytest.param("cosim/Continuum-v1", "interval", marks=needs("cosco")), ("cosim/Continuum-v1", "continuum"),
    ("cosim/Offload-v1", "continuum"),
])  # fmt: skip
def test_gymnasium_accepts_the_environment(scenario, name, adapter):
    env = gymnasium.make(name, scenario=scenario(adapter), disable_env_checker=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of wide bounds
        check_env(env.unwrapped, skip_render_check=True)
    first, rewards = played(env, 5)
    again, repeated = played(env, 5)
    other, _ = played(env, 6)
    assert rewards == repeated
    assert len(rewards) > 5
    for one, two in zip(first, again, strict=True):
        assert all(np.array_equal(one[key], two[key]) for key in one)
    assert any(not np.array_equal(a["tasks"], b["tasks"]) for a, b in zip(first, other, strict=False))
    shown, _ = played(cosim.envs.scaled(env), 5)  # the same figures, as a net can take them
    for plain, one in zip(first, shown, strict=True):
        assert np.array_equal(plain["task_mask"], one["task_mask"])
        for key in ("hosts", "tasks", "reach"):
            assert one[key].dtype == np.float32
            assert np.abs(one[key]).max() <= 10.0
            assert np.array_equal(plain[key] == -1.0, one[key] == -1.0)
        assert np.sinh(one["hosts"][:, 2].astype(float)) * 1e9 == pytest.approx(plain["hosts"][:, 2], rel=1e-5)
        assert (one["reach"][plain["reach"] == 1e15] == 10.0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a wrapper
        check_env(cosim.envs.scaled(env.unwrapped), skip_render_check=True)
    env.close()


@pytest.mark.parametrize(("name", "adapter", "right"), [
    pytest.param("cosim/Continuum-v1", "interval", np.zeros(64, np.int64), marks=needs("cosco")),
    ("cosim/Offload-v1", "continuum", 0),
])  # fmt: skip
def test_what_is_no_answer_is_refused_and_the_question_stays_open(scenario, name, adapter, right):
    env = gymnasium.make(name, scenario=scenario(adapter), disable_env_checker=True)
    env.reset(seed=1)
    count = env.unwrapped._hosts + 2
    for off in (count, -1, 0.5, np.nan):
        with pytest.raises(ValueError, match=f"expected 0 to {count - 1}"):
            env.step(np.asarray(right) + off)
    for wrong in (np.zeros(3, np.int64), None, "0"):
        with pytest.raises(ValueError, match="of integers"):
            env.step(wrong)
    env.step(right)
    env.close()
    with pytest.raises(gymnasium.error.ResetNeeded, match="closed"):
        env.unwrapped.step(right)


@needs("cosco")
@pytest.mark.parametrize(("options", "said"), [
    ({"tasks": 0}, "one task row or more"), ({"tasks": -3}, "one task row or more"), ({"watts": 0.0}, "above 0 W"),
    ({"watts": float("nan")}, "above 0 W"),
])  # fmt: skip
def test_sizes_that_cannot_be_are_refused(scenario, options, said):
    for make in (cosim.envs.ContinuumEnv, MultiEdge, cosim.envs.ContinuumVectorEnv):
        with pytest.raises(ValueError, match=said):
            make(scenario("interval"), **options)


def test_one_override_may_be_a_text(scenario):
    env = cosim.envs.ContinuumEnv(scenario("continuum"), overrides="run.duration=5 min")
    assert env._session.plan.duration == 300.0
    env.close()


@needs("cosco")
def test_pettingzoo_accepts_the_environment(scenario):
    env = MultiEdge(scenario("interval"))
    assert env.possible_agents[:2] == ["edge_0", "edge_1"]
    parallel_test.parallel_api_test(env, num_cycles=60)
    parallel_test.parallel_seed_test(lambda: MultiEdge(scenario("interval")), num_cycles=8)
    env.close()


@pytest.mark.parametrize(
    ("adapter", "policy"),
    [
        pytest.param("interval", "edf", marks=needs("cosco")),
        pytest.param("continuum", "pond", marks=needs("metanet")),
    ],
)
def test_an_agent_that_answers_as_a_policy_has_its_run(scenario, adapter, policy):
    """A policy through the environment's questions decides what it decides inside the scenario."""
    pytest.importorskip("pandas")
    session = Session(scenario(adapter), "interval", 7)
    decide = scheduler(policy).policy(adapter)
    seen = []
    while (state := session.ask()) is not None:
        seen.append(state)
        session.answer(decide(state))
    session.close()
    overrides = ["run.seed=7", f"adapters.{adapter}.{KEYS[adapter]}={policy}"]
    overrides += [f"adapters.continuum.decide={seen[0].interval} s"] if adapter == "continuum" else []
    outcome = cosim.run(scenario(adapter), overrides=overrides, out=scenario(adapter).parent / "runs")
    rows = cosim.load(outcome.folder).table("host").df()
    assert len(seen) == 20
    for state in seen[1:]:
        then = rows[np.isclose(rows["time"], state.time) & (rows["node"] != "camera")]
        for name in ("power", "utilisation"):  # means of the interval before
            assert sorted(then[name]) == pytest.approx(sorted(state.hosts[name]))
    assert max(state.hosts["utilisation"].max() for state in seen) > 0.0


@needs("cosco")
def test_a_scenario_without_decisions_is_refused(scenario):
    from cosim.contract.errors import ScenarioError

    with pytest.raises(ScenarioError, match="no adapter asks per task"):
        cosim.envs.OffloadEnv(scenario("interval"))


def test_a_scenario_without_an_edge_host_has_no_agents(scenario):
    clouds = [f"nodes.edge-{k}.kind=cloud" for k in (1, 2)]
    with pytest.raises(ValueError, match="no edge host, so there is no agent"):
        MultiEdge(scenario("continuum"), overrides=clouds)


@needs("cosco")
def test_clouds_are_clouds_also_where_they_are_most_hosts(scenario):
    env = MultiEdge(scenario("interval"), overrides=["nodes.edge-1.kind=cloud"])
    assert env.possible_agents == ["edge_1"]
    env.close()


def test_a_run_without_a_task_ends_with_its_first_step(scenario):
    env = cosim.envs.OffloadEnv(scenario("continuum"), overrides="run.duration=1 min")
    seeds = iter(range(1, 200))  # three tasks are expected in a run
    while env.reset(seed=next(seeds))[0]["task_mask"].any():
        pass
    seen, reward, terminated, truncated, info = env.step(0)
    assert (seen["task_mask"].any(), reward, terminated, truncated, info["time"]) == (False, 0.0, False, True, 60.0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.close()


def test_rewards_come_to_the_seconds_of_the_run(scenario):
    """A graph counts as the job that the run's table has, not as its stages besides."""
    pytest.importorskip("pandas")
    stages = ("look: {work: 8 Gcycles, output: 1 kB}", "left: {work: 4 Gcycles, after: [look], output: 1 kB}",
              "right: {work: 9 Gcycles, after: [look], output: 1 kB}")  # fmt: skip
    jobs = f"{{from: camera, arrivals: poisson 0.05 Hz, input: 1 MB, graph: {{{', '.join(stages)}}}}}"
    graph = f"workloads.jobs={jobs}"
    env = cosim.envs.OffloadEnv(scenario("continuum"), overrides=[graph])
    env.reset(seed=7)
    total, over = 0.0, False
    while not over:
        _, reward, _, over, _ = env.step(2)
        total += reward
    env.close()
    outcome = cosim.run(scenario("continuum"), overrides=[graph, "run.seed=7", "adapters.continuum.scheduler=nearest"],
                        out=scenario("continuum").parent / "runs")  # fmt: skip
    tasks = cosim.load(outcome.folder).table("task").df()
    assert set(tasks["host"]) == {"edge-1"}
    assert len(tasks) > 30
    assert -total == pytest.approx((tasks["ended"] - tasks["created"]).sum())


def test_tasks_that_are_stuck_cost_at_once_and_until_the_end(scenario):
    pytest.importorskip("pandas")
    load = "workloads.jobs.work=100 Gcycles"  # 25 s of both cores, one every 20 s
    env = cosim.envs.OffloadEnv(scenario("continuum"), overrides=[load])
    made, rewards, over = [env.reset(seed=7)[1]["time"]], [], False
    while not over:
        _, reward, _, over, info = env.step(2)
        rewards.append(reward)
        made.append(info["time"])
    env.close()
    end = made.pop()
    assert max(rewards[2:20]) < 0.0
    outcome = cosim.run(scenario("continuum"), overrides=[load, "run.seed=7", "adapters.continuum.scheduler=nearest"],
                        out=scenario("continuum").parent / "runs")  # fmt: skip
    ended = cosim.load(outcome.folder).table("task").df()["ended"]
    assert 5 < len(ended) < len(made) - 5
    assert -sum(rewards) == pytest.approx(ended.sum() + end * (len(made) - len(ended)) - sum(made))


@pytest.mark.parametrize(("module", "code"), [
    ("gymnasium", "import cosim.envs"), ("pettingzoo", "from cosim.envs import MultiEdge"),
    pytest.param(
        "torch", "from cosim.extensions.metanet.catalogue.training import library; library()", marks=needs("metanet")
    ),
])  # fmt: skip
def test_a_library_that_is_missing_is_told_with_what_to_install(tmp_path, module, code):
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError('no', name={module!r})")
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    how = re.escape(how_to_install("learn"))
    assert re.search(rf"ModuleNotFoundError: .* needs? {module}: {how}$", found.stderr, re.MULTILINE)

"""The compiled batch of environments: to the bit what single environments do."""

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.vector import AutoresetMode  # noqa: E402

from cosim.contract.errors import ScenarioError  # noqa: E402
from cosim.envs import ContinuumVectorEnv, scaled  # noqa: E402
from cosim.schedulers.state import TASK  # noqa: E402

INTERVALS, SEEDS, ROWS = 12, 8, 6
ID = "cosim/Continuum-v1"


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    """Eleven hosts, two of which fail, one of them before the first decision; more containers than rows."""
    path = tmp_path_factory.mktemp("fog") / "fog.cosim.yaml"
    path.write_text(f"""
apiVersion: cosim/v1
kind: Scenario
name: fog
run: {{duration: {INTERVALS} min, step: 1 min, seed: 3}}
adapters:
  interval: {{demand: 1 GHz, peak: 3 GHz, slots: 14, boot: 5 s, switch_off: true}}
nodes:
  edge-[1..9]: {{kind: edge, cpu: 2 x 2 GHz, memory: 4 GB, power: {{idle: 53.7 W, max: 100.1 W}}}}
  cloud-[1..2]: {{kind: cloud, cpu: 16 x 2 GHz, power: {{idle: 101.3 W, max: 300 W}}, cost: {{cpu: 0.04 /h}}}}
  camera-[1..3]: {{kind: device}}
workloads:
  jobs: {{from: camera-*, arrivals: poisson 0.02 Hz, input: 1.1 GB, work: exponential 300 Gcycles, deadline: 100 s}}
  checks: {{from: camera-1, arrivals: every 40 s, input: 10 MB, work: uniform 10 Gcycles .. 90 Gcycles}}
events:
  - {{at: 0 s, do: fail, node: edge-2, for: 4 min}}
  - {{at: 5 min, do: fail, node: cloud-1}}
""")
    return path


def actions(seed):
    """More than an episode, so that one begins anew."""
    return np.random.Generator(np.random.PCG64(seed)).integers(0, 13, (INTERVALS + 5, ROWS))


def alone(scenario, seed, overrides):
    """(observation, reward, terminated, truncated, info) of one environment, begun anew at the step after its end."""
    env = gymnasium.make(ID, scenario=scenario, tasks=ROWS, overrides=overrides, disable_env_checker=True)
    seen, info = env.reset(seed=seed)
    rows, over = [(seen, 0.0, False, False, info)], False
    for action in actions(seed):
        if over:
            seen, info = env.reset()
            rows.append((seen, 0.0, False, False, info))
        else:
            rows.append(env.step(action))
        over = rows[-1][2] or rows[-1][3]
    env.close()
    return rows


def same(batch, k, single):
    seen, rewards, terminated, truncated, info = batch
    found = single[0]
    assert set(seen) == set(found)
    for name, array in found.items():
        assert seen[name].dtype == array.dtype
        assert seen[name][k].tobytes() == array.tobytes(), name
    assert (rewards[k], terminated[k], truncated[k]) == single[1:4]
    assert {name: info[name][k] for name in single[4]} == single[4]


@pytest.mark.parametrize("overrides", [
    (), ("adapters.interval.physics=compatible", "adapters.interval.switch_off=false", "adapters.interval.boot=0 s"),
])  # fmt: skip
def test_a_batch_is_to_the_bit_its_environments(scenario, overrides):
    seeds = [11 * k + 2 for k in range(SEEDS)]
    expected = [alone(scenario, seed, overrides) for seed in seeds]
    assert max(row[4]["left_out"] for rows in expected for row in rows) > 0
    assert {row[3] for row in expected[0]} == {False, True}
    assert [int(expected[0][k][0]["host_mask"].sum()) for k in (0, 3, 4, 5)] == [10, 10, 11, 10]
    for count in range(1, SEEDS + 1):
        mode = ("copy", "same")[count % 2]
        env = gymnasium.make_vec(
            ID, num_envs=count, vectorization_mode="vector_entry_point", scenario=scenario, tasks=ROWS,
            overrides=overrides, observation_mode=mode,
        )  # fmt: skip
        seen, info = env.reset(seed=seeds[:count])
        assert seen in env.observation_space
        none = np.zeros(count, np.bool_)
        batch = (seen, np.zeros(count), none, none, info)
        played = np.stack([actions(seed) for seed in seeds[:count]], axis=1)
        for step in range(len(played) + 1):
            for k in range(count):
                same(batch, k, expected[k][step])
            if step < len(played):
                batch = env.step(played[step])
        env.close()


def test_one_that_ends_begins_anew_in_the_same_step_as_the_librarys_do(scenario):
    """Gymnasium's own vector of single environments is the oracle."""
    one = {"scenario": scenario, "tasks": ROWS}
    many = gymnasium.make_vec(ID, 3, "vector_entry_point", **one, autoreset_mode=AutoresetMode.SAME_STEP)
    makers = [lambda: gymnasium.make(ID, **one, disable_env_checker=True)] * 3
    theirs = gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    assert many.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    found, expected = many.reset(seed=5), theirs.reset(seed=5)
    ends = 0
    for played in np.stack([actions(seed) for seed in range(3)], axis=1):
        alike(found, expected)
        found, expected = many.step(played), theirs.step(played)
        ends += "final_obs" in found[-1]
    alike(found, expected)
    assert ends == 1
    theirs.close()


@pytest.fixture(scope="module")
def continuum(tmp_path_factory):
    """Graphs, accelerators, machines that sleep, bound workloads, tariffs, failures, and devices of several sorts."""
    path = tmp_path_factory.mktemp("edge") / "edge.cosim.yaml"
    path.write_text("""
apiVersion: cosim/v1
kind: Scenario
name: edge
run: {duration: 12 s, step: 500 ms, seed: 3}
adapters:
  continuum: {decide: 1 s, discipline: {edge: fcfs}, drop_late: true}
kinds:
  gpu-edge:
    kind: edge
    cpu: 2 x 3.3 GHz
    memory: 3 GB
    accelerators: {gpu: {units: 1 x 10 TFLOPS, idle: 15 W, max: 70 W}}
    scaling: {platform: xeon-1220, governor: ondemand}
    sleep: {after: 1 s, power: 4 W, wake: 300 ms, wake_power: 60 W}
    boot: {time: 1 s, power: 60 W, off: 1 W}
tariffs:
  solar: {price: 0.30 /kWh, carbon: 400 g/kWh, repeat: 5 s, windows: [{from: 2 s, to: 4 s, price: 0.05 /kWh}]}
nodes:
  gpu-[1..2]: {kind: gpu-edge}
  edge-[1..3]: {kind: edge, cpu: 2 x 2 GHz, memory: 4 GB, power: {idle: 53.7 W, max: 100.1 W}, cost: {tariff: solar}}
  cloud: {kind: cloud, cpu: 16 x 3 GHz, cost: {cpu: 0.04 /h}}
  device-[1..5]: {kind: device, cpu: 1 x 1 GHz}
  sensor: {kind: device}
links:
  - {between: [device-*, edge-1], rate: 20 Mbit/s, delay: 2 ms}
  - {between: [device-1, edge-2], rate: 30 Mbit/s, delay: 1 ms}
  - {between: [sensor, edge-2], rate: 30 Mbit/s, delay: 1 ms}
  - {between: [edge-1, edge-2], rate: 100 Mbit/s, delay: 2 ms, jitter: 500 us}
  - {between: [edge-1, edge-3], rate: 100 Mbit/s, delay: 2 ms}
  - {between: [edge-2, "gpu-*"], rate: 100 Mbit/s, delay: 2 ms}
  - {between: [edge-1, cloud], rate: 1 Gbit/s, delay: 20 ms}
workloads:
  jobs:
    {from: [device-*, sensor], arrivals: poisson 0.8 Hz, input: 400 kB, output: 5 kB, work: exponential 2 Gcycles,
     deadline: 3 s, memory: 500 MB}
  see:
    {from: device-*, arrivals: every 1500 ms, input: 200 kB, output: 2 kB, work: 400 Mcycles, class: memory,
     accelerator: {gpu: exponential 1.5 TFLOP}, memory: 2 GB}
  apart:
    {from: device-*, arrivals: poisson 0.3 Hz, input: 200 kB, work: 900 Mcycles,
     anti_affinity: {hosts: edge-1, workloads: [jobs]}}
  near: {from: device-2, arrivals: poisson 0.5 Hz, input: 200 kB, work: 900 Mcycles, affinity: {hosts: "kind:edge"}}
  graph:
    from: device-3
    arrivals: every 1 s
    input: 100 kB
    graph:
      first: {work: 200 Mcycles, output: 180 kB, where: device}
      left: {work: 600 Mcycles, output: 4 kB, after: [first]}
      right: {work: 2 Gcycles, output: 1 kB, after: [first]}
      last: {work: 100 Mcycles, output: 1 kB, after: [left, right]}
events:
  - {at: 0 s, do: fail, node: edge-3, for: 2 s}
  - {at: 3 s, do: fail, node: gpu-1, for: 1500 ms}
  - {at: 4300 ms, do: degrade, link: edge-1/cloud, rate: 10 %, for: 2 s}
  - {at: 6 s, do: fail, node: edge-1, for: 700 ms}
""")
    return path


@pytest.mark.parametrize(("mode", "rows", "overrides"), [
    (AutoresetMode.NEXT_STEP, 12, ()),
    (AutoresetMode.SAME_STEP, 40, ("run.step=300 ms", "adapters.continuum.decide=700 ms")),
    (AutoresetMode.NEXT_STEP, 12, ("run.duration=3 s", "adapters.continuum.decide=130 ms")),
])  # fmt: skip
def test_a_batch_on_the_continuum_is_to_the_bit_the_librarys_of_single_environments(continuum, mode, rows, overrides):
    one = {"scenario": continuum, "tasks": rows, "overrides": overrides}
    many = gymnasium.make_vec(ID, 2, "vector_entry_point", **one, autoreset_mode=mode)
    makers = [lambda: gymnasium.make(ID, **one, disable_env_checker=True)] * 2
    theirs = gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=mode)
    found, expected = many.reset(seed=5), theirs.reset(seed=5)
    chance = np.random.Generator(np.random.PCG64(3))
    ends, moved, most, failed = 0, 0, 0, 0
    for _ in range(30):
        alike(found, expected)
        seen = found[0]
        moved += (seen["tasks"][..., TASK.names.index("movable")] > 0.0).sum()
        most, failed = max(most, found[-1]["left_out"].max()), failed + (seen["host_mask"] == 0).sum()
        played = chance.integers(0, many.single_action_space.nvec[0], (2, rows))
        found, expected = many.step(played), theirs.step(played)
        ends += int(found[3].any())
    alike(found, expected)
    assert ends >= 1
    assert failed > 10
    assert (most > 0) == (rows == 12)
    assert moved > 10 or not overrides  # the first rows are those that wait
    theirs.close()


def alike(found, expected):
    """Whether two answers are the same to the bit, tuples and dicts within them too."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = [found[name] for name in expected], list(expected.values())
    if isinstance(expected, tuple | list):
        for one, other in zip(found, expected, strict=True):
            alike(one, other)
    elif isinstance(expected, np.ndarray) and expected.dtype == object:
        alike(found.tolist(), expected.tolist())
    elif expected is None:
        assert found is None
    else:
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_no_other_way_to_begin_anew_is_known(scenario):
    with pytest.raises(ValueError, match="is NEXT_STEP or SAME_STEP, not AutoresetMode"):
        ContinuumVectorEnv(scenario, 2, autoreset_mode=AutoresetMode.DISABLED)


def test_it_is_a_vector_environment_of_the_library(scenario):
    env = gymnasium.make_vec(ID, num_envs=2, scenario=scenario, tasks=ROWS)
    assert isinstance(env, ContinuumVectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    single = gymnasium.make(ID, scenario=scenario, tasks=ROWS, disable_env_checker=True)
    assert env.single_observation_space == single.observation_space
    assert env.single_action_space == single.action_space
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(env.action_space.sample())
    first, _ = env.reset(seed=4)
    kept = {name: array.copy() for name, array in first.items()}
    after, *_ = env.step(env.action_space.sample())
    assert all(np.array_equal(first[name], kept[name]) for name in first)  # copies
    shown, _ = scaled(env).reset(seed=4)
    assert scaled(env).observation_space.contains(shown)
    assert shown["tasks"].shape == kept["tasks"].shape
    assert shown["tasks"] == pytest.approx(np.stack([scaled(single).reset(seed=4 + k)[0]["tasks"] for k in range(2)]))
    single.close()
    env.step(env.action_space.sample())
    again, info = env.reset(seed=[4, 5], options={"reset_mask": np.array([True, False])})
    for name in kept:
        assert np.array_equal(again[name][0], kept[name][0])
        assert np.array_equal(again[name][1], after[name][1])
    assert info["time"].tolist() == [0.0, 60.0]


def test_what_is_no_answer_is_refused(scenario):
    env = ContinuumVectorEnv(scenario, 2, tasks=ROWS)
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"shape \(6,\); expected \(2, 6\)"):
        env.step(np.zeros(ROWS, np.int64))
    for wrong in (-1, 13):
        with pytest.raises(ValueError, match="expected 0 to 12"):
            env.step(np.full((2, ROWS), wrong))
    with pytest.raises(ValueError, match="3 seeds for 2"):
        env.reset(seed=[1, 2, 3])


def test_a_scenario_that_cannot_be_batched_is_refused(scenario, continuum):
    other = scenario.with_name("other.cosim.yaml")
    other.write_text(continuum.read_text().replace("adapters:\n", "adapters:\n  network: {}\n"))
    with pytest.raises(ScenarioError, match="one adapter alone, interval or continuum, in this process") as reported:
        gymnasium.make_vec(ID, num_envs=2, vectorization_mode="vector_entry_point", scenario=other)
    assert "vectorization_mode='sync'" in str(reported.value)
    with pytest.raises(ScenarioError, match="a batch is without fleets"):
        ContinuumVectorEnv(continuum, 2, overrides=["adapters.continuum.failures={edge: {mtbf: 5 s, repair: 1 s}}"])
    with pytest.raises(ValueError, match="asks for no decision"):
        ContinuumVectorEnv(scenario, 2, overrides=["adapters.interval.step=1 h"])

"""A trained model as a policy: the observations of its training, the same decisions, and masks."""

import json

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

import cosim  # noqa: E402
import cosim.envs  # noqa: E402
from cosim.envs.central import answer  # noqa: E402
from cosim.envs.session import Session  # noqa: E402
from cosim.schedulers.state import KEEP, LOCAL, answers  # noqa: E402

IDS = {"task": "cosim/Offload-v1", "interval": "cosim/Continuum-v1"}
ROWS = {"task": 1, "interval": 8}


@pytest.fixture
def scenario(tmp_path):
    """Three hosts of which one fails, and two kinds of devices: with a processor and without."""
    path = tmp_path / "scenario.cosim.yaml"
    path.write_text("""
apiVersion: cosim/v1
kind: Scenario
name: small
run: {duration: 20 s, step: 500 ms, seed: 3}
adapters:
  continuum: {}
nodes:
  near: {kind: edge, cpu: 2 x 1 GHz}
  far: {kind: edge, cpu: 4 x 2 GHz}
  alone: {kind: edge, cpu: 4 x 2 GHz}
  phone: {kind: device, cpu: 1 x 500 MHz}
  sensor: {kind: device}
links:
  - {between: [[phone, sensor], near], rate: 20 Mbit/s, delay: 2 ms}
  - {between: [near, far], rate: 50 Mbit/s, delay: 10 ms}
workloads:
  load: {from: [phone, sensor], arrivals: poisson 2 Hz, input: 50 kB, output: 1 kB, work: exponential 400 Mcycles}
events:
  - {at: 8 s, do: fail, node: far, for: 6 s}
""")
    return path


def soonest(seen):
    """An action per row of what an environment shows: the host in reach with the fewest tasks, else nothing."""
    load = seen["hosts"][:, 3] + 100.0 * (seen["host_mask"] == 0) + (seen["reach"] > 1e9) * 1e3
    return np.where(load.min(axis=1) < 100.0, 2 + load.argmin(axis=1), 0)


def states(scenario, decision, decide):
    """What a run of the scenario asks under seed 5, answered by `decide`."""
    session = Session(scenario, decision, 5)
    found = []
    while (state := session.ask()) is not None:
        found.append(state)
        session.answer(decide(state))
    session.close()
    return found


def made(scenario, decision):
    options = {} if decision == "task" else {"tasks": ROWS[decision]}
    return gymnasium.make(IDS[decision], scenario=scenario, disable_env_checker=True, **options)


@pytest.mark.parametrize("decision", IDS)
def test_a_model_decides_in_a_run_as_in_its_environment(scenario, decision):
    rows = ROWS[decision]

    def model(seen):
        found = soonest(seen)
        return (found[0], None) if decision == "task" else found

    env = made(scenario, decision)
    seen, _ = env.reset(seed=5)
    shown, over = [seen], False
    while not over:
        action = model(seen)
        seen, _, _, over, _ = env.step(action[0] if decision == "task" else action)
        shown.append(seen)
    env.close()
    policy = cosim.envs.as_policy(model, decision, tasks=8)
    assert policy.decisions == {decision}
    asked = states(scenario, decision, lambda state: answers(policy, state))
    assert len(asked) == len(shown) - 1 > 20
    for state, one in zip(asked, shown, strict=False):
        same = cosim.envs.observe(state, 3, rows)
        assert all(np.array_equal(same[key], one[key]) for key in same)


@pytest.mark.parametrize("decision", IDS)
@pytest.mark.parametrize(("scale", "flat"), [(True, False), (False, True), (True, True)])
def test_a_model_sees_what_its_wrappers_showed(scenario, decision, scale, flat):
    env = made(scenario, decision)
    env = cosim.envs.scaled(env) if scale else env
    env = gymnasium.wrappers.FlattenObservation(env) if flat else env
    first, _ = env.reset(seed=5)
    nothing = np.zeros(env.action_space.shape, np.int64)
    second = env.step(nothing)[0]
    env.close()
    given = []
    policy = cosim.envs.as_policy(lambda seen: given.append(seen) or nothing, decision, 8, scale, flat)
    states(scenario, decision, policy)
    for one, seen in zip(given, (first, second), strict=False):
        one, seen = ({"": one}, {"": seen}) if flat else (one, seen)
        assert one.keys() == seen.keys()
        assert all(np.array_equal(one[key].astype(seen[key].dtype), seen[key]) for key in one)


@pytest.mark.parametrize("decision", IDS)
def test_a_mask_has_what_can_be_carried_out(scenario, decision):
    masks = []

    class Maskable:
        def predict(self, observation, state=None, deterministic=False, action_masks=None):
            assert deterministic
            masks.append(action_masks.reshape(-1, 5))
            return np.array([np.random.default_rng(len(masks)).choice(np.flatnonzero(row)) for row in masks[-1]]), None

    policy = cosim.envs.as_policy(Maskable().predict, decision, 8)
    chosen = []
    asked = states(scenario, decision, lambda state: chosen.append(answers(policy, state)) or chosen[-1])
    assert any(not mask[:, 3].any() for mask in masks)  # `far` has failed
    assert not any(mask[:, 4].any() for mask in masks)  # no way leads to `alone`
    for state, mask in zip(asked, masks, strict=True):
        waits = state.tasks["host"] < 0.0
        for row in range(min(len(state.tasks), len(mask))):
            for host in range(3):
                action = np.zeros(len(state.tasks), np.int64)
                action[row] = 2 + host
                taken = answer(action, np.arange(len(state.tasks)), state)[row]
                if mask[row, 2 + host]:
                    assert taken == host
                elif waits[row]:
                    assert taken == KEEP
            assert not mask[row, 1] or state.tasks["own_speed"][row] > 0.0
    if decision == "task":
        assert {LOCAL, 0, 1} <= {int(one[0]) for one in chosen}
        assert all(one[0] != KEEP for one in chosen)
    env = made(scenario, decision)
    env.reset(seed=5)
    assert np.array_equal(env.unwrapped.action_masks().reshape(-1, 5), masks[0])
    env.close()
    assert not env.unwrapped.action_masks().reshape(-1, 5)[:, 1:].any()


def test_a_run_takes_a_model_in_one_line(scenario, tmp_path):
    (tmp_path / "trained.py").write_text(
        "import cosim.envs\n\npolicy = cosim.envs.as_policy(lambda seen: 2 + seen['hosts'][:2, 3].argmin())\n"
    )
    out = cosim.run(scenario, overrides=["adapters.continuum.scheduler=trained:policy"], out=tmp_path / "runs")
    figures = json.loads((out.folder / "metrics.json").read_text())["figures"]
    assert figures["tasks_completed"]["value"] > 40


def test_an_action_outside_the_space_is_an_error(scenario):
    policy = cosim.envs.as_policy(lambda seen: 7)
    with pytest.raises(ValueError, match="expected 0 to 4"):
        states(scenario, "task", policy)


def test_names_are_completed():
    assert {"ContinuumEnv", "MultiEdge", "OffloadEnv", "as_policy", "observe", "scaled"} <= set(dir(cosim.envs))

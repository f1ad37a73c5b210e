"""MAIL-MMSG: what is seen and chosen, distributions by hand, the learned platform, the policy that is shipped."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import cosim.extensions.mail_mmsg as mail
from cosim.extensions.mail_mmsg import population
from cosim.extensions.mail_mmsg.model import VirtualPlatform, clients, engine, stored
from cosim.extensions.mail_mmsg.platform import (
    ACTION,
    HIST,
    OWN,
    SEEN,
    STAT,
    OffloadRequest,
    Record,
    choose_one,
    chosen,
    level,
    masks,
    observe,
)
from cosim.extensions.mail_mmsg.world import EDGES, PART, TRIVIAL, RequestLog, history, rates, run
from cosim.schedulers import scheduler
from cosim.schedulers.state import KEEP, LOCAL
from tests.unit.schedulers.test_policies import state

FOLDER = Path(mail.__file__).parent


def log_of(time, done, cell, changes=(), scene=None):
    """A log of which only membership and outcomes matter."""
    n = len(time)
    done, cell = np.asarray(done, bool), np.asarray(cell, np.int64)
    scene = np.zeros(n, np.int64) if scene is None else np.asarray(scene, np.int64)
    seen = np.zeros((n, SEEN), np.float32)
    seen[np.arange(n), OWN + scene] = 1.0
    return RequestLog(
        seen, np.zeros((n, ACTION), np.float32), done.astype(np.int64), np.where(done, 0, 5), done, np.ones(n),
        np.zeros(n, np.int64), scene, cell, np.asarray(time, float), np.array(changes, float).reshape(-1, 2),
    )  # fmt: skip


def small():
    return run(0, 3, history(3), 30.0)


def test_figures_of_a_request_by_hand():
    """1e9 cycles on a device of 0.5 GHz, on hosts of 1 and 2 GHz, in a cloud of 4 GHz with one task; deadline 2 s."""
    now = state(work=[1e9])
    now.hosts["tasks"][2] = 1.0
    asked = OffloadRequest(0.0, 2, 2e5, 1e9, 2.0, 0.5e9, 1.0)
    seen, places = observe(asked, now.reach[0], now.hosts, now.hosts["speed"], Record(), 0.25, 1200.0)
    assert places.tolist() == [LOCAL, 0, 1, KEEP, 2]
    rows = seen[:OWN].reshape(5, 7)
    np.testing.assert_allclose(rows[0], [1.0, 0.0, 1.0, 0.25, 2.0, 0.0, 0.125])
    np.testing.assert_allclose(rows[2], [1.0, 0.001, 0.25, 0.0, 0.251, 1.0, 0.5])
    np.testing.assert_allclose(rows[4], [1.0, 0.05, 0.125, 0.25, 0.05 + 0.25, 0.8, 1.0])
    assert not rows[3].any()
    assert seen[OWN : OWN + 3].tolist() == [0.0, 0.0, 1.0]
    assert seen[STAT].tolist() == [0.5, 0.5, 0.25]


def test_candidates_are_ranked_by_the_weights_of_their_sub_scenario():
    rng = np.random.default_rng(1)
    seen, scenes = rng.random((200, SEEN)), rng.integers(0, 3, 200)
    seen[:, OWN : OWN + 3] = np.eye(3)[scenes]
    seen[:, :OWN:7] = rng.random((200, 5)) < 0.7
    seen[:, 0] = 1.0
    action = rng.uniform(-1.0, 1.0, (200, ACTION))
    found = chosen(seen, action)
    assert [choose_one(a, b, int(s)) for a, b, s in zip(seen, action, scenes, strict=True)] == found.tolist()
    k = int(np.flatnonzero(scenes == 1)[0])
    rows = seen[k, :OWN].reshape(5, 7)
    score = rows[:, [1, 3, 5]] @ action[k, 7:]
    assert found[k] == np.where(rows[:, 0] > 0, score, -np.inf).argmax()
    assert masks().sum(axis=1).tolist() == [7.0, 3.0, 7.0]


def test_levels_of_feedback():
    assert [level(t, 2.0, True) for t in (0.4, 0.6, 2.0, 2.1, 9.0)] == [0, 1, 3, 4, 5]
    assert level(0.1, 2.0, False) == 5


def test_divergence_by_hand():
    """Counts 3:1 against 1:3, half added to each: p = 0.7, 0.3."""
    real = np.array([[0, 0, 0, 0]] * 3 + [[0, 0, 0, 1]])
    virtual = np.array([[0, 0, 0, 1]] * 3 + [[0, 0, 0, 0]])
    found = population.divergences(real, virtual, (1, 1, 1, 2))
    assert found["agent"] == pytest.approx(0.7 * math.log(7 / 3) + 0.3 * math.log(3 / 7))
    assert found["task time"] == 0.0
    points = population.differences(real, virtual, (1, 1, 1, 2))
    assert (points["agent"], points["task time"]) == (50.0, 0.0)


def test_a_group_converges_when_its_ratio_has_reached_the_new_one():
    """All in time until 100 s, none after: over 30 s the ratio falls to 0.05 after 28.5 s, seen every 2 s."""
    time = np.arange(0.0, 300.0, 0.1)
    found = population._convergence(log_of(time, time < 100.0, np.zeros(len(time)), [(0, 100.0), (0, 200.0)]))
    assert set(found) == set(range(EDGES))
    assert found[0][0].tolist() == [100.0, 200.0]
    assert found[0][1].tolist() == [30.0, 0.0]


def test_what_the_engine_does_changes_no_request():
    one, two = (run(1, 5, TRIVIAL[name], 20.0) for name in ("never", "always"))
    np.testing.assert_array_equal(one.time, two.time)
    assert one.ratio == 0.0 < two.ratio
    assert not one.chosen.any()
    assert rates(28).max() <= 1.6


def test_feedback_changes_histories_and_means_only():
    env = VirtualPlatform(stored(), 3)
    rng = np.random.default_rng(2)
    seen = env.reset(rng, scene=2)
    assert (seen[:, OWN + 2] == 1.0).all()
    ratio = seen[:, STAT.start].copy()
    now, done, over = env.step(np.zeros((3, ACTION)), rng, np.array([0, 3, 5]))
    assert not over
    assert (now[:, HIST][:, 3] == done).all()
    np.testing.assert_allclose(now[:, STAT.start], ratio + 0.1 * (done - ratio))
    untouched = np.r_[: HIST.start, STAT.start + 2 : SEEN]
    np.testing.assert_array_equal(now[:, untouched], env.windows[env._rows, 1][:, untouched])
    for _ in range(env.windows.shape[1] - 1):
        _, _, over = env.step(np.zeros((3, ACTION)), rng)
    assert over


def test_generated_clients_are_as_many_as_asked_in_bins_that_there_are():
    found = clients(stored(), 5000, np.random.default_rng(1))
    assert (found.max(axis=0) < stored()["groups"]).all()
    shares = np.bincount(found[:, 3], minlength=3) / 5000
    assert shares == pytest.approx([0.29, 0.42, 0.29], abs=0.06)


def test_the_policy_is_what_it_was_when_it_was_measured():
    expected = json.loads((FOLDER / "expected.json").read_text())
    weights = stored()
    found = run(0, 77, lambda seen, rng: engine(weights, seen[None])[0], 40.0)
    assert len(found.time) == expected["requests"]
    assert found.ratio == pytest.approx(expected["ratio"], abs=0.01)
    assert found.ratio > run(0, 77, TRIVIAL["random"], 40.0).ratio + 0.3
    assert (FOLDER / "weights.npz").stat().st_size < 5e6
    assert json.loads((FOLDER / "training.json").read_text())["cpu_seconds"] < 300.0


def test_the_policy_hears_what_became_of_requests():
    policy = scheduler("mail-mmsg").policy("continuum")
    now = state(work=[1e9], device=[4.0], deadline=[2.0], own_speed=[1e9])
    before = np.asarray(policy(now))
    assert before.shape == (1,)
    policy.learn({
        "device": np.array([4, 9]), "host": np.array([0, 0]), "seconds": np.array([1.0, 1.0]),
        "deadline": np.array([2.0, 2.0]), "completed": np.array([True, True]), "work": np.ones(2),
    })  # fmt: skip
    assert policy._records[4].last == [0.5, 0.5, 0.5, 1.0]
    assert policy._shared == [0.51, 0.5, 0.5]


def test_an_environment_that_gymnasium_accepts():
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    import cosim.envs  # noqa: F401

    env = gymnasium.make("cosim/VirtualPlatform-v1").unwrapped
    check_env(env, skip_render_check=True)
    first, info = env.reset(seed=4, options={"scene": "sensors"})
    again, _ = env.reset(seed=4, options={"scene": "sensors"})
    np.testing.assert_array_equal(first, again)
    assert info == {"scene": "sensors"}
    steps = [env.step(env.action_space.sample()) for _ in range(10)]
    assert [step[2] for step in steps] == [False] * 9 + [True]
    with pytest.raises(ValueError, match="known are broadband, sensors, vehicles"):
        env.reset(options={"scene": "phones"})


def test_a_clone_answers_as_its_expert():
    pytest.importorskip("torch")
    from cosim.extensions.mail_mmsg.imitation import cloned_engine

    rng = np.random.default_rng(1)
    one = log_of(np.arange(3000.0), np.ones(3000), np.zeros(3000), scene=rng.integers(0, 3, 3000))
    expert = np.array([0.5, -0.5, 0.2, 0.0, 0.3, -0.7, 0.1, 0.4, -0.2, 0.6])
    one = one._replace(action=(expert * masks()[one.scene]).astype(np.float32))
    scales = {"mean": np.zeros(SEEN), "deviation": np.ones(SEEN)}
    found = engine(scales | cloned_engine(scales, one, 1, epochs=25), one.seen[:50].astype(float))
    np.testing.assert_allclose(found, one.action[:50], atol=0.05)
    shrunk = engine(scales | cloned_engine(scales, one, 1, norm=0.4, epochs=25), one.seen[:50].astype(float))
    np.testing.assert_allclose(shrunk, one.action[:50] / 1.4, atol=0.05)  # the least of (p - a)^2 + 0.4 p^2


def test_the_generator_comes_near_to_the_shares():
    pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    columns = [rng.choice(4, 2000, p=(0.3, 0.3, 0.2, 0.2)) for _ in range(3)]
    bins = np.stack([*columns, rng.integers(0, 3, 2000)], axis=1)
    groups = (4, 4, 4, 3)
    weights = population.adversarial(bins, groups, 1, steps=60, batch=200)
    found = clients(weights | {"groups": np.array(groups, float)}, 4000, rng)
    assert max(population.divergences(bins, found, groups).values()) < 0.03


@pytest.mark.slow
def test_training_runs():
    pytest.importorskip("torch")
    from cosim.extensions.mail_mmsg.train import train

    weights, figures = train(seed=2, length=2 * PART, steps=5, rounds=(2, 2))
    assert all(np.isfinite(value).all() for value in weights.values())
    assert figures["mail"] == 2

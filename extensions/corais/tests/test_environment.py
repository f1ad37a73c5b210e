"""CoRaiS's problem as an environment: its objective, a case worked out by hand, seeds, padding."""

import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from cosim.extensions.corais import baselines  # noqa: E402
from cosim.extensions.corais.environment import EDGE, REQUEST, CoRaiSEnv  # noqa: E402
from cosim.extensions.corais.families import FAMILIES, instances  # noqa: E402
from cosim.extensions.corais.problem import Instance, makespan  # noqa: E402


def by_hand():
    """Two edges of a region 5 apart, a third one outside it, two requests."""
    return Instance(
        place=np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 5.0]]), slope=np.array([2.0, 1.0]), offset=np.array([0.0, 1.0]),
        replicas=np.array([1, 2]), own_work=np.array([1.0, 0.0]), coming_work=np.array([0.0, 0.5]),
        coming=np.array([0.0, 2.0]), leaving=np.array([0.5, 0.0]), source=np.array([0, 1]), target=np.array([0, 2]),
        input=np.array([3.0, 2.0]), output=np.array([1.0, 4.0]), transfer=0.1,
    )  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_gymnasium_accepts_it(family):
    env = gymnasium.make("cosim/CoRaiS-v1", family=family, scale=(6, 3, 8), disable_env_checker=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of wide bounds
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reward_is_minus_the_makespan_of_the_instance_with_that_seed(family):
    scale = (6, 3, 8)
    env = gymnasium.make("cosim/CoRaiS-v1", family=family, scale=scale)
    for seed in range(5):
        (instance,) = instances(family, scale, 1, seed)
        seen, info = env.reset(seed=seed)
        assert info["floor"] == instance.floor
        assert seen["edges"][:, EDGE.index("slope")].tolist() == instance.slope.tolist()
        assert seen["requests"][:, REQUEST.index("target_x")].tolist() == instance.place[instance.target, 0].tolist()
        decision = baselines.local(instance) if seed % 2 else env.action_space.sample()
        _, reward, terminated, truncated, info = env.step(decision)
        assert (reward, terminated, truncated) == (-makespan(instance, decision), True, False)
    first, second = env.reset()[0], env.reset()[0]
    assert not np.array_equal(first["requests"], second["requests"])


def test_a_case_worked_out_by_hand():
    env = CoRaiSEnv(scale=(3, 3, 4))
    seen, info = env.reset(seed=1, options={"instance": by_hand()})
    assert info["floor"] == 2.5  # edge 1: what comes is there after 2 s and takes 0.5 s
    assert seen["edge_mask"].tolist() == [1, 1, 0]
    assert seen["request_mask"].tolist() == [1, 1, 0, 0]
    assert seen["edges"].tolist() == [
        [0.0, 0.0, 2.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.5], [3.0, 4.0, 1.0, 1.0, 2.0, 0.0, 0.5, 2.0, 0.0], [0.0] * 9,
    ]  # fmt: skip
    assert seen["requests"].tolist() == [[0.0, 3.0, 1.0, 0.0, 0.0], [1.0, 2.0, 4.0, 0.0, 5.0], [0.0] * 5, [0.0] * 5]
    assert seen["transfer"].tolist() == [0.1]
    # at their sources: edge 0 has 1 s of its own and 2 * 3 s more, and a result that takes 0.5 s
    assert env.step(np.array([0, 1, 0, 0]))[1] == -7.5
    # both at edge 1: the last input is there after 2 s (own work: 1.5 s), 0.5 + 4 / 2 s of work follow, and a result
    # that goes 10 ** 0.5 far
    env.reset(options={"instance": by_hand()})
    assert env.step(np.array([1, 1, 2, 2]))[1] == pytest.approx(-(2.0 + 2.5 + 0.1 * 4.0 * 10**0.5), rel=1e-15)
    env.reset(options={"instance": by_hand()})
    assert env.step(np.array([2, 2, 0, 0]))[1] == -7.5  # an edge that is not there: the source
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(4, np.int64))


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="no family 'x'; known: corais, corais-tight"):
        CoRaiSEnv(family="x")
    with pytest.raises(ValueError, match="scale of"):
        CoRaiSEnv(scale=(3, 4, 5))
    env = CoRaiSEnv(scale=(3, 2, 4))
    with pytest.raises(ValueError, match="room for 2 and 4"):
        env.reset(options={"scale": (5, 3, 4)})
    seen, _ = env.reset(options={"scale": (3, 1, 2)})
    assert seen["edge_mask"].tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"expected \(4,\)"):
        env.step(np.zeros(2, np.int64))

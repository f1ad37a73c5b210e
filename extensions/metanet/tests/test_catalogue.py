"""The catalogue: any number of hosts and tasks, decisions that can be carried out, the same again, torch not needed."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cosim.extensions.metanet.catalogue as catalogue
from cosim.adapters.continuum import ADAPTER as CONTINUUM
from cosim.extensions.cosco.interval import ContainerArrivals, Interval, aiotbench, azure_fog, static
from cosim.extensions.cosco.state import interval_state, per_interval
from cosim.extensions.metanet.catalogue import CATALOGUE
from cosim.extensions.metanet.catalogue.estimate import PlacementEstimate
from cosim.extensions.metanet.catalogue.experience import collect, world
from cosim.extensions.metanet.catalogue.features import features
from cosim.extensions.metanet.catalogue.forecast import Demands, arima
from cosim.extensions.metanet.catalogue.networks import DecisionSurrogate, stored, surrogate_weights
from cosim.extensions.metanet.catalogue.training import judged, ranks
from cosim.schedulers import scheduler
from cosim.schedulers.objective import Scale, costs
from cosim.schedulers.placing import full, settle, spread
from cosim.schedulers.state import KEEP
from tests.unit.schedulers.test_policies import busy, run, state

FOLDER = Path(catalogue.__file__).parent
LEARNED = sorted(path.parent.name for path in FOLDER.glob("*/train.py"))


def seen(hosts=12, mean=2.0, intervals=6, seed=3, **options):
    one = Interval(azure_fog(hosts), static(300.0, ContainerArrivals("poisson", mean)), seed, slots=80, **options)
    one.run(intervals)
    return one, interval_state(one, one.state())


def short(name, seed=7, intervals=25):
    """A run of a kind that nothing was trained or tuned on."""
    one = Interval(azure_fog(14), aiotbench(1.5e6, ContainerArrivals("poisson", 3.0)), seed, slots=40, switch_off=True)
    one.decide_by(per_interval(scheduler(name).policy("interval"), one))
    return one.run(intervals)


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_expected_figures_are_reproduced(name):
    """Rounding of other processors may break ties, so figures hold within 3 %."""
    expected = json.loads((FOLDER / name.replace("-", "_") / "expected.json").read_text())
    found = short(name)
    for figure in ("energy", "present"):
        assert found[figure].sum() == pytest.approx(expected[figure], rel=0.03)


@pytest.mark.parametrize("name", CATALOGUE)
def test_any_number_of_hosts_and_tasks_and_the_same_again(name):
    for hosts, mean in ((3, 0.4), (40, 6.0)):
        one, now = seen(hosts, mean)
        first = np.asarray(scheduler(name).policy("interval")(now))
        again = np.asarray(scheduler(name).policy("interval")(now))
        assert first.shape == (len(now.tasks),)
        np.testing.assert_array_equal(first, again)
        assert one.branch(first[None, :])["refused"][0] == 0.0


@pytest.mark.parametrize("name", CATALOGUE)
def test_no_host_has_room(name):
    """Two containers of 4000 MIPS fit on two hosts of 4029; the others wait."""
    one = Interval(azure_fog(2), static(300.0).replay([[0.0, 3.0, 4e9, 9.0]] * 4), 1, slots=8)
    found = np.asarray(scheduler(name).policy("interval")(interval_state(one, one.state())))
    assert sorted(found.tolist()) == [KEEP, KEEP, 0, 1]


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_task_that_reaches_no_host_waits(name):
    """As on the continuum, where a device may be out of coverage; also when it is alone."""
    one = Interval(azure_fog(4), static(300.0).replay([[0.0, 3.0, 400.0, 9.0]] * 3), 1, slots=8)
    now = interval_state(one, one.state())
    reach = now.reach.copy()
    reach[1] = np.inf
    for lost in (reach, np.full_like(reach, np.inf)):
        found = np.asarray(scheduler(name).policy("interval")(now._replace(reach=lost)))
        assert ((found == KEEP) == np.isinf(lost).all(axis=1)).all()


@pytest.mark.parametrize("name", ["dqn", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gobi", "metanet"))])
def test_a_trained_policy_runs_on_the_continuum_by_name(name):
    found, _ = run(CONTINUUM, busy(), scheduler=name)
    assert found["tasks"]["completed"] > 400


def test_decisions_need_no_torch():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from cosim.extensions.metanet.tests.test_catalogue import seen, CATALOGUE, scheduler\n"
        "now = seen()[1]\n"
        "[scheduler(name).policy('interval')(now) for name in CATALOGUE]"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_folders_are_whole():
    for name in CATALOGUE:
        folder = FOLDER / name.replace("-", "_")
        assert (folder / "README.md").read_text(encoding="utf-8").startswith(f"# {name}")
        assert (folder / "expected.json").exists()
        assert len(scheduler(name).make.__doc__) > 150
    for name in LEARNED:
        assert (FOLDER / name / "weights.npz").stat().st_size < 5e6
        assert json.loads((FOLDER / name / "training.json").read_text())["cpu_seconds"] < 300.0


def test_a_surrogate_is_judged_by_worlds_that_count_alike():
    held = stored("gobi")
    each = [ranks(held, list(collect(40 + k, 1)))["response"] for k in range(3)]
    found = judged(held, first=40, worlds=3)
    assert found["rank_response"] == pytest.approx(np.mean(each))
    assert found["rank_response_95"] == pytest.approx(1.96 * np.std(each, ddof=1) / 3**0.5)
    assert min(each) > 0.2  # of 1; random weights have 0 in the mean


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("off", [False, True])
def test_the_gradient_by_hand_is_that_of_differences(graph, off):
    rng = np.random.default_rng(1)
    _, now = seen(9, 2.0, switch_off=off)
    scale = Scale()
    scale.off = off
    f = features(now, scale)
    surrogate = DecisionSurrogate(surrogate_weights(rng, graph=graph))
    d = rng.random(f.allowed.shape) + 0.1
    d /= d.sum(axis=1, keepdims=True)
    value, slope = surrogate.gradient(f, d, (0.6, 0.4), 1.0)
    assert value == pytest.approx(float(surrogate.objective(f, d, (0.6, 0.4), 1.0)), rel=1e-9)
    step = 1e-6 * rng.standard_normal(d.shape)
    difference = surrogate.objective(f, d + step, (0.6, 0.4), 1.0) - surrogate.objective(f, d - step, (0.6, 0.4), 1.0)
    assert float((slope * step).sum()) == pytest.approx(float(difference) / 2.0, rel=1e-4)


def test_training_sees_the_network_that_decides():
    torch = pytest.importorskip("torch")
    from cosim.extensions.metanet.catalogue.training import tensors

    rng = np.random.default_rng(2)
    weights = surrogate_weights(rng, graph=True)
    row = next(collect(5, 1, intervals=2, count=6))
    d = np.eye(len(row.features.hosts))[row.hosts]
    plain = DecisionSurrogate(weights).forward(np, row.features, d)
    held = {name: torch.tensor(value, dtype=torch.float32) for name, value in weights.items()}
    other = DecisionSurrogate(held).forward(torch, tensors(row.features), torch.tensor(d, dtype=torch.float32))
    for a, b in zip(plain, other, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=2e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
def test_training_runs(name):
    pytest.importorskip("torch")
    train = importlib.import_module(f"cosim.extensions.metanet.catalogue.{name}.train").train
    few = {
        "worlds": 2, "epochs": 1, "intervals": 20, "count": 128, "rounds": 1,
    }  # fmt: skip
    known = train.__code__.co_varnames[: train.__code__.co_argcount]
    weights, figures = train(seed=9, **{key: value for key, value in few.items() if key in known})
    assert all(np.isfinite(value).all() for value in weights.values())
    assert figures["seed"] == 9


def test_the_cost_of_a_decision_is_that_of_the_run_by_littles_law():
    """Over a whole run that ends empty: the seconds present are the response times of all containers."""
    one = Interval(azure_fog(12), static(300.0, ContainerArrivals("poisson", 2.0)), 5, slots=40)
    rows = [one.step() for _ in range(10)]
    one.expect(0.0)
    rows += [one.step() for _ in range(60)]
    ended = one.drain()
    assert rows[-1]["active"] == 0
    assert sum(row["present"] for row in rows) == pytest.approx(ended["response"].sum())


def test_costs_prefer_ending_early_and_emptying_a_host():
    one, now = seen(12, 2.0, switch_off=True)
    scale = Scale()
    scale.see(now)
    best = settle(now, np.zeros(now.reach.shape))
    rows = np.array([best, np.full(len(now.tasks), KEEP)])
    figures = one.branch(rows)
    if (now.tasks["host"] < 0).any():
        assert costs(figures, now, scale)[0] < costs(figures, now, scale)[1]
    weighed = costs(figures, now, scale, weight=1.0)
    assert np.isfinite(weighed).all()


def test_settling_makes_moves_in_order_of_creation():
    """Two tasks of 1 GHz want the host of 1 GHz: the older one gets it, the other its second choice."""
    now = state(demand=[1e9, 1e9], work=[1e9, 1e9])
    scores = np.array([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    assert settle(now, scores).tolist() == [0, 2]
    assert full(now, settle(now, scores)).tolist() == [0, 2]
    assert len(set(spread(now).tolist())) == 2


def test_forecasts():
    assert arima([1.0]) == 1.0
    assert arima([1.0, 2.0, 3.0, 4.0]) == pytest.approx(4.95)  # the slope is bounded by 0.95
    alternating = [1.0, 2.0] * 6
    assert arima(alternating) == pytest.approx(1.05)
    now = state(demand=[1e9, 2e9], workload=[0.0, 0.0])
    np.testing.assert_allclose(Demands(lambda series: 2.0 * series[-1]).next(now), [1.5e9, 3e9])


def test_the_estimate_of_one_task_is_by_hand():
    """1e9 cycles at 0.5 GHz: 2 s; no transfer; idle power until then where empty hosts are off."""
    now = state(demand=[5e8], work=[1e9], input=[0.0])._replace(interval=1.0)
    hosts = now.hosts
    hosts["idle_power"], hosts["full_power"], hosts["memory"] = 10.0, 30.0, 1e9
    scale = Scale()
    scale.power, scale.tasks, scale.off = 50.0, 4.0, True
    found = PlacementEstimate(now, scale, np.array([5e8])).cost(np.array([[0]]))[0]
    energy, seconds = 20.0 * 1.0 + 10.0 * 2.0, 2.0
    assert found == pytest.approx(0.5 * energy / 50.0 + 0.5 * seconds / 4.0)


def test_worlds_to_learn_from_differ():
    rng = np.random.Generator(np.random.PCG64(1))
    sizes = {len(world(rng).world.hosts) for _ in range(5)}
    assert len(sizes) > 2


def test_choosers_learn_alike_in_any_currency():
    pytest.importorskip("torch")
    from cosim.extensions.metanet.catalogue.dqn_selector import train as selector
    from cosim.extensions.metanet.catalogue.metanet import train as meta
    from cosim.extensions.metanet.catalogue.metanet.model import costs
    from cosim.extensions.metanet.catalogue.pool import POOL, SEEN

    rng = np.random.default_rng(3)
    seen, policy = rng.random((80, SEEN)), rng.integers(len(POOL), size=80)
    paid = (1.0 + policy) * (0.5 + seen[:, 0])

    def reported(fitted, unit):
        rows = [meta.IntervalRecord(seen[k], int(policy[k]), float(unit * paid[k]), seen[k - 1]) for k in range(80)]
        return costs(np, fitted(rows), seen) / unit

    for fitted in (lambda rows: meta.fitted(rows, 1, 20)[0], lambda rows: selector.fitted(rows, 1, 2, 5)[0]):
        np.testing.assert_allclose(reported(fitted, 1e-5), reported(fitted, 1.0), rtol=1e-3)

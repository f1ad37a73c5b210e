"""Algorithm 1: what is monitored, the scheduler that learns, and the loop against a fleet with hidden parameters."""

from __future__ import annotations

import numpy as np
import pytest

from cosim.extensions.cosco.interval import ContainerArrivals, azure_fog, static
from cosim.extensions.simtune.surrogate import tree
from cosim.extensions.simtune.surrogate.monitor import MonitorModel, explore, random_decisions
from cosim.extensions.simtune.surrogate.placement import LearnedPlacement, features
from cosim.twin.space import Parameter, Space

SPACE = Space([Parameter("power", 0.5, 1.5, start=1.0), Parameter("overhead", 0.0, 60.0, start=0.0)])
MODEL = MonitorModel(azure_fog(10), static(300.0, ContainerArrivals("poisson", 1.5)), SPACE, steps=3)
START = SPACE.units(SPACE.start)[0]
NONE = np.empty((0, 2), np.int64)


def after(testbed, count, seed=1):
    """The testbed after `count` intervals under the random scheduler."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        row = testbed.enact(random_decisions(testbed.view(), random))
    return row


def test_rows_have_the_shapes_of_the_paper():
    row = after(MODEL.testbed(SPACE.start, 1), 5)
    assert row.workload.shape == (3, 20)
    assert row.hosts.shape == (10, 4)
    assert row.qos.shape == (2,)
    assert np.all((row.qos >= 0.0) & (row.qos <= 1.0))


def test_the_last_step_of_w_is_the_load_after_the_decision():
    testbed = MODEL.testbed(SPACE.start, 1)
    while not len(testbed.view().slot):
        testbed.enact(NONE)
    view = testbed.view()
    slot, demand = int(view.slot[0]), view.demand[0]
    assert testbed.step(view, NONE).sum() == 0.0
    load = testbed.step(view, np.array([[slot, 4]]))
    assert load[4] == pytest.approx(demand / view.mips[4])
    assert np.count_nonzero(load[:10]) == 1


def test_a_model_with_equal_parameters_foretells_to_the_bit():
    real, twin = (MODEL.testbed(np.array([0.8, 20.0]), seed) for seed in (5, 6))
    after(real, 6)
    for _ in range(3):
        decisions = random_decisions(real.view(), np.random.default_rng(2))
        state = real.snapshot()
        np.testing.assert_array_equal(twin.predicted(*state, decisions), real.enact(decisions).qos)


def test_a_model_with_other_parameters_foretells_their_effect():
    real, twin = MODEL.testbed(np.array([1.0, 0.0]), 5), MODEL.testbed(np.array([0.5, 0.0]), 5)
    after(real, 6)
    state = real.snapshot()
    assert twin.predicted(*state, NONE)[0] == pytest.approx(0.5 * real.enact(NONE).qos[0])


def test_exploring_is_equal_on_repetition_and_covers_the_space():
    one, two = (explore(MODEL, runs=6, intervals=4, seed=3) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.workload.shape == (24, 3, 20)
    assert len(np.unique(one.units[:, 0])) == 6


def test_recursive_least_squares_equals_the_closed_form():
    random = np.random.default_rng(8)
    steps, hosts = random.random((200, 20)), np.concatenate([np.ones((1, 10, 3)), np.zeros((1, 10, 1))], axis=2)
    hosts[0, :, 2] = random.random(10)
    rows = features(steps, hosts)
    truth = random.standard_normal(8)
    qos = np.repeat((rows @ truth)[:, None], 2, axis=1)
    learner = LearnedPlacement(forgetting=1.0)
    learner.tune(steps, hosts, qos)
    ridge = np.linalg.solve(rows.T @ rows + 1e-3 * np.eye(8), rows.T @ qos[:, 0])
    np.testing.assert_allclose(learner.expected(steps, hosts), rows @ ridge, atol=1e-4)


def test_the_learned_scheduler_places_everything_better_than_chance():
    trace = explore(MODEL, runs=10, intervals=20, seed=1, units=START)
    learner = LearnedPlacement()
    learner.tune(trace.workload[:, -1], trace.hosts, trace.qos)
    objectives = {}
    for name in ("learned", "random"):
        testbed, random, total = MODEL.testbed(SPACE.start, 42), np.random.default_rng(3), 0.0
        for _ in range(40):
            view = testbed.view()
            decisions = learner.decide(view, testbed.step(view, NONE), testbed.graph(view))
            if name == "random":
                decisions = random_decisions(view, random)
            total += float(testbed.enact(decisions).qos.mean())
        objectives[name] = total / 40
    assert objectives["learned"] < objectives["random"]


@pytest.fixture(scope="module")
def prepared():
    pytest.importorskip("torch")
    from cosim.extensions.simtune.surrogate import online
    from cosim.extensions.simtune.surrogate.network import TrainingOptions

    return online.prepare(MODEL, runs=40, intervals=10, training=TrainingOptions(rate=1e-3, epochs=15))


def loop(prepared, **options):
    from cosim.extensions.simtune.surrogate import online

    how = online.OnlineOptions(intervals=12, candidates=3, tree=tree.Tree(rollouts=6, step=0.15), **options)
    return online.run(prepared, MODEL.testbed(np.array([0.6, 10.0]), 77), START, online=how, seed=1)


@pytest.mark.slow
def test_the_loop_brings_the_simulator_nearer_to_reality(prepared):
    history, _ = loop(prepared)
    assert history.measured.shape == (12, 2)
    assert history.simulator_gap[6:].mean() < 0.5 * history.start_gap[6:].mean()
    assert abs(history.values[-1, 0] - 0.6) < 0.2


@pytest.mark.slow
def test_the_loop_is_equal_on_repetition():
    pytest.importorskip("torch")
    from cosim.extensions.simtune.surrogate import online
    from cosim.extensions.simtune.surrogate.network import TrainingOptions

    # The network draws dropout masks as it is asked, so each loop needs one of its own.
    found = []
    for _ in range(2):
        fresh = online.prepare(MODEL, runs=6, intervals=4, training=TrainingOptions(rate=1e-3, epochs=2))
        found.append(loop(fresh)[0].values)
    np.testing.assert_array_equal(*found)


def test_human_set_parameters_stay(prepared):
    history, _ = loop(prepared, tune=False)
    np.testing.assert_array_equal(history.values, np.repeat(SPACE.start[None], 12, axis=0))
    np.testing.assert_array_equal(history.simulator_gap, history.start_gap)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"generator": "simulator"}, {"offline": "surrogate"}])
def test_the_ablations_learn_from_other_data(prepared, options):
    _, usual = loop(prepared)
    _, other = loop(prepared, **options)
    assert np.abs(usual.weights - other.weights).max() > 1e-6
    assert np.all(np.isfinite(other.weights))


def test_a_parameter_of_a_group_changes_the_hosts_of_its_types_only():
    space = Space([Parameter("speed of large", 0.5, 1.5, start=1.0), Parameter("power", 0.5, 1.5, start=1.0)])
    model = MonitorModel(MODEL.fleet, MODEL.workload, space, groups={"large": (2,)})
    here, there = (model.testbed(np.array([value, 1.0]), 1).view().mips for value in (1.0, 0.5))
    large = np.array(MODEL.fleet.place) == 2
    assert 0 < large.sum() < 10
    np.testing.assert_array_equal(there, np.where(large, 0.5, 1.0) * here)


def test_what_is_set_beside_the_parameters_is_the_simulations():
    model = MonitorModel(MODEL.fleet, MODEL.workload, SPACE, options={"switch_off": True, "slots": 30})
    testbed = model.testbed(SPACE.start, 1)
    assert len(testbed.simulation.world.slots) == 30
    testbed.enact(NONE)
    assert testbed.energy == 0.0  # nothing runs, so all hosts are off


def test_asking_the_simulator_itself_finds_the_hidden_parameters(prepared):
    """It may ask about any state again, so that the gap of the hidden values is exactly 0."""
    history, _ = loop(prepared, agree="simulator")
    assert history.window_gap[-1] < 0.25 * history.start_gap.mean()
    assert abs(history.values[-1, 0] - 0.6) < 0.1


class Watched:
    """A scheduler that leaves everything where it is, and remembers what it is shown."""

    def __init__(self):
        self.speeds, self.states, self.learned, self.answers = [], [], [], []

    def decide(self, twin):
        view = twin.state()
        self.speeds.append(view.mips.sum())
        self.states.append(view.remaining)
        return NONE

    def learn(self, twin, answers=None):
        self.learned.append(twin.state().remaining)
        stay = np.full((1, len(twin.state().slot)), -1)
        self.answers.append(None if answers is None else (answers(stay), twin.branch(stay)))


def test_a_tuned_scheduler_sees_the_state_of_reality_under_the_simulators_parameters(prepared):
    from cosim.extensions.simtune.surrogate import online

    space = Space([Parameter("speed", 0.5, 1.5, start=1.0)])
    model = MonitorModel(MODEL.fleet, MODEL.workload, space, steps=3)
    reality, watched = model.testbed(np.array([0.5]), 77), Watched()
    first = reality.view()
    how = online.OnlineOptions(intervals=3, tune=False, generator="simulator", beforehand=2)
    online.run(
        online.OfflineResult(model, prepared.network, prepared.learned, prepared.trace), reality, space.units([1.0])[0],
        online=how, tuned=watched,
    )  # fmt: skip
    np.testing.assert_array_equal(watched.states[2], first.remaining)  # after two that it learned in beforehand
    assert watched.speeds == [pytest.approx(2.0 * first.mips.sum())] * 5
    assert watched.answers == [None] * 5
    for decided, learned in zip(watched.states, watched.learned, strict=True):
        np.testing.assert_array_equal(decided, learned)
    assert reality.energy > 0.0


@pytest.mark.parametrize(("offline", "generator", "whose"), [
    ("simulator", "surrogate", [False] * 4 + [True] * 3), ("surrogate", "simulator", [True] * 4 + [False] * 3),
])  # fmt: skip
def test_a_tuned_scheduler_learns_from_the_surrogate_unless_that_is_left_out(prepared, offline, generator, whose):
    from cosim.extensions.simtune.surrogate import online

    asked = []

    class Half:
        """A network that says half of full load, and a response of twice what was usual: 4 intervals are 0.5."""

        def predict(self, series, graph, features, draws):
            asked.append(series)
            return np.tile([0.5, 0.8], (draws, len(features), 1))

    reality, watched = MODEL.testbed(MODEL.space.values(START)[0], 77), Watched()
    how = online.OnlineOptions(intervals=3, tune=False, offline=offline, generator=generator, beforehand=4)
    held = online.OfflineResult(MODEL, Half(), prepared.learned, prepared.trace)
    online.run(held, reality, START, online=how, tuned=watched)
    assert [one is not None for one in watched.answers] == whose
    full = MODEL.length * sum(kind.power[-1] for kind in (MODEL.fleet.types[k] for k in MODEL.fleet.place))
    for said, simulated in filter(None, watched.answers):
        assert said["energy"] == pytest.approx(0.5 * full)
        assert said["waiting"] == simulated["waiting"]
        tasks = said["present"] / (16.0 * MODEL.length)  # 0.8 are 16 intervals, and nothing has ended: 1 was taken
        assert tasks == pytest.approx(simulated["present"] / MODEL.length, abs=1.0)
    assert all(series.shape[1] == MODEL.steps for series in asked)

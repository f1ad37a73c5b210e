"""The vehicular model: its books, its state, its road, its links, its policies and its quirks."""

from __future__ import annotations

import math
from dataclasses import replace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.extensions.edgecloudsim.offloading import QUIRKS, Simulation, Vm, compatible, layout, simulate
from cosim.extensions.edgecloudsim.offloading.layout import CAUSES
from cosim.extensions.edgecloudsim.offloading.transport import ring_road
from cosim.extensions.edgecloudsim.offloading.vehicular import learn, learned, links, observed, state
from cosim.extensions.edgecloudsim.offloading.vehicular.choices import POLICIES
from cosim.extensions.edgecloudsim.offloading.vehicular.road import Road

EDGE, ROADSIDE, CELLULAR = range(3)
VEHICULAR = sorted(name for name, quirk in QUIRKS.items() if quirk.models == {"app5"})


@st.composite
def studies(draw):
    """Small systems, from idle to hopeless."""
    study = ring_road(
        draw(st.integers(1, 60)),
        draw(st.sampled_from(POLICIES)),
        duration=draw(st.sampled_from([12.0, 25.0, 40.0])),
        warm_up=draw(st.sampled_from([0.0, 11.0])),
        quirks=frozenset(draw(st.sets(st.sampled_from(sorted(compatible("app5")))))) - {"links-begin-by-whole-devices"},
    )
    few = study.places[: draw(st.integers(1, 5))]
    places = tuple(
        replace(place, x=place.x / 10.0, attractiveness=draw(st.integers(0, 2)), hosts=((Vm(1, 5000.0),),))
        for place in few
    )
    rate = st.floats(1e5, 2e7)
    network = replace(study.links, wlan=draw(rate), man=50 * draw(rate), wan=draw(rate), gsm=draw(rate))
    apps = tuple(replace(app, interarrival=app.interarrival * draw(st.floats(0.1, 1.0))) for app in study.applications)
    return replace(study, places=places, links=network, applications=apps, cloud=((Vm(2, 20000.0),),))


@settings(max_examples=60, deadline=None)
@given(studies(), st.integers(0, 2**32))
def test_the_books_close_and_time_runs_forward(study, seed):
    run = Simulation(study, seed, trace=True)
    run.advance(study.duration)
    outcome, ended = run.outcome(), run.drain()
    book = outcome.ledger()
    assert book["created"] == sum(book[cause] for cause in CAUSES) + book["uncompleted"]
    assert len(ended["serial"]) == book["created"] - book["uncompleted"]
    assert np.all(np.diff(ended["ended"]) >= 0.0)
    assert np.all(ended["ended"] >= ended["created"])
    on_links = ended["wlan"] + ended["man"] + ended["wan"] + ended["gsm"]
    assert np.all(on_links <= ended["ended"] - ended["created"] + 1e-9)
    done = ended["cause"] == CAUSES.index("completed")
    assert np.all(ended["computed"][done] > ended["arrived"][done])
    # nobody computes faster than alone on a core
    mips = np.where(ended["tier"] == EDGE, 5000.0, 20000.0)
    tick = 0.02 if "processing-tick" in study.quirks else 0.0
    least = (ended["length"] - 1.0) / mips - tick
    assert np.all((ended["computed"] - ended["arrived"])[done] >= least[done])
    assert np.all(run.loads() <= 100.0 + 1e-6)
    metrics = outcome.metrics()
    assert metrics["tasks_counted"] == metrics["completed"] + metrics["failed"]
    assert 0.0 <= metrics["qoe_all_pct"] <= metrics["qoe_completed_pct"] + 1e-9 <= 100.0 + 2e-9


@settings(max_examples=25, deadline=None)
@given(studies(), st.lists(st.floats(0.0, 1.0), max_size=4), st.floats(0.0, 1.0))
def test_steps_and_snapshots_change_no_bit(study, cuts, at):
    whole = Simulation(study, 7, trace=True)
    whole.advance(study.duration)
    parts = Simulation(study, 7, trace=True)
    for cut in sorted(cuts):
        parts.advance(max(parts.now, cut * study.duration))
        parts.places()
        parts.positions()
    early = min(parts.now, at * study.duration)
    again = Simulation(study, 7, trace=True)
    again.advance(early)
    kept = again.snapshot()
    again.advance(study.duration)
    again.restore(kept)
    assert again.now == early
    again.advance(study.duration)
    parts.advance(study.duration)
    expected = whole.drain()
    for run in (parts, again):
        for name, column in run.drain().items():
            np.testing.assert_array_equal(column, expected[name], err_msg=name)
        assert run.outcome().tally.tobytes() == whole.outcome().tally.tobytes()


def test_equal_seeds_repeat_and_others_differ():
    study = ring_road(100, "mab", duration=60.0, warm_up=0.0)
    one, same, other = (simulate(study, seed).metrics() for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_vehicle_is_where_driving_puts_it():
    study = ring_road(50, duration=300.0, warm_up=0.0)
    run, road = Simulation(study, 3), Road(study.places)
    length = road.length * len(study.places)
    start = run.positions()[:, 0]
    assert np.all((start >= 0.0) & (start < length))
    assert start.std() == pytest.approx(length / math.sqrt(12.0), rel=0.2)
    for until in (0.4, 77.0, 300.0):
        run.advance(until)
        expected, rest = start.copy(), np.full(50, until)
        while np.any(rest > 0.0):
            segment = np.minimum((expected / road.length + 1e-9).astype(int), len(road.span) - 1)
            span = np.minimum(rest, ((segment + 1) * road.length - expected) / road.speed[segment])
            expected, rest = (
                (expected + span * road.speed[segment]) % length,
                np.where(rest - span > 1e-9, rest - span, 0.0),
            )
        apart = np.abs(run.positions()[:, 0] - expected)
        assert np.all(np.minimum(apart, length - apart) < 1e-3)
        assert np.all(np.abs(run.positions()[:, 0] / road.length - run.places() - 0.5) <= 0.5 + 1e-9)


def test_an_idle_system_takes_what_the_formulas_say():
    one = ring_road(1, duration=600.0, warm_up=0.0)
    study = replace(one, links=replace(one.links, wan_propagation=0.15, gsm_propagation=0.16))
    seen = []

    def in_turn(request):
        seen.append(request)
        return len(seen) % 3

    run = Simulation(study, 11, choose=in_turn, trace=True)
    run.advance(600.0)
    ended = run.drain()
    assert len(seen) > 20
    first = ended["serial"][0]
    assert np.all(ended["tier"] == (((ended["serial"] + 1) % 3) != EDGE))
    cloud = ended["tier"] == 1
    np.testing.assert_allclose((ended["computed"] - ended["arrived"])[cloud], (ended["length"] / 75000.0)[cloud])
    np.testing.assert_allclose((ended["computed"] - ended["arrived"])[~cloud], (ended["length"] / 10000.0)[~cloud])
    by_road = (ended["wan"] > 0.0) & (ended["cause"] == 0)
    assert np.all(ended["wan"][by_road] > 0.3)
    assert np.all(ended["gsm"][ended["gsm"] > 0.0] > 0.16)
    request = seen[first]
    assert request.features.shape == (3, len(observed.FEATURES))
    assert request.features[CELLULAR, observed.FEATURES.index("computing")] == pytest.approx(request.length / 75000.0)
    # long after its last transfer the access point has nothing to wait for: the size alone counts
    quiet = [
        k for k in range(1, len(seen)) if seen[k].now - seen[k - 1].now > 5.0 and seen[k].place == seen[k - 1].place
    ]
    up = 10.0 ** seen[quiet[0]].features[EDGE, observed.FEATURES.index("up")]
    assert up in (pytest.approx(size * 8000.0 / 10e6) for size in [request.upload for request in seen] + _means(study))


def _means(study):
    usage = np.array([app.usage for app in study.applications])
    return [float(usage @ [app.upload for app in study.applications] / usage.sum())]


@pytest.mark.parametrize("answer", [3, -1, "edge", 1.5, None])
def test_a_wrong_answer_is_named(answer):
    run = Simulation(ring_road(50, duration=30.0, warm_up=0.0), 1, choose=lambda request: answer)
    with pytest.raises(ValueError, match="expected 0 \\(edge\\), 1 \\(roadside\\), 2 \\(cellular\\)"):
        run.advance(30.0)


def test_links_before_the_first_task():
    rows = links.lay_out([8e6, 8e6, 8e6], [0.0, 0.1, 0.0], np.array([np.inf, 0.01, 0.005]), np.array([5.0, 5.0, 5.0]))
    np.testing.assert_allclose(rows["delay"], [1 / 200, 1 / (200 - 100) + 0.1, 0.0])


@pytest.mark.parametrize("quirk", VEHICULAR)
def test_every_quirk_changes_something(quirk):
    names = {"predictive": "predictive", "mab": "mab", "game": "game-theory", "expected": "mab", "cloud": "game-theory"}
    policy = names.get(quirk.split("-")[0], "random")
    few = quirk == "game-begins-alike"  # among many the start of each is lost
    study = ring_road(4 if few else 39, policy, duration=120.0, warm_up=0.0)
    eager = tuple(replace(app, interarrival=app.interarrival / 3.0) for app in study.applications)
    cramped = replace(study, links=replace(study.links, wlan=1e6, gsm=1e6), applications=eager)
    cramped = replace(cramped, access_interval=6.0)
    with_it, without = simulate(replace(cramped, quirks=frozenset({quirk})), 1), simulate(cramped, 1)
    figures = without.metrics()
    changed = {name for name, value in with_it.metrics().items() if value != figures[name]}
    assert changed or not np.array_equal(with_it.access, without.access)


@pytest.mark.parametrize("quirk", sorted(compatible("app5").difference(VEHICULAR)))
def test_the_quirks_of_all_models_change_something_here_too(quirk):
    study = ring_road(300, duration=120.0, warm_up=60.0)
    study = replace(
        study,
        links=replace(study.links, gsm=2e6),  # rejects tasks, also during warm-up
        places=tuple(replace(place, costs=(0.1, 3.0, 0.0, 0.0)) for place in study.places),
    )
    with_it, without = (simulate(replace(study, quirks=quirks), 1) for quirks in (frozenset({quirk}), frozenset()))
    assert with_it.metrics() != without.metrics()


def test_predictive_looks_at_service_times_only_without_its_quirk():
    peer, fair = (
        simulate(ring_road(200, "predictive", duration=120.0, warm_up=20.0, quirks=quirks), 1).metrics()
        for quirks in (compatible("app5"), frozenset())
    )
    assert peer["share_edge_pct"] == pytest.approx(33.0, abs=2.0)  # nothing fails: any way is as good
    assert fair["share_edge_pct"] < 25.0  # the edge takes longest
    assert fair["service_time_s"] < peer["service_time_s"]


def test_the_learned_policy_beats_chance_where_it_matters():
    figures = {}
    for policy in ("random", "ai-based"):
        runs = [simulate(ring_road(1400, policy, duration=180.0, warm_up=60.0), seed).metrics() for seed in (1, 2, 3)]
        figures[policy] = {name: np.mean([run[name] for run in runs]) for name in runs[0]}
    assert figures["random"]["failed_pct"] > 10.0
    assert figures["ai-based"]["failed_pct"] < 0.2 * figures["random"]["failed_pct"]
    assert figures["ai-based"]["service_time_s"] < 0.9 * figures["random"]["service_time_s"]
    assert figures["ai-based"]["qoe_all_pct"] > figures["random"]["qoe_all_pct"] + 10.0


def test_training_repeats_and_fits():
    one, same = (learn.train(4, devices=(150,), epochs=12, rounds=1) for _ in range(2))
    np.testing.assert_array_equal(one, same)
    examples = learn.play(np.random.SeedSequence(9), None, devices=(150,))
    for option, (features, success, service) in enumerate(examples):
        found = np.array([learn.answers(one, np.repeat(row[None], 3, axis=0))[option] for row in features[success > 0]])
        log = np.log(service[success > 0])
        assert np.mean((found[:, 1] - log) ** 2) < 0.5 * np.var(log)


def test_the_shipped_weights_are_what_save_writes(tmp_path):
    weights = learn.train(4, devices=(60,), epochs=1, rounds=0)
    learn.save(weights, 4, tmp_path / "weights.csv")
    np.testing.assert_allclose(learned.load(tmp_path / "weights.csv"), weights, rtol=1e-5)
    shipped, written = learned.FILE.read_text("utf-8").splitlines(), (tmp_path / "weights.csv").read_text().splitlines()
    assert shipped[1] == written[1]  # the same options, features and units
    (tmp_path / "weights.csv").write_text("1,2,3\n")
    with pytest.raises(ValueError, match="expected weights of shape"):
        learned.load(tmp_path / "weights.csv")


def test_what_cannot_run_is_refused_all_at_once():
    good = ring_road(10)
    bad = replace(
        good,
        policy="shortest",
        places=tuple(replace(place, x=0.0, attractiveness=4, hosts=()) for place in good.places[:2]),
        links=replace(good.links, gsm=0.0),
        cloud=(),
        quirks=frozenset({"none-such"}),
    )
    with pytest.raises(ScenarioError) as caught:
        Simulation(bad, 1)
    assert "there is no policy 'shortest'" in str(caught.value)
    with pytest.raises(ScenarioError) as caught:
        Simulation(replace(bad, policy="random", quirks=frozenset()), 1)
    for text in ("class 4", "links.gsm: 0 bit/s", "no place has a machine", "the cloud has no machine", "rsu-0.x: 0 m"):
        assert text in str(caught.value)
    peer = replace(good, devices=5000, quirks=frozenset({"links-begin-by-whole-devices"}))
    with pytest.raises(ScenarioError, match="overloaded before the first task"):
        Simulation(peer, 1)
    apps = tuple(replace(app, max_delay=0.0) for app in good.applications)
    with pytest.raises(ScenarioError, match="the policy game-theory needs one above 0"):
        Simulation(replace(good, policy="game-theory", applications=apps), 1)


def test_the_two_kernels_share_no_machine_code():
    """Numba takes a record that begins with all fields of another for that other, and warns."""
    common, own = (dict(numba.from_dtype(one).fields) for one in (layout.META, state.META))
    assert common.keys() < own.keys()
    assert list(own.items())[: len(common)] != list(common.items())
    assert numba.from_dtype(state.META).can_convert_to(None, numba.from_dtype(layout.META)) is None

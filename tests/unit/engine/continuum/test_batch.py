"""Many runs at once: each is what a new engine of a changed system would do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.signals import TASK_STATUS
from cosim.engine.continuum import Batcher, Engine, batch
from cosim.engine.continuum.layout import LOG_NORMAL, STATUS_NAMES
from tests.unit.engine.continuum.happenings import DEVICES, world
from tests.unit.engine.continuum.worlds import CLOCK, every, exponential, field, queue


def radio(engine):
    slots = 3 + np.arange(DEVICES)
    engine.set_radio(slots, slots % 2, np.full(DEVICES, 4e6), np.full(DEVICES, 8e6), np.full(DEVICES, 0.01), [0.0] * 4)


TIMELINE = (
    (0.0, radio),
    (3.0, lambda engine: engine.fail([0])),
    (4.0, lambda engine: engine.set_links([2], [0.0], [0.0], [0.0])),
    (5.0, lambda engine: engine.recover([0])),
)


def ends(engine, ended):
    """A fingerprint of everything that ended."""
    return {name: float(np.sum(ended[name] * (1.0 + ended["serial"]))) for name in ("created", "ended", "work", "host")}


def changed_kind(system, number, **fields):
    kinds = tuple(replace(kind, **fields) if k == number else kind for k, kind in enumerate(system.kinds))
    return replace(system, kinds=kinds)


def changed_load(system, number, **fields):
    loads = tuple(replace(load, **fields) if k == number else load for k, load in enumerate(system.workloads))
    return replace(system, workloads=loads)


def changed_link(system, number, **fields):
    hit = np.arange(len(system.link_a)) == number
    return replace(system, **{name: np.where(hit, value, getattr(system, name)) for name, value in fields.items()})


CASES = {
    "kind.0.clock": (3e9, lambda s: changed_kind(s, 0, clock=3e9)),
    "kind.1.cores": (5, lambda s: changed_kind(s, 1, cores=5)),
    "kind.0.dispatch": (0.2, lambda s: changed_kind(s, 0, dispatch=0.2)),
    "kind.0.slots": (1, lambda s: changed_kind(s, 0, slots=1)),
    "kind.2.power.idle": (20.0, lambda s: changed_kind(s, 2, power=(20.0, 90.0))),
    "kind.0.power.max": (25.0, lambda s: changed_kind(s, 0, power=(5.0, 21.0, 25.0))),
    "kind.0.price_cpu": (7.0, lambda s: changed_kind(s, 0, price_cpu=7.0)),
    "kind.3.radio_energy_sent": (7e-6, lambda s: changed_kind(s, 3, radio_energy_sent=7e-6)),
    "workload.0.rate": (5.0, lambda s: changed_load(s, 0, rate=5.0)),
    "workload.1.work": (CLOCK, lambda s: changed_load(s, 1, work=exponential(CLOCK))),
    "workload.0.half_life": (0.3, lambda s: changed_load(s, 0, half_life=0.3)),
    "workload.0.deadline": (0.3, lambda s: changed_load(s, 0, deadline=0.3)),
    "link.0.rate": (1e6, lambda s: changed_link(s, 0, link_rate=1e6)),
    "link.1.delay": (0.3, lambda s: changed_link(s, 1, link_delay=0.3)),
    "link.2.loss": (0.5, lambda s: changed_link(s, 2, link_loss=0.5)),
    "link.0.energy": (1e-6, lambda s: changed_link(s, 0, link_energy=1e-6)),
}


@pytest.fixture(scope="module")
def batcher():
    return Batcher(world(), 12.0, timeline=TIMELINE, measure=ends, workers=1, patience=0.7)


@pytest.mark.parametrize("name", CASES)
def test_a_changed_parameter_is_a_changed_system(batcher, name):
    value, changed = CASES[name]
    result = batcher.run({name: [value]}, [9])
    engine = Engine(changed(world()), 9, 1, patience=0.7)
    for time, action in TIMELINE:
        engine.advance(time)
        action(engine)
    engine.advance(12.0)
    books, ended = engine.ledger(), engine.state.ended[: int(engine.state.meta["done"][0])]
    assert {key: result[key][0, 0] for key in ("created", "ended", "work", "host")} == {
        **ends(engine, ended), "created": ends(engine, ended)["created"],
    }  # fmt: skip
    tally = books.tally.sum(axis=0)
    assert result["completed"][0, 0] == tally[2]
    assert result["late"][0, 0] == tally[1]
    assert result["in_flight"][0, 0] == books.in_flight.sum()
    assert [result[f"failed.{cause}"][0, 0] for cause in STATUS_NAMES[1:]] == list(tally[3:])
    for column, amount in (
        ("energy.nodes", books.energy), ("energy.radio", books.radio), ("energy.links", books.links),
        ("cost.cpu", books.cost_cpu), ("cost.transfer", books.cost_transfer), ("cost.energy", books.cost_energy),
    ):  # fmt: skip
        assert result[column][0, 0] == pytest.approx(amount.sum(), rel=1e-12)
    good = ended[ended["status"] == 0]
    response = good["ended"] - good["created"]
    assert result["response.mean"][0, 0] == pytest.approx(response.mean(), rel=1e-12)
    assert result["response.p95"][0, 0] == pytest.approx(np.quantile(response, 0.95), rel=1e-12)


def test_the_law_of_work_is_set_as_a_system_has_it():
    """Mean and spread of a log-normal law, share and factor of its second mode."""

    def law(mean, spread, slow):
        return changed_load(world(), 0, work=(int(LOG_NORMAL), mean, spread), slow=slow)

    values = {"work": 2 * CLOCK, "spread": 0.5, "slow_share": 0.3, "slow_times": 4.0}
    found, same = (
        Batcher(one, 12.0, timeline=TIMELINE, measure=ends, workers=1).run(sets, [9])
        for one, sets in (
            (law(CLOCK, 0.1, (0.0, 1.0)), {f"workload.0.{k}": [v] for k, v in values.items()}),
            (law(2 * CLOCK, 0.5, (0.3, 4.0)), {"workload.0.spread": [0.5]}),
        )
    )
    assert found["work"][0, 0] == same["work"][0, 0] > 0.0
    assert found["ended"][0, 0] == same["ended"][0, 0]


@settings(max_examples=10, deadline=None)
@given(
    clocks=st.lists(st.floats(0.2e9, 4e9), min_size=1, max_size=4),
    seeds=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4),
    loss=st.floats(0.0, 0.9),
)
def test_workers_and_neighbours_change_nothing(clocks, seeds, loss):
    parameters = {"kind.*.clock": clocks, "link.1.loss": loss, "threshold": 3.0}
    settings_ = {"timeline": TIMELINE, "measure": lambda engine, ended: {"serials": float(ended["serial"].sum())}}
    one = batch(world(), parameters, seeds, 6.0, workers=1, **settings_)
    two = batch(world(), parameters, seeds, 6.0, workers=2, **settings_)
    assert list(one) == list(two)
    assert all(one[name].tobytes() == two[name].tobytes() for name in one)
    again = Batcher(world(), 6.0, workers=1, **settings_)
    for k, clock in enumerate(clocks):
        for j, seed in enumerate(seeds):
            alone = again.run({"kind.*.clock": [clock], "link.1.loss": loss, "threshold": 3.0}, [seed])
            assert all(alone[name].tobytes() == one[name][k, j].tobytes() for name in alone)


def test_all_sets_draw_the_same_numbers():
    result = batch(world(), {"kind.*.clock": [1e9, 2e9]}, range(4), 10.0, workers=1, timeline=[(0.0, radio)])
    assert np.array_equal(result["created"][0], result["created"][1])
    assert np.all(result["response.mean"][1] < result["response.mean"][0])
    assert len(set(result["created"][0])) > 1


def test_runs_of_different_lengths_share_an_engine():
    # the arrays grow in the second run; the third one starts in the larger ones
    grows = Batcher(field(every(1.0, 1.0, size=1e6)).system, 3.0, workers=1, patience=1000.0)
    result = grows.run({"workload.0.rate": [1.0, 1500.0, 1.0]}, [3])
    assert result["in_flight"][:, 0].tolist()[1] > 4000
    assert all(np.array_equal(result[name][0], result[name][2], equal_nan=True) for name in result)


def test_mm1_in_a_batch():
    system = queue(5.0, 0.1).system
    result = batch(system, {"workload.0.rate": [5.0, 7.0]}, range(4), 5000.0, workers=1, warm_up=50.0)
    np.testing.assert_allclose(result["response.mean"].mean(axis=1), [1 / 5.0, 1 / 3.0], rtol=0.03)
    assert result.seeds.tolist() == [0, 1, 2, 3]
    assert result.parameters["workload.0.rate"].tolist() == [5.0, 7.0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"clock": 1.0}, "there is no parameter 'clock'; known: patience"),
        ({"kind.0.speed": 1.0}, "names no field of a kind; known: clock"),
        ({"kind.9.clock": 1.0}, "names no kind of the system, which has 7"),
        ({"kind.5.power.max": 1.0}, "has none"),
        ({"kind.0.clock": [1.0, 2.0], "patience": [1.0, 2.0, 3.0]}, "the same length"),
    ],
)
def test_a_parameter_that_is_none_is_refused(batcher, parameters, message):
    with pytest.raises(ValueError, match=message):
        batcher.run(parameters, [1])


def test_the_order_of_the_timeline_is_checked():
    with pytest.raises(ValueError, match="order of time"):
        Batcher(world(), 1.0, timeline=[(2.0, radio), (1.0, radio)])
    with pytest.raises(KeyError, match="there is no column 'speed'; there are created"):
        batch(world(), {}, [1], 1.0, workers=1)["speed"]


def test_names_of_statuses_are_those_of_the_signal():
    assert TASK_STATUS[: len(STATUS_NAMES)] == STATUS_NAMES


def test_a_batch_goes_on_from_a_snapshot():
    from tests.unit.engine.continuum.happenings import served, world

    made = world()
    engine = served(made, 5, 1)
    engine.advance(3.0)
    start = engine.snapshot()
    engine.advance(20.0)
    batcher = Batcher(made, 20.0, scheduler=1, start=start, workers=1)
    found = batcher.run({"workload.0.rate": [3.0, 9.0]}, [5, 6])
    tally = engine.state.tally.sum(axis=0)
    assert found["created"][0, 0] == tally[0]
    assert found["completed"][0, 0] == tally[2]
    assert found["energy.nodes"][0, 0] == engine.ledger().energy.sum()
    assert found["created"][0, 1] != tally[0]
    assert found["created"][1, 0] > 1.5 * tally[0]
    with pytest.raises(ValueError, match="in mid-run"):
        batcher.run({"kind.0.clock": [1e9]}, [5])

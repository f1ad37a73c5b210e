"""The cap of a place's power, memory that is missing, and the power of memory."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.engine.continuum.power import PLATFORMS
from cosim.engine.continuum.price import constant, steps
from cosim.extensions.extcloudsim.datacentre.govern import within_caps
from cosim.extensions.extcloudsim.datacentre.platforms import HostKind
from cosim.extensions.extcloudsim.tests.datacentre.worlds import XEON, hosts_of, machines_of, model_of

DAY = 24 * 12
FLAT = HostKind(idle=50.0, full=150.0, resting=10.0)  # 100 W at half load, one operating point


def noise(count, periods=DAY, seed=1, mean=0.6):
    return np.clip(np.random.default_rng(seed).normal(mean, 0.2, (count, periods)), 0.0, 1.0)


def wave(count, seed=1):
    """Load that comes and goes in the course of a day."""
    day = 0.6 + 0.3 * np.sin(2 * np.pi * np.arange(DAY) / DAY)
    return np.clip(day + np.random.default_rng(seed).normal(0.0, 0.02, (count, DAY)), 0.0, 1.0)


def capped(cap, use, **chosen):
    count = len(use)
    model = model_of(
        use, hosts=hosts_of(count // 2, kinds=1), machines=machines_of(count, mips=1.5),
        detector="thr", threshold=0.95, governor="performance", caps=[constant(cap)], **chosen,
    )  # fmt: skip
    model.advance(DAY * 300.0)
    return model.ledger()


def test_the_worst_case_keeps_a_cap_that_the_lowest_clocks_can_keep():
    use = noise(12)
    lowest = 6 * PLATFORMS["xeon-1220"].watts(1.0, 0)
    free, kept = capped(lowest * 1.05, use, capping="none"), capped(lowest * 1.05, use, capping="worst-case")
    assert free.above[0] > 0.1 * DAY * 300.0
    assert kept.above[0] == kept.excess[0] == 0.0
    assert kept.energy.sum() < free.energy.sum()


def test_a_cap_kept_by_foresight_is_missed_by_less_than_one_not_kept():
    use = wave(12)
    cap = 6 * PLATFORMS["xeon-1220"].watts(1.0, 0) * 1.1
    free, foreseen, worst = (capped(cap, use, capping=how) for how in ("none", "foreseen", "worst-case"))
    assert 0.0 == worst.excess[0] <= foreseen.excess[0] < 0.25 * free.excess[0]
    assert free.done >= worst.done * (1.0 - 1e-9)
    assert free.energy.sum() > foreseen.energy.sum() > worst.energy.sum()


def test_what_is_drawn_above_a_cap_is_counted_by_the_second_and_the_joule():
    """One host at half load draws 100 W; its cap is 120 W for 400 s and then 90 W."""
    model = model_of(
        [[0.5] * 4], hosts=hosts_of(1, mips=1.0), kinds=(FLAT,), detector="thr", at=np.zeros(1, np.int64),
        caps=[steps([120.0, 90.0], 400.0)], capping="none",
    )  # fmt: skip
    model.advance(1000.0)
    books = model.ledger()
    assert books.above[0] == pytest.approx(600.0)
    assert books.excess[0] == pytest.approx(6000.0)


def test_no_machine_is_placed_where_the_cap_leaves_no_room():
    """A host that wakes draws 60 W instead of 10 W: under 160 W two of four may; the other machines wait."""
    model = model_of(
        np.full((4, 3), 0.1), hosts=hosts_of(4, mips=1.0, ram=600.0), kinds=(FLAT,), machines=machines_of(4, mips=0.2),
        detector="thr", caps=[constant(160.0)],
    )  # fmt: skip
    model.advance(600.0)
    assert (model.at >= 0).sum() == 2
    books = model.ledger()
    assert books.above[0] == 0.0
    assert books.away.sum() == pytest.approx(2 * 600.0)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_lowered_points_keep_caps_or_have_nothing_left_to_save(seed):
    rng = np.random.default_rng(seed)
    hosts, points, places = 7, 4, 2
    watts = np.sort(rng.uniform(10.0, 100.0, (hosts, points)), axis=1)
    load = np.sort(rng.uniform(0.1, 1.6, (hosts, points)), axis=1)[:, ::-1]
    place = rng.integers(0, places, hosts)
    cap = np.array([rng.uniform(50.0, 400.0), np.inf])
    before = rng.integers(0, points, hosts)
    made = within_caps(before, load, watts, rng.uniform(0.0, 1.0, hosts), place, cap)
    assert np.all(made <= before)
    assert np.array_equal(made[place == 1], before[place == 1])
    here = np.flatnonzero(place == 0)
    if watts[here, made[here]].sum() > cap[0]:
        assert np.all(made[here] == 0)
    if np.any(made != before):
        assert watts[here, before[here]].sum() > cap[0]


def test_too_little_memory_is_a_violation_that_is_paid_for():
    """Three machines of 512 MB on a host of 1024 MB: each lacks a third, at q p per second."""
    at = np.zeros(3, np.int64)
    machines = machines_of(3, mips=0.1)
    stake = float(machines.rate[0] * machines.price[0])
    for penalty, part in (("flat", 1.0), ("proportional", 1.0 / 3.0)):
        model = model_of(
            np.full((3, 4), 0.5), hosts=hosts_of(1, mips=4.0, ram=1024.0), machines=machines, at=at, overcommit=1.5,
            detector="thr", penalty=penalty,
        )  # fmt: skip
        model.advance(1200.0)
        books = model.ledger()
        assert books.cramped == pytest.approx(np.full(3, 1200.0))
        assert books.memory == pytest.approx(np.full(3, stake * 1200.0 * part))
        assert books.penalty == pytest.approx(books.memory.sum())
        assert books.violating == books.served == 12


@pytest.mark.parametrize(("overcommit", "placed"), [(1.0, 2), (1.5, 3), (2.0, 4)])
def test_as_many_machines_are_placed_as_memory_is_promised(overcommit, placed):
    model = model_of(
        np.full((6, 2), 0.1), hosts=hosts_of(1, mips=8.0, ram=1024.0), machines=machines_of(6, mips=0.5),
        overcommit=overcommit, detector="thr",
    )  # fmt: skip
    model.advance(300.0)
    assert (model.at >= 0).sum() == placed
    assert (model.ledger().cramped.sum() > 0.0) == (overcommit > 1.0)


@pytest.mark.parametrize(
    "kind",
    [XEON, FLAT, HostKind(idle=50.0, full=150.0, law="cubic"), HostKind(table=(50.0, 70.0, 120.0))],
    ids=["platform", "linear", "cubic", "table"],
)
def test_memory_takes_its_power_while_a_host_is_awake(kind):
    """12.5 W for 1,800 s of load, nothing while the host sleeps."""
    use = [[0.4] * 6 + [0.0] * 6]
    found = []
    for made in (kind, replace(kind, memory=12.5)):
        model = model_of(use, hosts=hosts_of(1, mips=1.0), kinds=(made,), detector="thr", at=np.zeros(1, np.int64))
        model.advance(3600.0)
        found.append(model.ledger())
    assert found[1].active.sum() == pytest.approx(1800.0)
    assert found[1].energy.sum() - found[0].energy.sum() == pytest.approx(12.5 * 1800.0)

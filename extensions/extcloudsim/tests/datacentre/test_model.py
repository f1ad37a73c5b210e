"""Consolidation over time, by worlds small enough to reckon by hand."""

from dataclasses import astuple

import numpy as np
import pytest

from cosim.engine.continuum.power import PLATFORMS
from cosim.engine.continuum.price import PlaceTariff, constant, steps
from cosim.extensions.extcloudsim.datacentre.platforms import HostKind
from cosim.extensions.extcloudsim.datacentre.settings import DatacentreSettings
from cosim.extensions.extcloudsim.tests.datacentre.worlds import XEON, hosts_of, machines_of, model_of, wan_of

LIGHT = HostKind(idle=50.0, full=150.0, resting=5.0, waking=10.0)


def test_the_energy_of_one_machine_on_one_host():
    model = model_of([[0.5]], machines=machines_of(1, mips=2.0), kinds=(LIGHT,))
    model.advance(300.0)
    books = model.ledger()
    assert books.energy.sum() == pytest.approx(300.0 * (50.0 + 100.0 * 0.5 * 2.0 / 4.0), rel=1e-12)
    assert (books.migrations, books.active_periods, books.away.sum()) == (0, 1, 0.0)


def test_the_platform_power_is_a_u_v2_f_plus_s():
    model = model_of([[0.5]], machines=machines_of(1, work=0), governor="powersave")
    model.advance(600.0)
    load = 0.5 * 1.0 / 4.0
    first = 18.98 * load * 1.146**2 * 3.3 + 34.01  # placed at the highest point
    second = 18.98 * load * 1.611362471 * 0.851**2 * 2.0 + 34.01
    assert model.ledger().energy.sum() == pytest.approx(300.0 * (first + second), rel=1e-9)


def test_an_empty_host_sleeps_and_a_woken_one_pays():
    model = model_of([[0.5, 0.5], [0.5, 0.5]], kinds=(LIGHT,), at=np.array([0, 1]), detector="thr", placer="best-fit")
    model.advance(600.0)
    assert model.ledger().migrations == 1  # the second host is emptied at 300 s
    assert model.power[model.at[0]] > 50.0
    assert model.power[1 - model.at[0]] < 50.0
    assert model.ledger().wake_energy.sum() == 0.0
    busy = model_of(
        [[0.9, 0.9], [0.9, 0.9]], hosts_of(2, mips=2.0), kinds=(LIGHT,), at=np.array([0, 0]), detector="thr"
    )
    busy.advance(600.0)
    assert busy.ledger().migrations == 1
    assert busy.ledger().wake_energy.sum() == pytest.approx(10.0 * 150.0)


@pytest.mark.parametrize("quirk", [False, True])
def test_a_slow_clock_lengthens_execution_unless_the_defect_is_wanted(quirk):
    quirks = frozenset({"request-only"} if quirk else ())
    model = model_of([[1.0, 1.0, 0.0, 0.0]], machines=machines_of(1, work=0), governor="powersave", quirks=quirks)
    model.advance(600.0)
    waiting = model.ledger().waiting
    if quirk:
        assert waiting == 0.0
    else:  # the second period is run at the lowest point, 1.61 times slower
        assert waiting == pytest.approx(300.0 * (1.0 - 1.0 / 1.611362471), rel=1e-9)
        model.advance(1200.0)
        assert model.ledger().waiting == pytest.approx(0.0, abs=1e-9)  # it was worked off later


def test_a_flat_series_of_prices_is_a_constant_price():
    utilisation = np.random.default_rng(3).uniform(0.0, 1.0, (6, 12))
    costs = []
    for price in (constant(4.2e-8), steps([4.2e-8] * 12, 300.0)):
        model = model_of(utilisation, tariffs=[PlaceTariff(price)], placer="cost-aware", governor="cost")
        model.advance(3600.0)
        costs.append(model.ledger().cost)
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)


def test_repetition_and_stepping_change_no_bit():
    utilisation = np.random.default_rng(5).uniform(0.0, 1.0, (12, 20))
    ledgers = []
    for times in ((6000.0,), (6000.0,), tuple(np.arange(1, 21) * 300.0)):
        model = model_of(utilisation, selector="rs", detector="mad")
        for time in times:
            model.advance(float(time))
        ledgers.append(model.ledger())
    for other in ledgers[1:]:
        assert other.energy.tobytes() == ledgers[0].energy.tobytes()
        assert other.migrations == ledgers[0].migrations > 0


@pytest.mark.parametrize("penalty", ["proportional", "flat", "shortfall", "undone"])
def test_how_finely_a_period_is_stepped_changes_no_count(penalty):
    utilisation = np.random.default_rng(5).uniform(0.3, 1.0, (14, 12))
    ledgers = []
    for step in (3600.0, 300.0, 60.0, 45.0):
        model = model_of(utilisation, hosts_of(4, mips=2.0), detector="thr", penalty=penalty)
        for time in np.arange(step, 3600.0 + step, step):
            model.advance(float(time))
        ledgers.append(model.ledger())
    whole = ledgers[0]
    assert whole.served == 14 * 12
    assert min(whole.violating, whole.over_periods, whole.active_periods, whole.waiting, whole.overload.sum()) > 0
    for other in ledgers[1:]:
        for name in ("served", "violating", "over_periods", "active_periods", "migrations"):
            assert getattr(other, name) == getattr(whole, name), name
        assert other.point_periods.tolist() == whole.point_periods.tolist()
        # migrations are cut into slots, which begin anew with every stretch
        np.testing.assert_allclose(astuple(other.levels), astuple(whole.levels), rtol=0.01)
        np.testing.assert_allclose(other.overload, whole.overload, rtol=0.01)
        assert other.waiting == pytest.approx(whole.waiting, rel=0.01)


@pytest.mark.parametrize("period", [0.1, 0.3, 0.7, 1.1])
def test_no_period_is_passed_over_when_its_length_is_no_binary_fraction(period):
    model = model_of(np.full((2, 4), 0.5), period=period)
    begun = []
    plain = model._begin
    model._begin = lambda: (begun.append(model.period), plain())
    while model.period < 50:
        before = model.time
        model.advance((model.period + 1) * period)
        assert model.time > before
    assert begun == list(range(50))


@pytest.mark.parametrize(("recovery", "away"), [("restart", 10.0 + 60.0), ("migration", 10.0 + 512.0 / 125.0)])
def test_machines_of_a_failed_host_come_back_elsewhere(recovery, away):
    model = model_of([[0.5] * 9], hosts_of(2), recovery=recovery)
    model.advance(450.0)
    failed = int(model.at[0])
    model.fail(np.array([failed]))
    model.advance(900.0)
    assert model.at[0] == 1 - failed
    books = model.ledger()
    assert books.away.sum() == pytest.approx(150.0 + away, abs=1e-6)  # until the next decision, and coming back
    assert books.crash.sum() == pytest.approx(2.0 * 0.0124 / 3600 * books.away.sum())
    assert books.restarts == 1
    assert books.down[failed] == pytest.approx(450.0)
    model.recover(np.array([failed]))
    model.advance(1200.0)
    assert model.ledger().down[failed] == pytest.approx(450.0)


def test_a_machine_stays_where_it_was_when_its_target_fails_on_the_way():
    model = model_of([[0.9] * 4] * 2, hosts_of(2, mips=2.0), kinds=(LIGHT,), at=np.array([0, 0]), detector="thr")
    model.advance(305.0)
    assert sorted(model.at) == [0, 1]
    model.fail(np.array([1]))
    assert model.at.tolist() == [0, 0]
    model.advance(600.0)
    assert model.ledger().away.sum() == 0.0


def test_dear_energy_drives_machines_to_the_other_place_when_that_pays():
    dear, cheap = PlaceTariff(steps([1e-7, 1e-7, 5e-6], 300.0)), PlaceTariff(constant(1e-7))

    def run(tariffs, wan):
        model = model_of(
            [[0.5] * 6] * 4, hosts_of(4, places=2), machines_of(4, rate=1.0, price=1e-7), tariffs=tariffs, wan=wan,
            at=np.zeros(4, np.int64), placer="cost-aware", relocate=True, detector="thr",
        )  # fmt: skip
        model.advance(1800.0)
        return model.ledger()

    moved = run([dear, cheap], wan_of(2))
    assert moved.inter == 4
    assert moved.transfer.sum() == pytest.approx(4 * 512.0 * 1e-5)
    assert moved.migration.sum() == pytest.approx(4 * 1e-7 * 512.0 / 25.0 * 2.0)
    assert moved.bills[1].energy > 0.0
    assert run([dear, cheap], wan_of(2, cost=1.0)).inter == 0  # the way is too dear
    assert run([cheap, cheap], wan_of(2)).inter == 0


@pytest.mark.parametrize("evacuate", [False, True])
def test_prices_are_followed_while_hosts_are_emptied(evacuate):
    tariffs = [PlaceTariff(constant(5e-6)), PlaceTariff(constant(1e-7))]
    model = model_of(
        [[0.5] * 8] * 5, hosts_of(6, places=2), machines_of(5, rate=1.0, price=1e-9), tariffs=tariffs, wan=wan_of(2),
        at=np.array([0, 0, 1, 1, 3]), placer="cost-aware", relocate=True, evacuate=evacuate, detector="thr",
    )  # fmt: skip
    inter = []
    for period in range(8):
        model.advance(300.0 * (period + 1))
        inter += [(origin, host) for _, origin, host in model.moves if (origin < 3) != (host < 3)]
    assert set(model.at) <= {3, 4, 5}
    assert len(inter) == 4  # each machine at the dear place went once, none came
    assert all(origin < 3 for origin, _ in inter)


def test_green_hours_and_carbon_reach_the_ledger():
    tariff = PlaceTariff(constant(2e-7), constant(1e-4), constant(20.0), constant(0.0), constant(0.0))
    model = model_of([[0.5]], kinds=(LIGHT,), tariffs=[tariff])
    model.advance(300.0)
    (bill,) = model.ledger().bills
    assert bill.green == pytest.approx(20.0 * 300.0)
    assert bill.carbon == pytest.approx(bill.brown * 1e-4)
    assert model.ledger().energy_cost.sum() == pytest.approx(bill.brown * 2e-7)


def test_machines_come_and_go():
    life = np.array([[0.0, 600.0], [300.0, np.inf]])
    model = model_of([[0.5] * 4] * 2, hosts_of(1), kinds=(LIGHT,), life=life)
    model.advance(1200.0)
    books = model.ledger()
    assert books.served == 2 + 3
    assert books.paid.sum() == pytest.approx(0.0124 / 3600 * (600.0 + 900.0))


def test_undervolting_saves_and_platform_points_can_be_limited():
    watts = []
    for kind in (XEON, HostKind(PLATFORMS["xeon-1220"], margin=1), HostKind(PLATFORMS["xeon-1220"], points=(0, 1))):
        model = model_of([[0.5] * 3], kinds=(kind,), governor="performance")
        model.advance(900.0)
        watts.append(model.power.sum())
    assert watts[1] < watts[0]
    assert watts[2] < watts[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"detector": "lrx"}, "no detector 'lrx'; known: thr"),
        ({"quirks": frozenset({"odd"})}, "no quirk 'odd'"),
        ({"threshold": 0.0}, "threshold must be more than 0"),
        ({"degradation": 1.0}, "degradation must be"),
        ({"relocate": True}, "needs the placer cost-aware"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        DatacentreSettings(**options)


@pytest.mark.parametrize("wrong", [np.full((2, 3), np.nan), np.zeros((1, 3)), np.zeros((2, 0)), np.full((2, 1), -0.1)])
def test_utilisation_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="utilisation must"):
        model_of(wrong, hosts_of(2), machines_of(2))

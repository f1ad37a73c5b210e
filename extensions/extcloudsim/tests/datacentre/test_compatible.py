"""Rules of ExtCloudSim by worlds small enough to reckon by hand; each against its correction."""

import numpy as np
import pytest

from cosim.extensions.extcloudsim.datacentre.account import Period, account
from cosim.extensions.extcloudsim.datacentre.compatible import Procedure
from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of
from cosim.extensions.extcloudsim.datacentre.quirks import COMPATIBLE, DECISIONS
from cosim.extensions.extcloudsim.datacentre.settings import DatacentreSettings
from cosim.extensions.extcloudsim.tests.datacentre.worlds import hosts_of, machines_of, model_of

PEER = {"detector": "thr", "placer": "best-fit", "governor": "cost"}


def peer(utilisation, hosts, machines, without=(), at=None, **options):
    return model_of(utilisation, hosts, machines, at=at, quirks=COMPATIBLE - frozenset(without), **{**PEER, **options})


@pytest.mark.parametrize(("without", "places"), [((), {1}), (("brown-place",), {0})])
def test_all_machines_leave_the_first_of_two_places(without, places):
    hosts = hosts_of(4, places=2)
    model = peer(np.full((3, 4), 0.2), hosts, machines_of(3), without)
    model.advance(1200.0)
    assert set(hosts.place[model.at]) == places
    assert model.ledger().inter == (3 if places == {1} else 0)


@pytest.mark.parametrize(("without", "hosts"), [((), [0, 0, 1]), (("placed-once",), [1, 1, 1])])
def test_first_fit_places_by_what_is_asked_for_and_moves_nothing(without, hosts):
    model = peer(np.full((3, 9), 0.1), hosts_of(3), machines_of(3, mips=2.0), without, placer="first-fit")
    model.advance(2700.0)
    assert model.at.tolist() == hosts


@pytest.mark.parametrize(("without", "count"), [((), 2), (("listed-twice",), 1)])
def test_an_overloaded_host_gives_up_two_machines(without, count):
    wanted = np.full((4, 4), 0.8)
    model = peer(wanted, hosts_of(3), machines_of(4), without, at=np.zeros(4, np.int64), evacuate=False)
    model.advance(301.0)
    assert len(model.moves) == count


def test_a_host_counts_with_whole_units_where_more_is_asked_for_than_it_has():
    machines = machines_of(3, mips=np.array([3.0, 2.0, 0.4]))
    for without, part in (((), (2.0 + 1.0 + 0.0) / 4.0), (("whole-units",), 5.4 / 4.0)):
        model = peer(np.ones((3, 4)), hosts_of(2), machines, without, at=np.zeros(3, np.int64))
        model.alive[:] = True
        # 3 and 2 of 5.4 units are scaled to 2.2 and 1.5 of 4
        assert Procedure(model, machines.mips, machines.mips).part(0) == pytest.approx(part, rel=1e-12)


def test_the_detector_of_local_regression_looks_at_a_line_without_the_newest_load():
    rising = 0.05 * np.arange(13.0)[None, :]  # x = 1..10 are 0.05, 0.1, ..., and one period is added: 0.55
    model = peer(rising, hosts_of(2), machines_of(1, mips=4.0), at=np.zeros(1, np.int64), detector="lr")
    model.alive[:] = True
    model.seen = [4.0 * rising[:, k] for k in range(11)]
    spike = np.array([4.0])  # now, which is skipped
    for threshold, over in ((0.549, True), (0.551, False)):
        model.settings = DatacentreSettings(**{**PEER, "detector": "lr"}, threshold=threshold, quirks=COMPATIBLE)
        assert Procedure(model, spike, spike).over(0) is over


@pytest.mark.parametrize(("fixed", "first"), [(1, 0.5), (0, 1.0)])
def test_shares_are_fixed_as_if_those_on_their_way_were_there(fixed, first):
    kinds = kinds_of([HostKind(idle=50.0, full=150.0, resting=5.0)])
    machines = machines_of(2, mips=4.0)
    none = np.full(2, -1, np.int64)
    period = Period(
        at=np.zeros(2, np.int64), source=none, arrival=np.array([0.0, 100.0]), work=np.full(2, 4.0), degradation=0.1,
        point=np.zeros(1, np.int64), up=np.ones(1, np.bool_), slots=30, seconds=300.0, bounded=1, fixed=fixed,
        small=0.0,
    )  # fmt: skip
    outcome = account(hosts_of(1), kinds, machines, period)
    assert outcome.energy[0] == pytest.approx(100.0 * (50.0 + 100.0 * first) + 200.0 * 150.0, rel=1e-12)
    assert outcome.done[0] == pytest.approx(4.0 * (100.0 * first + 200.0 * 0.5), rel=1e-12)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"placer": "power-aware"}, "no placer 'power-aware'; known: best-fit, dvfs, first-fit"),
        ({"placer": "best-fit", "governor": "powersave"}, "no governor 'powersave'"),
        ({"placer": "best-fit", "detector": lambda state: state.up}, "no detector"),
    ],
)
def test_policies_that_the_peer_lacks_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        DatacentreSettings(**options, quirks=COMPATIBLE)


def test_every_rule_of_the_decisions_states_its_correction():
    assert all("Corrected: " in text for text in DECISIONS.values())

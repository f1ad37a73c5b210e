"""The heuristic against plain Python, and in the datacentre model."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.extensions.extcloudsim.predict import Oracle
from cosim.extensions.extcloudsim.predict.foresight import PREDICTORS, Foresight, policies, predictor


class Said:
    """A predictor that says what it was given, and counts how often it was asked."""

    def __init__(self, mean, peak):
        self.mean, self.peak, self.asked = np.array(mean), np.array(peak), 0

    def predict(self, history, aux=None):
        self.asked += 1
        return self.mean, self.peak, np.full(len(self.mean), np.inf)


def state_of(at, last, mips, hosts):
    return SimpleNamespace(
        at=np.array(at), history=np.array([last]), machines=SimpleNamespace(mips=np.array(mips)),
        hosts=SimpleNamespace(mips=np.array(hosts)),
    )  # fmt: skip


def test_forecasts_hold_until_the_horizon():
    said = Said([0.1], [0.2])
    foresight = Foresight(said, horizon=3)
    for seen in range(1, 8):
        foresight.foresee(np.zeros((1, seen)), np.zeros((1, 2)))
    assert said.asked == 3  # after 1, 4 and 7 periods


def test_a_host_is_relieved_when_it_was_and_will_be_over_the_limit():
    foresight = Foresight(Said([0.5, 0.5, 0.1, 0.6], [0.5, 0.5, 0.9, 0.9]))
    foresight.foresee(np.zeros((4, 1)), np.zeros((4, 2)))
    state = state_of([0, 0, 1, 2], [1.0, 0.0, 1.0, 0.1], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.5])
    # Host 0 was full and will be; host 1 was, but that passes; host 2 was not.
    assert foresight.overloaded(state).tolist() == [True, False, False]


@given(st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(-1, 2)), min_size=1, max_size=8))
def test_the_smallest_that_relieves_leaves_first_else_the_largest(machines):
    peak, at = [one[0] for one in machines], [one[1] for one in machines]
    foresight = Foresight(Said(peak, peak), limit=0.5)
    foresight.foresee(np.zeros((len(peak), 1)), np.zeros((len(peak), 2)))
    hosts = [1.0, 2.0, 0.5]
    score = foresight.leaves_first(state_of(at, peak, [1.0] * len(peak), hosts))
    for host, capacity in enumerate(hosts):
        here = [i for i, place in enumerate(at) if place == host]
        if not here:
            continue
        excess = sum(peak[i] for i in here) - 0.5 * capacity
        enough = [peak[i] for i in here if peak[i] >= excess]
        first = peak[min(here, key=lambda i: score[i])]
        assert first == pytest.approx(min(enough) if enough else max(peak[i] for i in here), abs=1e-9)


def test_predictors_by_name():
    use = np.random.default_rng(1).random((3, 20))
    for name in PREDICTORS:
        assert predictor(name, use).predict(use[:, :5], np.zeros((3, 2))).mean.shape == (3,)
    with pytest.raises(ValueError, match="known: learned, lstm"):
        predictor("crystal ball", use)


def test_foresight_spares_a_host_a_burst_and_relieves_one_that_stays_full():
    from cosim.extensions.extcloudsim.datacentre.layout import Hosts, Machines
    from cosim.extensions.extcloudsim.datacentre.model import Datacentres
    from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of
    from cosim.extensions.extcloudsim.datacentre.settings import DatacentreSettings

    use = np.full((4, 36), 0.4)
    use[0, 11:12] = 1.0  # a burst on host 0; of two periods, the mean of the hour would be the limit to a rounding
    use[2, 11:] = 0.8  # host 1 stays too full
    hosts = Hosts(np.zeros(3, np.int64), np.zeros(3, np.int64), np.ones(3), np.full(3, 1e6), np.zeros(3))
    machines = Machines(np.ones(4), np.full(4, 1000.0), np.zeros(4, np.int64), np.ones(4), np.ones(4))
    settings = DatacentreSettings(governor="performance", evacuate=False, **policies("oracle", use))
    model = Datacentres(
        hosts, kinds_of([HostKind(idle=10.0, full=50.0)]), machines, use, settings, at=np.array([0, 0, 1, 1])
    )
    model.advance(36 * 300.0)
    assert model.sums.moves.tolist() == [0, 0, 0, 1]  # the smaller one is enough
    assert isinstance(predictor("oracle", use), Oracle)

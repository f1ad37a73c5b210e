"""The compiled procedure against the plain one, and each policy by what it is for."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.extensions.extcloudsim.datacentre import decide, detect, govern
from cosim.extensions.extcloudsim.datacentre.compatible import Procedure
from cosim.extensions.extcloudsim.datacentre.control import consolidate
from cosim.extensions.extcloudsim.datacentre.layout import DETECTORS, HISTORY
from cosim.extensions.extcloudsim.datacentre.model import local
from cosim.extensions.extcloudsim.datacentre.platforms import kinds_of
from cosim.extensions.extcloudsim.tests.datacentre.worlds import XEON, hosts_of, machines_of, model_of

KINDS = kinds_of([XEON])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["thr", "iqr", "mad", "lr", "lrr", "fop"]))
def test_the_plain_procedure_makes_the_same_moves(seed, detector):
    rng = np.random.default_rng(seed)
    n, n_hosts, periods = 14, 5, int(rng.integers(2, HISTORY))
    machines = machines_of(n, ram=rng.uniform(100.0, 900.0, n), work=rng.integers(0, 4, n))
    own = np.random.default_rng([seed, 1])
    machines = machines._replace(gpus=own.integers(0, 2, n) * (own.random() < 0.5))
    hosts = hosts_of(n_hosts, ram=4000.0)._replace(gpus=own.integers(0, 4, n_hosts))
    model = model_of(rng.uniform(0.0, 1.0, (n, periods)), hosts, machines, detector=detector,
        selector=lambda state: score, placer="best-fit")  # fmt: skip
    score, busy = rng.uniform(0.0, 1.0, n), rng.random(n) < 0.1
    model.alive[:] = True
    model.at = rng.integers(0, n_hosts, n)
    lost = rng.random(n) < 0.1
    model.at[lost], model.crashed[lost] = -1, True
    model.came, model.arrival = rng.permutation(n), np.where(busy, 1.0, 0.0)
    model.up = rng.random(n_hosts) < 0.9
    model.seen = list(rng.uniform(0.0, 1.0, (periods, n)))
    state = model.state(model.seen[-1])
    view = decide.view_of(model, state, score, model.up, govern.top(model.hosts, KINDS))
    rules = decide.rules_of(model, DETECTORS[detector])
    who, where, _ = consolidate(model.hosts, KINDS, model.machines, view, rules, local())

    def placer(state, machine, load, free):
        held = plain.gpus + state.machines.gpus[machine]
        after = np.where(held > state.hosts.gpus, np.inf, load + state.demand[machine] / state.hosts.mips)
        for h in np.argsort(0.7 - after, kind="stable"):
            if np.isfinite(after[h]) and not plain.over(int(h), machine):
                return h
        return -1

    model.settings = replace(model.settings, placer=placer)
    plain = Procedure(model, state.demand, state.demand)
    assert plain.moves() == list(zip(who.tolist(), where.tolist(), strict=True))


def test_the_weighted_past_is_what_is_written():
    history = np.zeros(HISTORY)
    history[:11] = np.random.default_rng(1).uniform(0.0, 1.0, 11)
    weights = np.arange(10, 0, -1.0) ** 2
    expected = 1.05 * (weights / weights.sum()) @ history[1:11]
    assert detect.foreseen(history) == pytest.approx(expected, rel=1e-12)


def test_regression_continues_a_line_and_the_robust_one_ignores_an_outlier():
    line = 0.9 - 0.03 * np.arange(HISTORY, dtype=np.float64)
    for robust in (False, True):
        assert detect.extrapolated(line, 1.0, robust) == pytest.approx(0.93, rel=1e-12)
    spiked = line.copy()
    spiked[4] = 0.0
    plain, robust = (abs(detect.extrapolated(spiked, 1.0, one) - 0.93) for one in (False, True))
    assert robust < 0.3 * plain


def test_limits_follow_the_spread_of_the_past():
    past = np.array([0.5, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5, 0.45, 0.55, 0.2, 0.8, 0.5, 0.52, 0.48, 0.51] + [0.0] * 15)
    assert detect.limit(DETECTORS["thr"], 0.7, 2.0, past, 15) == 0.7
    ordered = np.sort(past[:15])
    assert detect.limit(DETECTORS["iqr"], 0.7, 2.0, past, 15) == pytest.approx(1 - 2 * (ordered[11] - ordered[3]))
    mad = np.median(np.abs(ordered - np.median(ordered)))
    assert detect.limit(DETECTORS["mad"], 0.7, 2.0, past, 15) == pytest.approx(1 - 2 * mad)
    assert detect.limit(DETECTORS["mad"], 0.7, 2.0, past, 12) == 0.7  # too short


def test_governors():
    load = np.array([[0.9, 0.65, 0.6, 0.5], [1.6, 1.3, 0.9, 0.8], [0.3, 0.28, 0.26, 0.25]])
    hosts = hosts_of(3)
    assert govern.lowest_below(load, govern.top(hosts, KINDS), 0.7).tolist() == [1, 3, 0]
    watts = govern.powers(hosts, KINDS, load)
    assert watts[0, 1] == pytest.approx(18.98 * 0.65 * 0.922**2 * 2.5 + 34.01)
    cheap = govern.least_cost(load, watts, 0.7, np.full(3, 1e-3), np.full(3, 1e-9))
    dear = govern.least_cost(load, watts, 0.7, np.full(3, 1e-9), np.full(3, 1e-3))
    assert cheap.tolist() == [1, 0, 0]  # energy is dear, penalties cheap
    assert dear.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("selector", "leaves"), [("mmt", 2), ("mu", 1), ("mct", 0), ("mc", 1), (lambda state: -state.machines.ram, 3)]
)
def test_who_leaves_an_overloaded_host(selector, leaves):
    wave = np.array([0.2, 0.9, 0.3, 0.8, 0.2, 0.9])
    rows = np.array([0.8 + 0.0 * wave, 0.4 * wave, 0.7 + 0.1 * np.roll(wave, 2), 0.9 - 0.05 * wave])
    rows = np.hstack([rows, rows[:, :1]])
    machines = machines_of(4, ram=np.array([500.0, 600.0, 400.0, 700.0]), rate=np.array([1.0, 2.0, 3.0, 2.0]))
    model = model_of(
        rows, hosts_of(3), machines, at=np.zeros(4, np.int64), detector=lambda state: state.load > 0.01,
        selector=selector, placer="first-fit", evacuate=False, threshold=0.7,
    )  # fmt: skip
    model.advance(5 * 300.0 + 1.0) if selector == "mc" else model.advance(301.0)
    first = model_of(rows, hosts_of(3), machines)  # keeps the shape of the world explicit
    assert first.places == 1
    moved = {machine for machine, _, _ in model.moves} | set(np.flatnonzero(model.at != 0))
    assert leaves in moved


def test_a_host_offers_another_machine_when_the_first_fits_nowhere():
    machines = machines_of(3, mips=np.array([0.5, 0.25, 0.45]), ram=np.array([100.0, 200.0, 300.0]))
    model = model_of(
        [[1.0] * 3] * 3, hosts_of(2, mips=1.0), machines, at=np.array([0, 0, 1]), detector="thr", selector="mmt",
        placer="best-fit", governor="performance", evacuate=False,
    )  # fmt: skip
    model.advance(301.0)
    assert model.moves == [(1, 0, 1)]


def test_functions_of_the_users_decide():
    asked = []

    def placer(state, machine, load, free):
        asked.append(machine)
        return int(np.argmax(np.where(np.isfinite(load), free, -1.0)))

    def governor(state):
        return np.full(len(state.up), 2)

    model = model_of(
        [[0.9] * 5] * 4, hosts_of(3), placer=placer, governor=governor,
        detector=lambda state: state.load > 0.4, selector=lambda state: state.machines.ram,
    )  # fmt: skip
    model.advance(1500.0)
    assert asked
    assert model.point.tolist() == [2, 2, 2]
    assert model.ledger().migrations > 0


def test_a_predictor_takes_the_place_of_the_present_load():
    seen = []

    def predictor(history, aux):
        seen.append((history.shape, aux.shape))
        return history[:, -1], np.ones(len(history)), aux[:, 0]

    model = model_of([[0.3] * 5] * 3, hosts_of(2, mips=3.0), predictor=predictor, placer="best-fit", detector="thr")
    model.advance(1500.0)
    assert seen[0] == ((3, 1), (3, 2))
    assert seen[-1][0] == (3, 4)
    assert len(set(model.at)) == 2  # by peaks of 1, three do not fit on one host
    calm = model_of([[0.3] * 5] * 3, hosts_of(2, mips=3.0), placer="best-fit", detector="thr")
    calm.advance(1500.0)
    assert len(set(calm.at)) == 1

"""Policies written once, on the interval model."""

import numpy as np
import pytest

from cosim.extensions.cosco.adapter import ADAPTER as INTERVAL
from cosim.extensions.cosco.interval import ContainerArrivals, Interval, azure_fog, static
from cosim.extensions.cosco.interval.layout import POLICIES as COMPILED
from cosim.extensions.cosco.state import interval_state, per_interval
from cosim.extensions.cosco.tests import test_interval_adapter as containers
from cosim.schedulers import SchedulerError, known_models, scheduler, scheduler_names
from cosim.schedulers.policies import edf
from cosim.schedulers.state import HOST, answers, decides, matrix
from tests.extensions import named
from tests.unit.schedulers.test_policies import run, state


@pytest.mark.parametrize("name", named("schedulers", scheduler_names("interval")))
def test_every_policy_per_interval_runs_on_the_interval_model_by_name(name):
    if name == "corais-exact":
        pytest.importorskip("highspy")
    found, _ = run(INTERVAL, containers.scene(), steps=60, period=60.0, policy=name)
    assert found["tasks"]["completed"] > 20


def test_a_policy_that_decides_otherwise_is_refused():
    with pytest.raises(SchedulerError, match="decides per task; interval asks per interval"):
        scheduler("fuzzy").policy("interval")
    with pytest.raises(SchedulerError, match="is made for the continuum"):
        scheduler("nearest").policy("interval")


def test_search_takes_less_energy_and_less_time_than_least_loaded():
    """Both summed over three seeds; the same containers come under every policy."""
    totals = {}
    for name in ("least-loaded", "search"):
        rows = []
        for seed in (1, 2, 3):
            one = Interval(azure_fog(12), static(300.0, ContainerArrivals("poisson", 1.5)), seed)
            if name == "search":
                one.decide_by(per_interval(scheduler(name).policy("interval"), one))
            rows.append(one.run(40))
        totals[name] = [sum(row[figure].sum() for row in rows) for figure in ("energy", "active")]
    assert totals["search"][0] < 0.95 * totals["least-loaded"][0]
    assert totals["search"][1] < 1.05 * totals["least-loaded"][1]


def test_wrong_answers_are_named():
    @decides("interval")
    def wrong(state):
        return np.full(len(state.tasks), 99)

    @decides("interval")
    def short(state):
        return np.zeros(1 + len(state.tasks), np.int64)

    one = Interval(azure_fog(3), static(300.0, ContainerArrivals("poisson", 3.0)), 3, policy=None)

    @decides("interval")
    class Wrong:
        def __call__(self, state):
            return wrong(state)

    for policy, said in (
        (wrong, r"wrong \(.*test_policies.py:\d+\) answered host 99; expected 0..2"),
        (Wrong(), r"Wrong \(.*test_policies.py:\d+\) answered host 99"), (short, "expected\\s+one integer each"),
    ):  # fmt: skip
        one.decide_by(per_interval(policy, one))
        with pytest.raises(ValueError, match=said):
            one.step()
    assert answers(decides("interval")(lambda state: [0 for _ in state.tasks]), state(work=[])).dtype == np.int64
    with pytest.raises(ValueError, match="not sometimes"):
        decides("sometimes")


def test_a_state_is_a_view_of_numbers():
    one = Interval(azure_fog(10), static(300.0, ContainerArrivals("poisson", 3.0)), 3)
    one.run(10)
    seen = interval_state(one, one.state())
    hosts = matrix(seen.hosts)
    assert hosts.shape == (10, len(HOST.names))
    assert np.shares_memory(hosts, seen.hosts)
    np.testing.assert_array_equal(hosts[:, HOST.names.index("speed")], one.world.hosts["mips"] * 1e6)
    assert seen.tasks["demand"][seen.tasks["host"] >= 0].sum() == pytest.approx(seen.hosts["demand"].sum())
    assert answers(edf, seen).shape == (len(seen.tasks),)


def test_the_catalogue_names_what_is_compiled_into_the_model():
    assert set(known_models()["interval"].compiled) == set(COMPILED[1:])

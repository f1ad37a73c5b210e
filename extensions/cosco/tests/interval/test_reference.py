"""The compiled model does what the plainly written one does, under any set of quirks."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.extensions.cosco.interval import Interval, azure_fog, compatible, static
from cosim.extensions.cosco.interval.layout import FIGURES
from cosim.extensions.cosco.interval.workload import ContainerArrivals
from cosim.extensions.cosco.tests.interval.systems import fleets, quirk_sets, reference, workloads

CLOSE = 1e-9


def close(a, b):
    return math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE)


def compare(simulation, model, decide, intervals):
    """Step both and compare what each interval says, then the ends of all containers."""
    for _ in range(intervals):
        view = simulation.state()
        held = [None if c is None else c.number for c in model.slots]
        assert {int(s): int(c) for s, c in zip(view.slot, view.container, strict=True)} == {
            s: c for s, c in enumerate(held) if c is not None
        }
        decisions = decide(view)
        row, expected = simulation.step(decisions), model.step(decisions)
        for name, value in expected.items():
            assert close(row[name], value), (name, row[name], value)
        for host, twin in zip(simulation.world.hosts, model.hosts, strict=True):
            assert close(float(host["energy"]), twin.energy)
    ended = simulation.drain()
    theirs = {number: (finish, response, late) for number, finish, response, late in model.ended}
    assert sorted(ended["container"].tolist()) == sorted(theirs)
    for number, finish, response, late in zip(
        ended["container"], ended["finish"], ended["response"], ended["late"], strict=True
    ):
        assert close(finish, theirs[number][0])
        assert close(response, theirs[number][1])
        assert bool(late) == theirs[number][2]


@settings(max_examples=100, deadline=None)
@given(fleets(), workloads(), quirk_sets, st.data())
def test_any_system_runs_as_the_reference_does(fleet, workload, quirks, data):
    options = {
        "length": data.draw(st.sampled_from([5.0, 60.0])),
        "slots": data.draw(st.sampled_from([None, 2, 7])),
        "overhead": data.draw(st.sampled_from([0.0, 2.0, 64.0])),
        "switch_off": data.draw(st.booleans()),
        "boot": data.draw(st.sampled_from([0.0, 4.0])),
    }
    hosts = len(fleet.place)

    def decide(view):
        chosen = [s for s in view.slot.tolist() if data.draw(st.booleans())]
        chosen = data.draw(st.permutations(chosen))
        return [(s, data.draw(st.integers(0, hosts - 1))) for s in chosen]

    simulation = Interval(fleet, workload, 1, policy=None, quirks=quirks, **options)
    compare(simulation, reference(fleet, workload, quirks, **options), decide, 10)


@pytest.mark.parametrize(
    "quirks", [frozenset(), compatible(), compatible("simtune")], ids=["corrected", "cosco", "simtune"]
)
def test_fifty_hosts_run_as_the_reference_does(quirks):
    fleet = azure_fog(50, quirks)
    chance = np.random.Generator(np.random.PCG64(5))
    workload = static(300.0, ContainerArrivals("normal", 5.0, 1.5))
    k = chance.integers(0, 4, 500)
    work = workload.work[k] * chance.uniform(0.3, 1.7, 500)
    rows = np.stack([np.sort(chance.integers(0, 100, 500)), k, work, 3.0 * (k + 1)], axis=1)
    workload = workload.replay(rows)

    def decide(view):
        chosen = view.slot[(view.host < 0) | (chance.random(len(view.slot)) < 0.2)]
        return np.stack([chosen, chance.integers(0, 50, len(chosen))], axis=1)

    simulation = Interval(fleet, workload, 1, policy=None, quirks=quirks)
    compare(simulation, reference(fleet, workload, quirks, length=300.0, slots=None), decide, 100)
    assert simulation.world.hosts["completed"].sum() > 200


def test_fairness_is_jains_index_of_the_rates():
    simulation = Interval(azure_fog(10), static(300.0), 3)
    row = simulation.step()
    rates = simulation.world.slots["rate"][simulation.world.slots["host"] >= 0]
    assert row["fairness"] == pytest.approx(rates.sum() ** 2 / (len(rates) * (rates**2).sum()))
    odd = Interval(azure_fog(10), static(300.0), 3, quirks=["empty-slots-in-fairness"])
    assert odd.step()["fairness"] == pytest.approx(row["fairness"] * len(rates) / 10)
    assert set(row) == set(FIGURES)

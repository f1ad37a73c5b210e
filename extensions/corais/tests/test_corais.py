"""The multi-edge problem: the objective against the equations in plain Python, and solutions against all decisions."""

import itertools
import math

import numpy as np
import pytest

from benchmarks.schedulers import alone, longest_first
from cosim.extensions.corais import baselines, exact, families, search
from cosim.extensions.corais.problem import Instance, makespan, responses


def by_equations(instance: Instance, decision) -> list[float]:
    """Eqs. 7 to 13, edge by edge."""
    apart = lambda a, b: math.dist(instance.place[a], instance.place[b])  # noqa: E731
    found = []
    for q in range(instance.edges):
        run = lambda z, q=q: (instance.slope[q] * instance.input[z] + instance.offset[q]) / instance.replicas[q]  # noqa: E731
        mine = [z for z in range(instance.requests) if decision[z] == q]
        own = instance.own_work[q] + sum(run(z) for z in mine if instance.source[z] == q)
        other = instance.coming_work[q] + sum(run(z) for z in mine if instance.source[z] != q)
        ways = [
            instance.transfer * instance.input[z] * apart(instance.source[z], q)
            for z in mine
            if instance.source[z] != q
        ]
        backs = [instance.transfer * instance.output[z] * apart(q, instance.target[z]) for z in mine]
        found.append(max(own, max([instance.coming[q], *ways])) + other + max([instance.leaving[q], *backs]))
    return found


@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_responses_are_those_of_the_equations(family):
    rng = np.random.default_rng(3)
    for instance in families.instances(family, (8, 4, 12), 10):
        decision = rng.integers(0, 4, 12)
        assert responses(instance, decision) == pytest.approx(by_equations(instance, decision), rel=1e-12)


@pytest.mark.parametrize("decision", [[0, 1], [0, 1, 9], [-1, 0, 0]])
def test_decisions_that_name_no_edge_are_refused(decision):
    (instance,) = families.instances("corais", (4, 3, 3), 1)
    with pytest.raises(ValueError, match="one of 3 edges"):
        makespan(instance, np.array(decision))


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_small_instances_are_solved_as_well_as_by_trying_everything(family):
    for instance in families.instances(family, (6, 3, 6), 8):
        best = min(makespan(instance, np.array(one)) for one in itertools.product(range(3), repeat=6))
        assert makespan(instance, search.solve(instance)) == pytest.approx(best, rel=1e-9)


def test_the_solver_agrees_with_trying_everything(capfd):
    pytest.importorskip("highspy")
    for family in families.FAMILIES:
        for instance in families.instances(family, (6, 3, 5), 3):
            best = min(makespan(instance, np.array(one)) for one in itertools.product(range(3), repeat=5))
            found = exact.solve(instance, 20.0)
            assert found.makespan == pytest.approx(best, rel=1e-6)
            assert found.bound <= best * (1 + 1e-6)
    assert capfd.readouterr() == ("", "")  # what prints JSON, like the benchmark, prints nothing else


@pytest.mark.slow
def test_equal_seeds_give_equal_decisions_and_budgets_help():
    for instance in families.instances("corais-tight", (10, 5, 50), 4):
        one, two = search.solve(instance, seed=5), search.solve(instance, seed=5)
        assert np.array_equal(one, two)
        values = [makespan(instance, search.solve(instance, budget=budget)) for budget in (0, 5_000, 50_000)]
        assert values == sorted(values, reverse=True)


@pytest.mark.slow
def test_large_instances_are_placed_at_the_floor_without_tables(monkeypatch):
    monkeypatch.setattr(search, "DENSE", 0)
    (instance,) = families.instances("corais", (200, 100, 2000), 1)
    assert makespan(instance, search.solve(instance)) == pytest.approx(instance.floor, rel=1e-9)
    (hard,) = families.instances("corais-tight", (40, 20, 400), 1)
    found = makespan(hard, search.solve(hard))
    assert alone(hard) <= found <= makespan(hard, longest_first(hard))
    assert found < makespan(hard, baselines.local(hard))


@pytest.mark.slow
def test_the_family_gives_the_published_gaps_of_methods_without_a_network():
    """Gap-M of Local and Predicted at (10, 5, 50): 1.9602 and 1.9752 in the paper, over its own instances."""
    gaps = []
    for instance in families.instances("corais", (10, 5, 50), 150):
        best = makespan(instance, search.solve(instance, budget=5_000))
        gaps.append([makespan(instance, rule(instance)) / best for rule in (baselines.local, baselines.predicted)])
    assert np.mean(gaps, axis=0) == pytest.approx([1.9602, 1.9752], rel=0.12)


def test_random_draws_are_repeatable_and_more_are_no_worse():
    (instance,) = families.instances("corais", (10, 5, 50), 1)
    few, many = (baselines.random(instance, count, np.random.default_rng(1)) for count in (1, 100))
    assert makespan(instance, many) <= makespan(instance, few)

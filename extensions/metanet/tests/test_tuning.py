"""Schedulers that go on learning from a model: each changes, stays usable, repeats, and learns what the model says."""

from __future__ import annotations

import numpy as np
import pytest

from cosim.extensions.cosco.interval import ContainerArrivals, Interval, azure_fog, static
from cosim.extensions.cosco.state import interval_state
from cosim.extensions.metanet.catalogue.experience import candidates, tried
from cosim.extensions.metanet.catalogue.networks import stored
from cosim.extensions.metanet.catalogue.training import prepared, surrogate_loss
from cosim.extensions.metanet.catalogue.tuning import TUNABLE, tuning
from cosim.schedulers.objective import Scale


@pytest.fixture(autouse=True)
def torch():
    """Imported by the worker that runs the tests alone: it takes three seconds."""
    return pytest.importorskip("torch")


def world(seed=3, **options):
    """A fleet on which nothing was trained."""
    load = static(300.0, ContainerArrivals("poisson", 2.0))
    return Interval(azure_fog(10), load, seed, policy=None, slots=30, switch_off=True, **options)


def weights(one):
    held = one.policy.surrogate.weights if hasattr(one.policy, "surrogate") else one.policy.weights
    return {key: np.array(value) for key, value in held.items()}


def driven(name, intervals, learn=True):
    """A tuned scheduler after some intervals, and the energy and time that it took."""
    one, model, total = tuning(name, seed=5), world(), np.zeros(2)
    for _ in range(intervals):
        if learn:
            one.learn(model)
        figures = model.step(one.decide(model))
        total += figures["energy"], figures["present"]
    return one, total


@pytest.mark.parametrize("name", TUNABLE)
def test_it_begins_as_shipped_changes_and_repeats(name):
    first, before = driven(name, 5, learn=False)
    shipped = stored({"ga": "gobi", "pso": "gobi"}.get(name, name))
    held = weights(first)
    assert all(np.array_equal(held[key], shipped[key]) for key in held)
    one, figures = driven(name, 5)
    again, repeated = driven(name, 5)
    assert np.array_equal(figures, repeated)
    changed, same = weights(one), weights(again)
    assert all(np.array_equal(changed[key], same[key]) for key in changed)
    assert any(np.abs(changed[key] - shipped[key]).max() > 1e-5 for key in changed)
    assert all(
        np.array_equal(stored(name)[key], shipped[key]) for key in shipped if name in ("gobi", "gosh", "dqn", "a3c")
    )
    assert figures[0] < 3.0 * before[0]
    assert figures[1] < 3.0 * before[1]


def test_learning_changes_nothing_of_the_model():
    one, model = tuning("dqn"), world()
    snapshot = model.snapshot()
    one.learn(model)
    for before, after in zip(snapshot.arrays, model.snapshot().arrays, strict=True):
        for name in set(before.dtype.names or ()) - {"branch"}:
            np.testing.assert_array_equal(before[name], after[name])


def test_a_surrogate_comes_to_tell_what_the_model_says():
    """On a fleet whose moves take 100 s more than any that it was trained on."""
    one, model = tuning("gobi"), world(overhead=100.0)
    losses = []
    for _ in range(12):
        state = interval_state(model, model.state())
        one.learn(model)
        if len(state.tasks):
            scale = Scale()
            scale.see(state)
            rows = candidates(state, np.random.default_rng(1), 24)
            said = tried(state, scale, rows, state.branch(rows), 0)
            if said is not None:
                losses.append([
                    float(surrogate_loss(_tensors(weights), prepared([said])[0], False))
                    for weights in (stored("gobi"), one.policy.surrogate.weights)
                ])  # fmt: skip
        model.step(one.decide(model))
    shipped, learned = np.array(losses)[-6:].mean(axis=0)
    assert learned < 0.9 * shipped


def _tensors(weights):
    import torch

    return {key: torch.tensor(value, dtype=torch.float32) for key, value in weights.items()}


def test_other_names_are_refused():
    with pytest.raises(ValueError, match=r"'aco' does not go on learning; those that do: pso, ga"):
        tuning("aco")

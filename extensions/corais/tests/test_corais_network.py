"""CoRaiS' network: the same answers with numpy and torch, decisions that can be drawn, makespans as tensors."""

import json

import numpy as np
import pytest

from benchmarks import corais_network
from cosim.extensions.corais import baselines, families, network, search
from cosim.extensions.corais.problem import makespan

INSTANCE = next(iter(families.instances("corais", (8, 4, 12), 1, seed=3)))


def weights(variant="corais"):
    return network.begin(np.random.default_rng(5), variant)


def test_requests_are_decided_alike_in_any_order():
    order = np.random.default_rng(1).permutation(INSTANCE.requests)
    parts = {name: getattr(INSTANCE, name)[order] for name in ("source", "target", "input", "output")}
    np.testing.assert_allclose(
        network.chances(INSTANCE._replace(**parts), weights()), network.chances(INSTANCE, weights())[order], rtol=1e-9
    )


def test_chances_are_chances_and_differ():
    found = network.chances(INSTANCE, weights())
    assert found.shape == (12, 4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.std() > 0.0


def test_draws_begin_with_the_likeliest_and_more_are_never_worse():
    held = weights()
    values = [makespan(INSTANCE, network.solve(INSTANCE, held, count=n)) for n in (0, 20, 200)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0]
    assert (network.solve(INSTANCE, held) == network.chances(INSTANCE, held).argmax(axis=1)).all()


@pytest.mark.parametrize(("folder", "family", "scale"), [
    (network.SHIPPED, "corais", (10, 5, 50)), (network.TIGHT, "corais-tight", (20, 10, 100)),
])  # fmt: skip
def test_the_expected_figures_of_the_shipped_weights_are_reproduced(folder, family, scale):
    expected = json.loads((folder / "expected.json").read_text())
    held = network.stored(folder)
    found = {name: [] for name in ("greedy", "100", "random, 1k")}
    rng = np.random.default_rng(7)
    for one in families.instances(family, scale, 20, seed=77):
        least = makespan(one, search.solve(one))
        found["greedy"].append(makespan(one, network.solve(one, held)) / least)
        found["100"].append(makespan(one, network.solve(one, held, count=100)) / least)
        found["random, 1k"].append(makespan(one, baselines.random(one, 1000, rng)) / least)
    for name in ("greedy", "100"):
        assert np.mean(found[name]) == pytest.approx(expected[name], rel=0.01)
    assert np.mean(found["100"]) < np.mean(found["greedy"]) < np.mean(found["random, 1k"])


def test_the_ablations_have_perceptrons_in_the_place_of_attention():
    count = {name: sum(part.size for part in weights(name).values()) for name in network.VARIANTS}
    assert max(count.values()) < 1.02 * min(count.values())
    attention = {name: {key[0] for key in weights(name) if ".a." in key} for name in network.VARIANTS}
    assert attention == {"corais": {"e", "r"}, "fc1": {"r"}, "fc2": {"e"}, "fc3": set()}


def test_torch_sees_the_network_that_decides():
    torch = pytest.importorskip("torch")
    held = weights()
    tensors = {name: torch.tensor(value) for name, value in held.items()}
    edges, requests = (torch.tensor(part[None]) for part in network.columns(INSTANCE))
    logits = network.scores(torch, tensors, edges, requests, lambda _, x: x)  # mean 0, spread 1, scale 1, shift 0
    np.testing.assert_allclose(torch.softmax(logits, -1)[0].numpy(), network.chances(INSTANCE, held), rtol=1e-9)


@pytest.mark.parametrize("family", ["corais", "corais-tight"])
def test_alternatives_are_makespans_with_one_request_elsewhere(family):
    torch = pytest.importorskip("torch")
    from cosim.extensions.corais.train import alternatives

    found = list(families.instances(family, (8, 4, 12), 6, seed=2))
    drawn = torch.randint(0, 4, (len(found), 3, 12), generator=torch.Generator().manual_seed(1))
    expected = np.empty((len(found), 3, 12, 4))
    for at in np.ndindex(expected.shape):
        changed = drawn[at[0], at[1]].numpy().copy()
        changed[at[2]] = at[3]
        expected[at] = makespan(found[at[0]], changed)
    np.testing.assert_allclose(alternatives(torch, found, drawn).numpy(), expected, rtol=1e-5)


def test_the_unit_of_places_and_the_time_of_a_unit_are_one_to_the_network():
    far = INSTANCE._replace(place=INSTANCE.place * 4.0, transfer=INSTANCE.transfer / 4.0)
    assert makespan(far, INSTANCE.source) == pytest.approx(makespan(INSTANCE, INSTANCE.source))
    np.testing.assert_allclose(network.chances(far, weights()), network.chances(INSTANCE, weights()))


def test_training_repeats_and_lowers_the_makespan():
    torch = pytest.importorskip("torch")
    from cosim.extensions.corais import train

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        first, again = (train.train("corais", 1, 2, 2)["weights"] for _ in range(2))
        longer = train.train("fc3", 1, 20, 2)
    finally:
        torch.set_num_threads(threads)
    assert all((first[name] == again[name]).all() for name in first)
    assert longer["last"] < longer["first"]


def test_moves_after_random_draws_come_close_to_the_search():
    rng = np.random.default_rng(3)
    for one in families.instances("corais", (10, 5, 50), 5, 12):
        drawn = baselines.random(one, 100, rng)
        better = corais_network.moved(one, drawn)
        assert makespan(one, better) <= makespan(one, drawn)
        assert makespan(one, better) < 1.05 * makespan(one, search.solve(one))

"""The network of the paper: its equations against plain numpy, training, Monte-Carlo dropout, gradients."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cosim.contract.errors import SetupError
from cosim.contract.extras import how_to_install
from cosim.extensions.simtune.surrogate import layers
from cosim.extensions.simtune.surrogate.layers import Sizes
from cosim.extensions.simtune.surrogate.network import QosNetwork, TrainingOptions


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


RANDOM = np.random.default_rng(11)
N, T, F, H, C, E, Q = 5, 6, 3, 4, 2, 7, 4


def arrays():
    return RANDOM.random((1, T, F)), RANDOM.random((1, H, C)), RANDOM.random((N, E)), RANDOM.random((N, Q))


def made(architecture="simtune", seed=1, **sizes):
    return QosNetwork(F, C, E, Q, architecture=architecture, sizes=Sizes(width=8, heads=2, **sizes), seed=seed)


def weights(module):
    return {name: value.detach().numpy().astype(np.float64) for name, value in module.named_parameters()}


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def gru(w, x, h):
    """Cho et al. 2014 as torch arranges it: reset, update, new."""
    inputs = np.split(w["gate.weight_ih"] @ x + w["gate.bias_ih"], 3)
    states = np.split(w["gate.weight_hh"] @ h + w["gate.bias_hh"], 3)
    reset, update = (sigmoid(inputs[k] + states[k]) for k in (0, 1))
    new = np.tanh(inputs[2] + reset * states[2])
    return (1.0 - update) * new + update * h


def test_gated_graph_convolution_is_equation_9(torch):
    modules = layers.modules("simtune", F, C, E, Q, Sizes(width=8, heads=2, rounds=3))
    w = weights(modules)
    graph = RANDOM.random((2, H, C))
    said = layers.hosts(torch, modules, torch.from_numpy(graph.astype(np.float32))).detach().numpy()
    for row in range(2):
        e = [np.tanh(w["hosts.weight"] @ host + w["hosts.bias"]) for host in graph[row]]
        for q in range(3):
            sent = [w[f"neighbours.{q}.weight"] @ state for state in e]
            e = [gru(w, sum(sent[k] for k in range(H) if k != j), e[j]) for j in range(H)]
        np.testing.assert_allclose(said[row], e, atol=1e-5)


def test_the_parameter_net_is_equation_8(torch):
    modules = layers.modules("simtune", F, C, E, Q, Sizes(width=8, heads=2))
    w = weights(modules)
    features = RANDOM.random((N, E))
    said = layers.parameters(torch, modules, torch.from_numpy(features.astype(np.float32))).detach().numpy()
    once = np.maximum(features @ w["phi.weight"].T + w["phi.bias"], 0.0)
    total = once @ w["again.weight"].T + w["again.bias"] + once
    centred = total - total.mean(axis=1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(said, np.maximum(normal * w["norm.weight"] + w["norm.bias"], 0.0), atol=1e-5)


def test_the_decoder_sees_all_three_encodings(torch):
    """Equation 10: every input moves the output; without dropout nothing else does."""
    network = made(dropout=0.0)
    series, graph, features, _ = arrays()
    said = network.predict(series, graph, features, draws=1)
    assert said.shape == (1, N, Q)
    assert np.all((said > 0.0) & (said < 1.0))
    for changed in ((series + 0.5, graph, features), (series, graph + 0.5, features), (series, graph, features + 0.5)):
        assert np.abs(network.predict(*changed, draws=1) - said).max() > 1e-4
    np.testing.assert_array_equal(network.predict(series, graph, features, draws=1), said)


def test_the_order_of_the_steps_counts_and_that_of_the_hosts_does_not(torch):
    network = made(dropout=0.0)
    series, graph, features, _ = arrays()
    said = network.predict(series, graph, features, draws=1)
    assert np.abs(network.predict(series[:, ::-1], graph, features, draws=1) - said).max() > 1e-5
    np.testing.assert_allclose(network.predict(series, graph[:, ::-1], features, draws=1), said, atol=1e-5)


def test_conditions_per_row_equal_one_for_all(torch):
    series, graph, features, _ = arrays()
    for architecture in ("simtune", "lstm"):
        network = made(architecture, dropout=0.0)
        one = network.predict(series, graph, features, draws=1)
        each = network.predict(np.repeat(series, N, 0), np.repeat(graph, N, 0), features, draws=1)
        np.testing.assert_allclose(each, one, atol=1e-6)


def test_dropout_is_active_when_the_network_answers(torch):
    series, graph, features, _ = arrays()
    said = made(dropout=0.3).predict(series, graph, features, draws=16)
    assert said.std(axis=0).min() > 0.0
    assert made("lstm").predict(series, graph, features, draws=4).std(axis=0).max() == 0.0


def test_equal_seeds_give_equal_networks_whatever_else_is_drawn(torch):
    series, graph, features, qos = arrays()
    found = []
    for _ in range(2):
        torch.rand(3)
        network = made(seed=5)
        learned = network.fit(series, graph, features, qos, TrainingOptions(epochs=3))
        found.append((learned, network.predict(series, graph, features)))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert np.abs(made(seed=6).predict(series, graph, features) - found[0][1]).max() > 0.0


@pytest.mark.parametrize("architecture", ["simtune", "lstm"])
def test_learns_a_function_and_stops_early(torch, architecture):
    features = RANDOM.random((120, E))
    qos = np.stack([0.2 + 0.6 * features[:, k] * features[:, k + 1] for k in range(Q)], axis=1)
    series, graph, _, _ = arrays()
    network = made(architecture, dropout=0.05)
    learned = network.fit(series, graph, features, qos, TrainingOptions(rate=5e-3, epochs=80))
    assert learned.r2 > 0.6
    noise = RANDOM.random((60, Q))
    stopped = made(architecture).fit(
        series, graph, RANDOM.random((60, E)), noise, TrainingOptions(rate=5e-3, epochs=300, patience=5)
    )
    assert stopped.stopped == "early stop"
    assert stopped.epochs < 300


def test_the_weights_of_the_best_epoch_are_kept(torch):
    series, graph, features, qos = arrays()
    network = made(dropout=0.0)
    learned = network.fit(series, graph, features, qos, TrainingOptions(rate=0.1, epochs=30, patience=30))
    order = np.random.default_rng(np.random.SeedSequence([1, 0x4E4E]))
    order.integers(2**31)  # the draw that the weights began with
    test = order.permutation(N)[:1]
    error = network.predict(series, graph, features[test], draws=1)[0] - qos[test]
    assert np.linalg.norm(error) == pytest.approx(learned.loss, abs=1e-5)


def test_gradients_are_those_of_the_gap(torch):
    series, graph, features, _ = arrays()
    network = made(dropout=0.0)
    shares = np.full(Q, 1.0 / Q)

    def gap(x):
        said = network.predict(series, graph, x, draws=1)[0]
        return np.sqrt((shares * (said - 0.5) ** 2).sum(axis=1))

    gaps, slopes = network.slopes(series, graph, features, np.full(Q, 0.5), shares, draws=1)
    np.testing.assert_allclose(gaps, gap(features), atol=1e-5)
    for column in range(E):
        step = np.zeros(E)
        step[column] = 1e-2
        numeric = (gap(features + step) - gap(features - step)) / 2e-2
        np.testing.assert_allclose(slopes[:, column], numeric, atol=2e-3)


def test_the_budget_of_time_ends_training(torch):
    series, graph, features, qos = arrays()
    assert made().fit(series, graph, features, qos, TrainingOptions(seconds=0.0)).stopped == "budget of time"


def test_without_torch_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(SetupError, match=re.escape(how_to_install("learn"))):
        QosNetwork(1, 1, 1, 1)

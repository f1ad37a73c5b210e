"""The forward pass in numpy equals plain Python, torch and what torch said when the weights were made."""

import io
import math
from importlib.resources import files

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError, SetupError
from cosim.extensions.extcloudsim.predict import HORIZON, TrainedNetwork, network, train
from cosim.extensions.extcloudsim.predict.training import TrainingSamples


def some_weights(architecture: str, seed: int = 3) -> dict[str, network.Array]:
    random = np.random.default_rng(seed)
    return {
        name: random.normal(0.0, 0.4, shape).astype(np.float32) for name, shape in network.shapes(architecture).items()
    }


def some_samples(count: int = 5, window: int = 7) -> TrainingSamples:
    random = np.random.default_rng(4)
    past, auxiliary = random.random((count, window)), random.random((count, 2))
    return TrainingSamples(past.astype(np.float32), auxiliary.astype(np.float32), np.zeros((count, 3), np.float32))


def numpy_says(architecture: str, weights, found: TrainingSamples) -> network.Array:
    past = np.repeat(found.past[:, :, None], network.CHANNELS, axis=2)
    return network.forward(architecture, weights, past, found.auxiliary)


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def dense(weight, bias, x: list[float]) -> list[float]:
    return [
        sum(w * v for w, v in zip(row, x, strict=True)) + b
        for row, b in zip(weight.tolist(), bias.tolist(), strict=True)
    ]


def recurrent(architecture: str, weights, steps: list[list[float]]) -> list[list[float]]:
    """GRU and LSTM as their papers write them, one number at a time."""
    for layer in range(network.LAYERS):
        name = f"recurrent.{layer}"
        size = weights[f"{name}.state"].shape[1]
        held, cell, made = [0.0] * size, [0.0] * size, []
        for x in steps:
            a = dense(weights[f"{name}.input"], weights[f"{name}.input_bias"], x)
            b = dense(weights[f"{name}.state"], weights[f"{name}.state_bias"], held)
            for i, old in enumerate(list(held)):
                if architecture == "lstm":
                    enter, forget, new, leave = (a[i + k * size] + b[i + k * size] for k in range(4))
                    cell[i] = sigmoid(forget) * cell[i] + sigmoid(enter) * math.tanh(new)
                    held[i] = sigmoid(leave) * math.tanh(cell[i])
                else:
                    reset, update = sigmoid(a[i] + b[i]), sigmoid(a[i + size] + b[i + size])
                    new = math.tanh(a[i + 2 * size] + reset * b[i + 2 * size])
                    held[i] = (1.0 - update) * new + update * old
            made.append(list(held))
        steps = made
    return steps


def attention(weights, steps: list[list[float]]) -> list[list[float]]:
    width, part = network.WIDTH, network.WIDTH // network.HEADS
    x = [dense(weights["project.weight"], weights["project.bias"], step) for step in steps]
    mixed = [dense(weights["attention.in_weight"], weights["attention.in_bias"], step) for step in x]
    made = []
    for asking in mixed:
        joined: list[float] = []
        for head in range(network.HEADS):
            query = asking[head * part : (head + 1) * part]
            keys = [m[width + head * part : width + (head + 1) * part] for m in mixed]
            values = [m[2 * width + head * part : 2 * width + (head + 1) * part] for m in mixed]
            score = [math.exp(sum(q * k for q, k in zip(query, key, strict=True)) / math.sqrt(part)) for key in keys]
            joined += [sum(s * v[i] for s, v in zip(score, values, strict=True)) / sum(score) for i in range(part)]
        made.append(dense(weights["attention.out_weight"], weights["attention.out_bias"], joined))
    return made


def python_says(architecture: str, weights, past: list[float], auxiliary: list[float]) -> list[float]:
    steps = [[value] * network.CHANNELS for value in past]
    features = recurrent(architecture, weights, steps)
    context = features[-1]
    if architecture == "gru-attention":
        features = [a + b for a, b in zip(attention(weights, steps), features, strict=True)]
        columns = list(zip(*features, strict=True))
        context = [sum(c) / len(c) for c in columns] + [max(c) for c in columns] + features[-1]
    late = past[-HORIZON:]
    plain = [min(max(v, 0.004), 0.996) for v in (sum(late) / len(late), max(late))]
    said = []
    anchors = {"use": [math.log(v / (1.0 - v)) for v in plain], "life": [0.0]}
    for head, more in (("use", steps[-1]), ("life", auxiliary)):
        hidden = [max(v, 0.0) for v in dense(weights[f"{head}.0.weight"], weights[f"{head}.0.bias"], context + more)]
        out = dense(weights[f"{head}.1.weight"], weights[f"{head}.1.bias"], hidden)
        said += [sigmoid(v + a) for v, a in zip(out, anchors[head], strict=True)]
    return said


@pytest.mark.parametrize("architecture", network.ARCHITECTURES)
def test_numpy_equals_plain_python(architecture):
    weights, found = some_weights(architecture), some_samples(2, 4)
    expected = [
        python_says(architecture, weights, past, auxiliary)
        for past, auxiliary in zip(found.past.tolist(), found.auxiliary.tolist(), strict=True)
    ]
    assert numpy_says(architecture, weights, found) == pytest.approx(np.array(expected), abs=2e-5)


@pytest.mark.parametrize("architecture", network.ARCHITECTURES)
def test_numpy_equals_torch(architecture):
    pytest.importorskip("torch")
    weights, found = some_weights(architecture), some_samples()
    assert numpy_says(architecture, weights, found) == pytest.approx(
        train.asked(architecture, weights, found), abs=2e-6
    )


@pytest.mark.parametrize("architecture", network.ARCHITECTURES)
def test_shipped_weights_say_what_torch_said(architecture):
    shipped = files("cosim.extensions.extcloudsim.predict") / "weights" / f"{architecture}.npz"
    assert len(shipped.read_bytes()) < 600_000
    with np.load(io.BytesIO(shipped.read_bytes())) as stored:
        probe = TrainingSamples(stored["probe.past"], stored["probe.auxiliary"], stored["probe.output"])
    found = numpy_says(architecture, TrainedNetwork.shipped(architecture).weights, probe)
    assert found == pytest.approx(probe.target, abs=2e-6)
    assert probe.target.std() > 0.01


@pytest.mark.slow
def test_training_lowers_the_error_and_repeats():
    pytest.importorskip("torch")
    random = np.random.default_rng(1)
    level = random.random((2048, 1)).astype(np.float32)
    found = TrainingSamples(
        np.repeat(level, 6, axis=1), np.zeros((2048, 2), np.float32), np.repeat(level, 3, axis=1).astype(np.float32)
    )
    weights = train.fit("lstm", found, epochs=8, seed=5)
    assert train.errors("lstm", weights, found)["mean"] < 0.05 < np.abs(level - 0.5).mean()
    again = train.fit("lstm", found, epochs=8, seed=5)
    assert all(np.array_equal(weights[name], again[name]) for name in weights)


def test_without_torch_training_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(SetupError, match="pip install torch"):
        train.torch_module()


def test_files_that_hold_no_weights_are_refused(tmp_path):
    path = tmp_path / "weights.npz"
    with pytest.raises(ScenarioError, match="no such file"):
        TrainedNetwork.load(path)
    path.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ScenarioError, match=r"weights\.npz: holds no weights"):
        TrainedNetwork.load(path)
    np.savez(path, architecture=np.array("lstm"))
    with pytest.raises(ScenarioError, match="holds no weights"):
        TrainedNetwork.load(path)
    weights = some_weights("lstm")
    weights["use.1.bias"] = np.zeros(3, np.float32)
    network.save(path, "lstm", weights, {})
    with pytest.raises(ScenarioError, match=r"'use\.1\.bias' has shape \(3,\), not \(2,\)"):
        TrainedNetwork.load(path)

"""The two networks in plain numpy: shapes, weights in a file, and the forward pass.

`gru-attention` is of the class of PeakLife (MLSysOps D4.3, section 2.3, scenario 6): multi-head
self-attention over a linear projection of the past, beside it a two-layer GRU on the past itself; of both
together the mean, the maximum and the last step; then one small perceptron for mean and peak, which also
sees the last values, and one for the life, which sees age and largest value so far. Mean and peak are
corrections of those of the latest periods. `lstm` is a two-layer LSTM whose last step goes to the same two perceptrons.

Equations and order of gates are those of torch.nn.GRU, LSTM and MultiheadAttention, so that weights
pass over unchanged; a test compares the outputs.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import Problem, ScenarioError
from cosim.extensions.extcloudsim.predict.samples import HORIZON

Array = NDArray[np.float32]
Weights = Mapping[str, Array]

CHANNELS = 2  # mean and peak of a past period
AUXILIARY = 2  # age, and largest value so far
HEADS, WIDTH = 4, 64  # of the attention
GRU_HIDDEN, LSTM_HIDDEN, PERCEPTRON = 32, 64, 128
LAYERS = 2
LEAST = np.float32(0.004)  # utilisation that `anchor` takes at least, and 1 - that at most
ARCHITECTURES = ("gru-attention", "lstm")


def shapes(architecture: str) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight."""
    found: dict[str, tuple[int, ...]] = {}
    if architecture == "gru-attention":
        found |= {"project.weight": (WIDTH, CHANNELS), "project.bias": (WIDTH,)}
        found |= {"attention.in_weight": (3 * WIDTH, WIDTH), "attention.in_bias": (3 * WIDTH,)}
        found |= {"attention.out_weight": (WIDTH, WIDTH), "attention.out_bias": (WIDTH,)}
        found |= _recurrent(3, GRU_HIDDEN)
        context = 3 * (WIDTH + GRU_HIDDEN)
    elif architecture == "lstm":
        found |= _recurrent(4, LSTM_HIDDEN)
        context = LSTM_HIDDEN
    else:
        raise ValueError(f"there is no architecture '{architecture}'; there are {', '.join(ARCHITECTURES)}")
    for head, inputs, outputs in (("use", context + CHANNELS, 2), ("life", context + AUXILIARY, 1)):
        found |= {f"{head}.0.weight": (PERCEPTRON, inputs), f"{head}.0.bias": (PERCEPTRON,)}
        found |= {f"{head}.1.weight": (outputs, PERCEPTRON), f"{head}.1.bias": (outputs,)}
    return found


def load(source: Path | IO[bytes], name: str = "") -> tuple[str, dict[str, Array]]:
    """Architecture and weights of a file that `save` wrote; raises `ScenarioError` for any other."""
    where = source if isinstance(source, Path) else Path(name)
    try:
        # numpy does not close a file that it opened itself and that is no archive
        with (
            source.open("rb") if isinstance(source, Path) else nullcontext(source) as file,
            np.load(file, allow_pickle=False) as stored,
        ):
            architecture = str(stored["architecture"])
            wanted = shapes(architecture)
            weights = {key: np.asarray(stored[key], np.float32) for key in wanted}
    except FileNotFoundError:
        raise ScenarioError(Problem("there is no such file of weights", file=where)) from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ScenarioError(Problem(f"holds no weights of a predictor: {error}", file=where)) from None
    wrong = [key for key, shape in wanted.items() if weights[key].shape != shape]
    if wrong:
        shape = weights[wrong[0]].shape
        raise ScenarioError(Problem(f"'{wrong[0]}' has shape {shape}, not {wanted[wrong[0]]}", file=where))
    return architecture, weights


def save(path: Path, architecture: str, weights: Weights, probe: Mapping[str, Array]) -> None:
    """Write the weights in half precision; `path` ends in .npz.

    `probe` is a sample of the trained network: `past`, `auxiliary` and its `output`.
    """
    halves = {key: np.asarray(weights[key], np.float16) for key in shapes(architecture)}
    stored = halves | {f"probe.{key}": value for key, value in probe.items()}
    np.savez_compressed(path, architecture=np.array(architecture), **stored)  # type: ignore[arg-type]


def forward(architecture: str, weights: Weights, past: Array, auxiliary: Array) -> Array:
    """Mean, peak and life in 0..1, (vms, 3), of `past` (vms, window, 2) and `auxiliary` (vms, 2)."""
    if architecture == "lstm":
        context = _lstm(weights, past)[:, -1]
    else:
        steps = np.concatenate([_attention(weights, past), _gru(weights, past)], axis=2)
        context = np.concatenate([steps.mean(axis=1), steps.max(axis=1), steps[:, -1]], axis=1)
    use = _perceptron(weights, "use", np.concatenate([context, past[:, -1]], axis=1)) + anchor(past)
    life = _perceptron(weights, "life", np.concatenate([context, auxiliary], axis=1))
    return _sigmoid(np.concatenate([use, life], axis=1))


def anchor(past: Array) -> Array:
    """What the perceptron of mean and peak corrects, as logits: mean and maximum of the latest periods, (vms, 2).

    Without it a network has to learn the identity before anything else, and small loads suffer from that.
    """
    late = past[:, -HORIZON:]
    plain = np.stack([late[:, :, 0].mean(axis=1), late[:, :, 1].max(axis=1)], axis=1)
    plain = np.clip(plain, LEAST, np.float32(1.0) - LEAST)
    result: Array = np.log(plain / (np.float32(1.0) - plain))
    return result


def _recurrent(gates: int, hidden: int) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for layer in range(LAYERS):
        inputs = hidden if layer else CHANNELS
        found |= {
            f"recurrent.{layer}.input": (gates * hidden, inputs),
            f"recurrent.{layer}.state": (gates * hidden, hidden),
        }
        found |= {
            f"recurrent.{layer}.input_bias": (gates * hidden,),
            f"recurrent.{layer}.state_bias": (gates * hidden,),
        }
    return found


def _sigmoid(x: Array) -> Array:
    result: Array = np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1.0))
    return result


def _perceptron(weights: Weights, head: str, x: Array) -> Array:
    hidden = np.maximum(x @ weights[f"{head}.0.weight"].T + weights[f"{head}.0.bias"], np.float32(0.0))
    result: Array = hidden @ weights[f"{head}.1.weight"].T + weights[f"{head}.1.bias"]
    return result


def _attention(weights: Weights, past: Array) -> Array:
    """Self-attention of four heads over the projected past, (vms, window, WIDTH)."""
    vms, window, _ = past.shape
    x = past @ weights["project.weight"].T + weights["project.bias"]
    mixed = x @ weights["attention.in_weight"].T + weights["attention.in_bias"]
    parts = mixed.reshape(vms, window, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
    query, key, value = parts[0], parts[1], parts[2]  # (vms, heads, window, WIDTH / heads)
    score = query @ key.swapaxes(2, 3) / np.float32(np.sqrt(WIDTH // HEADS))
    score = np.exp(score - score.max(axis=3, keepdims=True))
    score /= score.sum(axis=3, keepdims=True)
    joined = (score @ value).transpose(0, 2, 1, 3).reshape(vms, window, WIDTH)
    result: Array = joined @ weights["attention.out_weight"].T + weights["attention.out_bias"]
    return result


def _gru(weights: Weights, x: Array) -> Array:
    """All steps of the last layer, (vms, window, GRU_HIDDEN)."""
    for layer in range(LAYERS):
        given = x @ weights[f"recurrent.{layer}.input"].T + weights[f"recurrent.{layer}.input_bias"]
        state = weights[f"recurrent.{layer}.state"].T
        bias = weights[f"recurrent.{layer}.state_bias"]
        size = len(state)
        held = np.zeros((len(x), size), np.float32)
        steps = np.empty((*x.shape[:2], size), np.float32)
        for step in range(x.shape[1]):
            own = held @ state + bias
            gates = _sigmoid(given[:, step, : 2 * size] + own[:, : 2 * size])
            reset, update = gates[:, :size], gates[:, size:]
            new = np.tanh(given[:, step, 2 * size :] + reset * own[:, 2 * size :])
            held = new + update * (held - new)
            steps[:, step] = held
        x = steps
    return x


def _lstm(weights: Weights, x: Array) -> Array:
    """All steps of the last layer, (vms, window, LSTM_HIDDEN)."""
    for layer in range(LAYERS):
        given = x @ weights[f"recurrent.{layer}.input"].T + weights[f"recurrent.{layer}.input_bias"]
        state = weights[f"recurrent.{layer}.state"].T
        bias = weights[f"recurrent.{layer}.state_bias"]
        size = len(state)
        held, cell = np.zeros((len(x), size), np.float32), np.zeros((len(x), size), np.float32)
        steps = np.empty((*x.shape[:2], size), np.float32)
        for step in range(x.shape[1]):
            gates = given[:, step] + held @ state + bias
            enter, forget = _sigmoid(gates[:, :size]), _sigmoid(gates[:, size : 2 * size])
            new, leave = np.tanh(gates[:, 2 * size : 3 * size]), _sigmoid(gates[:, 3 * size :])
            cell = forget * cell + enter * new
            held = leave * np.tanh(cell)
            steps[:, step] = held
        x = steps
    return x

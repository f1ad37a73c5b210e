"""Train the networks:
`python -m cosim.extensions.extcloudsim.predict.train --planetlab DAY... --out FOLDER [--bitbrains DIR] [--surf DIR]`.

Needs torch. Training uses whole PlanetLab days, the first 20 days of Bitbrains, and three of four tasks of SURF LISA,
the only source that states how long a VM will live. The rest is left for evaluation. The same seed on the same
machine gives the same weights.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.errors import CosimError, SetupError
from cosim.extensions.extcloudsim.predict import network
from cosim.extensions.extcloudsim.predict.samples import HORIZON, WINDOW
from cosim.extensions.extcloudsim.predict.training import TrainingSamples, draw, joined
from cosim.extensions.traces import UtilisationTraces, bitbrains, planetlab, surf

Torch = Any  # the module, its tensors and layers: it is imported only to train

BATCH = 256
TRAINED_DAYS = 20  # of Bitbrains
EVERY = 4  # of SURF tasks, the one that is left for judging


def torch_module() -> Torch:
    """torch. Raises `SetupError`, which explains how to get it, if it is missing."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise SetupError("training needs torch: pip install torch") from None


def parts(options: argparse.Namespace, *, held_out: bool) -> dict[str, tuple[UtilisationTraces, bool]]:
    """The traces by name, each with whether its lives are known: those for training, or those left for judging."""
    found: dict[str, tuple[UtilisationTraces, bool]] = {}
    for path in options.judge if held_out else options.planetlab:
        found[path.name.split(".")[0]] = (planetlab.read(path), False)
    if options.bitbrains is not None:
        traces = bitbrains.read(options.bitbrains)
        cut = int(TRAINED_DAYS * 86400 / traces.period)
        some = traces.select(slice(None), slice(cut, None) if held_out else slice(0, cut))
        found["bitbrains"] = (some, False)
    if options.surf is not None:
        tasks, fragments = (next(iter(options.surf.glob(f"*_{name}.csv*"))) for name in ("tasks", "fragments"))
        traces = surf.read_usage(tasks, fragments)
        left = np.arange(traces.vms) % EVERY == 0
        found["surf"] = (traces.select(np.flatnonzero(left if held_out else ~left)), True)
    return found


def samples(options: argparse.Namespace, count: int, *, held_out: bool) -> dict[str, TrainingSamples]:
    """Samples by source, `count` over all; PlanetLab days as many each as the other sources."""
    sources = parts(options, held_out=held_out)
    seeds = np.random.SeedSequence([options.seed, int(held_out)]).spawn(len(sources))
    each = count // len(sources)
    return {
        name: draw(traces, each, seed, lives=lives)
        for (name, (traces, lives)), seed in zip(sources.items(), seeds, strict=True)
    }


def modules(torch: Torch, architecture: str) -> Torch:
    """The layers of an architecture; names and shapes as in `network.shapes`."""
    nn = torch.nn
    made: dict[str, Any] = {}
    if architecture == "gru-attention":
        made["project"] = nn.Linear(network.CHANNELS, network.WIDTH)
        made["attention"] = nn.MultiheadAttention(network.WIDTH, network.HEADS, batch_first=True)
        made["recurrent"] = nn.GRU(network.CHANNELS, network.GRU_HIDDEN, network.LAYERS, batch_first=True)
        context = 3 * (network.WIDTH + network.GRU_HIDDEN)
    else:
        made["recurrent"] = nn.LSTM(network.CHANNELS, network.LSTM_HIDDEN, network.LAYERS, batch_first=True)
        context = network.LSTM_HIDDEN
    for head, inputs, outputs in (("use", network.CHANNELS, 2), ("life", network.AUXILIARY, 1)):
        layers = (nn.Linear(context + inputs, network.PERCEPTRON), nn.ReLU(), nn.Linear(network.PERCEPTRON, outputs))
        made[head] = nn.Sequential(*layers)
    return nn.ModuleDict(made)


def logits(torch: Torch, layers: Torch, past: Torch, auxiliary: Torch) -> Torch:
    """Outputs before the sigmoid, (n, 3), of `past` (n, window, 2) and `auxiliary` (n, 2)."""
    steps, _ = layers["recurrent"](past)
    if "attention" in layers:
        x = layers["project"](past)
        mixed, _ = layers["attention"](x, x, x, need_weights=False)
        steps = torch.cat([mixed, steps], dim=2)
        context = torch.cat([steps.mean(dim=1), steps.amax(dim=1), steps[:, -1]], dim=1)
    else:
        context = steps[:, -1]
    use = layers["use"](torch.cat([context, past[:, -1]], dim=1)) + anchor(torch, past)
    life = layers["life"](torch.cat([context, auxiliary], dim=1))
    return torch.cat([use, life], dim=1)


def anchor(torch: Torch, past: Torch) -> Torch:
    """`network.anchor` for torch."""
    late = past[:, -HORIZON:]
    plain = torch.stack([late[:, :, 0].mean(dim=1), late[:, :, 1].amax(dim=1)], dim=1)
    return torch.logit(plain.clamp(float(network.LEAST), 1.0 - float(network.LEAST)))


def torch_names(architecture: str) -> dict[str, str]:
    """What torch calls each weight of `network.shapes`."""
    found = {key: key for key in network.shapes(architecture)}
    if architecture == "gru-attention":
        found |= {
            "attention.in_weight": "attention.in_proj_weight",
            "attention.in_bias": "attention.in_proj_bias",
            "attention.out_weight": "attention.out_proj.weight",
            "attention.out_bias": "attention.out_proj.bias",
        }
    for layer in range(network.LAYERS):
        found |= {
            f"recurrent.{layer}.input": f"recurrent.weight_ih_l{layer}",
            f"recurrent.{layer}.state": f"recurrent.weight_hh_l{layer}",
            f"recurrent.{layer}.input_bias": f"recurrent.bias_ih_l{layer}",
            f"recurrent.{layer}.state_bias": f"recurrent.bias_hh_l{layer}",
        }
    for head in ("use", "life"):
        found |= {f"{head}.1.{kind}": f"{head}.2.{kind}" for kind in ("weight", "bias")}
    return found


def asked(architecture: str, weights: network.Weights, found: TrainingSamples) -> network.Array:
    """The output of torch with these weights, (n, 3)."""
    torch = torch_module()
    layers = modules(torch, architecture)
    own = {name: key for key, name in torch_names(architecture).items()}
    layers.load_state_dict({name: torch.from_numpy(np.array(weights[own[name]])) for name in layers.state_dict()})
    past = torch.from_numpy(found.past)[:, :, None].expand(-1, -1, network.CHANNELS)
    with torch.no_grad():
        said = logits(torch, layers, past, torch.from_numpy(found.auxiliary))
        result: network.Array = torch.sigmoid(said).numpy()
    return result


def fit(
    architecture: str, found: TrainingSamples, *, epochs: int, seed: int, report: Callable[[str], None] = lambda _: None
) -> dict[str, network.Array]:
    """Weights that make the cross entropy of `found` small.

    Its minimum is the conditional mean of each target; samples without a life do not count for that output.
    """
    torch = torch_module()
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # sums in one order
    layers = modules(torch, architecture)
    steps = epochs * (len(found) // BATCH)
    optimiser = torch.optim.AdamW(layers.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=3e-3, total_steps=max(steps, 1))
    past, auxiliary = torch.from_numpy(found.past), torch.from_numpy(found.auxiliary)
    known = torch.from_numpy((~np.isnan(found.target)).astype(np.float32))
    target = torch.from_numpy(np.nan_to_num(found.target, nan=0.0))
    order = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    for epoch in range(epochs):
        mixed = torch.from_numpy(order.permutation(len(found)))
        total = 0.0
        for begin in range(0, len(found) - BATCH + 1, BATCH):
            rows = mixed[begin : begin + BATCH]
            said = logits(torch, layers, past[rows][:, :, None].expand(-1, -1, network.CHANNELS), auxiliary[rows])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                said, target[rows], weight=known[rows], reduction="sum"
            )
            optimiser.zero_grad()
            (loss / BATCH).backward()
            torch.nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += float(loss.detach())
        report(f"{architecture}: epoch {epoch + 1} of {epochs}, loss {total / len(found):.5f}")
    stored = layers.state_dict()
    return {key: stored[name].numpy().copy() for key, name in torch_names(architecture).items()}


def errors(architecture: str, weights: network.Weights, found: TrainingSamples) -> dict[str, float]:
    """Mean absolute errors of the outputs, and of the last value in their place."""
    pasts = np.repeat(found.past[:, :, None], network.CHANNELS, axis=2)
    said = np.concatenate(
        [
            network.forward(architecture, weights, pasts[i : i + 4096], found.auxiliary[i : i + 4096])
            for i in range(0, len(found), 4096)
        ]
    )
    figures = {}
    for column, name in enumerate(("mean", "peak", "life")):
        target = found.target[:, column]
        if not np.isnan(target).all():
            figures[name] = float(np.mean(np.abs(said[:, column] - target)))
            plain = found.past[:, -1] if name != "life" else np.median(target)
            figures[f"{name}_plain"] = float(np.mean(np.abs(plain - target)))
    return figures


def main() -> None:
    describe = (__doc__ or "").strip()
    arguments = argparse.ArgumentParser(description=describe, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--planetlab", type=Path, nargs="+", required=True, help="days to train on")
    arguments.add_argument("--judge", type=Path, nargs="*", default=[], help="days to judge on")
    arguments.add_argument("--bitbrains", type=Path, help="folder of the packed tables")
    arguments.add_argument("--surf", type=Path, help="folder with ..._tasks.csv and ..._fragments.csv")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the weights, one .npz each")
    arguments.add_argument("--architectures", nargs="+", default=list(network.ARCHITECTURES))
    arguments.add_argument("--samples", type=int, default=150_000)
    arguments.add_argument("--epochs", type=int, default=6)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    try:
        torch_module()
        training = joined(list(samples(options, options.samples, held_out=False).values()))
        judged = samples(options, 20_000, held_out=True)
    except CosimError as error:
        sys.exit(f"{error}")
    options.out.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    for architecture in options.architectures:
        weights = fit(
            architecture, training, epochs=options.epochs, seed=options.seed,
            report=lambda text: print(text, file=sys.stderr, flush=True),  # noqa: T201 - progress of a script
        )  # fmt: skip
        path = options.out / f"{architecture}.npz"
        stored = {key: value.astype(np.float16).astype(np.float32) for key, value in weights.items()}
        random = np.random.default_rng(0)
        past, auxiliary = (random.random((8, width)).astype(np.float32) for width in (WINDOW, network.AUXILIARY))
        some = TrainingSamples(past, auxiliary, np.zeros((8, 3), np.float32))
        said = asked(architecture, stored, some)
        network.save(path, architecture, stored, {"past": some.past, "auxiliary": some.auxiliary, "output": said})
        figures[architecture] = {
            "parameters": sum(value.size for value in weights.values()),
            **{name: errors(architecture, stored, found) for name, found in judged.items()},
        }
    print(json.dumps(figures, indent=1))  # noqa: T201 - the result of a script


if __name__ == "__main__":
    main()

"""Train the attention network and its ablations: `python -m cosim.extensions.corais.train --out FOLDER`.

It needs the extra `learn`. Equations 22 to 25 descend the expected makespan of drawn decisions, with a reward for
entropy. So does this code, but REINFORCE knows one makespan per draw, whereas here each request of a draw is tried at
all edges with the others in place: the same gradient in expectation, with far less variance (local expectation
gradients: Titsias, Lázaro-Gredilla, NeurIPS 2015). Numbers of draws and batches, rate and width are ours: the paper's
are lost or take hours on a GPU. Makespans are divided by the mean of the draws, so that instances count alike. Every
batch has new instances.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.corais import families
from cosim.extensions.corais.network import VARIANTS, begin, columns, scores
from cosim.extensions.corais.problem import Instance
from cosim.extensions.metanet.catalogue.training import library

SCALE = (10, 5, 50)
BATCHES, INSTANCES, DRAWS, RATE, ENTROPY = 1000, 32, 8, 5e-4, 0.01
MEMORY = 0.05  # of the running means of the normalisation


def alternatives(torch: Any, found: list[Instance], drawn: Any) -> Any:  # noqa: ANN401
    """(instances, draws, requests, edges) s: the makespan if that request alone went to that edge; equations 7 to 13.

    `drawn` (instances, draws, requests) are the decisions; at their own edges all figures are their own makespans.
    """

    def whole(name: str) -> Any:  # noqa: ANN401
        return torch.from_numpy(np.stack([np.asarray(getattr(one, name), np.float32) for one in found]))

    def without(first: Any, values: Any) -> Any:  # noqa: ANN401 - the greatest of all but one's own
        top = values.topk(2, dim=2)
        requests = torch.arange(values.shape[2])[:, None]
        others = torch.where(top.indices[:, :, :1] == requests, top.values[:, :, 1:], top.values[:, :, :1])
        return torch.maximum(first[:, None, None], others)

    place, edges = whole("place"), found[0].edges
    source, target = whole("source").long(), whole("target").long()
    size, output = whole("input"), whole("output")
    transfer = torch.tensor([one.transfer for one in found], dtype=torch.float32)[:, None, None]
    apart = (place[:, :edges, None] - place[:, None]).norm(dim=-1) * transfer  # (B, Q, N)
    rows = torch.arange(len(found))[:, None]
    away = ~torch.nn.functional.one_hot(source, edges).bool()  # (B, Z, Q)
    come = apart[:, :, :edges].transpose(1, 2)[rows, source] * size[..., None] * away
    back = apart.transpose(1, 2)[rows, target] * output[..., None]
    work = (whole("slope")[:, None] * size[..., None] + whole("offset")[:, None]) / whole("replicas")[:, None]
    mine, theirs = (work * ~away)[:, None], (work * away)[:, None]
    chosen = torch.nn.functional.one_hot(drawn, edges).float()  # (B, S, Z, Q)
    own = whole("own_work")[:, None, None] + (chosen * mine).sum(2, keepdim=True) - chosen * mine
    other = whole("coming_work")[:, None, None] + (chosen * theirs).sum(2, keepdim=True) - chosen * theirs
    arrival = without(whole("coming"), chosen * come[:, None])
    last = without(whole("leaving"), chosen * back[:, None])
    rest = (torch.maximum(own, arrival) + other + last).topk(2, dim=-1)  # without the request
    here = torch.maximum(own + mine, torch.maximum(arrival, come[:, None])) + other + theirs
    here = here + torch.maximum(last, back[:, None])  # with it
    elsewhere = torch.where(rest.indices[..., :1] == torch.arange(edges), rest.values[..., 1:], rest.values[..., :1])
    return torch.maximum(here, elsewhere)


def descend(instances: list[Instance], chances: list[Floats], steps: int, seed: int) -> list[Floats]:
    """Chances (requests, edges) of each instance after `steps` of `train`'s gradient on themselves, from `chances` on.

    This is what independent decisions of requests can reach with any network. All instances are of the same size.
    """
    torch = library()
    torch.manual_seed(seed)
    logits = torch.tensor(np.log(np.array(chances) + 1e-9), dtype=torch.float32, requires_grad=True)
    optimiser = torch.optim.Adam([logits], lr=0.1)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, steps)
    for _ in range(steps):
        likely = torch.distributions.Categorical(logits=logits)
        slope, _ = _slopes(torch, instances, likely)
        loss = (likely.probs * slope).sum((1, 2)).sum() - ENTROPY * likely.entropy().mean(1).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    found = torch.softmax(logits, -1).detach().numpy().astype(np.float64)
    return list(found)


def _slopes(torch: Any, found: list[Instance], likely: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """(B, Z, Q) of the expected makespan, over its mean, by the chances; (B, S) s, makespans of draws."""
    drawn = likely.sample((DRAWS,)).transpose(0, 1)  # (B, S, Z)
    with torch.no_grad():
        tried = alternatives(torch, found, drawn)
        value = tried.gather(-1, drawn[..., None])[..., 0, 0]
        return tried.mean(1) / value.mean(1)[:, None, None], value


def train(
    variant: str, seed: int, batches: int, instances: int, out: Path | None = None, *, family: str = "corais",
    scale: families.Scale = SCALE,
) -> dict[str, Any]:  # fmt: skip
    """Weights, and the mean makespan of drawn decisions in the first and the last tenth of the batches."""
    torch = library()
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    first = begin(rng, variant)
    fixed = ("mean", "spread")
    held = {
        name: torch.tensor(value, dtype=torch.float32, requires_grad=not name.endswith(fixed))
        for name, value in first.items()
    }
    free = [value for name, value in held.items() if not name.endswith(fixed)]
    optimiser = torch.optim.Adam(free, lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, batches)

    def norm(name: str, x: Any) -> Any:  # noqa: ANN401
        flat = x.reshape(-1, x.shape[-1])
        mean, spread = flat.mean(0), flat.std(0) + 1e-5
        with torch.no_grad():
            held[f"{name}.mean"].lerp_(mean, MEMORY)
            held[f"{name}.spread"].lerp_(spread, MEMORY)
        return (x - mean) / spread * held[f"{name}.scale"] + held[f"{name}.shift"]

    make, values = families.FAMILIES[family], []
    for k in range(batches):
        found = [make(scale, rng) for _ in range(instances)]
        seen = [columns(one) for one in found]
        edges, requests = (torch.from_numpy(np.stack(part)).float() for part in zip(*seen, strict=True))
        likely = torch.distributions.Categorical(logits=scores(torch, held, edges, requests, norm))
        slope, value = _slopes(torch, found, likely)
        loss = (likely.probs * slope).sum((1, 2)).mean() - ENTROPY * likely.entropy().mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(free, 1.0)
        optimiser.step()
        schedule.step()
        values.append(float(value.mean()))
        if out is not None and (k % 100 == 99 or k == batches - 1):
            save(out, variant, {name: one.detach().numpy() for name, one in held.items()})
    part = max(1, batches // 10)
    return {
        "variant": variant, "family": family, "scale": scale, "seed": seed, "batches": batches, "instances": instances,
        "first": float(np.mean(values[:part])), "last": float(np.mean(values[-part:])),
        "weights": {name: one.detach().numpy() for name, one in held.items()},
    }  # fmt: skip


def save(folder: Path, variant: str, weights: dict[str, Floats]) -> None:
    """Half-precision arrays, in the folder that the network reads."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {name: np.asarray(value, np.float16) for name, value in weights.items()}
    np.savez_compressed(folder / f"{variant}.npz", **arrays)


def main() -> None:
    """Train one variant, or all, one after the other."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    arguments.add_argument("--family", choices=sorted(families.FAMILIES), default="corais")
    arguments.add_argument("--scale", type=int, nargs=3, default=SCALE, help="all edges, edges of the region, requests")
    arguments.add_argument("--batches", type=int, default=BATCHES)
    arguments.add_argument("--instances", type=int, default=INSTANCES, help="per batch")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--out", type=Path, required=True, help="folder for the weights")
    options = arguments.parse_args()
    for variant in options.variants:
        begun = time.process_time()
        found = train(
            variant, options.seed, options.batches, options.instances, options.out, family=options.family,
            scale=tuple(options.scale),
        )  # fmt: skip
        del found["weights"]
        found["cpu_seconds"] = round(time.process_time() - begun, 1)
        (options.out / f"{variant}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(found))  # noqa: T201 - a program


if __name__ == "__main__":
    main()

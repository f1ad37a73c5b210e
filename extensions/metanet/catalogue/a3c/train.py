"""Train A3C: `python -m cosim.extensions.metanet.catalogue.train a3c` (extra `learn`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.contract.records import Flags, Floats
from cosim.extensions.metanet.catalogue.episodes import Step, steps
from cosim.extensions.metanet.catalogue.sequential import PAIR_INPUT, pair_weights, scores
from cosim.extensions.metanet.catalogue.training import library, trainable
from cosim.extensions.metanet.layers import made, perceptron, softmax

DISCOUNT = 0.5
ENTROPY = 0.01


def train(seed: int = 1, intervals: int = 3000, workers: int = 3) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights, and the mean reward per task in the first and in the last tenth of the turns.

    `intervals` per worker. A worker acts with the weights that it copied before its last turn, and its gradient changes
    the shared ones as they are by then.
    """
    torch = library()

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.Generator(np.random.PCG64(seed))
    begin = pair_weights(rng) | made(rng, "value", PAIR_INPUT, 32, 1)
    shared = trainable(begin)
    optimiser = torch.optim.RMSprop(shared.values(), lr=1e-3, alpha=0.99)
    copies = [_copied(shared) for _ in range(workers)]
    draws = [np.random.Generator(np.random.PCG64([seed, k])) for k in range(workers)]

    def chooser(k: int) -> Any:  # noqa: ANN401 - a closure per worker
        def choose(inputs: Floats, room: Flags) -> int:
            plain = {name: value.detach().numpy() for name, value in copies[k].items()}
            return int(draws[k].choice(len(room), p=softmax(np, np.where(room, scores(plain, inputs), -np.inf))))

        return choose

    episodes = [steps(1000 * seed + k, intervals, chooser(k)) for k in range(workers)]
    rewards: list[float] = []
    alive = list(range(workers))
    while alive:
        k = alive[int(rng.integers(len(alive)))]
        taken = next(episodes[k], None)
        if taken is None:
            alive.remove(k)
            continue
        rewards.append(float(np.mean([one.reward for one in taken])))
        slope = gradients(copies[k], taken)
        for name, value in shared.items():
            value.grad = slope[name]
        torch.nn.utils.clip_grad_norm_(shared.values(), 1.0)
        optimiser.step()
        copies[k] = _copied(shared)
    tenth = max(1, len(rewards) // 10)
    plain = {name: value.detach().numpy() for name, value in shared.items() if name.startswith("pair")}
    figures = {"seed": seed, "intervals": intervals, "workers": workers, "first": float(np.mean(rewards[:tenth]))}
    return plain, figures | {"last": float(np.mean(rewards[-tenth:]))}


def _copied(weights: dict[str, Any]) -> dict[str, Any]:
    return {name: value.detach().clone().requires_grad_(True) for name, value in weights.items()}


def gradients(weights: dict[str, Any], taken: list[Step]) -> dict[str, Any]:
    """Of the actor's loss, weighted by the advantage, the critic's loss, and the entropy."""
    torch = library()

    x = torch.from_numpy(np.stack([one.inputs for one in taken]))
    room = torch.from_numpy(np.stack([one.room for one in taken]))
    host = torch.tensor([one.host for one in taken])
    logits = torch.where(room, perceptron(weights, "pair", x)[..., 0], -1e9)
    mean = (x * room[..., None]).sum(dim=1) / room.sum(dim=1, keepdim=True)
    value = perceptron(weights, "value", mean)[..., 0]
    returns, ahead = [], 0.0
    for one in reversed(taken):
        ahead = one.reward + DISCOUNT * ahead
        returns.append(ahead)
    target = torch.tensor(returns[::-1], dtype=torch.float32)
    chances = torch.log_softmax(logits, dim=1)
    advantage = (target - value).detach()
    actor = -(advantage * chances.gather(1, host[:, None])[:, 0]).mean()
    entropy = -(chances.exp() * chances.clip(-20.0)).sum(dim=1).mean()
    loss = actor + 0.5 * ((target - value) ** 2).mean() - ENTROPY * entropy
    return dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))

"""Train DQN: `python -m cosim.extensions.metanet.catalogue.train dqn` (extra `learn`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cosim.contract.records import Flags, Floats
from cosim.extensions.metanet.catalogue.episodes import Step, steps
from cosim.extensions.metanet.catalogue.sequential import pair_weights, scores
from cosim.extensions.metanet.catalogue.training import library, trainable
from cosim.extensions.metanet.layers import perceptron

DISCOUNT = 0.5  # the reward holds what is to come of the task itself already
REPLAY = 6000  # steps
TARGET = 100  # updates between two copies of the weights into the target network


def error(held: dict[str, Any], target: dict[str, Any], batch: Sequence[tuple[Step, Step | None]]) -> Any:  # noqa: ANN401
    """The loss of action values against rewards and the target network's values of the following steps."""
    torch = library()

    x = torch.from_numpy(np.stack([one.inputs[one.host] for one, _ in batch]))
    reward = torch.tensor([one.reward for one, _ in batch])
    following = [one if after is None else after for one, after in batch]
    with torch.no_grad():
        y = torch.from_numpy(np.stack([one.inputs for one in following]))
        room = torch.from_numpy(np.stack([one.room for one in following]))
        ahead = torch.where(room, perceptron(target, "pair", y)[..., 0], -1e9).max(dim=1).values
        going = torch.tensor([float(after is not None) for _, after in batch])
    value = perceptron(held, "pair", x)[..., 0]
    return torch.nn.functional.smooth_l1_loss(value, reward + DISCOUNT * going * ahead)


def train(seed: int = 1, intervals: int = 6000) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights, and the mean reward per task in the first and in the last tenth of the intervals."""
    torch = library()

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.Generator(np.random.PCG64(seed))
    begin = pair_weights(rng)
    held = trainable(begin)
    target = {name: value.detach().clone() for name, value in held.items()}
    optimiser = torch.optim.Adam(held.values(), lr=1e-3)
    plain = {name: value.detach().numpy() for name, value in held.items()}  # the same memory
    replay: list[tuple[Step, Step | None]] = []
    rewards: list[float] = []
    updates = done = 0

    def choose(inputs: Floats, room: Flags) -> int:
        if rng.random() < max(0.05, 1.0 - 1.5 * done / intervals):
            return int(rng.choice(np.flatnonzero(room)))
        return int(np.where(room, scores(plain, inputs), -np.inf).argmax())

    for taken in steps(seed, intervals, choose):
        done += 1
        rewards.append(float(np.mean([one.reward for one in taken])))
        replay += list(zip(taken, [*taken[1:], None], strict=True))
        del replay[:-REPLAY]
        if len(replay) < 500:
            continue
        for _ in range(2):
            batch = [replay[k] for k in rng.integers(0, len(replay), 48)]
            loss = error(held, target, batch)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(held.values(), 5.0)
            optimiser.step()
            updates += 1
            if updates % TARGET == 0:
                target = {name: value.detach().clone() for name, value in held.items()}
    tenth = max(1, len(rewards) // 10)
    figures = {"seed": seed, "intervals": intervals, "first": float(np.mean(rewards[:tenth]))}
    return plain, figures | {"last": float(np.mean(rewards[-tenth:]))}

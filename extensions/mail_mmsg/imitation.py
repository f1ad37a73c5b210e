"""Behavioural cloning, adversarial imitation and reinforcement learning in the learned platform (extra `learn`).

The discriminator returns the probability that an interaction is an imitator's. The paper prints its loss (5) as
-E log D + E log(1 - D), whose second sign is wrong; with the expert at 0 and the imitator at 1 it is
-E_imitator log D - E_expert log(1 - D), and the reward -log D(s, a) follows. Equation (8), given as the loss of the
method, is behavioural cloning with a penalty on the action's norm (as in Virtual-Taobao, Shi et al., AAAI 2019): the
baseline "BC + norm" here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats, Ints
from cosim.extensions.mail_mmsg.model import STEPS, VirtualPlatform, draw, each, engine, feedback, of_client
from cosim.extensions.mail_mmsg.platform import ACTION, FEATURES, OUTCOMES, OWN, SCENES, SEEN, chosen, masks
from cosim.extensions.mail_mmsg.population import adversarial, binned, cuts, sizes
from cosim.extensions.mail_mmsg.world import PART, PARTS, RequestLog
from cosim.extensions.metanet.catalogue.training import library, trainable
from cosim.extensions.metanet.layers import made, perceptron, scaled

Weights = dict[str, Floats]
GAMMA, LAMBDA = 0.95, 0.95  # the paper's discount; of the advantages (Schulman et al. 2016)
RATE = 1e-3  # of RMSProp, for actors and critic; the paper's are garbled in print
NORM = 0.4  # the paper's weight of the norm in (8)
CLIP, EPOCHS, BATCH = 0.2, 3, 250  # of PPO
BUFFER, MINIBATCH = 10_000, 100  # the paper's, for the discriminator
TRAJECTORIES = 100  # per iteration
_HIDDEN = 32
_CLIENT = SEEN + ACTION + len(FEATURES)


def platform(log: RequestLog, rows: Floats, keys: Ints, seed: int, steps: int = 300, length: int = STEPS) -> Weights:
    """Generated clients and the log in windows: the virtual platform without its clients' policy.

    rows, keys: features of the clients of the log, and whose they are (`population.features`); `length`: requests of a
    trajectory.
    """
    bounds = cuts(rows)
    bins, groups = binned(rows, bounds), sizes(bounds)
    found: Weights = adversarial(bins, groups, seed, steps=steps) | {"groups": np.array(groups, float)}
    part = np.minimum((log.time / PART).astype(int), PARTS - 1)
    of = {(int(c), int(p)): bins[k] for k, (c, p) in enumerate(keys)}
    windows, levels = [], []
    order = np.lexsort((log.time, log.client))
    for mine in np.split(order, np.flatnonzero(np.diff(log.client[order])) + 1):
        for at in range(0, len(mine) - length + 1, length):
            chunk = mine[at : at + length]
            level = of.get((int(log.client[chunk[0]]), int(part[chunk[0]])))
            if level is not None:
                windows.append(log.seen[chunk])
                levels.append(level)
    seen = log.seen.astype(np.float64)
    return found | {
        "windows": np.array(windows, np.float64), "levels": np.array(levels, float), "mean": seen.mean(axis=0),
        "deviation": seen.std(axis=0) + 0.05,
    }  # fmt: skip


def cloned_clients(base: Weights, log: RequestLog, seed: int, epochs: int = 6) -> Weights:
    """A clients' policy by behavioural cloning: the likelihood of the feedback in the log."""
    torch = library()
    w = trainable(made(_rng(seed), "c", _CLIENT, _HIDDEN, _HIDDEN, OUTCOMES))
    x = of_client(scaled(base, log.seen), log.action, log.chosen)
    loss = torch.nn.functional.cross_entropy
    _supervise(w, [x, log.level], lambda a, y: loss(perceptron(w, "c", a), y), seed, epochs)
    return _arrays(w)


def cloned_engine(base: Weights, log: RequestLog, seed: int, norm: float = 0.0, epochs: int = 6) -> Weights:
    """An engine's policy by behavioural cloning, (7); with `norm` (8)."""
    torch = library()
    w = trainable(_engine(seed))
    mask = torch.from_numpy(masks()).float()

    def loss(seen: Any, action: Any, scene: Any) -> Any:  # noqa: ANN401
        answer = torch.tanh(each(torch, w, "e", seen, scene)) * mask[scene]
        return ((answer - action) ** 2).sum(1).mean() + norm * (answer**2).sum(1).mean()

    _supervise(w, [scaled(base, log.seen), log.action, log.scene], loss, seed, epochs)
    return _arrays(w)


class _Rolled(NamedTuple):
    """Interactions, (T, B, ..) flattened to (T B, ..)."""

    seen: Floats  # scaled
    raw: Floats  # actions before they are bounded
    action: Floats
    pick: Ints
    level: Ints
    done: Floats
    scene: Ints


def _roll(weights: Weights, sigma: Floats, count: int, rng: np.random.Generator) -> _Rolled:
    """Trajectories of an engine and clients in the virtual platform."""
    env = VirtualPlatform(weights, count)
    seen, rows, over = env.reset(rng), [], False
    while not over:
        scene = seen[:, OWN : OWN + len(SCENES)].argmax(axis=1)
        raw = engine(weights, seen) + sigma * rng.standard_normal((count, ACTION)) * masks()[scene]
        action = np.clip(raw, -1.0, 1.0)
        pick = chosen(seen, action)
        level = draw(feedback(weights, seen, action, pick), rng)
        now, done, over = env.step(action, rng, level)
        rows.append((scaled(weights, seen), raw, action, pick, level, done, scene))
        seen = now
    return _Rolled(*(np.concatenate(column) for column in zip(*rows, strict=True)))


class _Ppo:
    """Proximal policy optimisation of the engine, the clients, or both as one joint policy."""

    def __init__(self, weights: Weights, seed: int, *, clients: bool, sigma: float) -> None:
        torch = library()
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.fixed, self.clients = weights, clients
        free = _engine(seed)
        if clients:
            free |= made(_rng(seed + 1), "c", _CLIENT, _HIDDEN, _HIDDEN, OUTCOMES)
        free |= made(_rng(seed + 2), "v", SEEN, 128, 1)  # the critic, shared by all sub-scenarios
        self.w = trainable(free | {"s": np.full(ACTION, np.log(sigma))})
        self.optimiser = torch.optim.RMSprop(self.w.values(), lr=RATE)
        self.mask = torch.from_numpy(masks()).float()
        self.rng = _rng(seed + 3)

    def arrays(self) -> Weights:
        """The whole platform with what has been learned so far."""
        return self.fixed | {name: value.astype(np.float64) for name, value in _arrays(self.w).items()}

    def rolled(self) -> _Rolled:
        now = self.arrays()
        return _roll(now, np.exp(now["s"]), TRAJECTORIES, self.rng)

    def _likelihood(self, seen: Any, raw: Any, x: Any, level: Any, scene: Any) -> tuple[Any, Any]:  # noqa: ANN401
        torch = library()
        mask = self.mask[scene]
        mean = torch.tanh(each(torch, self.w, "e", seen, scene)) * mask
        log_sigma = self.w["s"].clamp(-2.5, 0.0)
        found = (-0.5 * ((raw - mean) / log_sigma.exp()) ** 2 - log_sigma).mul(mask).sum(1)
        entropy = (log_sigma * mask).sum(1)
        if self.clients:
            logs = torch.log_softmax(perceptron(self.w, "c", x), 1)
            found = found + logs.gather(1, level[:, None])[:, 0]
            entropy = entropy - (logs.exp() * logs).sum(1)
        return found, entropy

    def improve(self, rows: _Rolled, reward: Floats, bonus: float = 0.003) -> None:
        """One iteration on what was rolled out."""
        torch = library()
        x = of_client(rows.seen, rows.action, rows.pick)
        seen, raw, into = (torch.from_numpy(a).float() for a in (rows.seen, rows.raw, x))
        level, scene = torch.from_numpy(rows.level), torch.from_numpy(rows.scene)
        with torch.no_grad():
            old, _ = self._likelihood(seen, raw, into, level, scene)
            value = perceptron(self.w, "v", seen)[:, 0].numpy().astype(float).reshape(-1, TRAJECTORIES)
        r = reward.reshape(-1, TRAJECTORIES)
        advantage, last = np.zeros_like(r), np.zeros(r.shape[1])
        for t in range(len(r) - 1, -1, -1):
            after = value[t + 1] if t + 1 < len(r) else 0.0
            last = r[t] + GAMMA * after - value[t] + GAMMA * LAMBDA * last
            advantage[t] = last
        aim = torch.from_numpy((advantage + value).ravel()).float()
        gain = torch.from_numpy(((advantage - advantage.mean()) / (advantage.std() + 1e-6)).ravel()).float()
        for _ in range(EPOCHS):
            for k in np.array_split(self.rng.permutation(len(gain)), max(1, len(gain) // BATCH)):
                j = torch.from_numpy(k)
                new, entropy = self._likelihood(seen[j], raw[j], into[j], level[j], scene[j])
                ratio = (new - old[j]).exp()
                policy = torch.minimum(ratio * gain[j], ratio.clamp(1.0 - CLIP, 1.0 + CLIP) * gain[j]).mean()
                critic = ((perceptron(self.w, "v", seen[j])[:, 0] - aim[j]) ** 2).mean()
                loss = -policy + 0.5 * critic - bonus * entropy.mean()
                self.optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.w.values(), 0.5)
                self.optimiser.step()


def imitated(base: Weights, log: RequestLog, seed: int, iterations: int = 200) -> Weights:
    """MAIL (Algorithm 2): the clients' policy, learned together with the engine's against a discriminator."""
    torch = library()
    both = _Ppo(base, seed, clients=True, sigma=0.3)
    d = trainable(made(_rng(seed + 4), "d", _CLIENT + OUTCOMES, 64, 64, 64, 1))
    optimiser = torch.optim.RMSprop(d.values(), lr=RATE)
    rng = _rng(seed + 5)
    expert = _pairs(of_client(scaled(base, log.seen), log.action, log.chosen), log.level)
    buffer = np.zeros((0, expert.shape[1]), np.float32)
    soft = torch.nn.functional.softplus
    for _ in range(iterations):
        rows = both.rolled()
        mine = _pairs(of_client(rows.seen, rows.action, rows.pick), rows.level)
        buffer = np.concatenate([buffer, mine])[-BUFFER:]
        for _ in range(10):
            a = torch.from_numpy(expert[rng.integers(0, len(expert), MINIBATCH)])
            b = torch.from_numpy(buffer[rng.integers(0, len(buffer), MINIBATCH)])
            loss = soft(perceptron(d, "d", a)).mean() + soft(-perceptron(d, "d", b)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            reward = soft(-perceptron(d, "d", torch.from_numpy(mine)))[:, 0].numpy()
        both.improve(rows, reward.astype(float))
    return {name: value for name, value in _arrays(both.w).items() if name[0] == "c"}


def reinforced(weights: Weights, seed: int, iterations: int = 200) -> Weights:
    """An engine's policy by PPO in the virtual platform; reward 1 for a request that is offloaded and in time."""
    one = _Ppo(weights, seed, clients=False, sigma=0.5)
    for _ in range(iterations):
        rows = one.rolled()
        one.improve(rows, rows.done)
    return {name: value for name, value in _arrays(one.w).items() if name[0] == "e"}


def _pairs(x: Floats, level: Ints) -> NDArray[np.float32]:
    return np.concatenate([x, np.eye(OUTCOMES)[level]], axis=1).astype(np.float32)


def _engine(seed: int) -> Weights:
    rng = _rng(seed)
    nets = [made(rng, "e", SEEN, _HIDDEN, _HIDDEN, ACTION) for _ in SCENES]
    found = {name: np.stack([net[name] for net in nets]) for name in nets[0]}
    found["e.w2"] *= 0.1
    return found


def _supervise(
    w: dict[str, Any], columns: list[Any], loss: Callable[..., Any], seed: int, epochs: int, batch: int = 256
) -> None:
    torch = library()
    torch.set_num_threads(1)
    optimiser = torch.optim.RMSprop(w.values(), lr=RATE)
    kinds = [np.int64 if np.asarray(column).dtype.kind == "i" else np.float32 for column in columns]
    data = [torch.from_numpy(np.asarray(column, kind)) for column, kind in zip(columns, kinds, strict=True)]
    rng = _rng(seed + 6)
    for _ in range(epochs):
        for k in np.array_split(rng.permutation(len(data[0])), max(1, len(data[0]) // batch)):
            j = torch.from_numpy(k)
            value = loss(*(column[j] for column in data))
            optimiser.zero_grad()
            value.backward()
            optimiser.step()


def _rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def _arrays(w: dict[str, Any]) -> Weights:
    return {name: value.detach().numpy().astype(np.float32) for name, value in w.items()}

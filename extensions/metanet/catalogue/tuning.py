"""Schedulers of the catalogue that go on learning from a model while they decide: line 8 of SimTune's Algorithm 1.

The model stands for the system: it is in the system's state, under parameters that are fitted while the system runs. A
scheduler sees hosts and tasks as the model has them, and learns from the model's results of decisions that are not
carried out (`branch`). Learning needs torch (extra `learn`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from cosim.contract.records import Flags, Floats, Ints, Records
from cosim.extensions.cosco.interval import Interval
from cosim.extensions.cosco.state import interval_state, per_interval
from cosim.extensions.metanet.catalogue.a3c import train as a3c
from cosim.extensions.metanet.catalogue.dqn import train as dqn
from cosim.extensions.metanet.catalogue.episodes import Step, one_interval
from cosim.extensions.metanet.catalogue.experience import candidates, tried
from cosim.extensions.metanet.catalogue.networks import stored
from cosim.extensions.metanet.catalogue.sequential import PAIR_INPUT, scores
from cosim.extensions.metanet.catalogue.training import library, prepared, surrogate_loss, trainable
from cosim.extensions.metanet.layers import made, softmax
from cosim.schedulers import scheduler
from cosim.schedulers.objective import Scale
from cosim.schedulers.state import Branching, State

TUNABLE = ("pso", "ga", "dqn", "a3c", "gobi", "gosh")  # SimTune's six, in its order
_CANDIDATES = 24  # decisions that a surrogate learns from per interval
_STATES = 12  # that it remembers
_BATCH = 4  # states per step of a surrogate's weights
_STEPS = 2  # of the weights per interval
_TRIALS = 4  # times that the waiting tasks are placed anew per interval, to learn from by trial
_REPLAY = 400  # steps
_EXPLORING = 0.2  # share of steps of DQN that are drawn


class Tuning:
    """A scheduler that decides by a model, and learns from it; made by `tuning`."""

    def __init__(self, name: str, weights: dict[str, Floats], seed: int) -> None:
        self.policy: Any = scheduler(name).policy("interval")
        self._scale, self._rng = Scale(), np.random.Generator(np.random.PCG64([seed, 0x74756E65]))
        self._held = trainable(weights)

    def decide(self, twin: Interval) -> Ints:
        """(k, 2) decisions about slot and host, from the model in the present state of the system."""
        found: Ints = np.asarray(per_interval(self.policy, twin)(twin.state()), np.int64)
        return found

    def learn(self, twin: Interval, answers: Callable[[Ints], Records] | None = None) -> None:
        """Learn from the results of other decisions in the model's state: those of `answers`, else of its `branch`.

        Nothing of the model changes.
        """
        state = interval_state(twin, twin.state())
        if answers is not None:
            state = state._replace(branch=cast(Branching, answers))  # a learner gives it candidates alone
        self._scale.see(state)
        if len(state.tasks):
            self._learn(state)

    def _learn(self, state: State) -> None:
        raise NotImplementedError

    def _plain(self) -> dict[str, Floats]:
        return {key: value.detach().numpy().astype(np.float64) for key, value in self._held.items()}


class _BySurrogate(Tuning):
    """GOBI, GOSH, and the searches that have GOBI's surrogate as cost."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, stored("gosh" if name == "gosh" else "gobi"), seed)
        self._spread = name == "gosh"
        self._rows: deque[Any] = deque(maxlen=_STATES)
        self._optimiser = library().optim.Adam(self._held.values(), lr=3e-4)

    def _learn(self, state: State) -> None:
        assert state.branch is not None
        rows = candidates(state, self._rng, _CANDIDATES)
        said = tried(state, self._scale, rows, state.branch(rows), 0)
        if said is None:
            return
        self._rows.extend(prepared([said]))
        for _ in range(_STEPS):
            others = self._rng.integers(0, len(self._rows), _BATCH - 1)
            self._optimiser.zero_grad()
            for k in (len(self._rows) - 1, *others.tolist()):
                (surrogate_loss(self._held, self._rows[k], self._spread) / _BATCH).backward()
            library().nn.utils.clip_grad_norm_(self._held.values(), 1.0)
            self._optimiser.step()
        self.policy.surrogate.weights = self._plain()


class _ByTrial(Tuning):
    """DQN and A3C: the waiting tasks are placed several times, and the model values each placement."""

    def _learn(self, state: State) -> None:
        if not (state.tasks["host"] < 0.0).any():
            return
        for _ in range(_TRIALS):
            _, taken = one_interval(state, self._scale, self._choose)
            if taken:
                self._take(taken)
        self.policy.weights = {key: value for key, value in self._plain().items() if key.startswith("pair")}

    def _choose(self, inputs: Floats, room: Flags) -> int:
        raise NotImplementedError

    def _take(self, taken: list[Step]) -> None:
        raise NotImplementedError


class _ByValue(_ByTrial):
    """DQN, with a replay memory of the steps of this system and a target network that follows slowly."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, stored(name), seed)
        self._target = {key: value.detach().clone() for key, value in self._held.items()}
        self._replay: deque[tuple[Step, Step | None]] = deque(maxlen=_REPLAY)
        self._optimiser = library().optim.Adam(self._held.values(), lr=2e-4)

    def _choose(self, inputs: Floats, room: Flags) -> int:
        if self._rng.random() < _EXPLORING:
            return int(self._rng.choice(np.flatnonzero(room)))
        plain = {key: value.detach().numpy() for key, value in self._held.items()}
        return int(np.where(room, scores(plain, inputs), -np.inf).argmax())

    def _take(self, taken: list[Step]) -> None:
        self._replay.extend(zip(taken, [*taken[1:], None], strict=True))
        batch = [self._replay[k] for k in self._rng.integers(0, len(self._replay), 32).tolist()]
        self._optimiser.zero_grad()
        dqn.error(self._held, self._target, batch).backward()
        library().nn.utils.clip_grad_norm_(self._held.values(), 1.0)
        self._optimiser.step()
        for key, value in self._target.items():
            value += 0.02 * (self._held[key].detach() - value)


class _ByAdvantage(_ByTrial):
    """The actor of A3C with a critic that begins anew; a single worker, so an A2C."""

    def __init__(self, name: str, seed: int) -> None:
        begin = made(np.random.Generator(np.random.PCG64(seed)), "value", PAIR_INPUT, 32, 1)
        super().__init__(name, stored(name) | begin, seed)
        self._optimiser = library().optim.RMSprop(self._held.values(), lr=1e-4, alpha=0.99)

    def _choose(self, inputs: Floats, room: Flags) -> int:
        plain = {key: value.detach().numpy() for key, value in self._held.items()}
        return int(self._rng.choice(len(room), p=softmax(np, np.where(room, scores(plain, inputs), -np.inf))))

    def _take(self, taken: list[Step]) -> None:
        slopes = a3c.gradients(self._held, taken)
        for key, value in self._held.items():
            value.grad = slopes[key]
        library().nn.utils.clip_grad_norm_(self._held.values(), 1.0)
        self._optimiser.step()


def tuning(name: str, seed: int = 1) -> Tuning:
    """One of `TUNABLE` with its shipped weights, from which it goes on. Raises `ValueError` for other names."""
    if name not in TUNABLE:
        raise ValueError(f"'{name}' does not go on learning; those that do: {', '.join(TUNABLE)}")
    if name in ("dqn", "a3c"):
        return (_ByValue if name == "dqn" else _ByAdvantage)(name, seed)
    return _BySurrogate(name, seed)

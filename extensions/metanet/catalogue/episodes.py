"""Single decisions as steps of an episode, for learning by trial: inputs, actions and what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Flags, Floats, Ints
from cosim.extensions.cosco.state import per_interval
from cosim.extensions.metanet.catalogue.experience import world
from cosim.extensions.metanet.catalogue.features import features
from cosim.extensions.metanet.catalogue.sequential import Choose, one_by_one
from cosim.schedulers.objective import Scale, costs
from cosim.schedulers.state import KEEP, State, decides

MOST = 64  # hosts that inputs are padded to


class Step(NamedTuple):
    """One task that got a host."""

    inputs: Floats  # (MOST, PAIR_INPUT) float32, padded
    room: Flags  # (MOST,)
    host: int
    reward: float  # how much less the interval costs than with the task left waiting, per task in the system


def one_interval(state: State, scale: Scale, choose: Choose) -> tuple[Ints, list[Step]]:
    """Destinations (T,) of the waiting tasks under `choose`, and the step that each of them is.

    The rewards are differences of `objective.costs` between the first tasks placed and one fewer, which the model
    itself tries (`branch`).
    """
    taken: list[tuple[Floats, Flags, int]] = []

    def watched(inputs: Floats, room: Flags) -> int:
        host = choose(inputs, room)
        taken.append((inputs, room, host))
        return host

    said = one_by_one(state, features(state, scale), watched)
    order = np.flatnonzero(said >= 0)
    order = order[np.argsort(state.tasks["task"][order], kind="stable")]
    rows = np.full((len(order) + 1, len(said)), KEEP, np.int64)
    for k, t in enumerate(order):
        rows[k + 1 :, t] = said[t]
    assert state.branch is not None
    gained = -np.diff(costs(state.branch(rows), state, scale)) * scale.tasks
    return said, [
        Step(_padded(inputs), _padded(room), host, float(np.clip(gain, -3.0, 3.0)))
        for (inputs, room, host), gain in zip(taken, gained, strict=True)
    ]


def steps(seed: int, intervals: int, choose: Choose) -> Iterator[list[Step]]:
    """The steps of one interval after the other, under `choose`, in a new world every 15 intervals."""
    rng = np.random.Generator(np.random.PCG64(seed))
    found: list[list[Step]] = []
    left = 0
    while True:
        one, scale = world(rng), Scale()

        def act(state: State, scale: Scale = scale) -> Ints:
            scale.see(state)
            if not (state.tasks["host"] < 0.0).any():
                return np.full(len(state.tasks), KEEP, np.int64)
            said, taken = one_interval(state, scale, choose)
            found.append(taken)
            return said

        policy: Any = decides("interval")(act)
        one.decide_by(per_interval(policy, one))
        for _ in range(15):
            one.step()
            left += 1
            if found and found[-1]:
                yield found.pop()
            found.clear()
            if left >= intervals:
                return


def _padded(values: NDArray[Any]) -> NDArray[Any]:
    shape = (MOST, *values.shape[1:])
    whole = np.zeros(shape, np.bool_ if values.dtype == np.bool_ else np.float32)
    whole[: len(values)] = values
    return whole

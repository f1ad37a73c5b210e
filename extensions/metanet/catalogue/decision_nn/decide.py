"""Decision-NN: a network whose output is the decision."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.metanet.catalogue.features import features
from cosim.extensions.metanet.catalogue.networks import stored
from cosim.extensions.metanet.catalogue.relaxed import hard
from cosim.extensions.metanet.catalogue.sequential import logits
from cosim.schedulers.objective import Scale
from cosim.schedulers.placing import decided, packed, settle, spread
from cosim.schedulers.state import State, decides


@decides("interval")
class DecisionNetwork:
    """A network's answer is the decision itself; it is trained through the loss of a frozen surrogate (GOBI's).

    As MetaNet compares it. Scores of all pairs of a task and a host, given a decision to improve: first the
    simplest one, then its own, `rounds` times. Against the published code, where it calls its search with an
    argument missing and so never ran as it is.
    """

    def __init__(self, rounds: int = 2) -> None:
        self.rounds = rounds
        self._weights, self._scale = stored("decision_nn"), Scale()

    def __call__(self, state: State) -> NDArray[np.int64]:
        """(T,) destinations."""
        self._scale.see(state)
        if not decided(state).any():
            return np.full(len(state.tasks), -1, np.int64)
        f = features(state, self._scale)
        found = packed(state) if self._scale.off else spread(state)
        for _ in range(self.rounds):
            found = settle(state, logits(np, self._weights, f, hard(state, found)), move=0.5)
        return found

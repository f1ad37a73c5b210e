"""GRAF: gradient on the decision through a graph network."""

from __future__ import annotations

from cosim.extensions.metanet.catalogue.networks import DecisionSurrogate, stored
from cosim.extensions.metanet.catalogue.relaxed import Relaxed
from cosim.schedulers.state import decides


@decides("interval")
class Graf(Relaxed):
    """A graph network over hosts and tasks predicts latency and cost; the decision follows its gradient.

    After Park et al. (GRAF, CoNEXT 2021), who set CPU quotas of microservices so; here as MetaNet compares it, with
    placements. Tasks take messages from the hosts that they are on, and hosts from their tasks; the edges are the
    rows of the decision.
    """

    def __init__(self) -> None:
        super().__init__(DecisionSurrogate(stored("graf")))

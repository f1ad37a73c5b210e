"""A3C: the most probable host, one task after the other."""

from __future__ import annotations

from cosim.extensions.metanet.catalogue.networks import stored
from cosim.extensions.metanet.catalogue.sequential import Sequential
from cosim.schedulers.state import decides


@decides("interval")
class A3c(Sequential):
    """Asynchronous advantage actor-critic (Mnih et al. 2016).

    Workers act on worlds of their own with copies of the shared weights, and add their gradients, weighted by the
    advantage, to weights that others have changed meanwhile. Here the order of their turns is drawn by the seed
    instead of by the operating system, so that training repeats. Against the published code, which has one
    worker (an A2C) and adds log-probabilities without the advantage.
    """

    def __init__(self) -> None:
        super().__init__(stored("a3c"))

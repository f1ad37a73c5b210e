"""GOBI: gradient of a neural surrogate on the decision."""

from __future__ import annotations

from cosim.extensions.metanet.catalogue.networks import DecisionSurrogate, stored
from cosim.extensions.metanet.catalogue.relaxed import Relaxed
from cosim.schedulers.state import decides


@decides("interval")
class Gobi(Relaxed):
    """Gradient-based optimisation by back-propagation to the input (Tuli et al., IEEE TPDS 33(1), 2022).

    f(state, decision) predicts energy and response; Adam with cosine restarts follows its gradient on rows of a
    softmax over hosts, for placed tasks too; one host per task only at the end. Against the published code: rows
    stay soft while it descends (there every step is rounded to one host, which leaves the gradient of a decision
    that was not evaluated); weights are shared over hosts and tasks (there a layer of 128 n^2 for n hosts); hosts
    without room are left out; the start is kept where the end is predicted to be worse.
    """

    def __init__(self) -> None:
        super().__init__(DecisionSurrogate(stored("gobi")))

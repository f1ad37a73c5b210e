"""GOSH: second-order steps on a surrogate that knows its spread."""

from __future__ import annotations

from cosim.extensions.metanet.catalogue.networks import DecisionSurrogate, stored
from cosim.extensions.metanet.catalogue.relaxed import Relaxed
from cosim.schedulers.state import decides


@decides("interval")
class Gosh(Relaxed):
    """Gradient-based optimisation using second-order gradients and heteroscedastic models (Tuli et al., TNSM 2023).

    The objective is mean + k spread, k = `caution` (the paper's 1; its code's 5 is a setting), and steps are divided by
    the diagonal of the Hessian. `caution=0` is SOGOBI, `second=False` HGOBI. Against the published code: a spread
    per output learned by its likelihood (there a natural-parameter network); as with GOBI, rows stay soft.
    """

    def __init__(self, caution: float = 1.0, second: bool = True) -> None:
        super().__init__(DecisionSurrogate(stored("gosh")), caution=caution, second=second)
